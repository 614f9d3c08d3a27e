"""Plays the lives: on a sandbox under virtual time, on Kubernetes' own control plane, and the record of the latter.

``python -m tests.planes.differential.living`` plays them to the real control plane and writes the record anew.
"""

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.planes.differential.lives import LIVES, Life, Transcript, play
from tests.planes.plane import end, ready_or_dead
from tests.planes.realplane.controlplane import ControlPlane

from regroup.runtime.clock import LoopClock, SystemClock
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.nodelifecycle.rules import LifecycleOptions
from regroup.wire.client import Client
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity

FILE = Path(__file__).parent / "recording" / "lives.jsonl"
QUIET = 2.0
"""Seconds without an event after which the real control plane has come to rest."""
GRACE = 4.0
"""Seconds of silence that both clusters give a node."""


async def on_sandbox(life: Life) -> Transcript:
    """One life on a fresh sandbox without nodes."""
    clock = LoopClock(start=datetime(2026, 8, 1, 12, tzinfo=UTC))
    cluster = Cluster(clock=clock, rng=random.Random(1), nodes=0, lifecycle=LifecycleOptions(grace=GRACE))
    task = asyncio.create_task(cluster.run())
    try:
        await ready_or_dead(cluster.ready, task)
        return await play(life, cluster.client("lives"), clock=clock, quiet=QUIET)
    finally:
        await end(task)


async def on_kubernetes(lives: Sequence[Life] = LIVES) -> dict[str, Transcript]:
    """All lives on one control plane, side by side; those with nodes one after the other, because nodes are in no namespace."""
    with ControlPlane() as control:
        access = ClusterAccess(
            server=control.url, identity=Identity(token=control.admin_token), ca=control.ca, source="the real control plane"
        )
        client = Client(HttpTransport(access), user_agent="lives", field_manager="lives")
        try:
            played = await asyncio.gather(*(_row(row, client) for row in _rows(lives)))
            control.check()
            return {life.name: transcript for row in played for life, transcript in row}
        finally:
            await client.close()


def _rows(lives: Sequence[Life]) -> list[list[Life]]:
    with_nodes = [life for life in lives if life.nodes]
    return [*([life] for life in lives if not life.nodes), *([with_nodes] if with_nodes else [])]


async def _row(row: Sequence[Life], client: Client) -> list[tuple[Life, Transcript]]:
    return [(life, await play(life, client, clock=SystemClock(), quiet=QUIET)) for life in row]


def recorded() -> dict[str, Transcript]:
    """What Kubernetes showed, by life."""
    found: dict[str, Transcript] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        life, title, seen = json.loads(line)
        found.setdefault(life, {})[title] = seen
    return found


def write(played: dict[str, Transcript]) -> None:
    lines = [json.dumps([life, title, seen]) for life, transcript in played.items() for title, seen in transcript.items()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    only = set(sys.argv[1:])
    played = asyncio.run(on_kubernetes([life for life in LIVES if not only or life.name in only]))
    write({**(recorded() if only else {}), **played})
    sys.stdout.write(f"{len(played)} lives, {sum(map(len, played.values()))} steps recorded\n")


if __name__ == "__main__":
    main()
