"""``regroup sandbox``: a local cluster with the operator inside, for kubectl and for trying things out."""

import asyncio
import random
import signal
import socket
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from regroup.cli.errors import CommandFailed
from regroup.cli.files import write_whole
from regroup.kube.resources import CONFIGMAPS, CRDS, NAMESPACES
from regroup.operator import manifests
from regroup.operator.config import CONFIG_NAMESPACE, OperatorConfig
from regroup.operator.start import Operator
from regroup.runtime import logging, loop
from regroup.runtime.clock import LoopClock, SystemClock
from regroup.sandbox import httpfront
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.journal import DataDirError
from regroup.wire.errors import AlreadyExists

HOST = "127.0.0.1"
MAX_SPEED = 100.0
"""Faster than this the API server's time limit for a webhook is shorter than a handshake takes."""


@click.command(
    "sandbox",
    epilog="""\b
Examples:
  regroup sandbox                              a cluster of four nodes; Ctrl-C stops it
  regroup sandbox --speed 20                   five minutes pass in fifteen seconds
  regroup sandbox --data-dir ./cluster         what you apply is still there the next time
  regroup sandbox --kubeconfig kc.yaml &       for scripts: wait for the file, then use it""",
)
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 1000), help="How many simulated nodes.")
@click.option(
    "--speed", default=1.0, show_default=True, type=click.FloatRange(0.1, MAX_SPEED), help="How much faster waits pass."
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the API server. [default: a free one]")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Keep the cluster's state in this folder.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="Write the kubeconfig there.")
@click.option("--no-operator", is_flag=True, help="Only the cluster: run the operator yourself, with `regroup run`.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning", show_default=True)
def command(
    *,
    nodes: int,
    speed: float,
    port: int,
    data_dir: Path | None,
    kubeconfig: Path | None,
    no_operator: bool,
    log_level: str,
) -> None:
    """Run a local cluster with the operator inside; prints the KUBECONFIG to export."""
    logging.configure(format="console", level=log_level)
    life = _Sandbox(nodes=nodes, speed=speed, port=port, data_dir=data_dir, kubeconfig=kubeconfig, with_operator=not no_operator)
    try:
        loop.run(life.run(), speed=speed)
    except DataDirError as error:
        raise CommandFailed(str(error)) from error
    except httpfront.PortTaken as error:
        raise CommandFailed(str(error.strerror), hints=["choose another --port, or none for a free one"]) from error


class _Sandbox:
    """One run of the command."""

    def __init__(
        self, *, nodes: int, speed: float, port: int, data_dir: Path | None, kubeconfig: Path | None, with_operator: bool
    ) -> None:
        self._nodes, self._speed, self._port = nodes, speed, port
        self._data_dir, self._kubeconfig = data_dir, kubeconfig
        self._with_operator = with_operator
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Live until Ctrl-C or SIGTERM. Raises what ended the cluster or the operator."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            running.add_signal_handler(number, self._stop.set)
        clock = LoopClock(start=SystemClock().now())
        rng = random.Random()  # noqa: S311 - jitter and names, not secrets
        cluster = Cluster(clock=clock, rng=rng, nodes=self._nodes, data_dir=self._data_dir)
        async with httpfront.serve(cluster.server, host=HOST, port=self._port) as url:
            parts = [asyncio.create_task(cluster.run(), name="cluster")]
            try:
                await _until(cluster.ready.wait(), parts)
                if self._with_operator:
                    operator = await self._operator(cluster, clock, rng)
                    parts.append(asyncio.create_task(operator.run(), name="operator"))
                    await _until(operator.ready.wait(), parts)
                file = self._write_kubeconfig(url)
                self._tell(url, file)
                await _until(self._stop.wait(), parts)
            finally:
                for part in reversed(parts):
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
        click.echo("stopped")

    async def _operator(self, cluster: Cluster, clock: LoopClock, rng: random.Random) -> Operator:
        client = cluster.client("kubectl")
        for manifest in manifests.crds(manifests.ManifestOptions()):
            await client.apply(CRDS, manifest["metadata"]["name"], manifest)
        await client.apply(
            NAMESPACES, CONFIG_NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONFIG_NAMESPACE}}
        )
        for manifest in manifests.settings(manifests.ManifestOptions(namespace=CONFIG_NAMESPACE)):
            with suppress(AlreadyExists):  # kept in --data-dir, maybe edited since: what is read at the start must be that
                await client.create(CONFIGMAPS, manifest, namespace=CONFIG_NAMESPACE)
        port = _free_port()
        config = OperatorConfig(
            leader_elect=False,
            identity="sandbox",
            host=HOST,
            metrics_port=None,
            webhook_port=port,
            webhook_url=f"https://{HOST}:{port}",
        )
        return Operator(cluster.client("regroup"), config=config, clock=clock, rng=rng)

    def _write_kubeconfig(self, url: str) -> Path:
        port = url.rpartition(":")[2]
        file = self._kubeconfig or Path(tempfile.gettempdir()) / f"regroup-sandbox-{port}.yaml"
        try:
            write_whole(file, httpfront.kubeconfig(url))
        except OSError as error:
            raise CommandFailed(f"cannot write the kubeconfig {file}: {error.strerror}") from error
        return file.resolve()

    def _tell(self, url: str, file: Path) -> None:
        click.echo(
            f"a cluster of {self._nodes} nodes is up at {url}{', with the operator in it' if self._with_operator else ''}\n"
        )
        click.secho(f"  export KUBECONFIG={file}", bold=True)
        click.echo("  kubectl get nodes\n")
        if self._speed != 1:
            # kubectl get has its ages from the server; describe and events count by the clock of the machine.
            click.echo(f"time runs {self._speed:g} times as fast; `kubectl get` tells ages by it, `kubectl describe` cannot")
        if self._data_dir is not None:
            click.echo(f"its state is kept in {self._data_dir}")
        click.echo("Ctrl-C stops it")


async def _until(wanted: Coroutine[Any, Any, Any], parts: list[asyncio.Task[None]]) -> None:
    """Wait for ``wanted``; the death of any part before that is raised."""
    waiting = asyncio.create_task(wanted)
    await asyncio.wait({waiting, *parts}, return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        dead = next(part for part in parts if part.done())
        dead.result()
        raise CommandFailed(f"the {dead.get_name()} ended by itself")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
