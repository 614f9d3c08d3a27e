"""Log text of simulated containers, kept in memory and bounded, for ``kubectl logs``."""

from collections import OrderedDict, deque
from datetime import UTC, datetime

from regroup.sandbox.kubelet.telling import Line

LINES_KEPT = 500
"""Lines of one container, over all of its runs."""
CONTAINERS_KEPT = 50_000


class LogStore:
    """What containers have written, by pod UID and container."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, str], deque[Line]] = OrderedDict()

    def append(self, uid: str, line: Line) -> None:
        """Keep ``line`` of a container of the pod ``uid``."""
        kept = self._lines.setdefault((uid, line.container), deque(maxlen=LINES_KEPT))
        kept.append(line)
        if len(self._lines) > CONTAINERS_KEPT:
            self._lines.popitem(last=False)

    def forget(self, uid: str, containers: tuple[str, ...]) -> None:
        """The pod is gone, and its logs with it."""
        for name in containers:
            self._lines.pop((uid, name), None)

    def read(self, uid: str, container: str, *, previous: bool = False, timestamps: bool = False) -> list[str] | None:
        """Lines of the container's present run, or of the one before; None when there is no such run."""
        kept = self._lines.get((uid, container))
        if not kept:
            return None
        wanted = kept[-1].restarts - previous
        found = [line for line in kept if line.restarts == wanted]
        if not found:
            return None
        return [f"{_stamp(line.at)} {line.text}" if timestamps else line.text for line in found]


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
