"""The demo without a cluster of one's own: the sandbox and the operator in this process, at many times the speed of the wall."""

import asyncio
import random
from urllib.parse import urlsplit

from rich.console import Console

from regroup.cli.demo.hands import SimulatedHands
from regroup.cli.demo.play import Check, Place, play
from regroup.cli.demo.story import Story
from regroup.cli.errors import CommandFailed
from regroup.kube.resources import CONFIGMAPS, CRDS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from regroup.operator import manifests
from regroup.operator.config import NAMESPACE, OperatorConfig
from regroup.operator.start import Operator
from regroup.runtime.clock import LoopClock, SystemClock
from regroup.sandbox.cluster import Cluster
from regroup.wire.client import Client

WEBHOOKS = "https://regroup.demo"
"""Stands for the operator's webhook server, which the API server calls in process here."""
NODES = 12


async def play_sandboxed(stories: list[Story], console: Console, *, speed: float, seed: int) -> list[Check]:
    """Play the stories on a sandbox of their own. The event loop must run at ``speed`` already."""
    clock = LoopClock(start=SystemClock().now().replace(microsecond=0))
    rng = random.Random(seed)  # noqa: S311 - a repeatable story, not secrets
    console.print(
        f"A cluster of {NODES} simulated nodes and the operator, in this process. Waits pass {speed:g} times as fast.\n"
        "The API server, the controllers, the scheduler, the kubelets and the operator are the code that also runs elsewhere."
    )
    webhooks: list[Operator] = []

    async def call_webhook(url: str, body: bytes, _: bytes | None, __: float) -> bytes:
        return await webhooks[0].admission.handle(urlsplit(url).path, body)

    cluster = Cluster(clock=clock, rng=rng, nodes=NODES, webhook_caller=call_webhook)
    running = asyncio.create_task(cluster.run(), name="cluster")
    operating: asyncio.Task[None] | None = None
    try:
        await _ready(cluster.ready, running)
        client = cluster.client("kubectl")
        await _install(client)
        config = OperatorConfig(
            leader_elect=False, identity="demo", metrics_port=None, webhook_port=None, config_namespace=NAMESPACE
        )
        operator = Operator(cluster.client("regroup"), config=config, clock=clock, rng=rng)
        webhooks.append(operator)
        operating = asyncio.create_task(operator.run(), name="operator")
        await _ready(operator.ready, operating)
        return await play(stories, Place(client, SimulatedHands(cluster.faults(), holds_back=True), clock), console)
    finally:
        for task in (operating, running):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def _install(client: Client) -> None:
    """What ``kubectl apply`` of ``regroup manifests --only crds,namespace,webhooks,config`` does."""
    options = manifests.ManifestOptions(webhook_url=WEBHOOKS)
    by_kind = {resource.kind: resource for resource in (CRDS, NAMESPACES, CONFIGMAPS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
    for manifest in manifests.manifests(options, only=("crds", "namespace", "webhooks", "config")):
        meta = manifest["metadata"]
        await client.apply(by_kind[manifest["kind"]], meta["name"], manifest, namespace=meta.get("namespace"))


async def _ready(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait for ``event``; the task's death before that is raised."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        task.result()
        raise CommandFailed(f"the {task.get_name()} ended before it was ready")
