"""Makes a control plane that several tests share as it was: nothing of a test is left for the next."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tests.planes.plane import NAMESPACE

from regroup.kube.meta import ObjectView
from regroup.kube.resources import (
    CONFIGMAPS,
    CONTROLLER_REVISIONS,
    CRDS,
    DEPLOYMENTS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    SECRETS,
    SERVICES,
    STATEFULSETS,
    VALIDATING_WEBHOOKS,
)
from regroup.operator.config import NAMESPACE as HOME
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.resource import Resource

VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
OWNERS_FIRST: Sequence[Resource] = (
    DEPLOYMENTS,
    REPLICASETS,
    STATEFULSETS,
    PODS,
    SERVICES,
    CONTROLLER_REVISIONS,
    CLAIMS,
    POD_DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    CONFIGMAPS,
    SECRETS,
)
NODE_LEASES = "kube-node-lease"
LIMIT = 20.0
"""Seconds for everything to be gone."""
_OURS = (".leaderworkerset.x-k8s.io", ".ome.io")
"""The groups of definitions that stay for the next test."""
_KEPT = "kube-root-ca.crt"
"""Made again as often as it is removed."""


class NotWiped(Exception):
    """Something of a test would not go; the message names it."""


async def wipe(client: Client, *, nodes: bool = True, definitions: bool = True) -> None:
    """Remove all that a test may have made: also the nodes, and definitions that are not ours, where it is told so. Raises
    ``NotWiped``."""
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for one in (await client.list_all(resource, type=ObjectView)).items:
            if one.metadata.name.startswith("regroup"):
                with suppress(NotFound):
                    await client.delete(resource, one.metadata.name)
    if nodes:
        await _empty(client, NODES, None)
        await _empty(client, LEASES, NODE_LEASES)
    await _empty(client, LEASES, HOME)  # a lease that is left would keep the next test's operators from leading
    customs = await _customs(client)
    deadline = asyncio.get_running_loop().time() + LIMIT
    while left := [text for resource in (*customs, *OWNERS_FIRST) for text in await _empty(client, resource, NAMESPACE)]:
        if asyncio.get_running_loop().time() > deadline:
            raise NotWiped(f"still there after {LIMIT:g} s: {', '.join(left[:10])}")
        await asyncio.sleep(0.1)
    await _empty(client, EVENTS, NAMESPACE)
    if nodes:
        await _empty(client, VOLUMES, None)
    for crd in (await client.list_all(CRDS, type=ObjectView)).items if definitions else ():
        if not crd.metadata.name.endswith(_OURS):
            await client.delete(CRDS, crd.metadata.name)


async def _customs(client: Client) -> list[Resource]:
    """All custom kinds that live in namespaces: they own the rest."""
    found = []
    for crd in (await client.list_all(CRDS, type=dict[str, Any])).items:
        spec = crd["spec"]
        version = next(entry["name"] for entry in spec["versions"] if entry["storage"])
        if spec["scope"] == "Namespaced":
            found.append(Resource(spec["group"], version, spec["names"]["plural"], spec["names"]["kind"]))
    return found


async def _empty(client: Client, resource: Resource, namespace: str | None) -> list[str]:
    """Delete all of a kind, with no grace and no finalizer; gives what was there."""
    found = (await client.list_all(resource, namespace=namespace, type=ObjectView)).items
    left = [one for one in found if one.metadata.name != _KEPT]
    for one in left:
        if one.metadata.finalizers:
            with suppress(NotFound):
                await client.merge_patch(resource, one.metadata.name, {"metadata": {"finalizers": None}}, namespace=namespace)
    if left:
        await client.delete_collection(
            resource,
            namespace=namespace,
            label_selector="",
            field_selector=f"metadata.name!={_KEPT}",
            propagation="Background",
            grace_period_seconds=0,
        )
    return [f"{resource}/{one.metadata.name}" for one in left]
