"""The InferenceService controller on an API server (spec/omenative.md 1.2, 1.3, 2.5, 2.6, 6.2)."""

from typing import Any

import pytest
from tests.omenative.ome_service_plane import NS, RECREATE, plane

from regroup.kube.resources import POD_DISRUPTION_BUDGETS, SERVICES
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.sandbox.apifaults import Match
from regroup.wire.errors import ApiError, Invalid, NotFound

pytestmark = pytest.mark.looptime

Object = dict[str, Any]


async def test_a_service_gets_a_replica_for_each_component_and_tells_how_they_are() -> None:
    """1.2, behaviour 112: the replica, the stable Service, the budget, EngineReady and Ready."""
    async with plane(config={"podDisruptionBudget": {"omeNative": {"maxUnavailable": 1}}}) as hands:
        await hands.runtime()
        await hands.service(engine={"minReplicas": 2, "lifecycle": {"restartPolicy": RECREATE}}, router={})
        await hands.settle()
        engine, router = await hands.replica(), await hands.replica("svc-router")
        assert engine is not None
        assert router is not None
        assert (engine["spec"]["replicas"], engine["spec"]["lifecycle"]) == (2, {"restartPolicy": RECREATE})
        stable: Object = await hands.client.get(SERVICES, "svc-engine", namespace=NS)
        assert stable["spec"]["ports"][0]["port"] == 8000
        assert stable["metadata"]["ownerReferences"][0]["uid"] == engine["metadata"]["uid"]
        budget: Object = await hands.client.get(POD_DISRUPTION_BUDGETS, "svc-engine", namespace=NS)
        assert budget["spec"]["minAvailable"] == 1
        conditions = await hands.conditions()
        assert conditions["EngineReady"] == ("False", "InsufficientAvailable", "0/2 Instances serving, need 2")
        assert conditions["IngressReady"][:2] == ("True", "IngressDisabled")
        assert conditions["Ready"][0] == "False"
        await hands.serving(2)
        await hands.serving(1, name="svc-router")
        await hands.settle()
        assert (await hands.conditions())["Ready"] == ("True", "Ready", "All components are ready")
        found: Object = await hands.client.get(INFERENCE_SERVICES, "svc", namespace=NS)
        assert found["status"]["url"] == "http://svc-router.default.svc.cluster.local:8000"
        assert found["status"]["components"]["engine"]["lifecycle"]["servingReplicas"] == 2


async def test_a_settled_service_costs_nothing() -> None:
    """Issue 6, budgets: a settled service costs no API call; what others change of its replica's status costs one write."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service()
        await hands.settle()
        await hands.serving(1)
        await hands.settle(30)
        hands.forget()
        await hands.settle(600)
        assert hands.asked(writes=False) == []
        await hands.serving(0)
        await hands.settle(60)
        assert [(one.verb, one.resource, one.subresource) for one in hands.asked()] == [("patch", "inferenceservices", "status")]


async def test_figures_alone_are_joined() -> None:
    """1.1.5: what no condition shows is written together, some seconds later."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service()
        await hands.settle()
        await hands.serving(1)
        await hands.settle(30)
        hands.forget()
        for ready in range(5):
            await hands.serving(1, readyReplicas=ready)
            await hands.settle(1)
        await hands.settle(15)
        assert len(hands.asked()) == 1
        found: Object = await hands.client.get(INFERENCE_SERVICES, "svc", namespace=NS)
        assert found["status"]["components"]["engine"]["lifecycle"]["readyReplicas"] == 4


