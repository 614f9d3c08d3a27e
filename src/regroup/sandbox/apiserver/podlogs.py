"""Logs of containers, as ``kubectl logs`` reads and follows them. The lines are somebody else's: a ``LogSource``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.reading import ServerStream
from regroup.sandbox.apiserver.routing import flag
from regroup.wire.transport import Response

Obj = dict[str, Any]

POLL = 0.5
"""Seconds between looks for new lines, when a log is followed."""
_TEXT = {"content-type": "text/plain"}


class LogSource(Protocol):
    """Who has the logs of containers: a kubelet."""

    def read(self, uid: str, container: str, *, previous: bool = False, timestamps: bool = False) -> list[str] | None:
        """Lines of a container's run, or None when there is no such run."""
        ...


@dataclass(frozen=True, slots=True)
class LogRequest:
    """What was asked for. ``since`` is the earliest time of a line that is wanted."""

    container: str
    previous: bool
    follow: bool
    timestamps: bool
    tail: int | None
    limit: int | None
    since: datetime | None


def log_request(pod: Obj, query: Mapping[str, str], *, now: datetime) -> LogRequest:
    """The request in a query. Raises ``Failure`` (400) for a container that is not named or not the pod's."""
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    containers = [entry["name"] for entry in spec.get("containers") or []]
    container = query.get("container", "")
    if not container:
        if len(containers) != 1:
            shown = " ".join(containers)
            raise failures.bad_request(f"a container name must be specified for pod {name}, choose one of: [{shown}]")
        container = containers[0]
    others = [entry["name"] for field in ("initContainers", "ephemeralContainers") for entry in spec.get(field) or []]
    if container not in [*containers, *others]:
        raise failures.bad_request(f"container {container} is not valid for pod {name}")
    seconds = _number(query, "sinceSeconds")
    since = now - timedelta(seconds=seconds) if seconds is not None else _time(query.get("sinceTime", ""))
    return LogRequest(
        container=container,
        previous=flag(query, "previous"),
        follow=flag(query, "follow"),
        timestamps=flag(query, "timestamps"),
        tail=_number(query, "tailLines"),
        limit=_number(query, "limitBytes"),
        since=since,
    )


def read_log(
    pod: Obj, request: LogRequest, source: LogSource | None, *, find: Callable[[], Obj | None]
) -> Response | ServerStream:
    """The log as text, or as a stream when it is followed; ``find`` gives the pod as it is then. Raises ``Failure`` (400)."""
    if not (pod.get("spec") or {}).get("nodeName"):
        return Response(204, _TEXT, b"")
    lines = _lines(pod, request, source)
    if lines is None:
        raise _not_there(pod, request)
    wanted = _wanted(lines, request)
    text = _text(wanted, request)[: request.limit]
    if not request.follow or request.previous or source is None:
        return Response(200, _TEXT, text)
    return ServerStream(200, _TEXT, _follow(pod, request, source, text=text, seen=lines, find=find))


async def _follow(
    pod: Obj, request: LogRequest, source: LogSource, *, text: bytes, seen: Sequence[str], find: Callable[[], Obj | None]
) -> AsyncIterator[bytes]:
    uid = pod["metadata"]["uid"]
    if text:
        yield text
    while True:
        current = find()
        # Whether it goes on is asked before the last look, so that no line of the end is missed.
        alive = current is not None and current["metadata"]["uid"] == uid and not _ended(current, request.container)
        lines = _lines(pod, request, source) or []
        fresh = fresh_lines(seen, lines)
        if fresh:
            seen = lines
            yield _text(fresh, request)
        if not alive:
            return
        await asyncio.sleep(POLL)


def fresh_lines(seen: Sequence[str], lines: Sequence[str]) -> Sequence[str]:
    """The lines that came after ``seen``: a log is bounded, so its beginning may have gone meanwhile."""
    for start in range(len(seen) + 1):
        rest = seen[start:]
        if list(lines[: len(rest)]) == list(rest):
            return lines[len(rest) :]
    return lines


def _lines(pod: Obj, request: LogRequest, source: LogSource | None) -> list[str] | None:
    """Lines with their times."""
    if source is None:
        return None
    return source.read(pod["metadata"]["uid"], request.container, previous=request.previous, timestamps=True)


def _wanted(lines: Sequence[str], request: LogRequest) -> Sequence[str]:
    if request.since is not None:
        bound = request.since
        lines = [line for line in lines if (at := _time(line.partition(" ")[0])) is None or at >= bound]
    if request.tail is not None:
        lines = lines[-request.tail :] if request.tail else []
    return lines


def _text(lines: Sequence[str], request: LogRequest) -> bytes:
    shown = lines if request.timestamps else [line.partition(" ")[2] for line in lines]
    return "".join(f"{line}\n" for line in shown).encode()


def _ended(pod: Obj, container: str) -> bool:
    for entry in (pod.get("status") or {}).get("containerStatuses") or []:
        if entry["name"] == container:
            return "terminated" in (entry.get("state") or {})
    return False


def _not_there(pod: Obj, request: LogRequest) -> failures.Failure:
    name = pod["metadata"]["name"]
    if request.previous:
        return failures.bad_request(f'previous terminated container "{request.container}" in pod "{name}" not found')
    reason = "ContainerCreating"
    for field in ("containerStatuses", "initContainerStatuses"):
        for entry in (pod.get("status") or {}).get(field) or []:
            if entry["name"] == request.container:
                reason = ((entry.get("state") or {}).get("waiting") or {}).get("reason", reason)
    return failures.bad_request(f'container "{request.container}" in pod "{name}" is waiting to start: {reason}')


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
