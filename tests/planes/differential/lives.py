"""Lives of objects that controllers take part in: what a person does step by step, played to any cluster.

A step is done when the cluster has come to rest. Kubelets are played by the life itself, so that both clusters see the same.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.planes.differential.witness import Obj, Seen, Witness

from regroup.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    SERVICES,
    STATEFULSETS,
)
from regroup.runtime.clock import Clock, micro_timestamp, timestamp
from regroup.wire.client import Client
from regroup.wire.errors import WireError
from regroup.wire.resource import Resource

Transcript = dict[str, Seen]
"""By step."""
EVICTIONS = Resource("policy", "v1", "pods", "Eviction")


class Hands:
    """What a person and the kubelets do, in one namespace."""

    def __init__(self, client: Client, *, clock: Clock, namespace: str) -> None:
        self.client = client
        self.clock = clock
        self.namespace = namespace
        self._alive: dict[str, asyncio.Task[None]] = {}

    async def make(self, resource: Resource, body: Mapping[str, Any]) -> Obj:
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return await self.client.create(resource, {**kind, **body}, namespace=self.namespace if resource.namespaced else None)

    async def change(self, resource: Resource, name: str, patch: Mapping[str, Any]) -> None:
        namespace = self.namespace if resource.namespaced else None
        await self.client.merge_patch(resource, name, patch, namespace=namespace)

    async def remove(self, resource: Resource, name: str, how: Any = "Background", *, grace: int | None = None) -> None:
        namespace = self.namespace if resource.namespaced else None
        await self.client.delete(resource, name, namespace=namespace, propagation=how, grace_period_seconds=grace)

    async def pods(self, image: str = "") -> list[Obj]:
        """The pods that are not going, by name."""
        page = await self.client.list_all(PODS, namespace=self.namespace, type=dict)
        found: list[Obj] = [pod for pod in page.items if not pod["metadata"].get("deletionTimestamp")]
        kept = [pod for pod in found if not image or pod["spec"]["containers"][0]["image"] == image]
        return sorted(kept, key=lambda pod: str(pod["metadata"]["name"]))

    async def tell(self, *, image: str = "", ready: bool = True, phase: str = "Running", only: int | None = None) -> None:
        """Report on pods as their kubelet would; addresses follow their names."""
        for number, pod in enumerate((await self.pods(image))[:only]):
            address = f"10.1.0.{number + 1}"
            status = {
                "phase": phase,
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [
                    {"type": "Ready", "status": str(ready), "lastTransitionTime": timestamp(self.clock.now())},
                ],
            }
            name = pod["metadata"]["name"]
            await self.client.merge_patch(PODS, name, {"status": status}, namespace=self.namespace, subresource="status")

    async def spare_oldest(self, image: str) -> None:
        """The oldest pod of an image is the last to go: among pods that have been ready for about as long Kubernetes draws."""
        oldest = min(await self.pods(image), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "1"}}}
        await self.change(PODS, oldest["metadata"]["name"], cost)

    async def evict(self, name: str) -> str:
        """Ask for an eviction; gives what was said."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        try:
            await self.client.create(PODS, body, namespace=self.namespace, name=name, subresource="eviction")
        except WireError as error:
            return type(error).__name__
        return "done"

    async def there(self, count: int) -> None:
        """Wait until there are so many pods: on a busy machine their controller takes longer than a moment of rest."""
        async with asyncio.timeout(60):
            while True:
                if len(await self.pods()) == count:
                    return
                await asyncio.sleep(0.2)

    async def counted(self, budget: str, healthy: int) -> None:
        """Wait until the budget counts so many pods: its controller may take longer than a moment of rest."""
        async with asyncio.timeout(60):
            while True:
                found = await self.client.get(POD_DISRUPTION_BUDGETS, budget, namespace=self.namespace, type=dict)
                if found.get("status", {}).get("currentHealthy") == healthy:
                    return
                await asyncio.sleep(0.2)

    async def node(self, name: str) -> None:
        """A node that is ready and says so every second."""
        await self.make(NODES, {"metadata": {"name": name}})
        await self._heartbeat(name)
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": timestamp(self.clock.now()),
            "lastTransitionTime": timestamp(self.clock.now()),
        }
        status = {"conditions": [condition], "allocatable": {"cpu": "4", "pods": "110"}, "capacity": {"cpu": "4", "pods": "110"}}
        await self.client.strategic_patch(NODES, name, {"status": status}, subresource="status")
        self._alive[name] = asyncio.create_task(self._live(name))

    async def dies(self, name: str) -> None:
        """The node says nothing more."""
        task = self._alive.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def end(self) -> None:
        for name in list(self._alive):
            await self.dies(name)

    async def _live(self, name: str) -> None:
        while True:
            await asyncio.sleep(1)
            await self._heartbeat(name)

    async def _heartbeat(self, name: str) -> None:
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_timestamp(self.clock.now())},
        }
        await self.client.apply(LEASES, name, lease, namespace="kube-node-lease", field_manager="kubelet", force=True)


