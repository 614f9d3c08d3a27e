"""What a LeaderWorkerSet becomes in a cluster: spec/leaderworkerset.md 3, behaviours 1-3 and 21-30."""

from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, group_names, lws_manifest, pod_template

from regroup.kube.resources import PODS, SERVICES, STATEFULSETS
from regroup.kube.workloads import Service
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import Invalid, WireError


async def test_defaults_and_rewritten_policy(plane: Plane) -> None:
    """Behaviours 1, 2, 3: what is left out gets its default, the deprecated Default is stored as None."""
    async with plane:
        bare = lws_manifest("bare", policy=None)
        del bare["spec"]["replicas"], bare["spec"]["leaderWorkerTemplate"]["size"]
        await plane.apply(bare, lws_manifest("old", policy="Default"))
        lws = await plane.lws("bare")
        assert (lws.spec.raw_replicas, lws.template.raw_size) == (1, 1)
        assert lws.template.raw_restart_policy == "RecreateGroupOnPodRestart"
        assert (await plane.lws("old")).template.raw_restart_policy == "None"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"restartPolicy": "None", "maxGroupRestarts": 3}, "maxGroupRestarts"),
        ({"maxGroupRestarts": -1}, "maxGroupRestarts"),
        ({"restartPolicy": "None", "restartBackoff": {}}, "restartBackoff"),
        ({"restartBackoff": {"capSeconds": 5}}, "restartBackoff"),
        ({"restartBackoff": {"baseSeconds": 600}}, "restartBackoff"),
    ],
)
async def test_refusals_name_the_field(plane: Plane, change: dict[str, object], path: str) -> None:
    """Behaviours 4, 6, 7, 9, 10: refused through the API, with the path of the field."""
    async with plane:
        with pytest.raises(Invalid) as refused:
            await plane.client.create(LEADERWORKERSETS, lws_manifest(policy=None, template=change), namespace=NAMESPACE)
        assert any(path in cause["field"] for cause in refused.value.causes), refused.value.message


