"""``regroup demo``: a cluster and the operator in this process, at many times the speed of the wall, and the stories on it."""

import asyncio
import random
import resource
import time
from contextlib import suppress
from urllib.parse import urlsplit

import click
from rich.console import Console

from regroup.cli.demo.screen import Screen
from regroup.cli.demo.stage import CheckFailed, Stage
from regroup.cli.demo.stories import STORIES
from regroup.cli.errors import EXIT_FAILED, CommandFailed
from regroup.kube.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.operator import manifests
from regroup.operator.config import OperatorConfig
from regroup.operator.start import Operator
from regroup.runtime import logging, loop
from regroup.runtime.clock import LoopClock, SystemClock
from regroup.sandbox.cluster import Cluster
from regroup.wire.client import Client

WEBHOOKS = "https://regroup.demo"
"""Stands for the operator's webhook server, which the API server calls in process here."""
NODES = 12
SPEED = 60.0


@click.command(
    "demo",
    epilog="""\b
Examples:
  regroup demo                 all stories, about half a minute
  regroup demo --story none    one story
  regroup demo --speed 5       slowly, to watch""",
)
@click.option(
    "--story", "chosen", type=click.Choice([story.name.removeprefix("demo-") for story in STORIES]), help="Only this story."
)
@click.option("--speed", default=SPEED, show_default=True, type=click.FloatRange(1, 1000), help="Times faster than the wall.")
@click.option("--seed", default=1, show_default=True, help="Of everything that is random.")
def command(chosen: str | None, speed: float, seed: int) -> None:
    """Play the failure stories on a local cluster and check what must hold.

    Exit code 0 only if every check held.
    """
    logging.configure(format="console", level="error")
    began = time.monotonic()  # how long the person waits, not what the cluster's clock says
    failed, total = loop.run(_play(chosen, speed=speed, seed=seed), speed=speed)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = f"{total - failed} of {total} checks held, in {time.monotonic() - began:.0f} s with {megabytes:.0f} MB"
    if failed:
        raise CommandFailed(summary, exit_code=EXIT_FAILED)
    click.secho(summary, fg="green", bold=True)


async def _play(chosen: str | None, *, speed: float, seed: int) -> tuple[int, int]:
    """Play the stories; how many checks failed, and how many there were."""
    clock = LoopClock(start=SystemClock().now().replace(microsecond=0))
    rng = random.Random(seed)  # noqa: S311 - a repeatable story, not secrets
    console = Console(highlight=False)
    console.print(
        f"A cluster of {NODES} simulated nodes and the operator, in this process. Time runs {speed:g} times as fast.\n"
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
        config = OperatorConfig(leader_elect=False, identity="demo", metrics_port=None, webhook_port=None)
        operator = Operator(cluster.client("regroup"), config=config, clock=clock, rng=rng)
        webhooks.append(operator)
        operating = asyncio.create_task(operator.run(), name="operator")
        await _ready(operator.ready, operating)
        checks: list[tuple[str, bool]] = []
        for story in STORIES:
            if chosen is not None and story.name != f"demo-{chosen}":
                continue
            screen = Screen(console, started=clock.now())
            screen.title(story.title)
            stage = Stage(client, cluster.faults(), clock, screen, story.name)
            await stage.open()
            with suppress(CheckFailed):
                await story.play(stage)
            checks += stage.checks
            await _clear(stage)
        console.print()
        return sum(1 for _, held in checks if not held), len(checks)
    finally:
        for task in (operating, running):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def _clear(stage: Stage) -> None:
    """Make room for the next story."""
    if stage.lws:
        await stage.client.delete(LEADERWORKERSETS, stage.lws, namespace=stage.namespace)


async def _install(client: Client) -> None:
    """What ``kubectl apply`` of ``regroup manifests --only crds,webhooks`` does."""
    options = manifests.ManifestOptions(webhook_url=WEBHOOKS)
    by_kind = {resource.kind: resource for resource in (CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
    for manifest in manifests.manifests(options, only=("crds", "webhooks")):
        await client.apply(by_kind[manifest["kind"]], manifest["metadata"]["name"], manifest)


async def _ready(event: asyncio.Event, task: asyncio.Task[None]) -> None:
    """Wait for ``event``; the task's death before that is raised."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        task.result()
        raise CommandFailed(f"the {task.get_name()} ended before it was ready")