Steps = Callable[[Hands], AsyncIterator[str]]
"""Does the steps; each yields its title when it is done, before the cluster has come to rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life. ``least`` are seconds that each step is given at the least, for what controllers do after a while."""

    name: str
    kinds: Sequence[Resource]
    steps: Steps
    least: float = 0.0
    nodes: bool = False
    """Whether it makes nodes."""


async def play(life: Life, client: Client, *, clock: Clock, quiet: float) -> Transcript:
    """The life on a cluster, in a namespace of its own."""
    namespace = f"life-{life.name}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    hands = Hands(client, clock=clock, namespace=namespace)
    witness = Witness(client, namespace=namespace, kinds=life.kinds)
    await witness.start()
    transcript: Transcript = {}
    try:
        async for title in life.steps(hands):
            transcript[title] = await witness.rest(quiet=quiet, least=life.least)
    finally:
        await witness.stop()
        await hands.end()
    return transcript


def _template(image: str, **spec: Any) -> Obj:
    """A pod that no scheduler takes: lives are played side by side, and some of them make nodes."""
    whole = {"schedulerName": "nobody", "containers": [{"name": "c", "image": image}], **spec}
    return {"metadata": {"labels": {"app": "x"}}, "spec": whole}


def _selecting(replicas: int, image: str, **spec: Any) -> Obj:
    return {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": _template(image), **spec}


async def rollout(hands: Hands) -> AsyncIterator[str]:
    """A Deployment rolls forward, back, is paused, scaled and recreated."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await hands.make(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": _selecting(2, "one", strategy=strategy)})
    yield "created"
    await hands.tell()
    yield "all ready"
    await hands.change(DEPLOYMENTS, "d", {"spec": {"template": _template("two")}})
    yield "another image"
    await hands.tell(image="two")
    yield "its first pod is ready"
    await hands.tell(image="two")
    await hands.spare_oldest("two")
    yield "its second pod is ready"
    await hands.change(DEPLOYMENTS, "d", {"spec": {"template": _template("one")}})
    yield "back again"
    await hands.tell(image="one")
    yield "one pod back"
    await hands.change(DEPLOYMENTS, "d", {"spec": {"paused": True, "template": _template("three")}})
    yield "paused with a third image"
    await hands.change(DEPLOYMENTS, "d", {"spec": {"replicas": 4}})
    yield "scaled while paused"
    await hands.change(DEPLOYMENTS, "d", {"spec": {"paused": False, "strategy": {"type": "Recreate", "rollingUpdate": None}}})
    yield "resumed, all at once"
    await hands.tell(image="three")
    yield "the third image is ready"
    await hands.change(DEPLOYMENTS, "d", {"spec": {"replicas": 0}})
    yield "scaled to nothing"
    await hands.remove(DEPLOYMENTS, "d", "Foreground")
    yield "removed"


async def collection(hands: Hands) -> AsyncIterator[str]:
    """Owners go in each way, with dependents that block, that have another owner, or whose owner never was."""

    async def owned(name: str, *owners: Obj, block: bool = False, finalizers: Sequence[str] = ()) -> Obj:
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": block,
            }
            for owner in owners
        ]
        meta = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
        return await hands.make(CONFIGMAPS, {"metadata": meta})

    a = await owned("a")
    b = await owned("a-b", a)
    await owned("a-b-c", b)
    yield "a chain of three"
    await hands.remove(CONFIGMAPS, "a", "Background")
    yield "the first goes in the background"
    d = await owned("d")
    await owned("d-e", d, block=True, finalizers=["example.com/hold"])
    await owned("d-f", d)
    await hands.remove(CONFIGMAPS, "d", "Foreground")
    yield "an owner goes in the foreground, one dependent is held"
    await hands.change(CONFIGMAPS, "d-e", {"metadata": {"finalizers": None}})
    yield "the dependent is let go"
    g = await owned("g")
    await owned("g-h", g)
    await hands.remove(CONFIGMAPS, "g", "Orphan")
    yield "an owner leaves its dependent behind"
    i, j = await owned("i"), await owned("j")
    await owned("i-j", i, j)
    await hands.remove(CONFIGMAPS, "i", "Background")
    yield "one of two owners goes"
    await hands.remove(CONFIGMAPS, "j", "Background")
    yield "the other one goes"
    never = {"metadata": {"name": "never", "uid": "11111111-1111-4111-8111-111111111111"}}
    await owned("of-never", never)
    yield "an owner that never was"
    set_body = {"metadata": {"name": "s"}, "spec": _selecting(2, "one", serviceName="s", podManagementPolicy="Parallel")}
    await hands.make(STATEFULSETS, set_body)
    yield "a set of two"
    await hands.remove(STATEFULSETS, "s", "Orphan")
    yield "the set leaves its pods"
    await hands.make(STATEFULSETS, set_body)
    yield "a new set adopts them"
    await hands.remove(STATEFULSETS, "s", "Foreground")
    yield "the set goes after its pods"


async def eviction(hands: Hands) -> AsyncIterator[str]:
    """A budget counts, refuses and allows."""
    body = {"metadata": {"name": "s"}, "spec": _selecting(3, "one", serviceName="s", podManagementPolicy="Parallel")}
    await hands.make(STATEFULSETS, body)
    guard = {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}}
    await hands.make(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": guard})
    yield "three pods and a budget"
    yield f"evicted while pending: {await hands.evict('s-0')}"
    await hands.there(3)
    await hands.tell()
    await hands.counted("b", 3)
    yield "all ready"
    yield f"one evicted: {await hands.evict('s-1')}"
    yield f"another at once: {await hands.evict('s-2')}"
    await hands.there(3)
    await hands.tell()
    await hands.counted("b", 3)
    yield "ready again"
    await hands.tell(ready=False, only=2)
    await hands.counted("b", 1)
    yield "two are not ready"
    yield f"a ready one: {await hands.evict('s-2')}"
    await hands.change(POD_DISRUPTION_BUDGETS, "b", {"spec": {"minAvailable": None, "maxUnavailable": "50%"}})
    yield "another budget"
    await hands.change(STATEFULSETS, "s", {"spec": {"replicas": 1}})
    yield "scaled down"
    await hands.remove(POD_DISRUPTION_BUDGETS, "b")
    yield "no budget"
    yield f"unguarded: {await hands.evict('s-0')}"


async def node_loss(hands: Hands) -> AsyncIterator[str]:
    """A node falls silent, its pods are told to go by their tolerations; then it comes back; then another is removed."""
    soon = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
        for key in ("not-ready", "unreachable")
    ]
    late = [{**entry, "tolerationSeconds": 3000} for entry in soon]
    await hands.node("life-node-1")
    await hands.node("life-node-2")
    for name, node, tolerations in (("soon", 1, soon), ("late", 1, late), ("other", 2, soon)):
        spec = _template("one", nodeName=f"life-node-{node}", tolerations=tolerations)["spec"]
        await hands.make(PODS, {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec})
    await hands.tell()
    yield "two nodes and three pods"
    await hands.dies("life-node-1")
    yield "a node falls silent"
    await hands.dies("life-node-2")
    await hands.remove(NODES, "life-node-2")
    yield "the other is removed"
    await hands.remove(PODS, "soon", grace=0)
    await hands.remove(PODS, "late", grace=0)
    await hands.remove(NODES, "life-node-1")
    yield "all is removed"


async def endpoints(hands: Hands) -> AsyncIterator[str]:
    """Slices follow pods that come, are ready, are not, and go."""
    await hands.node("life-node-3")
    spec = _selecting(2, "one", serviceName="svc", podManagementPolicy="Parallel")
    spec["template"] = _template("one", nodeName="life-node-3")
    body = {"metadata": {"name": "s"}, "spec": spec}
    ports = [{"name": "web", "port": 80, "targetPort": 8080}]
    await hands.make(SERVICES, {"metadata": {"name": "svc"}, "spec": {"selector": {"app": "x"}, "ports": ports}})
    yield "a service alone"
    await hands.make(STATEFULSETS, body)
    yield "pods without addresses"
    await hands.tell(ready=False)
    yield "pods that are not ready"
    await hands.tell()
    yield "pods that are ready"
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": "x"}}
    await hands.make(SERVICES, {"metadata": {"name": "names"}, "spec": headless})
    yield "a headless service"
    await hands.tell(ready=False, only=1)
    yield "one is not ready any more"
    await hands.tell(phase="Failed", ready=False, only=1)
    yield "one has failed"
    await hands.remove(PODS, "s-0", grace=0)
    yield "its place is taken"
    await hands.change(SERVICES, "svc", {"spec": {"ports": [{"name": "web", "port": 81, "targetPort": "named"}]}})
    yield "another port, by a name that no container has"
    await hands.change(SERVICES, "svc", {"spec": {"selector": {"app": "y"}}})
    yield "a selector that nobody matches"
    await hands.change(SERVICES, "svc", {"spec": {"selector": {"app": "x"}}})
    await hands.change(STATEFULSETS, "s", {"spec": {"replicas": 0}})
    yield "all pods are told to go"
    for name in ("s-0", "s-1"):
        await hands.remove(PODS, name, grace=0)
    yield "no pods"
    lost = _template("one", nodeName="life-node-none")
    await hands.make(PODS, {**lost, "metadata": {"name": "lost", "labels": {"app": "x"}}})
    await hands.tell()
    yield "a pod on a node that is not there"
    await hands.remove(PODS, "lost", grace=0)
    await hands.dies("life-node-3")
    await hands.remove(NODES, "life-node-3")
    await hands.remove(SERVICES, "names")
    yield "the headless service goes"


LIVES: Sequence[Life] = (
    Life(name="rollout", kinds=(DEPLOYMENTS, REPLICASETS, PODS), steps=rollout),
    Life(name="collection", kinds=(CONFIGMAPS, STATEFULSETS, PODS), steps=collection),
    Life(name="eviction", kinds=(STATEFULSETS, POD_DISRUPTION_BUDGETS, PODS), steps=eviction),
    Life(name="node-loss", kinds=(NODES, PODS), steps=node_loss, least=9.0, nodes=True),
    Life(name="endpoints", kinds=(ENDPOINT_SLICES, PODS), steps=endpoints, nodes=True),
)
