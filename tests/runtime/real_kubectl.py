"""kubectl on a real control plane with webhooks of ours: for the tests in which a real API server judges an API."""

import asyncio
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from regroup.runtime.admission import AdmissionServer

WAIT = 30.0

Kubectl = Callable[..., str]


@contextmanager
def served_webhooks(register: Callable[[AdmissionServer], None]) -> Iterator[tuple[int, bytes]]:
    """Webhooks over HTTPS in a thread; gives the port and the CA."""
    ca = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    loop, bound, ready = asyncio.new_event_loop(), [0], threading.Event()

    def note(port: int) -> None:
        bound[0] = port
        ready.set()

    server = AdmissionServer()
    register(server)
    task = loop.create_task(server.serve(host="127.0.0.1", port=0, context=context, ready=note))

    def serve() -> None:
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(WAIT)
        yield bound[0], ca.cert_pem.bytes()
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(WAIT)


@contextmanager
def real_kubectl(request: pytest.FixtureRequest, folder: Path) -> Iterator[Kubectl]:
    """A function that runs kubectl and gives what it says, errors included. Skips where no real plane was asked for."""
    if "real" not in str(request.config.getoption("markexpr")):
        pytest.skip("asked for with -m real")
    plane = pytest.importorskip("tests.planes.realplane.controlplane")
    binaries = pytest.importorskip("tests.planes.realplane.binaries")
    try:
        found = binaries.find(build=False)
    except binaries.PlaneUnavailable as error:
        pytest.skip(str(error))
    kubeconfig = folder / "kubeconfig"

    def run(*args: str, body: Any = None) -> str:
        command = [str(Path(sys.executable).parent / "kubectl"), "--kubeconfig", str(kubeconfig), *args]
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=WAIT * 2, check=False)
        return done.stdout + done.stderr

    with plane.ControlPlane(binaries=found) as control:
        kubeconfig.write_text(control.kubeconfig())
        yield run


def wait_established(run: Kubectl, definition: str) -> None:
    """Wait until a definition is served. On one that has no conditions yet kubectl's own wait is an error: it is asked again."""
    until(lambda: "condition met" in run("wait", "--for=condition=Established", f"crd/{definition}", "--timeout=20s"))


def until(holds: Callable[[], bool]) -> None:
    """Webhook configurations and pods take a moment on a real cluster: ask again, up to a limit."""
    gate = threading.Event()
    for _ in range(int(WAIT * 5)):
        if holds():
            return
        gate.wait(0.2)
    raise AssertionError("it did not come about in time")
