"""How pods find each other: spec/leaderworkerset.md 2.5, 3.4; cases C97, C98; and status writes that meet others (154)."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, status_response

from regroup.kube.resources import PODS, SERVICES
from regroup.kube.workloads import Service
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import Invalid, NotFound
from regroup.wire.transport import Request, Response

UNIQUE = {"subdomainPolicy": "UniquePerReplica"}


@pytest.mark.parametrize(("network", "services"), [(None, ["demo"]), (UNIQUE, ["demo-0", "demo-1"])])
async def test_names_before_anybody_is_ready(plane: Plane, network: dict[str, Any] | None, services: list[str]) -> None:
    """C97: headless Services that publish pods which are not ready; the leader's address in every pod is host name, Service and
    namespace."""
    spec: dict[str, Any] = {"networkConfig": network} if network else {}
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=2, **spec))
        uids = await plane.wait_available()
        for name in services:
            found = await plane.client.get(SERVICES, name, namespace=NAMESPACE, type=Service)
            assert (found.spec.cluster_ip, found.spec.publish_not_ready_addresses) == ("None", True)
        for name in uids:
            raw: dict[str, Any] = await plane.client.get(PODS, name, namespace=NAMESPACE)
            leader = "-".join(name.split("-")[:2])
            service = leader if network else "demo"
            env = {entry["name"]: entry.get("value") for entry in raw["spec"]["containers"][0]["env"]}
            assert env["LWS_LEADER_ADDRESS"] == f"{leader}.{service}.{NAMESPACE}"
            assert (raw["spec"]["hostname"], raw["spec"]["subdomain"]) == (name, service)


@pytest.mark.parametrize(("network", "service"), [(None, "demo"), (UNIQUE, "demo-0")])
async def test_a_deleted_service_comes_back(plane: Plane, network: dict[str, Any] | None, service: str) -> None:
    """C97: within ten seconds, without a pod restart; and after a recreation it is there again."""
    spec: dict[str, Any] = {"networkConfig": network} if network else {}
    async with plane:
        await plane.apply(lws_manifest(size=2, **spec))
        uids = await plane.wait_available()
        await plane.client.delete(SERVICES, service, namespace=NAMESPACE)
        await plane.wait_for(lambda: _there(plane, service), timeout=10)
        assert await plane.uids() == uids
        await plane.faults.crash(NAMESPACE, "demo-0-1")
        await plane.wait_recreated(uids, group_names(0, size=2))
        assert await _there(plane, service)


async def _there(plane: Plane, service: str) -> bool:
    try:
        found = await plane.client.get(SERVICES, service, namespace=NAMESPACE, type=Service)
    except NotFound:
        return False
    return not found.metadata.deleting


async def test_a_foreign_service_survives(plane: Plane) -> None:
    """C98: a user's Service of our name keeps spec and UID while a LeaderWorkerSet of that name comes and goes; the conflict is
    told and there is no hot loop."""
    async with plane:
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "demo", "namespace": NAMESPACE},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
        }
        made: dict[str, Any] = await plane.client.create(SERVICES, body, namespace=NAMESPACE)
        mark = len(plane.requests)
        await plane.apply(lws_manifest())
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        await plane.sleep(60)
        assert len(plane.writes(since=mark)) < 15
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        await plane.sleep(20)
        after: dict[str, Any] = await plane.client.get(SERVICES, "demo", namespace=NAMESPACE)
        assert (after["metadata"]["uid"], after["spec"]["selector"]) == (made["metadata"]["uid"], {"app": "x"})


async def test_an_earlier_leaders_service(plane: Plane) -> None:
    """Behaviour 29, B20: a per-replica Service of another owner is not used: the leader waits behind its gate, nothing else of
    the group is made, and it starts when the Service is gone."""
    async with plane:
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "demo-0", "namespace": NAMESPACE, "labels": {"leaderworkerset.sigs.k8s.io/name": "demo"}},
            "spec": {"clusterIP": "None", "selector": {"app": "x"}},
        }
        await plane.client.create(SERVICES, body, namespace=NAMESPACE)
        await plane.apply(lws_manifest(size=2, networkConfig=UNIQUE))
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        await plane.sleep(20)
        pods = await plane.pods()
        assert list(pods) == ["demo-0"]
        assert pods["demo-0"].spec.scheduling_gates
        assert list(await plane.sets()) == ["demo"]
        await plane.client.delete(SERVICES, "demo-0", namespace=NAMESPACE)
        await plane.wait_available()


async def test_network_config_is_part_of_the_template(plane: Plane) -> None:
    """2.5, 6.1: another policy rolls the groups to it; null is refused on an update, with its path."""
    async with plane:
        await plane.apply(lws_manifest(size=2))
        uids = await plane.wait_available()
        with pytest.raises(Invalid) as refused:
            await plane.patch_lws("demo", {"networkConfig": {"subdomainPolicy": None}})
        assert "spec.networkConfig.subdomainPolicy" in [cause["field"] for cause in refused.value.causes]
        await plane.patch_lws("demo", {"networkConfig": UNIQUE})
        await plane.wait_recreated(uids, group_names(0, size=2), timeout=120)
        await plane.wait_available()
        raw: dict[str, Any] = await plane.client.get(PODS, "demo-0-1", namespace=NAMESPACE)
        assert raw["spec"]["subdomain"] == "demo-0"
        assert await _there(plane, "demo-0")


async def test_a_status_write_that_meets_another(plane: Plane) -> None:
    """Behaviour 154, 7.2: a conflict is tried again, and is nobody's error: no event."""
    refused: list[str] = []

    def conflict(request: Request) -> Response | None:
        is_status = request.method == "PATCH" and request.path.endswith("/leaderworkersets/demo/status")
        if is_status and len(refused) < 3:
            refused.append(request.path)
            return status_response(409, "Conflict")
        return None

    async with plane:
        plane.line.answer = conflict
        await plane.apply(lws_manifest(size=2))
        await plane.wait_available()
        assert len(refused) == 3
        assert [event for event in await plane.events() if event.type == "Warning" and event.regarding.startswith("Leader")] == []