async def test_objects_of_two_groups_of_four(plane: Plane) -> None:
    """Behaviours 23 and 25: one leader set, a worker set a group owned by its leader, one headless Service, one revision."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, size=4))
        uids = await plane.wait_available()
        assert sorted(uids) == sorted([*group_names(0, size=4), *group_names(1, size=4)])
        sets = await plane.sets()
        assert {name: found.replicas for name, found in sets.items()} == {"demo": 2, "demo-0": 3, "demo-1": 3}
        for group in (0, 1):
            found = sets[f"demo-{group}"]
            owner = found.metadata.controller
            assert owner is not None
            assert (owner.kind, owner.uid) == ("Pod", uids[f"demo-{group}"])
            assert found.spec.ordinals is not None
            assert found.spec.ordinals.start == 1
        service = await plane.client.get(SERVICES, "demo", namespace=NAMESPACE, type=Service)
        assert (service.spec.cluster_ip, service.spec.publish_not_ready_addresses) == ("None", True)
        assert len(await plane.revisions()) == 1


async def test_a_group_of_one_has_no_worker_set(plane: Plane) -> None:
    """Behaviour 24, case C21: no zero-replica set, no pod named solo-0-*; a restart recreates that pod once."""
    async with plane:
        await plane.apply(lws_manifest("solo", replicas=2, size=1))
        old = await plane.wait_available("solo")
        assert sorted(old) == ["solo-0", "solo-1"]
        assert list(await plane.sets("solo")) == ["solo"]
        await plane.faults.crash(NAMESPACE, "solo-1")
        await plane.wait_recreated(old, ["solo-1"], name="solo")
        await plane.delete_pod("solo-0")
        await plane.wait_recreated(old, ["solo-0"], name="solo")
        new = await plane.wait_available("solo")
        await plane.sleep(30)
        assert await plane.uids("solo") == new, "exactly once"
        assert list(await plane.sets("solo")) == ["solo"]


async def test_a_group_of_one_under_none(plane: Plane) -> None:
    """Case C21, second policy: the kubelet restarts the container, the pod keeps its UID."""
    async with plane:
        await plane.apply(lws_manifest("solo", replicas=2, size=1, policy="None"))
        old = await plane.wait_available("solo")
        await plane.faults.crash(NAMESPACE, "solo-1")
        await plane.wait_for(lambda: _restarted(plane, "solo-1", "solo"))
        await plane.sleep(20)
        assert await plane.uids("solo") == old


async def _restarted(plane: Plane, pod: str, name: str) -> bool:
    return (await plane.pods(name))[pod].restarts > 0


async def test_a_service_for_each_replica(plane: Plane) -> None:
    """Behaviour 26: owned by its leader, there before the worker set, and made anew for the next leader."""
    async with plane:
        await plane.apply(lws_manifest(replicas=2, networkConfig={"subdomainPolicy": "UniquePerReplica"}))
        old = await plane.wait_available()
        paths = [entry.request.path for entry in plane.writes() if entry.request.method == "POST"]
        bodies = [entry.body["metadata"]["name"] for entry in plane.writes() if entry.request.method == "POST"]
        kinds = list(zip((path.rsplit("/", 1)[1] for path in paths), bodies, strict=True))
        assert kinds.index(("services", "demo-0")) < kinds.index(("statefulsets", "demo-0"))
        service = await plane.client.get(SERVICES, "demo-1", namespace=NAMESPACE, type=Service)
        assert service.metadata.controller is not None
        assert service.metadata.controller.uid == old["demo-1"]
        assert not await plane.exists(SERVICES, "demo")
        await plane.faults.crash(NAMESPACE, "demo-1-1")
        new = await plane.wait_recreated(old, group_names(1))
        again = await plane.client.get(SERVICES, "demo-1", namespace=NAMESPACE, type=Service)
        assert again.metadata.controller is not None
        assert again.metadata.controller.uid == new["demo-1"]
        assert (await plane.pods())["demo-1-1"].spec.subdomain == "" or again.metadata.name == "demo-1"


async def test_identity_variables_come_first(plane: Plane) -> None:
    """Behaviour 27."""
    worker = pod_template(
        container={"env": [{"name": "MINE", "value": "1"}, {"name": "LWS_GROUP_SIZE", "value": "99"}]},
        initContainers=[{"name": "init", "image": "init:1"}],
    )
    async with plane:
        await plane.apply(lws_manifest(size=2, worker=worker))
        await plane.wait_available()
        pod: dict[str, Any] = await plane.client.get(PODS, "demo-0-1", namespace=NAMESPACE)
        for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
            names = [entry["name"] for entry in container["env"]]
            assert names[:3] == ["LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"]
            assert names.count("LWS_GROUP_SIZE") == 1
        values = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
        assert values["LWS_LEADER_ADDRESS"] == f"demo-0.demo.{NAMESPACE}"
        assert (values["LWS_GROUP_SIZE"], values["LWS_WORKER_INDEX"], values["MINE"]) == ("2", "1", "1")


async def test_a_worker_set_deleted_by_hand_comes_back(plane: Plane) -> None:
    """Behaviour 28."""
    async with plane:
        await plane.apply(lws_manifest())
        await plane.wait_available()
        before = (await plane.sets())["demo-0"].metadata.uid
        await plane.client.delete(STATEFULSETS, "demo-0", namespace=NAMESPACE, propagation="Background")

        async def back() -> bool:
            found = (await plane.sets()).get("demo-0")
            return found is not None and found.metadata.uid != before

        await plane.wait_for(back)
        await plane.sleep(15)
        await plane.wait_available()


async def test_a_worker_set_changed_by_hand_is_put_right(plane: Plane) -> None:
    """Q30: replicas and template go back, without touching healthy pods and without counting as a failure."""
    async with plane:
        await plane.apply(lws_manifest())
        old = await plane.wait_available()
        await plane.client.merge_patch(STATEFULSETS, "demo-0", {"spec": {"replicas": 5}}, namespace=NAMESPACE)
        await plane.wait_for(lambda: _replicas(plane, 2))
        await plane.sleep(30)
        assert await plane.uids() == old
        assert await plane.events("RecreateGroup") == []


async def _replicas(plane: Plane, wanted: int) -> bool:
    return (await plane.sets())["demo-0"].replicas == wanted


async def test_a_strangers_service_is_left_alone(plane: Plane) -> None:
    """Behaviour 29, B20: a Service that belongs to somebody else is neither used nor touched, and the wait is told once."""
    async with plane:
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "demo", "namespace": NAMESPACE},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
        }
        made: dict[str, Any] = await plane.client.create(SERVICES, body, namespace=NAMESPACE)
        await plane.apply(lws_manifest())
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        await plane.sleep(30)
        after: dict[str, Any] = await plane.client.get(SERVICES, "demo", namespace=NAMESPACE)
        assert (after["metadata"]["uid"], after["spec"]["selector"]) == (made["metadata"]["uid"], {"app": "x"})
        assert await plane.pods() == {}
        assert len(await plane.events("FailedCreate")) == 1
        await plane.client.delete(SERVICES, "demo", namespace=NAMESPACE)
        await plane.wait_available()


async def test_scale_through_the_subresource(plane: Plane) -> None:
    """Behaviours 21, 155: the scale subresource, its selector for leaders, down to nothing and back."""
    async with plane:
        await plane.apply(lws_manifest(size=2))
        await plane.wait_available()
        assert (await plane.lws()).status.hpa_pod_selector == f"{keys.NAME}=demo,{keys.WORKER_INDEX}=0"
        for wanted in (3, 0, 2):
            patch = {"spec": {"replicas": wanted}}
            await plane.client.merge_patch(LEADERWORKERSETS, "demo", patch, namespace=NAMESPACE, subresource="scale")

            async def reached(wanted: int = wanted) -> bool:
                return len(await plane.pods()) == wanted * 2

            await plane.wait_for(reached)
            await plane.wait_available()
            assert (await plane.lws()).spec.replicas == wanted


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
async def test_deleting_it_deletes_everything(plane: Plane, propagation: Any, policy: str) -> None:
    """Spec 6.10, 3.7, case C80: nothing is made after the deletion began, and everything goes."""
    async with plane:
        await plane.apply(lws_manifest(replicas=3, size=2, policy=policy))
        await plane.wait_available()
        mark = len(plane.requests)
        await plane.client.delete(LEADERWORKERSETS, "demo", namespace=NAMESPACE, propagation=propagation)
        await plane.wait_for(lambda: _gone(plane), timeout=60)
        made = [str(entry) for entry in plane.writes(since=mark) if entry.request.method in {"POST", "PATCH"}]
        assert made == []


async def _gone(plane: Plane) -> bool:
    try:
        await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
    except WireError:
        return not await plane.pods() and not await plane.sets() and not await plane.revisions()
    return False
