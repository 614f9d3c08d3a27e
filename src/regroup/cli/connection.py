"""Options of the commands that speak to a cluster, and the client that they give."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from regroup.cli.errors import EXIT_CLUSTER, CommandFailed, cluster_failure
from regroup.runtime.clock import Clock, LoopClock, SystemClock
from regroup.wire.client import Client
from regroup.wire.errors import WireError
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, KubeconfigError, in_cluster, load_kubeconfig

F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(function: F) -> F:
    """``--kubeconfig`` and ``--context`` of a command for people, who are outside of the cluster."""
    return _options(function, default="$KUBECONFIG, ~/.kube/config")


def operator_options(function: F) -> F:
    """The same of the operator: without either it works on the cluster that its pod runs in."""
    return _options(function, default="$KUBECONFIG, the pod's own cluster, ~/.kube/config")


def _options(function: F, *, default: str) -> F:
    function = click.option("--context", metavar="NAME", help="Context of the kubeconfig; the current one if not given.")(
        function
    )
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        envvar="KUBECONFIG",
        help=f"Kubeconfig file. [default: {default}]",
    )(function)


def access(kubeconfig: str | None, context: str | None, *, allow_in_cluster: bool = False) -> ClusterAccess:
    """How to reach the cluster. Raises ``CommandFailed`` with the file and what to do."""
    try:
        if allow_in_cluster and kubeconfig is None and context is None:
            inside = in_cluster()
            if inside is not None:
                return inside
        return load_kubeconfig(kubeconfig, context)
    except KubeconfigError as error:
        raise CommandFailed(
            str(error),
            hints=[
                "give --kubeconfig FILE, or export KUBECONFIG",
                "no cluster at hand: `regroup sandbox` makes one and prints its KUBECONFIG",
            ],
            exit_code=EXIT_CLUSTER,
        ) from error


async def server_clock(client: Client) -> Clock:
    """The API server's time. This machine's own may be wrong, and a sandbox's runs at its own speed."""
    return LoopClock(start=await client.server_time() or SystemClock().now())


@asynccontextmanager
async def connected(cluster: ClusterAccess, *, user_agent: str, doing: str) -> AsyncIterator[Client]:
    """A client for the length of a block; API errors that leave it become a ``CommandFailed``."""
    client = Client(HttpTransport(cluster), user_agent=user_agent)
    try:
        yield client
    except WireError as error:
        raise cluster_failure(error, server=cluster.server, doing=doing) from error
    finally:
        await client.close()