async def test_a_policy_edit_moves_the_policy_and_nothing_else() -> None:
    """Behaviour 11: the replica's template stays as it is, so no revision can come of it."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service()
        await hands.settle()
        before = await hands.replica()
        await hands.patch(spec={"engine": {"lifecycle": {"restartPolicy": RECREATE}}})
        await hands.settle()
        after = await hands.replica()
        assert before is not None
        assert after is not None
        assert after["spec"] == {**before["spec"], "lifecycle": {"restartPolicy": RECREATE}}
        assert after["metadata"]["annotations"]["ome.io/parent-generation"] == "2"


async def test_pause_and_resume_reach_the_replica() -> None:
    """1.2: ``true`` and ``freeze``, exactly."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service()
        for value, spec in (("freeze", (True, "Freeze")), ("true", (True, None)), ("True", (None, None)), (None, (None, None))):
            await hands.patch(metadata={"annotations": {"ome.io/rollout-paused": value}})
            await hands.settle()
            found = await hands.replica()
            assert found is not None
            assert (found["spec"].get("paused"), found["spec"].get("pauseMode")) == spec


async def test_a_missing_runtime_is_told_once_and_touches_nothing() -> None:
    """1.3: event ``RuntimeNotFound``, RuntimeReady=False, workload untouched; and all is well once it is there."""
    async with plane() as hands:
        await hands.service()
        await hands.settle(120)
        message = "spec.runtime.name: neither ClusterServingRuntime srt nor ServingRuntime default/srt exists"
        conditions = await hands.conditions()
        assert conditions["RuntimeReady"] == ("False", "RuntimeNotFound", message)
        assert conditions["EngineReady"][:2] == ("False", "RuntimeNotFound")
        assert await hands.events() == [("RuntimeNotFound", "Warning", message)]
        assert await hands.replica() is None
        await hands.runtime()
        await hands.settle()
        assert await hands.replica() is not None
        assert "RuntimeReady" not in await hands.conditions()
        await hands.serving(1)
        await hands.client.delete(CLUSTER_SERVING_RUNTIMES, "srt")
        await hands.settle()
        conditions = await hands.conditions()
        assert conditions["RuntimeReady"][1] == "RuntimeNotFound"
        assert conditions["EngineReady"][:2] == ("True", "Ready"), "what runs goes on"
        assert await hands.replica() is not None


async def test_a_bad_value_from_a_runtime_is_a_condition_on_each_service_and_stops_no_other() -> None:
    """Issue 6, "Bad input": path, value and rule; a runtime that is mended is followed."""
    async with plane() as hands:
        runner = {"runner": {"name": "ome-container", "image": "i"}}
        await hands.runtime("bad", engineConfig={**runner, "lifecycle": {"instanceReadyTimeout": "60"}})
        await hands.runtime()
        for name in ("one", "two"):
            await hands.service(name, runtime={"name": "bad"})
        await hands.service("three")
        await hands.settle()
        for name in ("one", "two"):
            status, reason, message = (await hands.conditions(name))["RuntimeReady"]
            assert (status, reason) == ("False", "InvalidComponent")
            assert "ClusterServingRuntime bad: spec.engineConfig.lifecycle.instanceReadyTimeout" in message
            assert 'missing unit in duration "60"' in message
            assert await hands.replica(f"{name}-engine") is None
        assert await hands.replica("three-engine") is not None
        mended = {"spec": {"engineConfig": {"lifecycle": {"instanceReadyTimeout": "60s"}}}}
        await hands.client.merge_patch(CLUSTER_SERVING_RUNTIMES, "bad", mended)
        await hands.settle()
        assert await hands.replica("one-engine") is not None
        assert "RuntimeReady" not in await hands.conditions("two")


async def test_other_modes_are_refused_and_left_alone() -> None:
    """Issue 6: a clear condition and event, nothing else is touched; behaviour 10."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service(deploymentMode="RawDeployment", engine={"lifecycle": {"restartPolicy": RECREATE}})
        await hands.settle()
        status, reason, message = (await hands.conditions())["EngineReady"]
        assert (status, reason) == ("False", "UnsupportedDeploymentMode")
        assert "deployment mode RawDeployment is not served" in message
        assert [event[0] for event in await hands.events()] == ["UnsupportedDeploymentMode"]
        assert await hands.replica() is None


async def test_a_component_that_is_gone_takes_its_replica_with_it() -> None:
    """5.7: the replica is told to go, its finalizer drains it; its condition goes from the service."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service(router={})
        await hands.settle()
        await hands.patch(spec={"router": None})
        await hands.settle()
        gone = await hands.replica("svc-router")
        assert gone is not None
        assert gone["metadata"]["deletionTimestamp"]
        assert gone["metadata"]["finalizers"] == ["ome.io/ir-teardown"]
        assert "RouterReady" not in await hands.conditions()
        # It comes back: the new one is made once the old one has left.
        await hands.patch(spec={"router": {}})
        await hands.settle()
        assert (await hands.conditions())["RouterReady"][1] == "ReplicaTerminating"
        await hands.client.merge_patch(INFERENCE_REPLICAS, "svc-router", {"metadata": {"finalizers": None}}, namespace=NS)
        await hands.settle()
        again = await hands.replica("svc-router")
        assert again is not None
        assert again["metadata"]["uid"] != gone["metadata"]["uid"]


