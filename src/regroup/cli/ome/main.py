"""The ``kubectl-ome`` executable: kubectl finds it on the path and runs it as ``kubectl ome`` (spec/omenative.md 7).

Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

import regroup
from regroup.cli import entry
from regroup.cli.connection import access, cluster_options, connected
from regroup.cli.errors import EXIT_FAILED, CommandFailed
from regroup.cli.ome.instances import COLUMNS, instance_lines, list_report
from regroup.cli.ome.reading import Service, read_events, read_pods, read_service
from regroup.cli.ome.status import VALUE_LIMIT, InstanceStatus, compact, status_report, wide
from regroup.cli.values import namespace as namespace_value
from regroup.omenative.keys import COMPONENTS
from regroup.wire import yamlish
from regroup.wire.errors import NotFound
from regroup.wire.kubeconfig import ClusterAccess

F = TypeVar("F", bound=Callable[..., Any])
_GAP = 3
"""Spaces between columns, as kubectl has them."""


def _namespace_option(function: F) -> F:
    return click.option("-n", "--namespace", callback=namespace_value, help="Namespace. [default: the context's]")(function)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(regroup.__version__, prog_name="kubectl-ome")
def cli() -> None:
    """Looks at InferenceServices in OMENative mode. Install it on the PATH and call it as `kubectl ome`."""


@cli.group()
def instance() -> None:
    """Instances: one pod, or a leader and its workers."""


@instance.command(
    "list",
    epilog="""\b
Examples:
  kubectl ome instance list qwen3-0-6b -n qwen3-native
  kubectl ome instance list qwen3-0-6b -n qwen3-native -o json

\b
IDX/INC   index and incarnation: 0/2 is Instance 0 after its first restart
PODS      serving/available/all
REVS      revision that runs, and >target while it moves
AOF       A admitted, O an operation is there, F a failure is recorded
EVIDENCE  OK, or how far the rows can be trusted""",
)
@click.argument("service", metavar="ISVC")
@cluster_options
@_namespace_option
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def list_instances(*, service: str, kubeconfig: str | None, context: str | None, namespace: str | None, output: str) -> None:
    """List the Instances of an InferenceService: engine, decoder, router."""
    found = asyncio.run(_read(access(kubeconfig, context), namespace, service))
    lines = instance_lines(found)
    if output != "table":
        _write(list_report(found, lines), output)
        return
    if not lines:
        raise CommandFailed(f"InferenceService {service} declares no component")
    click.echo(_table([COLUMNS, *(line.cells() for line in lines)]))


@instance.command(
    "status",
    epilog="""\b
Examples:
  kubectl ome instance status qwen3-0-6b 0 -n qwen3-native --component engine
  kubectl ome instance status qwen3-0-6b 0 -n qwen3-native --component engine -o wide""",
)
@click.argument("service", metavar="ISVC")
@click.argument("index", metavar="IDX", type=click.IntRange(min=0))
@click.option("--component", type=click.Choice(COMPONENTS), help="[default: the only one, where there is only one]")
@cluster_options
@_namespace_option
@click.option(
    "--ome-namespace",
    default="ome",
    show_default=True,
    expose_value=False,
    help="Taken as upstream's plugin takes it; nothing is read there.",
)
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", show_default=True)
def status_of_instance(
    *,
    service: str,
    index: int,
    component: str | None,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    output: str,
) -> None:
    """Show one Instance: its operation, its last failure, each pod's restarts."""
    found = asyncio.run(_status(access(kubeconfig, context), namespace, service, component=component, index=index))
    if output in {"json", "yaml"}:
        _write(status_report(found), output)
        return
    fields = wide(found) if output == "wide" else compact(found)
    click.echo(_table([("FIELD", "VALUE"), *((name, _cut(value)) for name, value in fields)]))


async def _read(cluster: ClusterAccess, namespace: str | None, name: str) -> Service:
    where = namespace or cluster.namespace
    async with connected(cluster, user_agent="kubectl-ome", doing=f"reading InferenceService {name}") as client:
        try:
            return await read_service(client, where, name)
        except NotFound as error:
            raise CommandFailed(f"no InferenceService {name} in namespace {where}", hints=["another -n NAMESPACE?"]) from error


async def _status(
    cluster: ClusterAccess, namespace: str | None, name: str, *, component: str | None, index: int
) -> InstanceStatus:
    found = await _read(cluster, namespace, name)
    chosen = component or (next(iter(found.replicas)) if len(found.replicas) == 1 else None)
    if chosen is None:
        names = ", ".join(found.replicas) or "none"
        raise click.UsageError(f"--component: InferenceService {name} has several components: {names}")
    if chosen not in found.replicas:
        raise CommandFailed(f"InferenceService {name} has no {chosen}: it has {', '.join(found.replicas) or 'no component'}")
    replica = found.replicas[chosen]
    row = next((row for row in replica.status.rows if row.index == index), None) if replica is not None else None
    async with connected(cluster, user_agent="kubectl-ome", doing=f"reading the pods of InferenceService {name}") as client:
        pods = await read_pods(client, found, chosen, index)
        events = await read_events(client, found, pods)
    return InstanceStatus(service=found, component=chosen, index=index, replica=replica, row=row, pods=pods, events=events)


def _write(report: dict[str, Any], output: str) -> None:
    click.echo(json.dumps(report, indent=2) if output == "json" else yamlish.dump(report).rstrip("\n"))


def _table(lines: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their longest cell; nothing is padded at the end of a line."""
    rows = list(lines)
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    padded = ("".join(cell.ljust(width + _GAP) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in padded)


def _cut(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= VALUE_LIMIT else f"{line[: VALUE_LIMIT - 3]}..."


def main() -> None:
    """Entry point. A failed command ends with 1 whatever the cause, as upstream's plugin does (spec/omenative.md 7)."""
    entry.run(cli, exit_code=lambda _: EXIT_FAILED)
