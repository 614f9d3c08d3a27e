"""``regroup demo``: the failure stories of the seed, told while they happen, and checked."""

import resource
import sys
import time

import click
from click.core import ParameterSource
from rich.console import Console

from regroup.cli.connection import access
from regroup.cli.demo.clustered import play_clustered
from regroup.cli.demo.sandboxed import play_sandboxed
from regroup.cli.demo.stories import STORIES
from regroup.cli.errors import EXIT_FAILED, CommandFailed
from regroup.runtime import logging, loop

SPEED = 120.0
IMAGE = "busybox:1"


@click.command(
    "demo",
    epilog="""\b
Examples:
  regroup demo                         all stories, about half a minute
  regroup demo --story none            one story
  regroup demo --speed 5               slowly, to watch
  regroup demo --context kind-test     on a cluster of yours, in real time: minutes, not seconds""",
)
@click.option("--story", "chosen", type=click.Choice([story.name for story in STORIES]), help="Only this story.")
@click.option("--speed", default=SPEED, show_default=True, type=click.FloatRange(1, 1000), help="How much faster waits pass.")
@click.option("--seed", default=1, show_default=True, help="Of everything that is random.")
@click.option("--context", metavar="NAME", help="Play on this context's cluster, where Regroup runs already, not in a sandbox.")
@click.option("--kubeconfig", metavar="FILE", envvar="KUBECONFIG", help="Where --context is looked up.")
@click.option(
    "--image",
    default=IMAGE,
    show_default=True,
    help="With --context and real nodes: an image with a shell for the pods.",
)
@click.pass_context
def command(
    ctx: click.Context, *, chosen: str | None, speed: float, seed: int, context: str | None, kubeconfig: str | None, image: str
) -> None:
    """Play the failure stories on a local cluster and check what must hold.

    With --context they play on a cluster of yours, each in a namespace of its own that is deleted afterwards. Exit code 0 only
    if every check held.
    """
    logging.configure(format="console", level="error")
    _refuse_what_has_no_effect(ctx, clustered=context is not None)
    # A pipe has no width of its own: tables are not cut there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    stories = [story for story in STORIES if chosen is None or story.name == chosen]
    began = time.monotonic()  # how long the person waits, not what the cluster's clock says
    if context is None:
        checks = loop.run(play_sandboxed(stories, console, speed=speed, seed=seed), speed=speed)
    else:
        checks = loop.run(play_clustered(stories, console, cluster=access(kubeconfig, context), image=image))
    failed = sum(1 for _, held in checks if not held)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = time.monotonic() - began
    summary = f"{len(checks) - failed} of {len(checks)} checks held, in {took:.0f} s with {megabytes:.0f} MB"
    if failed or not checks:
        raise CommandFailed(summary, exit_code=EXIT_FAILED)
    click.secho(summary, fg="green", bold=True)


def _refuse_what_has_no_effect(ctx: click.Context, *, clustered: bool) -> None:
    for name in ("speed", "seed") if clustered else ("image",):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            reason = (
                "a cluster of yours runs in real time, and as it likes" if clustered else "only nodes of a --context run images"
            )
            raise click.UsageError(f"--{name} has no effect here: {reason}")
