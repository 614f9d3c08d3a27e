"""Breaking things on purpose, purely through the API: annotations that the simulated kubelets and the scheduler obey.

So it works from any process that reaches the API server, and `kubectl annotate` can do the same by hand.
"""

import json
from collections.abc import Callable
from typing import Any

from regroup.kube.meta import ObjectView
from regroup.kube.resources import NODES, PODS
from regroup.runtime.clock import Clock, micro_timestamp
from regroup.sandbox.kubelet.options import FAULT
from regroup.sandbox.kubelet.views import DOWN, REFUSE_IMAGES, KubeletPod
from regroup.sandbox.scheduler.views import REFUSE_PODS
from regroup.wire.client import Client
from regroup.wire.errors import Conflict

ATTEMPTS = 5
"""Tries to change a node's annotation that others write at the same time."""


class FaultError(Exception):
    """The fault makes no sense for its target; the message says why."""


class Faults:
    """Faults in the cluster that ``client`` speaks to. Each method returns when the API has taken the order, which the kubelet
    or the scheduler carries out within moments. Raises ``NotFound`` for a target that is not there."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._orders = 0

    async def crash(
        self, namespace: str, pod: str, *, container: str | None = None, exit_code: int = 1, reason: str = "", message: str = ""
    ) -> str:
        """End a container's process with ``exit_code``; the pod's restart policy decides what follows. Gives the container's
        name: the first regular one when none is named. ``reason`` may say ``OOMKilled`` (give it exit code 137)."""
        if not 0 <= exit_code <= 255:
            raise FaultError(f"exit code {exit_code} is not between 0 and 255")
        found = await self._pod(namespace, pod)
        name = _container(found, container)
        fault: dict[str, Any] = {"action": "crash", "container": name, "code": exit_code}
        await self._order(found, fault | _texts(reason, message))
        return name

    async def fail_pod(self, namespace: str, pod: str, *, reason: str = "Evicted", message: str = "") -> None:
        """Make the pod's phase ``Failed``, as a kubelet does that evicts it."""
        await self._order(await self._pod(namespace, pod), {"action": "fail"} | _texts(reason, message))

    async def unready(self, namespace: str, pod: str, *, container: str | None = None, seconds: float | None = None) -> str:
        """Let a container's readiness probe fail, for ``seconds`` or until it restarts. Gives the container's name."""
        found = await self._pod(namespace, pod)
        name = _container(found, container)
        fault: dict[str, Any] = {"action": "unready", "container": name}
        if seconds is not None:
            fault["for"] = f"{seconds:f}s"
        await self._order(found, fault)
        return name

    async def node_down(self, node: str) -> None:
        """Cut the node off: no heartbeats, nothing done or reported; its containers run on."""
        await self._client.merge_patch(NODES, node, {"metadata": {"annotations": {DOWN: "true"}}})

    async def node_up(self, node: str) -> None:
        """The node is back."""
        await self._client.merge_patch(NODES, node, {"metadata": {"annotations": {DOWN: None}}})

    async def refuse_image(self, image_prefix: str) -> None:
        """No node can pull images whose name begins with ``image_prefix``. Containers that run are not touched."""
        await self._on_all_nodes(REFUSE_IMAGES, _item(image_prefix, "image prefix"), add=True)

    async def accept_image(self, image_prefix: str) -> None:
        """Take ``refuse_image`` of the same prefix back."""
        await self._on_all_nodes(REFUSE_IMAGES, _item(image_prefix, "image prefix"), add=False)

    async def make_unschedulable(self, namespace: str, pod: str) -> None:
        """The sandbox's scheduler finds no place for a pod of this name, now or later. A pod that has its place keeps it."""
        await self._on_all_nodes(REFUSE_PODS, _item(f"{namespace}/{pod}", "pod name"), add=True)

    async def make_schedulable(self, namespace: str, pod: str) -> None:
        """Take ``make_unschedulable`` of the same name back."""
        await self._on_all_nodes(REFUSE_PODS, _item(f"{namespace}/{pod}", "pod name"), add=False)

    async def _pod(self, namespace: str, name: str) -> KubeletPod:
        return await self._client.get(PODS, name, namespace=namespace, type=KubeletPod)

    async def _order(self, pod: KubeletPod, fault: dict[str, Any]) -> None:
        if pod.terminal:
            raise FaultError(f"pod {pod.metadata.key} has already ended ({pod.status.phase})")
        self._orders += 1
        fault["id"] = f"{micro_timestamp(self._clock.now())}-{self._orders}"
        text = json.dumps(fault, separators=(",", ":"))
        # The uid keeps the order from a replacement of the same name.
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {FAULT: text}}}
        await self._client.merge_patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace)

    async def _on_all_nodes(self, annotation: str, item: str, *, add: bool) -> None:
        page = await self._client.list_all(NODES, type=ObjectView)
        if not page.items:
            raise FaultError("the cluster has no nodes")
        for node in page.items:
            await self._edit(node, annotation, lambda items: items | {item} if add else items - {item})

    async def _edit(self, node: ObjectView, annotation: str, change: Callable[[set[str]], set[str]]) -> None:
        """Change a comma separated list in an annotation of a node, against whoever writes the node meanwhile."""
        for attempt in range(ATTEMPTS):
            meta = node.metadata
            before = {entry.strip() for entry in meta.annotations.get(annotation, "").split(",") if entry.strip()}
            after = change(before)
            if after == before:
                return
            value = ",".join(sorted(after)) or None
            patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {annotation: value}}}
            try:
                await self._client.merge_patch(NODES, meta.name, patch)
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
                node = await self._client.get(NODES, meta.name, type=ObjectView)
            else:
                return


def _container(pod: KubeletPod, name: str | None) -> str:
    """The container that is meant. Raises ``FaultError`` with the names that there are."""
    regular = [entry.name for entry in pod.spec.containers]
    names = regular + [entry.name for entry in pod.spec.init_containers or ()]
    if name is None:
        return regular[0]
    if name not in names:
        raise FaultError(f"pod {pod.metadata.key} has no container {name!r}; it has {', '.join(names)}")
    return name


def _item(text: str, what: str) -> str:
    if not text.strip() or "," in text:
        raise FaultError(f"{what} {text!r} must not be empty or hold a comma")
    return text.strip()


def _texts(reason: str, message: str) -> dict[str, str]:
    return {key: text for key, text in (("reason", reason), ("message", message)) if text}
