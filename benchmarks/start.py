"""How much CPU does it take from an empty process to an operator that serves: imports, certificates, webhooks, lease, caches?

The API server is an empty cluster in memory, so that the fill of caches does not count. Best of five fresh processes; import
alone is told apart.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.report import Answer, Budget
from regroup.wire.transport import Request, Response, Stream

RUNS = 5
_CODE = "from benchmarks.start import child; child()"
_IMPORT = "import time, regroup.operator.start; print(time.process_time())"
_NOTHING = "import time; print(time.process_time())"


class EmptyCluster:
    """An API server with nothing in it, which takes everything that is written to it."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        await asyncio.sleep(0)
        if request.method == "GET":
            if any(name in {"limit", "labelSelector"} for name, _ in request.query):
                return _answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})
            return _answer(404, {"kind": "Status", "code": 404, "reason": "NotFound"})
        body: dict[str, Any] = json.loads(request.body or b"{}")
        body.setdefault("metadata", {}).update({"uid": "u", "resourceVersion": "2"})
        return _answer(200, body)

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        yield _Idle()

    async def close(self) -> None:
        return


class _Idle:
    """A watch that has no more to say than that the list is empty."""

    status = 200
    headers: Mapping[str, str] = {}

    async def chunks(self) -> AsyncIterator[bytes]:
        end = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
        await asyncio.Event().wait()

    async def read(self) -> bytes:
        return b""


def _answer(code: int, body: Mapping[str, Any]) -> Response:
    return Response(code, {}, json.dumps(body).encode())


def child() -> None:
    """The process that is measured: an operator from nothing to serving; prints its CPU seconds."""
    from regroup.operator.config import OperatorConfig  # noqa: PLC0415 - the import is what is measured
    from regroup.operator.start import Operator  # noqa: PLC0415
    from regroup.runtime.clock import SystemClock  # noqa: PLC0415
    from regroup.runtime.logging import configure  # noqa: PLC0415
    from regroup.runtime.loop import run  # noqa: PLC0415
    from regroup.wire.client import Client  # noqa: PLC0415

    configure(format="json", level="warning")

    async def main() -> None:
        config = OperatorConfig(host="127.0.0.1", metrics_port=0, webhook_port=0)
        operator = Operator(Client(EmptyCluster()), config=config, clock=SystemClock(), rng=random.Random(1))
        task = asyncio.create_task(operator.run())
        waiting = asyncio.create_task(operator.ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        if not operator.ready.is_set():
            raise RuntimeError(f"the operator did not come to serve: {task.exception() if task.done() else 'still waiting'}")
        print(time.process_time(), flush=True)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())


def _seconds(code: str) -> float:
    times = []
    for _ in range(RUNS):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip()[-2000:])
        times.append(float(done.stdout.split()[-1]))
    return min(times)


def measure() -> Answer:
    return Answer(
        question="CPU from an empty process to a serving operator",
        figures={
            "interpreter_s": _seconds(_NOTHING),
            "import_s": _seconds(_IMPORT),
            "serving_s": _seconds(_CODE),
        },
        budgets=(Budget("serving_s", "at most", 0.5),),
    )
