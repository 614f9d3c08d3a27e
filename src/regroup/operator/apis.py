"""Which of the two APIs a cluster serves, and the controllers of those: a user may have installed either."""

from collections.abc import Sequence
from dataclasses import dataclass

from regroup.leaderworkerset.controller import setup as lws_setup
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.omenative.controller import setup as ome_setup
from regroup.omenative.controller.config import LiveConfig
from regroup.omenative.keys import INFERENCE_SERVICES, POD_GROUPS
from regroup.operator.config import OperatorConfig
from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.runtime.metrics import Metrics
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.resource import Resource


class NotInstalled(Exception):
    """The cluster does not serve what we keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the cluster serves, as it was when the operator started."""

    leader_worker_sets: bool
    inference_services: bool
    pod_groups: bool = False


async def look(client: Client, *, namespaces: Sequence[str]) -> Served:
    """See what is served. Raises ``NotInstalled`` or ``WireError``."""
    scopes: Sequence[str | None] = list(namespaces) or [None]
    served = Served(
        leader_worker_sets=await _serves(client, LEADERWORKERSETS, scopes),
        inference_services=await _serves(client, INFERENCE_SERVICES, scopes),
    )
    if not served.leader_worker_sets and not served.inference_services:
        raise NotInstalled(f"the cluster serves neither {LEADERWORKERSETS} nor {INFERENCE_SERVICES}")
    if not served.inference_services:
        return served
    gangs = await _serves(client, POD_GROUPS, scopes)
    return Served(leader_worker_sets=served.leader_worker_sets, inference_services=True, pod_groups=gangs)


def keep_leader_worker_sets(manager: Manager, *, recorder: EventRecorder, config: OperatorConfig, metrics: Metrics) -> None:
    """Add the LeaderWorkerSet controllers."""
    settings = lws_setup.Settings(
        node_loss_grace=config.node_loss_grace, workers=config.workers, scheduler_provider=config.scheduler_provider
    )
    lws_setup.setup(manager, recorder=recorder, settings=settings, metrics=metrics)


async def keep_inference_services(
    manager: Manager, *, recorder: EventRecorder, config: OperatorConfig, metrics: Metrics, gangs: bool
) -> None:
    """Read the configuration and add the OMENative controllers. Raises ``ConfigInvalid`` and ``WireError``."""
    live = LiveConfig(manager.client, namespace=config.config_namespace, clock=manager.clock, rng=manager.rng)
    await live.load()
    ome_setup.setup(manager, recorder=recorder, config=live, workers=max(1, config.workers // 2), gang_api=gangs, metrics=metrics)


async def _serves(client: Client, resource: Resource, scopes: Sequence[str | None]) -> bool:
    try:
        for namespace in scopes:
            await client.list(resource, namespace=namespace, limit=1)
    except NotFound:
        return False
    return True
