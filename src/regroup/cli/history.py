"""``regroup history``: past restarts of the groups of a LeaderWorkerSet, from events and pods of the API server. Reads only."""

import asyncio
import json
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from regroup.cli.connection import access, cluster_options, connected
from regroup.cli.errors import CommandFailed
from regroup.cli.files import write_whole
from regroup.cli.history_plot import draw
from regroup.cli.values import kind_and_name, namespace
from regroup.leaderworkerset.controller.history_query import History, read_history
from regroup.leaderworkerset.telling.history import Entry
from regroup.runtime.clock import timestamp
from regroup.wire.kubeconfig import ClusterAccess

_KINDS = {"lws": "lws", "leaderworkerset": "lws", "leaderworkersets": "lws"}
_COLOURS = {"recreated": "yellow", "exhausted": "red", "deferred": "cyan", "skipped": "magenta", "forced": "red"}


def _target(_: click.Context, __: click.Parameter, value: str) -> str:
    return kind_and_name(value, kinds=_KINDS)[1]


@click.command(
    "history",
    epilog="""\b
Examples:
  regroup history lws/demo                         what happened, the oldest first
  regroup history lws/demo --group 1 -o json       one group, for scripts
  regroup history lws/demo --plot timeline.svg     the same as a picture""",
)
@click.argument("target", metavar="lws/NAME", callback=_target)
@cluster_options
@click.option("-n", "--namespace", callback=namespace, help="Namespace of the object. [default: the context's]")
@click.option("--group", metavar="N", help="Only this group.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the timeline there, as SVG.")
def command(
    *,
    target: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    group: str | None,
    output: str,
    plot: Path | None,
) -> None:
    """Show past restarts of groups: cause, pod, container, exit code, time."""
    cluster = access(kubeconfig, context)
    found = asyncio.run(_ask(cluster, namespace or cluster.namespace, target, group=group))
    if plot is not None:
        try:
            write_whole(plot, draw(found.entries, title=f"{found.namespace}/{found.name}"))
        except OSError as error:
            raise CommandFailed(f"cannot write {plot}: {error.strerror}") from error
    if output == "json":
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    # A pipe has no width of its own: long sentences stay on their line there.
    show(found, Console(width=None if sys.stdout.isatty() else 220))


async def _ask(cluster: ClusterAccess, namespace: str, name: str, *, group: str | None) -> History:
    async with connected(cluster, user_agent="regroup-history", doing=f"reading lws/{name} in namespace {namespace}") as client:
        return await read_history(client, namespace, name, group=group)


def show(found: History, console: Console) -> None:
    """Print for a person: a line for each thing that happened."""
    if found.entries:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("TIME", "GROUP", "WHAT", "POD", "CONTAINER", "EXIT", "RESTARTS", "CAUSE"):
            table.add_column(column, overflow="fold", no_wrap=column != "CAUSE")
        for entry in found.entries:
            what = f"[{_COLOURS.get(entry.what, 'default')}]{escape(_what(entry))}[/]"
            code = "-" if entry.exit_code is None else str(entry.exit_code)
            row = (entry.pod or "-", entry.container or "-", code, _restarts(entry), entry.cause)
            table.add_row(timestamp(entry.at), escape(entry.group or "-"), what, *map(escape, row))
        console.print(table)
    else:
        console.print(f"nothing is known to have happened to {escape(found.namespace)}/{escape(found.name)}")
    for note in found.notes:
        console.print(f"note: {escape(note)}")


def _what(entry: Entry) -> str:
    return entry.what if entry.times == 1 else f"{entry.what} x{entry.times}"


def _restarts(entry: Entry) -> str:
    if entry.restarts is None:
        return "-"
    return str(entry.restarts) if entry.allowed is None else f"{entry.restarts}/{entry.allowed}"
