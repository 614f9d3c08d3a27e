"""``regroup explain``: what the operator sees of each group or Instance and would do now, and why. Reads only."""

import asyncio
import json
import sys
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from regroup.cli.connection import access, cluster_options, connected, server_clock
from regroup.cli.errors import CommandFailed
from regroup.cli.explain_service import show_service
from regroup.cli.values import kind_and_name, namespace
from regroup.leaderworkerset.controller.explain_query import Explanation, NoSuchGroup, explain
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.objects.gang import Provider
from regroup.leaderworkerset.telling.explain import GroupReport
from regroup.omenative.controller.explain_query import ServiceExplanation
from regroup.omenative.controller.explain_query import explain as explain_service
from regroup.operator.config import CONFIG_NAMESPACE, NAMESPACE
from regroup.wire.kubeconfig import ClusterAccess

_KINDS = {
    "lws": "lws",
    "leaderworkerset": "lws",
    "leaderworkersets": "lws",
    "isvc": "isvc",
    "inferenceservice": "isvc",
    "inferenceservices": "isvc",
}
_COLOURS = {
    "Running": "green",
    "Starting": "yellow",
    "NotReady": "yellow",
    "Gated": "yellow",
    "Deferred": "yellow",
    "Recreating": "red",
    "Exhausted": "red",
}
FEW = 8
"""Groups or Instances whose details are shown without being asked for: a screen or two."""


def _target(_: click.Context, __: click.Parameter, value: str) -> tuple[str, str]:
    return kind_and_name(value, kinds=_KINDS)