async def test_names_that_others_have_are_left_alone() -> None:
    """Design 9: never take over; the other components go on."""
    async with plane() as hands:
        await hands.runtime()
        template = {"spec": {"containers": [{"name": "ome-container", "image": "i"}]}}
        body: Object = {
            "apiVersion": "ome.io/v1beta1",
            "kind": "InferenceReplica",
            "metadata": {"name": "svc-engine"},
            "spec": {"component": "engine", "runners": [{"name": "default", "template": template}]},
        }
        await hands.client.create(INFERENCE_REPLICAS, body, namespace=NS)
        plain = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc-router"}, "spec": {"ports": [{"port": 1}]}}
        await hands.client.create(SERVICES, plain, namespace=NS)
        await hands.service(router={})
        await hands.settle()
        _, reason, message = (await hands.conditions())["EngineReady"]
        assert (reason, message) == ("NameTaken", "InferenceReplica svc-engine exists and belongs to nobody: it is left as it is")
        untouched = await hands.replica()
        assert untouched is not None
        assert "parentRef" not in untouched["spec"]
        assert await hands.replica("svc-router") is not None
        kept: Object = await hands.client.get(SERVICES, "svc-router", namespace=NS)
        assert kept["spec"]["ports"][0]["port"] == 1
        assert {event[0] for event in await hands.events()} == {"NameTaken", "FailedCreate"}


async def test_what_is_deleted_or_changed_by_hand_comes_back() -> None:
    """Level-triggered: the stable Service, the budget and the replica are made again; edits of the spec are refused."""
    async with plane(config={"podDisruptionBudget": {"omeNative": {"maxUnavailable": 1}}}) as hands:
        await hands.runtime()
        await hands.service()
        await hands.settle()
        await hands.client.delete(SERVICES, "svc-engine", namespace=NS)
        await hands.client.delete(POD_DISRUPTION_BUDGETS, "svc-engine", namespace=NS)
        await hands.settle()
        await hands.client.get(SERVICES, "svc-engine", namespace=NS)
        await hands.client.get(POD_DISRUPTION_BUDGETS, "svc-engine", namespace=NS)
        with pytest.raises(ApiError, match="edit the InferenceService instead"):
            await hands.client.merge_patch(INFERENCE_REPLICAS, "svc-engine", {"spec": {"replicas": 9}}, namespace=NS)
        mailbox = {"metadata": {"annotations": {"ome.io/reset-instances": "all"}}}
        await hands.client.merge_patch(INFERENCE_REPLICAS, "svc-engine", mailbox, namespace=NS)
        await hands.settle()
        found = await hands.replica()
        assert found is not None
        assert found["metadata"]["annotations"]["ome.io/reset-instances"] == "all"
        before = found["metadata"]["uid"]
        await hands.client.merge_patch(INFERENCE_REPLICAS, "svc-engine", {"metadata": {"finalizers": None}}, namespace=NS)
        await hands.client.delete(INFERENCE_REPLICAS, "svc-engine", namespace=NS)
        await hands.settle()
        found = await hands.replica()
        assert found is not None
        assert found["metadata"]["uid"] != before


