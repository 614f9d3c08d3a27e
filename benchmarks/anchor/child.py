"""A child process that is measured: its CPU seconds and resident memory. Linux only. It dies with its parent."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_LIMIT = 10.0


class ChildDied(Exception):
    """The process ended by itself; the message has the last lines that it wrote."""


class Child:
    """One process; its output goes to ``log``. Use it as a context manager, which stops it at the end."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, before exec
            )

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def check(self) -> None:
        """Raise ``ChildDied`` when it has ended."""
        if self._process.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-15:]
            raise ChildDied(f"{self.log.stem} ended with code {self._process.returncode}:\n" + "\n".join(lines))

    def stop(self) -> None:
        """Kill it and wait for its end."""
        self._process.kill()
        self._process.wait(_STOP_LIMIT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far, in steps of a clock tick (10 ms)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_mib(self) -> float:
        """MiB of it that are in memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise ChildDied(f"{self.log.stem} has no memory any more")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
