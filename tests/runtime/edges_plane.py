"""An API server in this process under virtual time, and hands to break it; for the tests of the runtime's edges."""

from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from regroup.kube.resources import NAMESPACES
from regroup.runtime.clock import LoopClock
from regroup.sandbox.apifaults import FaultPlan, Recorded
from regroup.sandbox.apiserver.server import ApiServer
from regroup.sandbox.apiserver.webhooks import WebhookCaller
from regroup.wire.client import Client

START = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "regroup-system"


@dataclass
class Api:
    """The server, the clock it lives by, and what was asked of it."""

    server: ApiServer
    clock: LoopClock
    client: Client

    @property
    def faults(self) -> FaultPlan:
        return self.server.faults

    def new_client(self, name: str) -> Client:
        return Client(self.server.transport(), user_agent=name, rng=Random(1))

    def asked(self, *, writes: bool = True) -> list[Recorded]:
        """Requests since ``record``; only those that write unless told otherwise."""
        return [entry for entry in self.faults.record() if entry.writes or not writes]


async def start_api(*, webhook_caller: WebhookCaller | None = None) -> Api:
    clock = LoopClock(start=START)
    server = ApiServer(clock=clock, rng=Random(1), webhook_caller=webhook_caller)
    client = Client(server.transport(), user_agent="test", rng=Random(1))
    for name in ("default", NAMESPACE):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    server.faults.record().clear()
    return Api(server, clock, client)


class Log:
    """A logger that keeps what it was told: a fake of the outer edge."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def bind(self, **_: Any) -> "Log":
        return self

    def debug(self, text: str, **fields: Any) -> None:
        self.lines.append(("debug", text, fields))

    def info(self, text: str, **fields: Any) -> None:
        self.lines.append(("info", text, fields))

    def warning(self, text: str, **fields: Any) -> None:
        self.lines.append(("warning", text, fields))

    def exception(self, text: str, **fields: Any) -> None:
        self.lines.append(("error", text, fields))

    def of(self, level: str) -> list[str]:
        return [text for kind, text, _ in self.lines if kind == level]
