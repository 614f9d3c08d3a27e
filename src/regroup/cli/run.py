"""``regroup run``: the operator against a cluster."""

import asyncio
import os
import random
import signal
import socket
import uuid
from pathlib import Path

import click
import structlog

from regroup.cli.connection import access, operator_options
from regroup.cli.errors import EXIT_CLUSTER, CommandFailed, cluster_failure
from regroup.cli.values import namespace, namespaces
from regroup.leaderworkerset.objects.gang import Provider
from regroup.omenative.configuration.config import ConfigInvalid
from regroup.operator.apis import NotInstalled
from regroup.operator.config import NAMESPACE, ConfigError, OperatorConfig
from regroup.operator.start import Operator, RegisteredByService
from regroup.runtime import logging, loop
from regroup.runtime.clock import SystemClock
from regroup.runtime.election import LeadershipLost
from regroup.wire.client import Client
from regroup.wire.errors import WireError
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess


@click.command(
    "run",
    epilog="""\b
Examples:
  regroup manifests | kubectl apply --server-side -f -      install into a cluster; it runs this command there
  regroup run --webhook-url https://127.0.0.1:9443          from your machine, with API servers on the same host
  regroup run --no-webhooks --no-leader-elect               look at one cluster without admission

Every option can come from the environment, as REGROUP_<OPTION>: REGROUP_NAMESPACES=a,b.""",
    context_settings={"auto_envvar_prefix": "REGROUP"},
)
@operator_options
@click.option("--namespaces", metavar="NAME,...", callback=namespaces, help="Keep only these namespaces. [default: all]")
@click.option(
    "--home",
    default=os.environ.get("POD_NAMESPACE") or NAMESPACE,
    show_default=True,
    callback=namespace,
    help="Namespace of the lease and the certificate.",
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="Work only while holding the lease.")
@click.option("--host", default=OperatorConfig.host, show_default=True, help="Address to serve webhooks, probes and metrics on.")
@click.option("--metrics-port", default=8080, show_default=True, help="Port of /metrics, /healthz and /readyz; 0 picks one.")
@click.option("--webhook-port", default=9443, show_default=True, help="Port of the admission webhooks; 0 picks one.")
@click.option(
    "--no-webhooks", is_flag=True, help="Serve no webhooks: objects are neither defaulted nor checked, pods get no identity."
)
@click.option("--webhook-url", default="", metavar="URL", help="Register the webhooks by this base URL, with our own CA.")
@click.option(
    "--certificate-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Mounted tls.crt and tls.key to serve with.",
)
@click.option(
    "--node-loss-grace",
    default=OperatorConfig.node_loss_grace,
    show_default=True,
    metavar="SECONDS",
    help="How long a node must be lost before Terminating pods of LeaderWorkerSets on it are forced; 0: never.",
)
@click.option(
    "--config-namespace",
    callback=namespace,
    help="Namespace of the ConfigMap inferenceservice-config, for OMENative mode. [default: that of --home, where the shipped "
    "rights let it be read]",
)
@click.option(
    "--workers",
    default=OperatorConfig.workers,
    show_default=True,
    help="Groups that are looked at at the same time; each other controller has half as many workers.",
)
@click.option(
    "--scheduler-provider",
    type=click.Choice([str(one) for one in Provider]),
    default=str(Provider.NONE),
    show_default=True,
    help="Who places groups as gangs: Volcano, every group; Kubernetes itself, those with spec.scheduling.",
)
@click.option("--log-format", type=click.Choice(["console", "json"]), default="console", show_default=True)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True)
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    namespaces: list[str],
    home: str,
    leader_elect: bool,
    host: str,
    metrics_port: int,
    webhook_port: int,
    no_webhooks: bool,
    webhook_url: str,
    certificate_dir: Path | None,
    node_loss_grace: float,
    config_namespace: str | None,
    workers: int,
    scheduler_provider: str,
    log_format: logging.LogFormat,
    log_level: str,
) -> None:
    """Run the operator against a cluster, inside it or from outside."""
    logging.configure(format=log_format, level=log_level)
    try:
        config = OperatorConfig(
            namespaces=namespaces,
            home=home,
            leader_elect=leader_elect,
            identity=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}",
            host=host,
            metrics_port=metrics_port,
            webhook_port=None if no_webhooks else webhook_port,
            webhook_url=webhook_url,
            certificate_dir=certificate_dir,
            node_loss_grace=node_loss_grace,
            config_namespace=config_namespace or home,
            workers=workers,
            scheduler_provider=Provider(scheduler_provider),
        )
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    cluster = access(kubeconfig, context, allow_in_cluster=True)
    loop.run(_run(cluster, config))


async def _run(cluster: ClusterAccess, config: OperatorConfig) -> None:
    client = Client(HttpTransport(cluster), user_agent="regroup")
    operator = Operator(client, config=config, clock=SystemClock(), rng=random.Random())  # noqa: S311 - jitter, not secrets
    life = asyncio.create_task(operator.run(), name="operator")
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, life.cancel)
    try:
        await life
    except asyncio.CancelledError:
        return
    except BaseExceptionGroup as group:
        raise _failure(_first(group), cluster) from group
    except (NotInstalled, RegisteredByService, ConfigInvalid, WireError, OSError, LeadershipLost) as error:
        raise _failure(error, cluster) from error
    finally:
        await client.close()


def _failure(error: BaseException, cluster: ClusterAccess) -> CommandFailed:
    match error:
        case NotInstalled():
            hints = ["install it: regroup manifests --only crds | kubectl apply --server-side -f -"]
            return CommandFailed(f"{error} ({cluster.server})", hints=hints, exit_code=EXIT_CLUSTER)
        case ConfigInvalid():
            # The words that upstream's manager logs, for those who look for them.
            return CommandFailed(f"Failed to initialize lifecycle scale configuration: {error}")
        case RegisteredByService():
            hints = [
                "take them away: kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations regroup",
                "or run without --webhook-url, beside that operator",
            ]
            return CommandFailed(
                f"cannot register the webhooks by URL: {error} ({cluster.server})", hints=hints, exit_code=EXIT_CLUSTER
            )
        case WireError():
            return cluster_failure(error, server=cluster.server, doing="starting the operator")
        case LeadershipLost():
            return CommandFailed(f"stopped: {error}")
        case OSError():
            # asyncio's message names the address; strerror alone does not.
            files = error.filename is not None
            hint = "is it the right --certificate-dir?" if files else "choose another --host, --webhook-port or --metrics-port"
            # Without a number it is not the system's: certificates could not be made, which no address helps against.
            return CommandFailed(f"cannot serve: {error}", hints=[] if error.errno is None else [hint])
        case _:
            # Not foreseen: whoever reads the log needs to see where.
            structlog.get_logger("operator").error("the operator died", exc_info=error)
            return CommandFailed(f"stopped by a failure: {type(error).__name__}: {error}")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
