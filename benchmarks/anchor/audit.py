"""What the API server's audit log says: who wrote what, when, and how it was answered.

Knows the log's form only. Times are seconds since the epoch, as the API server took them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    verb: str = ""
    user: _User = _User()
    user_agent: str = ""
    object_ref: _Reference = _Reference()
    response_status: _Status = _Status()
    request_received_timestamp: datetime | None = None
    stage_timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """One finished request that may change something."""

    verb: str
    """``create``, ``update``, ``patch``, ``delete`` or ``deletecollection``."""
    resource: str
    """Plural, with the subresource: ``pods/status``."""
    namespace: str
    name: str
    """Empty for a collection, and for creations whose body was not looked into."""
    user: str
    agent: str
    code: int
    received: float
    answered: float

    def __str__(self) -> str:
        return f"{self.received:.3f} {self.verb} {self.resource} {self.namespace}/{self.name} -> {self.code}"


class AuditLog:
    """The audit log of one API server, read on from where the last reading ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._decoder = msgspec.json.Decoder(_Line)
        self._writes: list[Write] = []

    def mark(self) -> int:
        """How many writes there are now; a later ``since`` leaves them out."""
        self._read()
        return len(self._writes)

    def since(self, mark: int) -> Sequence[Write]:
        """All writes after ``mark``, in the order in which they were finished."""
        self._read()
        return self._writes[mark:]

    def _read(self) -> None:
        with self._path.open("rb") as source:
            source.seek(self._offset)
            data = source.read()
        whole = data.rfind(b"\n") + 1  # the last line may be half written
        self._offset += whole
        self._writes += (_write(self._decoder.decode(line)) for line in data[:whole].splitlines())


def by_operator(writes: Iterable[Write], *, user: str) -> Iterator[Write]:
    """The writes of ``user``, leases left out: how often a lease is renewed is a setting."""
    return (write for write in writes if write.user == user and write.resource != "leases")


def is_event(write: Write) -> bool:
    return write.resource == "events"


def conflict(write: Write) -> bool:
    return write.code == 409


def _write(line: _Line) -> Write:
    ref = line.object_ref
    resource = f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource
    return Write(
        verb=line.verb,
        resource=resource,
        namespace=ref.namespace,
        name=ref.name,
        user=line.user.username,
        agent=line.user_agent,
        code=line.response_status.code,
        received=_seconds(line.request_received_timestamp),
        answered=_seconds(line.stage_timestamp),
    )


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment is not None else 0.0
