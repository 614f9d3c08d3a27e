"""The garbage collector against the API server, for built-in kinds and for kinds that appear later."""

from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.sandbox.controllers_plane import Plane, control_plane

from regroup.kube.resources import CONFIGMAPS, CRDS, SECRETS
from regroup.sandbox.controllers import garbage
from regroup.wire.resource import Resource

pytestmark = pytest.mark.looptime

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
WIDGET_CRD: dict[str, Any] = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    },
}


def owner(obj: dict[str, Any], *, kind: str = "ConfigMap", api_version: str = "v1", blocking: bool = True) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "blockOwnerDeletion": blocking,
    }


async def configmap(plane: Plane, name: str, *owners: dict[str, Any], finalizers: tuple[str, ...] = ()) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    return await plane.create(CONFIGMAPS, {"metadata": metadata})


async def maps(plane: Plane) -> list[str]:
    return [name for name in await plane.names(CONFIGMAPS) if not name.startswith("kube-")]


async def test_dependents_of_a_deleted_owner_go_with_all_their_own() -> None:
    """Background deletion, over several levels; objects of others stay."""
    async with control_plane(garbage.setup) as plane:
        top = await configmap(plane, "top")
        middle = await configmap(plane, "middle", owner(top))
        await configmap(plane, "bottom", owner(middle))
        await plane.create(SECRETS, {"metadata": {"name": "secret", "ownerReferences": [owner(top)]}})
        await configmap(plane, "free")
        await plane.settle()
        assert await maps(plane) == ["bottom", "free", "middle", "top"]
        await plane.client.delete(CONFIGMAPS, "top", namespace="default", propagation="Background")
        await plane.settle()
        assert await maps(plane) == ["free"]
        assert await plane.find(SECRETS, "secret") is None


async def test_an_object_whose_owner_never_existed_goes() -> None:
    """A dangling reference; also one to an object of the same name with another UID."""
    async with control_plane(garbage.setup) as plane:
        real = await configmap(plane, "real")
        await configmap(plane, "dangling", {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "x"})
        await configmap(plane, "namesake", {**owner(real), "uid": "another"})
        await plane.settle()
        assert await maps(plane) == ["real"]


async def test_one_living_owner_is_enough() -> None:
    """The references to the others are removed."""
    async with control_plane(garbage.setup) as plane:
        one = await configmap(plane, "one")
        two = await configmap(plane, "two")
        await configmap(plane, "shared", owner(one), owner(two))
        await plane.client.delete(CONFIGMAPS, "one", namespace="default")
        await plane.settle()
        shared = await plane.get(CONFIGMAPS, "shared")
        assert [entry["uid"] for entry in shared["metadata"]["ownerReferences"]] == [two["metadata"]["uid"]]


async def test_a_kind_that_is_not_served_keeps_its_dependents() -> None:
    """Nothing is known of such an owner: the object stays."""
    async with control_plane(garbage.setup) as plane:
        await configmap(plane, "kept", {"apiVersion": "nowhere.io/v1", "kind": "Ghost", "name": "g", "uid": "g"})
        with capture_logs() as logs:
            await plane.settle(120)
        assert await maps(plane) == ["kept"]
        assert [entry for entry in logs if entry["log_level"] not in {"debug", "info"}] == []


async def test_a_dependent_that_came_before_its_owners_kind_is_judged_when_the_kind_comes() -> None:
    """The owner's kind is served from some moment on: a dependent whose owner never existed goes then, and one whose owner
    exists stays until that goes."""
    async with control_plane(garbage.setup) as plane:
        ghost = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "none", "uid": "none"}
        await configmap(plane, "orphan", ghost)
        await plane.settle(60)
        assert await maps(plane) == ["orphan"]
        await plane.create(CRDS, WIDGET_CRD, namespace=None)
        await plane.settle(5)
        assert await maps(plane) == []


