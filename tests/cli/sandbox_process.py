"""``regroup sandbox`` as a process of its own, on real sockets, and a person's hands on it: kubectl and our commands."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

LIMIT = 60.0
"""Seconds for anything; it is a failure when they are used up."""
EXAMPLES = resources.files("regroup.leaderworkerset") / "examples"


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


@dataclass(slots=True)
class Sandbox:
    """A running ``regroup sandbox``."""

    process: subprocess.Popen[str]
    kubeconfig: Path
    banner: str

    def interrupt(self) -> Said:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=LIMIT)
        return Said(self.process.returncode, out, err)


def environment(kubeconfig: Path | None = None, **more: str) -> dict[str, str]:
    """A clean one, with a home of its own beside the kubeconfig."""
    home = str(kubeconfig.parent) if kubeconfig is not None else "/nonexistent"
    base = {"PATH": "/usr/bin:/bin", "HOME": home, **more}
    return base | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig is not None else {})


def run(command: Sequence[str], *, env: dict[str, str], text: str = "") -> Said:
    """Run a command to its end. ``text`` is its standard input."""
    done = subprocess.run(command, env=env, input=text, capture_output=True, text=True, timeout=LIMIT, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def regroup(*arguments: str, kubeconfig: Path | None = None) -> Said:
    """A command of ours."""
    return run([sys.executable, "-m", "regroup.cli", *arguments], env=environment(kubeconfig))


@contextmanager
def sandbox(folder: Path, *arguments: str) -> Iterator[Sandbox]:
    """Start one and wait until it says that it is up."""
    kubeconfig = folder / "kubeconfig.yaml"
    kubeconfig.unlink(missing_ok=True)
    command = [sys.executable, "-m", "regroup.cli", "sandbox", "--kubeconfig", str(kubeconfig), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        try:
            with _watched(process, end=False):
                banner = _banner(process)
            yield Sandbox(process, kubeconfig, banner)
        finally:
            process.kill()
            process.wait()


@contextmanager
def _watched(process: "subprocess.Popen[str]", *, end: bool = True) -> Iterator[None]:
    """Kill the process after ``LIMIT`` seconds, so that nobody waits for its output for ever; with ``end`` also afterwards."""
    timer = threading.Timer(LIMIT, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if end:
            process.kill()


def _banner(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            return "".join(lines)
    raise AssertionError(f"the sandbox ended: {''.join(lines)}{process.stderr.read() if process.stderr else ''}")


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One kubectl, one cluster, one namespace."""

    binary: str
    kubeconfig: Path
    namespace: str

    def ask(self, *arguments: str, text: str = "", editor: str = "") -> Said:
        """Run it, however it ends."""
        env = environment(self.kubeconfig, **({"KUBE_EDITOR": editor} if editor else {}))
        return run([self.binary, "-n", self.namespace, *arguments], env=env, text=text)

    def __call__(self, *arguments: str, text: str = "", editor: str = "") -> str:
        """Run it; it must succeed. Its standard output."""
        said = self.ask(*arguments, text=text, editor=editor)
        assert said.code == 0, f"kubectl {' '.join(arguments)}: {said.all}"
        return said.out

    def refused(self, *arguments: str, text: str = "") -> str:
        """Run it; it must fail. What it said."""
        said = self.ask(*arguments, text=text)
        assert said.code == 1, f"kubectl {' '.join(arguments)}: {said.all}"
        return said.err

    def uids(self) -> dict[str, str]:
        """UIDs of the pods by name."""
        told = self("get", "pods", "-o", 'jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\\n"}{end}')
        return {name: uid for name, _, uid in (line.partition(" ") for line in told.splitlines())}

    def first_line(self, wanted: str, *arguments: str) -> str:
        """The first line of a command that goes on (``-w``, ``-f``) that has ``wanted`` in it; then it is ended."""
        with subprocess.Popen(
            [self.binary, "-n", self.namespace, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(self.kubeconfig),
        ) as process:
            assert process.stdout is not None
            with _watched(process):
                for line in process.stdout:
                    if wanted in line:
                        return line
        raise AssertionError(f"kubectl {' '.join(arguments)} ended without {wanted!r}")
