"""``regroup fault``: break something in a sandbox. Works through the API alone, from any terminal."""

import asyncio
from collections.abc import Awaitable, Callable

import click

from regroup.cli.connection import access, cluster_options, connected
from regroup.cli.errors import CommandFailed
from regroup.runtime.clock import SystemClock
from regroup.sandbox.faults import FaultError, Faults

Order = Callable[[Faults], Awaitable[object]]


@click.group(
    "fault",
    epilog="""\b
Examples:
  regroup fault crash default/demo-0-2 --exit-code 3
  regroup fault crash default/demo-0-2 --oom
  regroup fault fail-pod default/demo-0 --reason Evicted
  regroup fault node-down node-1          and: regroup fault node-up node-1
  regroup fault refuse-image worker-image and: regroup fault refuse-image --undo worker-image
  regroup fault unschedulable default/demo-1""",
)
def command() -> None:
    """Break something in a sandbox: a container, a pod, a node, an image.

    Only simulated kubelets obey; on another cluster nothing happens.
    """


def _target(_: click.Context, __: click.Parameter, value: str) -> tuple[str, str]:
    """``NAMESPACE/POD``, or ``POD`` in namespace default."""
    namespace, slash, name = value.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise click.BadParameter(f"{value!r}: write NAMESPACE/POD, or POD for namespace default")
    return namespace or "default", name


pod_argument = click.argument("target", metavar="[NAMESPACE/]POD", callback=_target)


def _give(kubeconfig: str | None, context: str | None, order: Order, *, said: str) -> None:
    async def run() -> None:
        cluster = access(kubeconfig, context)
        async with connected(cluster, user_agent="regroup-fault", doing="ordering the fault") as client:
            await order(Faults(client, clock=SystemClock()))

    try:
        asyncio.run(run())
    except FaultError as error:
        raise CommandFailed(str(error)) from error
    click.echo(said)


@command.command("crash")
@pod_argument
@click.option("--container", "-c", metavar="NAME", help="The container; the first one if not given.")
@click.option("--exit-code", default=1, show_default=True, type=click.IntRange(0, 255))
@click.option("--oom", is_flag=True, help="Killed for memory: OOMKilled, exit code 137.")
@cluster_options
def crash(
    *, target: tuple[str, str], container: str | None, exit_code: int, oom: bool, kubeconfig: str | None, context: str | None
) -> None:
    """End the process of a container."""
    code, reason = (137, "OOMKilled") if oom else (exit_code, "")
    namespace, pod = target
    _give(
        kubeconfig,
        context,
        lambda faults: faults.crash(namespace, pod, container=container, exit_code=code, reason=reason),
        said=f"{namespace}/{pod}: the container exits with code {code}{' (OOMKilled)' if oom else ''}",
    )


@command.command("fail-pod")
@pod_argument
@click.option("--reason", default="Evicted", show_default=True)
@click.option("--message", default="", help="For people.")
@cluster_options
def fail_pod(*, target: tuple[str, str], reason: str, message: str, kubeconfig: str | None, context: str | None) -> None:
    """Make a pod's phase Failed, as a kubelet that evicts it."""
    namespace, pod = target
    _give(
        kubeconfig,
        context,
        lambda faults: faults.fail_pod(namespace, pod, reason=reason, message=message),
        said=f"{namespace}/{pod}: fails with reason {reason}",
    )


@command.command("node-down")
@click.argument("node")
@cluster_options
def node_down(*, node: str, kubeconfig: str | None, context: str | None) -> None:
    """Cut a node off: no heartbeats, nothing done or reported; its containers run on."""
    _give(kubeconfig, context, lambda faults: faults.node_down(node), said=f"{node} is cut off")


@command.command("node-up")
@click.argument("node")
@cluster_options
def node_up(*, node: str, kubeconfig: str | None, context: str | None) -> None:
    """Bring a node back."""
    _give(kubeconfig, context, lambda faults: faults.node_up(node), said=f"{node} is back")


@command.command("refuse-image")
@click.argument("prefix")
@click.option("--undo", is_flag=True, help="Let the image be pulled again.")
@cluster_options
def refuse_image(*, prefix: str, undo: bool, kubeconfig: str | None, context: str | None) -> None:
    """Let no node pull images whose name begins with PREFIX."""
    _give(
        kubeconfig,
        context,
        lambda faults: faults.accept_image(prefix) if undo else faults.refuse_image(prefix),
        said=f"images {prefix}* can{'' if undo else 'not'} be pulled{' again' if undo else ''}",
    )


@command.command("unschedulable")
@pod_argument
@click.option("--undo", is_flag=True, help="Let it find a place again.")
@cluster_options
def unschedulable(*, target: tuple[str, str], undo: bool, kubeconfig: str | None, context: str | None) -> None:
    """Let the scheduler find no place for a pod of this name, now or later."""
    namespace, pod = target
    _give(
        kubeconfig,
        context,
        lambda faults: faults.make_schedulable(namespace, pod) if undo else faults.make_unschedulable(namespace, pod),
        said=f"{namespace}/{pod} finds {'a' if undo else 'no'} place{' again' if undo else ''}",
    )
