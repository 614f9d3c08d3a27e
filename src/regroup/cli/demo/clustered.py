"""The demo on a cluster that is there: the operator runs in it already, time is the wall's, and nothing is left behind."""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rich.console import Console

from regroup.cli.connection import connected
from regroup.cli.demo.hands import hands_for
from regroup.cli.demo.play import Check, Place, play
from regroup.cli.demo.story import Story
from regroup.cli.errors import EXIT_CLUSTER, CommandFailed
from regroup.kube.resources import CRDS
from regroup.leaderworkerset.keys import GROUP, LEADERWORKERSETS
from regroup.runtime.clock import SystemClock
from regroup.wire.errors import NotFound
from regroup.wire.kubeconfig import ClusterAccess

_CRD = f"{LEADERWORKERSETS.plural}.{GROUP}"


async def play_clustered(stories: list[Story], console: Console, *, cluster: ClusterAccess, image: str) -> list[Check]:
    """Play the stories there. Raises ``CommandFailed`` when it cannot be reached, or Regroup is not installed in it."""
    async with connected(cluster, user_agent="regroup-demo", doing="playing the demo") as client:
        try:
            await client.get(CRDS, _CRD)
        except NotFound:
            raise CommandFailed(
                f"Regroup is not installed in {cluster.server}",
                hints=[
                    "install it: regroup manifests | kubectl apply --server-side -f -",
                    "or run the operator from here: regroup run --help",
                ],
                exit_code=EXIT_CLUSTER,
            ) from None
        clock = SystemClock()
        hands = await hands_for(client, clock=clock, image=image)
        console.print(f"The cluster at {cluster.server}, with the operator that runs in it. Time is the wall's.", soft_wrap=True)
        if hands.explanation:
            console.print(hands.explanation, soft_wrap=True)
        # Nobody's namespace has such a name already, so what is taken away afterwards is ours.
        place = Place(client, hands, clock, suffix=f"-{secrets.token_hex(3)}")
        async with _ended_by_sigterm():
            return await play(stories, place, console)


@asynccontextmanager
async def _ended_by_sigterm() -> AsyncIterator[None]:
    """What ends a job ends this as Ctrl-C does, also where Ctrl-C itself is ignored (in a shell's background): what was made in
    somebody's cluster is taken away. Raises ``KeyboardInterrupt`` then."""
    task, told = asyncio.current_task(), asyncio.Event()

    def end() -> None:
        told.set()
        if task is not None:
            task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if told.is_set():
            raise KeyboardInterrupt from None
        raise