async def test_foreground_deletion_takes_the_dependents_first() -> None:
    """The owner stays, terminating, until its blocking dependents are gone."""
    async with control_plane(garbage.setup) as plane:
        top = await configmap(plane, "top")
        middle = await configmap(plane, "middle", owner(top))
        await configmap(plane, "bottom", owner(middle), finalizers=("example.com/hold",))
        await plane.settle()
        await plane.client.delete(CONFIGMAPS, "top", namespace="default", propagation="Foreground")
        await plane.settle()
        for name in ("top", "middle"):
            meta = (await plane.get(CONFIGMAPS, name))["metadata"]
            assert meta["deletionTimestamp"], name
            assert meta["finalizers"] == ["foregroundDeletion"], name
        assert (await plane.get(CONFIGMAPS, "bottom"))["metadata"]["deletionTimestamp"]
        await plane.client.merge_patch(CONFIGMAPS, "bottom", {"metadata": {"finalizers": None}}, namespace="default")
        await plane.settle()
        assert await maps(plane) == []


async def test_a_dependent_that_does_not_block_is_not_waited_for() -> None:
    """blockOwnerDeletion false: it goes after its owner."""
    async with control_plane(garbage.setup) as plane:
        top = await configmap(plane, "top")
        await configmap(plane, "held", owner(top, blocking=False), finalizers=("example.com/hold",))
        await plane.settle()
        await plane.client.delete(CONFIGMAPS, "top", namespace="default", propagation="Foreground")
        await plane.settle()
        assert await maps(plane) == ["held"]
        assert (await plane.get(CONFIGMAPS, "held"))["metadata"]["deletionTimestamp"]


async def test_a_circle_of_owners_is_deleted() -> None:
    """Each waits for the other: one of them lets go."""
    async with control_plane(garbage.setup) as plane:
        one = await configmap(plane, "one")
        two = await configmap(plane, "two", owner(one))
        await plane.client.merge_patch(CONFIGMAPS, "one", {"metadata": {"ownerReferences": [owner(two)]}}, namespace="default")
        await plane.settle()
        await plane.client.delete(CONFIGMAPS, "one", namespace="default", propagation="Foreground")
        await plane.settle(60)
        assert await maps(plane) == []


async def test_orphaned_dependents_stay_without_their_reference() -> None:
    """Propagation Orphan: the reference goes, the dependent stays, then the owner goes."""
    async with control_plane(garbage.setup) as plane:
        top = await configmap(plane, "top")
        other = await configmap(plane, "other")
        await configmap(plane, "child", owner(top), owner(other))
        await plane.settle()
        await plane.client.delete(CONFIGMAPS, "top", namespace="default", propagation="Orphan")
        await plane.settle()
        assert await maps(plane) == ["child", "other"]
        child = await plane.get(CONFIGMAPS, "child")
        assert [entry["name"] for entry in child["metadata"]["ownerReferences"]] == ["other"]


async def test_kinds_that_appear_later_are_collected_too() -> None:
    """A CRD that is made while the collector runs: its objects as owners and as dependents."""
    async with control_plane(garbage.setup) as plane:
        await plane.create(CRDS, WIDGET_CRD, namespace=None)
        await plane.settle(2)
        widget = await plane.create(WIDGETS, {"metadata": {"name": "w"}})
        reference = owner(widget, kind="Widget", api_version="example.com/v1")
        await configmap(plane, "child", reference)
        grandchild = owner(await plane.get(CONFIGMAPS, "child"))
        await plane.create(WIDGETS, {"metadata": {"name": "grandchild", "ownerReferences": [grandchild]}})
        await plane.settle()
        await plane.client.delete(WIDGETS, "w", namespace="default", propagation="Foreground")
        await plane.settle()
        assert await maps(plane) == []
        assert await plane.names(WIDGETS) == []


async def test_a_settled_cluster_costs_the_collector_nothing() -> None:
    """No write while nobody deletes anything."""
    async with control_plane(garbage.setup) as plane:
        top = await configmap(plane, "top")
        await configmap(plane, "child", owner(top))
        await plane.settle(300)
        assert plane.writes() == []