@click.command(
    "explain",
    epilog="""\b
Examples:
  regroup explain lws/demo                         every group: state, decision, rule, reason, pods, last failure
  regroup explain lws/demo --no-details            a line for each
  regroup explain lws/demo --group 1               one group with its pods and the facts
  regroup explain lws/demo -n inference -o json    for scripts
  regroup explain isvc/qwen3-0-6b -n qwen3-native  every Instance: phase, what comes next, rule, reason, pods""",
)
@click.argument("target", metavar="lws/NAME|isvc/NAME", callback=_target)
@cluster_options
@click.option("-n", "--namespace", callback=namespace, help="Namespace of the object. [default: the context's]")
@click.option("--group", metavar="N", help="Only this group, with its pods and facts.")
@click.option(
    "--details/--no-details", default=None, help=f"With the pods, facts and last failure of each. [default: of up to {FEW}]"
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option(
    "--config-namespace",
    callback=namespace,
    help=f"Of an InferenceService: where the operator's ConfigMap is. [default: {NAMESPACE}, then {CONFIG_NAMESPACE}]",
)
@click.option(
    "--node-loss-grace",
    default=Settings().node_loss_grace,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="As the operator was given it.",
)
@click.option(
    "--scheduler-provider",
    type=click.Choice([str(one) for one in Provider]),
    default=str(Provider.NONE),
    show_default=True,
    help="As the operator was given it.",
)
def command(
    *,
    target: tuple[str, str],
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    group: str | None,
    details: bool | None,
    output: str,
    config_namespace: str | None,
    node_loss_grace: float,
    scheduler_provider: str,
) -> None:
    """Say what the operator sees and would do for each group or Instance, and why."""
    kind, name = target
    if kind == "isvc" and group is not None:
        raise click.UsageError("--group: an InferenceService has Instances, which are shown all together")
    cluster = access(kubeconfig, context)
    where = namespace or cluster.namespace
    # A pipe has no width of its own: long sentences stay on their line there.
    console = Console(width=None if sys.stdout.isatty() else 220)
    if kind == "isvc":
        service = asyncio.run(_ask_service(cluster, where, name, config_namespace=config_namespace))
        if output == "json":
            click.echo(json.dumps(service.to_dict(), indent=2))
        else:
            few = sum(len(one.instances) for one in service.components) <= FEW
            show_service(service, console, details=few if details is None else details)
        return
    settings = Settings(node_loss_grace=node_loss_grace, scheduler_provider=Provider(scheduler_provider))
    explanation = asyncio.run(_ask(cluster, where, name, group=group, settings=settings))
    if output == "json":
        click.echo(json.dumps(explanation.to_dict(), indent=2))
        return
    show(explanation, console, details=details)


async def _ask_service(cluster: ClusterAccess, namespace: str, name: str, *, config_namespace: str | None) -> ServiceExplanation:
    where = (config_namespace,) if config_namespace else (NAMESPACE, CONFIG_NAMESPACE)
    async with connected(cluster, user_agent="regroup-explain", doing=f"reading isvc/{name} in namespace {namespace}") as client:
        return await explain_service(client, namespace, name, clock=await server_clock(client), config_namespaces=where)


async def _ask(cluster: ClusterAccess, namespace: str, name: str, *, group: str | None, settings: Settings) -> Explanation:
    async with connected(cluster, user_agent="regroup-explain", doing=f"reading lws/{name} in namespace {namespace}") as client:
        now = (await server_clock(client)).now()
        try:
            return await explain(client, namespace, name, group=group, now=now, settings=settings)
        except NoSuchGroup as error:
            raise CommandFailed(f"lws/{name} in namespace {namespace}: {error}") from error


def show(explanation: Explanation, console: Console, *, details: bool | None) -> None:
    """Print for a person: a line a group, and with ``details`` each group's pods and facts; None: where they are ``FEW``."""
    count = len(explanation.groups)
    console.print(f"[bold]{escape(explanation.namespace)}/{escape(explanation.name)}[/]  {explanation.replicas} groups wanted")
    table = _table("GROUP", "STATE", "READY", "DECISION", "RULE", "WHY", "RESTARTS", "NEXT")
    for group in explanation.groups:
        state = f"[{_COLOURS.get(group.state, 'default')}]{escape(group.state)}[/]"
        ready = sum(1 for member in group.members if member.state == "Ready" and not member.remnant)
        row = (f"{ready}/{group.size}", group.decision, group.rule, group.why, _restarts(group), group.next_permitted or "-")
        table.add_row(escape(group.group), state, *map(escape, row))
    if explanation.groups:
        console.print(table)
    else:
        console.print("no groups")
    for group in explanation.groups if (count <= FEW if details is None else details) else ():
        _show_group(group, console)
    if details is None and count > FEW:
        console.print(f"{count} groups: --group N shows one with its pods and its last failure, --details all")
    for note in explanation.notes:
        console.print(f"note: {escape(note)}")


def _show_group(group: GroupReport, console: Console) -> None:
    table = _table("POD", "INDEX", "STATE", "RESTARTS", "NODE", "UID")
    for member in group.members:
        state = f"{member.state} (earlier incarnation)" if member.remnant else member.state
        row: tuple[Any, ...] = (member.pod, member.index, state, member.restarts, member.node or "-", member.uid)
        table.add_row(*(escape(str(cell)) for cell in row))
    console.print(f"\n[bold]group {escape(group.group)}[/]")
    console.print(table)
    console.print(f"policy {escape(group.policy)}, revision {escape(group.revision) or '-'}")
    for title, text in (
        ("budget", _budget(group)),
        ("a failure now recreates from", group.recreation_permitted_from),
        ("waits for", group.waits_for),
        ("last failure", _last_failure(group)),
    ):
        if text:
            console.print(f"{title}: {escape(text)}")
    for title, lines in (("facts", group.facts), ("failures", group.failures)):
        for line in lines:
            console.print(f"{title}: {escape(line)}")


def _budget(group: GroupReport) -> str:
    if group.restarts_allowed is None:
        return ""
    return f"{group.restarts_used} of {group.restarts_allowed} restarts used, {group.restarts_left} left"


def _last_failure(group: GroupReport) -> str:
    last = group.last_failure
    if last is None:
        return ""
    container = f" container {last['container']}" if last["container"] else ""
    code = "" if last["exitCode"] is None else f", exit code {last['exitCode']}"
    reason = f" ({last['reason']})" if last["reason"] else ""
    return f"{last['time'] or 'at an unknown time'} pod {last['pod']}{container}: {last['signal']}{code}{reason}"


def _restarts(group: GroupReport) -> str:
    if group.restarts_used is None:
        return "-"
    return f"{group.restarts_used}/{group.restarts_allowed}" if group.restarts_allowed is not None else str(group.restarts_used)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != "WHY")
    return table