async def test_the_configuration_is_followed_while_it_runs() -> None:
    """6.4: live values within the time to live; an entry that breaks counts as absent."""
    async with plane(config={"deploy": {"minReadySeconds": 5}}) as hands:
        await hands.runtime()
        await hands.service()
        await hands.settle()

        async def seconds() -> Any:
            found = await hands.replica()
            assert found is not None
            return found["spec"].get("minReadySeconds")

        assert await seconds() == 5
        await hands.config(deploy={"minReadySeconds": 9})
        await hands.settle(31)
        assert await seconds() == 9
        await hands.config(deploy={"minReadySeconds": "x"})
        await hands.settle(31)
        assert await seconds() is None


async def test_admission_refuses_what_breaks_a_rule() -> None:
    """1.1: behaviours 9, 124, 125, 126 on an API server."""
    async with plane() as hands:
        await hands.runtime()
        rolling = {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}
        for lifecycle, error, text in (
            ({"restartPolicy": "Always"}, Invalid, "Unsupported value"),
            (rolling, ApiError, "RollingUpdateZeroBudget"),
            ({"minReadySeconds": -1}, ApiError, "InvalidMinReadySeconds"),
        ):
            with pytest.raises(error, match=text):
                await hands.service(engine={"lifecycle": lifecycle})
        native = {"annotations": {"ome.io/deploymentMode": "OMENative"}}
        with pytest.raises(ApiError, match="InvalidDeploymentModeCombination"):
            await hands.service(deploymentMode=..., engine=native, decoder={})


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("resource", ["inferencereplicas", "services", "poddisruptionbudgets", "inferenceservices"])
async def test_a_write_whose_answer_is_lost_is_made_good(resource: str, done: bool) -> None:
    """Crash-safe, level-triggered: whichever write of the first pass is lost, done or not, the end is the same."""
    async with plane(config={"podDisruptionBudget": {"omeNative": {"maxUnavailable": 1}}}) as hands:
        await hands.runtime()
        match = Match(verb="write", resource=resource, user_agent="regroup")
        hands.api.faults.lose(match=match, times=1, done=done)
        await hands.service(router={})
        await hands.settle(60)
        for name in ("svc-engine", "svc-router"):
            assert await hands.replica(name) is not None
            await hands.client.get(SERVICES, name, namespace=NS)
            await hands.client.get(POD_DISRUPTION_BUDGETS, name, namespace=NS)
        assert (await hands.conditions())["RouterReady"][1] == "InsufficientAvailable"


async def test_a_replica_that_the_api_server_does_not_take_is_told_once_and_tried_again() -> None:
    """Bad input: a refusal stops only its component, is a condition and one event, and passes when its cause does."""
    async with plane() as hands:
        await hands.runtime()
        await hands.service(router={})
        await hands.settle()
        match = Match(verb="patch", resource="inferencereplicas", name="svc-engine", user_agent="regroup")
        fault = hands.api.faults.fail(422, match=match, message="no such thing")
        await hands.patch(spec={"engine": {"minReplicas": 2}, "router": {"minReplicas": 2}})
        await hands.settle(60)
        status, reason, message = (await hands.conditions())["RuntimeReady"]
        assert (status, reason) == ("False", "ReplicaRefused")
        assert "no such thing" in message
        assert [event[0] for event in await hands.events()] == ["ReplicaRefused"]
        router = await hands.replica("svc-router")
        assert router is not None
        assert router["spec"]["replicas"] == 2
        fault.end()
        await hands.settle(30)
        engine = await hands.replica()
        assert engine is not None
        assert engine["spec"]["replicas"] == 2
        assert "RuntimeReady" not in await hands.conditions()


async def test_a_budget_goes_when_nobody_asks_for_it() -> None:
    """2.6: neither the component nor the cluster sets a limit any more."""
    async with plane(config={"podDisruptionBudget": {"omeNative": {"maxUnavailable": 1}}}) as hands:
        await hands.runtime()
        await hands.service()
        await hands.settle()
        await hands.config()
        await hands.settle(40)
        with pytest.raises(NotFound):
            await hands.client.get(POD_DISRUPTION_BUDGETS, "svc-engine", namespace=NS)
