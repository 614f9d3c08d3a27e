"""What a story can do to a cluster: run the examples there, end a container's process, take a node away.

Simulated nodes obey annotations and need no image. On real ones an example needs an image that exists, and a process that can be
told to end; nodes are left alone.
"""

import copy
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from regroup.kube.meta import ObjectView, View
from regroup.kube.resources import NODES, PODS
from regroup.runtime.clock import Clock
from regroup.sandbox.faults import Faults
from regroup.wire.client import Client

Manifest = dict[str, Any]
ORDER = "demo.regroup.dev/exit"
"""Annotation of a pod on real nodes: an exit code, and a number that makes each order another."""
_FOLDER = "/demo"
_SIMULATED = "sandbox://"
_WAIT_FOR_ORDER = f"""\
order={_FOLDER}/order; first="$(cat $order)"; trap 'exit 0' TERM
while [ "$(cat $order)" = "$first" ]; do sleep 1 & wait $!; done
now="$(cat $order)"; exit "${{now%% *}}"
"""
"""What a container runs on real nodes: it waits until its pod's annotation changes, and exits with the code that it names."""


class NodeSpecView(View, frozen=True, gc=False, kw_only=True):
    """Who provides a node."""

    provider_id: str = msgspec.field(default="", name="providerID")


class NodeView(ObjectView, frozen=True, gc=False, kw_only=True):
    """A node, as far as it tells whether it is simulated."""

    spec: NodeSpecView = NodeSpecView()


class Hands(Protocol):
    """What differs between simulated and real nodes."""

    @property
    def explanation(self) -> str:
        """What a person must know of how the examples run here; may be empty."""

    @property
    def loses_nodes(self) -> bool:
        """Whether a story may take a node away."""

    @property
    def holds_back(self) -> bool:
        """Whether the scheduler can be told to find no place for a pod."""

    def runnable(self, manifest: Manifest) -> Manifest:
        """The example, so that its pods can run here."""

    async def crash(self, namespace: str, pod: str, *, exit_code: int, reason: str = "") -> None:
        """End the pod's container with this code; ``reason`` may say ``OOMKilled``."""

    async def node_down(self, node: str) -> None: ...

    async def node_up(self, node: str) -> None: ...

    async def hold_back(self, namespace: str, pod: str) -> None:
        """Let the scheduler find no place for a pod of that name. Only where it ``holds_back``."""

    async def let_in(self, namespace: str, pod: str) -> None:
        """Let it find one again."""


class SimulatedHands:
    """On nodes of our own simulated kubelets."""

    explanation = ""
    loses_nodes = True

    def __init__(self, faults: Faults, *, holds_back: bool = False) -> None:
        self._faults = faults
        self.holds_back = holds_back

    def runnable(self, manifest: Manifest) -> Manifest:
        return manifest

    async def crash(self, namespace: str, pod: str, *, exit_code: int, reason: str = "") -> None:
        await self._faults.crash(namespace, pod, exit_code=exit_code, reason=reason)

    async def node_down(self, node: str) -> None:
        await self._faults.node_down(node)

    async def node_up(self, node: str) -> None:
        await self._faults.node_up(node)

    async def hold_back(self, namespace: str, pod: str) -> None:
        await self._faults.make_unschedulable(namespace, pod)

    async def let_in(self, namespace: str, pod: str) -> None:
        await self._faults.make_schedulable(namespace, pod)


class RealHands:
    """On real nodes, with ``image``, which must have a shell."""

    loses_nodes = False
    holds_back = False

    def __init__(self, client: Client, *, image: str) -> None:
        self._client = client
        self._image = image
        self._orders = 0

    @property
    def explanation(self) -> str:
        return (
            f"The nodes here are real, and the examples' worker-image:latest is only a name: their containers run {self._image} "
            f"with a shell that waits, and exit when their pod's annotation {ORDER} tells them to. Nodes are left alone."
        )

    def runnable(self, manifest: Manifest) -> Manifest:
        """With our image and command in each container, and the annotation as a file."""
        changed = copy.deepcopy(manifest)
        for spec in _pod_specs(changed):
            order = {"path": "order", "fieldRef": {"fieldPath": f"metadata.annotations['{ORDER}']"}}
            spec.setdefault("volumes", []).append({"name": "demo", "downwardAPI": {"items": [order]}})
            spec["terminationGracePeriodSeconds"] = 5
            for container in spec["containers"]:
                container |= {"image": self._image, "command": ["/bin/sh", "-c", _WAIT_FOR_ORDER]}
                container.setdefault("volumeMounts", []).append({"name": "demo", "mountPath": _FOLDER})
        return changed

    async def crash(self, namespace: str, pod: str, *, exit_code: int, reason: str = "") -> None:
        self._orders += 1
        patch = {"metadata": {"annotations": {ORDER: f"{exit_code} {self._orders}"}}}
        await self._client.merge_patch(PODS, pod, patch, namespace=namespace)

    async def node_down(self, node: str) -> None:
        raise AssertionError(f"node {node} is real")

    async def node_up(self, node: str) -> None:
        raise AssertionError(f"node {node} is real")

    async def hold_back(self, namespace: str, pod: str) -> None:
        raise AssertionError(f"the scheduler of pod {namespace}/{pod} is real")

    async def let_in(self, namespace: str, pod: str) -> None:
        raise AssertionError(f"the scheduler of pod {namespace}/{pod} is real")


async def hands_for(client: Client, *, clock: Clock, image: str) -> Hands:
    """Those that fit the cluster's nodes."""
    nodes = (await client.list_all(NODES, type=NodeView)).items
    if nodes and all(node.spec.provider_id.startswith(_SIMULATED) for node in nodes):
        return SimulatedHands(Faults(client, clock=clock))
    return RealHands(client, image=image)


def _pod_specs(manifest: Manifest) -> Iterator[dict[str, Any]]:
    templates = manifest["spec"]["leaderWorkerTemplate"]
    for name in ("leaderTemplate", "workerTemplate"):
        if name in templates:
            yield templates[name]["spec"]
