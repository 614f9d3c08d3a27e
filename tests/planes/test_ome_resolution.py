"""Where the values of a component come from, and what is refused, on a cluster: spec/omenative.md 1.1, 2.3, 6.2; behaviours 1,
3-8, 10, 14, 88, 89, 118, 119, 123-126."""

import json
from typing import Any

import pytest
from tests.planes.ome_hands import RECREATE, Ome, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.kube.resources import CONFIGMAPS, DEPLOYMENTS, PODS
from regroup.omenative.api.row import FAILED
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES, MAIN_CONTAINER
from regroup.wire.errors import ApiError

RUNNER = {"runner": {"name": MAIN_CONTAINER, "image": "server:1"}}


def config(policy: str | None = None, **lifecycle: Any) -> dict[str, Any]:
    """A component's config of a runtime."""
    wanted = {**({"restartPolicy": policy} if policy else {}), **lifecycle}
    return {**RUNNER, **({"lifecycle": wanted} if wanted else {})}


async def start(plane: Plane, service: dict[str, Any], **spec: Any) -> Ome:
    ome = Ome(plane)
    await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "own", runtime_manifest("own", **spec), field_manager="kubectl")
    await ome.apply(service)
    return ome


async def policies(plane: Plane, ome: Ome, *components: str) -> list[str]:
    """The policy in force of each component, once all are projected."""

    async def projected() -> bool:
        return all([await ome.rows(component) for component in components])

    await plane.wait_for(projected, what="all are projected")
    return [(await ome.replica(component)).spec.restart_policy for component in components]


@pytest.mark.parametrize(
    ("own", "runtimes", "expected"),
    [
        pytest.param(None, None, "None", id="1: one pod"),
        pytest.param(None, RECREATE, RECREATE, id="4: the runtime's"),
        pytest.param("None", RECREATE, "None", id="5: the service's own None"),
        pytest.param(RECREATE, "None", RECREATE, id="the service's own"),
    ],
)
async def test_the_policy_is_the_first_that_is_set(plane: Plane, own: str | None, runtimes: str | None, expected: str) -> None:
    """Behaviours 1, 4, 5: and it is the one that acts when the container restarts."""
    async with plane:
        ome = await start(plane, service_manifest(runtime="own", policy=own), engineConfig=config(runtimes))
        assert await policies(plane, ome, "engine") == [expected]
        await ome.wait_ready()
        await plane.sleep(3)
        before = await ome.uids()
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        if expected == RECREATE:
            await ome.wait_restarted()
        else:
            await plane.sleep(30)
            await ome.wait_ready()
            assert await ome.uids() == before


async def test_components_resolve_separately_and_no_cluster_setting_counts(plane: Plane) -> None:
    """Behaviours 3, 6, 7: engine R, decoder its own None over the runtime's R, router None; whatever the ConfigMap says."""
    async with plane:
        data = {
            "lifecycle": json.dumps({"restartPolicy": RECREATE, "stuckPodGracePeriod": "60s"}),
            "deploy": json.dumps(
                {"defaultDeploymentMode": "RawDeployment", "restartPolicy": RECREATE, "lifecycle": config(RECREATE)}
            ),
        }
        where = plane.config_namespace
        await plane.client.merge_patch(CONFIGMAPS, "inferenceservice-config", {"data": data}, namespace=where)
        await plane.stop_operator()
        await plane.start_operator()
        one = {"minReplicas": 1, "maxReplicas": 1}
        service = service_manifest(
            runtime="own", policy=RECREATE, decoder={**one, "lifecycle": {"restartPolicy": "None"}}, router=one
        )
        ome = await start(plane, service, decoderConfig=config(RECREATE))
        assert await policies(plane, ome, "engine", "decoder", "router") == [RECREATE, "None", "None"]


@pytest.mark.parametrize(
    ("own", "runtimes", "cluster", "minutes"),
    [("45m", "20m", "30m", 45), (None, "20m", "30m", 20), (None, None, "30m", 30), (None, None, None, None)],
)
async def test_the_deadline_of_a_restart(
    plane: Plane, own: str | None, runtimes: str | None, cluster: str | None, minutes: int | None
) -> None:
    """Behaviours 8, 72, 88, 89: the service's, else the runtime's (field by field beside the service's policy), else the
    cluster's; without any there is none, and a condition says so."""
    async with plane:
        await Ome(plane).settings(instanceReadyTimeout=cluster)
        given = {"instanceReadyTimeout": own} if own else None
        of_runtime = {"instanceReadyTimeout": runtimes} if runtimes else {}
        ome = await start(
            plane, service_manifest(runtime="own", policy=RECREATE, lifecycle=given), engineConfig=config("None", **of_runtime)
        )
        await ome.wait_ready()
        await plane.sleep(3)
        await plane.faults.refuse_image("server:1")
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        operation = (await ome.wait_row(phase="Restarting")).operation
        assert operation is not None
        assert operation.started_at is not None
        found = (operation.deadline - operation.started_at).total_seconds() / 60 if operation.deadline is not None else None
        assert found == minutes
        conditions = {one.type: one for one in (await ome.replica()).status.conditions}
        assert conditions["InstanceReadyTimeoutUnconfigured"].status == ("True" if minutes is None else "False")


async def test_raw_deployments_are_left_alone(plane: Plane) -> None:
    """Behaviour 10: a component in another mode is told by name; nothing is made for it, and what happens there is not ours."""
    async with plane:
        service = service_manifest(runtime="own", policy=RECREATE, deploymentMode="RawDeployment")
        ome = await start(plane, service)

        async def refused() -> bool:
            found = await ome.condition("EngineReady")
            return found is not None and found.reason == "UnsupportedDeploymentMode"

        await plane.wait_for(refused, what="EngineReady says that the mode is not supported")
        # As another controller runs it: its containers crash, and nobody of us moves.
        template = {"metadata": {"labels": {"app": "raw"}}, "spec": {"containers": [{**RUNNER["runner"]}]}}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "svc-engine"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "raw"}}, "template": template},
        }
        await plane.client.create(DEPLOYMENTS, body, namespace=NAMESPACE)

        async def running() -> list[str]:
            page = await plane.client.list_all(PODS, namespace=NAMESPACE, label_selector="app=raw", type=dict)
            return [one["metadata"]["name"] for one in page.items if one["status"].get("phase") == "Running"]

        (name,) = await plane.wait_for(running, what="its pod runs")
        mark = len(plane.requests)
        await ome.crash(name)
        await plane.sleep(20)
        assert plane.writes(since=mark) == []
        assert await running() == [name]


async def test_pods_get_what_is_ours(plane: Plane) -> None:
    """Behaviours 14, 123: Always where the template says nothing; OME's own variables win over the template's."""
    async with plane:
        env = [{"name": "OME_RUNNER", "value": "mine"}, {"name": "MINE", "value": "$(OME_COMPONENT)"}]
        container = {**RUNNER["runner"], "env": env}
        ome = await start(plane, service_manifest(runtime="own"), engineConfig={"runner": container})
        await ome.wait_ready()
        pod = await plane.client.get(PODS, ome.pod_name(), namespace=NAMESPACE, type=dict)
        assert pod["spec"]["restartPolicy"] == "Always"
        listed = pod["spec"]["containers"][0]["env"]
        assert [one["value"] for one in listed if one["name"] == "OME_RUNNER"] == ["default"]
        assert {"name": "MINE", "value": "$(OME_COMPONENT)"} in listed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"engine": {"lifecycle": {"restartPolicy": "Always"}}}, "restartPolicy", id="9"),
        pytest.param(
            {"deploymentMode": None, "engine": {"annotations": {"ome.io/deploymentMode": "OMENative"}}, "decoder": {}},
            'InvalidDeploymentModeCombination: engine deploymentMode="OMENative" does not match decoder deploymentMode=""',
            id="124",
        ),
        pytest.param(
            {"engine": {"lifecycle": {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}}},
            "RollingUpdateZeroBudget",
            id="125",
        ),
        pytest.param({"engine": {"lifecycle": {"minReadySeconds": -1}}}, "minReadySeconds", id="126"),
    ],
)
async def test_refusals_name_the_rule(plane: Plane, change: dict[str, Any], words: str) -> None:
    """Behaviours 9, 124, 125, 126: at admission, and nothing of it is stored."""
    async with plane:
        ome = await start(plane, service_manifest(runtime="own"))
        before = await plane.client.get(INFERENCE_SERVICES, "svc", namespace=NAMESPACE, type=dict)
        with pytest.raises(ApiError, match="svc") as refused:
            await ome.patch(change)
        assert words in str(refused.value)
        after = await plane.client.get(INFERENCE_SERVICES, "svc", namespace=NAMESPACE, type=dict)
        assert after["spec"] == before["spec"]


async def test_a_failed_instance_is_the_replicas_condition(plane: Plane) -> None:
    """Behaviours 118, 119: False/InstanceFailed while an Instance is Failed; and the columns that kubectl prints have values."""
    async with plane:
        ome = await start(plane, service_manifest(runtime="own", policy=RECREATE, lifecycle={"instanceReadyTimeout": "10s"}))
        await ome.wait_ready()
        await plane.sleep(3)
        await plane.faults.refuse_image("server:1")
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=1)
        await ome.wait_row(phase=FAILED)
        ready = next(one for one in (await ome.replica()).status.conditions if one.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "InstanceFailed")
        assert ready.message == "At least one Instance has Phase=Failed"
        stored = await plane.client.get(INFERENCE_REPLICAS, "svc-engine", namespace=NAMESPACE, type=dict)
        status = stored["status"]
        assert (stored["spec"]["component"], stored["spec"]["replicas"]) == ("engine", 1)
        assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (1, 0, 0)
