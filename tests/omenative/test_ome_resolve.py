"""Resolution of components (spec/omenative.md 1.1-1.4)."""

from typing import Any

import pytest
from tests.omenative.ome_service_builders import RECREATE, gang_runtime, model, resolved, runtime, service

from regroup.omenative.api.replica import InferenceReplica, decode
from regroup.omenative.api.types import InferenceService, ModelRef, RuntimeRef, ServingRuntime
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.service.project import manifest
from regroup.omenative.service.resolve import Resolved, Trouble, find_model, find_runtime

Object = dict[str, Any]


def _good(*args: Any, **kwargs: Any) -> Resolved:
    found = resolved(*args, **kwargs)
    assert isinstance(found, Resolved), found
    return found


def _bad(*args: Any, **kwargs: Any) -> Trouble:
    found = resolved(*args, **kwargs)
    assert isinstance(found, Trouble), found
    return found


def _replica(of: InferenceService, component: str = "engine", **more: Any) -> InferenceReplica:
    return decode(manifest(of, _good(of, component, **more)))


def _policy(value: str | None) -> Object:
    return {"lifecycle": {"restartPolicy": value}} if value else {}


@pytest.mark.parametrize(
    ("own", "runtimes", "multi_pod", "policy"),
    [
        (None, None, False, "None"),
        (None, None, True, RECREATE),
        (None, RECREATE, False, RECREATE),
        ("None", RECREATE, False, "None"),
        ("None", None, True, "None"),
        (None, "None", True, "None"),
        (RECREATE, "None", False, RECREATE),
    ],
)
def test_the_restart_policy_comes_from_the_first_that_has_one(
    own: str | None, runtimes: str | None, multi_pod: bool, policy: str
) -> None:
    """Behaviours 1, 2, 4, 5: the component, its runtime, the shape."""
    by = gang_runtime(**_policy(runtimes)) if multi_pod else _single(**_policy(runtimes))
    assert _replica(service(engine=_policy(own)), by=by).spec.restart_policy == policy


def test_a_router_defaults_to_none() -> None:
    """Behaviour 3."""
    assert _replica(service(router={}), "router").spec.restart_policy == "None"


def test_components_resolve_separately() -> None:
    """Behaviour 6: the runtime says R for the decoder, F2 says None; the engine says R; the router says nothing."""
    f2 = service(engine=_policy(RECREATE), decoder=_policy("None"), router={})
    by = runtime(decoderConfig={"runner": {"image": "d"}, **_policy(RECREATE)})
    policies = {name: _replica(f2, name, by=by).spec.restart_policy for name in ("engine", "decoder", "router")}
    assert policies == {"engine": RECREATE, "decoder": "None", "router": "None"}


def test_no_cluster_setting_changes_the_policy() -> None:
    """Behaviour 7: there is no cluster-wide setting."""
    live = LiveSettings(instance_ready_timeout=1.0, stuck_pod_grace=1.0, min_ready_seconds=5)
    assert _replica(service(engine={}), live=live).spec.restart_policy == "None"


def test_lifecycle_merges_field_by_field_and_is_copied_as_it_is() -> None:
    """Behaviour 8, and 1.2: the replica has the merged block, without the cluster's values."""
    by = _single(lifecycle={"instanceReadyTimeout": "45m", "restartPolicy": "None"})
    found = _good(service(engine=_policy(RECREATE)), by=by, live=LiveSettings(instance_ready_timeout=60.0))
    assert found.lifecycle == {"instanceReadyTimeout": "45m", "restartPolicy": RECREATE}


@pytest.mark.parametrize(
    ("own", "runtimes", "cluster", "expected"), [(None, None, None, 0), (None, None, 7, 7), (None, 5, 7, 5), (0, 5, 7, 0)]
)
def test_min_ready_seconds_is_filled(own: int | None, runtimes: int | None, cluster: int | None, expected: int) -> None:
    """1.1.3 and 9.27: filled while reconciling; the service's wins even when it is 0."""
    by = _single(lifecycle={"minReadySeconds": runtimes})
    found = _good(service(engine={"lifecycle": {"minReadySeconds": own}}), by=by, live=LiveSettings(min_ready_seconds=cluster))
    assert found.min_ready_seconds == expected


@pytest.mark.parametrize(("own", "expected"), [(None, 4), (0, 1), (-2, 1), (3, 3)])
def test_replicas(own: int | None, expected: int) -> None:
    """1.2: minReplicas, the cluster's where unset; <= 0 runs 1."""
    assert _good(service(engine={"minReplicas": own}), live=LiveSettings(default_min_replicas=4)).replicas == expected


# -- modes (1.1.4)


@pytest.mark.parametrize(
    ("spec_mode", "own", "runtimes", "gang", "mode"),
    [
        ("OMENative", None, None, False, None),
        (None, None, None, True, None),
        (None, None, None, False, "RawDeployment"),
        ("RawDeployment", None, None, True, "RawDeployment"),
        ("RawDeployment", "OMENative", None, False, None),
        ("OMENative", "RawDeployment", None, False, "RawDeployment"),
        ("OMENative", None, "MultiNode", False, "MultiNode"),
        ("OMENative", "Quick", "VirtualDeployment", False, None),
        ("OMENative", "OMENative", "VirtualDeployment", False, None),
    ],
)
def test_the_mode_of_a_component(
    spec_mode: str | None, own: str | None, runtimes: str | None, gang: bool, mode: str | None
) -> None:
    """1.1.4: annotation (the service's wins, unknown values are passed over), spec, shape, RawDeployment."""
    mine: Object = {"annotations": {"ome.io/deploymentMode": own}} if own else {}
    theirs: Object = {"annotations": {"ome.io/deploymentMode": runtimes}} if runtimes else {}
    by = gang_runtime(**theirs) if gang else _single(**theirs)
    found = resolved(service(deploymentMode=spec_mode, engine=mine), by=by)
    if mode is None:
        assert isinstance(found, Resolved), found
    else:
        assert isinstance(found, Trouble)
        assert found.reason == "UnsupportedDeploymentMode"
        assert f"spec.engine: deployment mode {mode} is not served" in found.message


def test_the_services_own_annotation_selects_no_mode() -> None:
    """1.1.4, last sentence."""
    of = service(deploymentMode=None, engine={}, metadata={"annotations": {"ome.io/deploymentMode": "OMENative"}})
    assert _bad(of).reason == "UnsupportedDeploymentMode"


# -- lookup (1.3, 1.4)


def test_where_a_runtime_is_looked_for() -> None:
    """1.3: cluster first, then the namespace; kind ServingRuntime: the namespace only."""
    cluster, local = runtime(), runtime("ns")

    def find(kind: str | None, one: ServingRuntime | None, two: ServingRuntime | None) -> Any:
        return find_runtime(RuntimeRef(name="srt", raw_kind=kind), namespace="ns", cluster=one, namespaced=two)

    assert find(None, cluster, local) is cluster
    assert find(None, None, local) is local
    assert find("ServingRuntime", cluster, local) is local
    missing = find("ServingRuntime", cluster, None)
    assert missing == Trouble("RuntimeNotFound", "spec.runtime.name: ServingRuntime ns/srt does not exist")
    both = find("ClusterServingRuntime", None, None)
    assert "neither ClusterServingRuntime srt nor ServingRuntime ns/srt exists" in both.message
    assert find("Deployment", cluster, local).reason == "RuntimeNotFound"


def test_where_a_model_is_looked_for() -> None:
    """1.4: by its kind."""
    cluster, local = model(), model("ns")
    assert find_model(ModelRef(name="qwen3"), namespace="ns", cluster=cluster, namespaced=local) is cluster
    found = find_model(ModelRef(name="qwen3", raw_kind="BaseModel"), namespace="ns", cluster=cluster, namespaced=local)
    assert found is local
    missing = find_model(ModelRef(name="qwen3"), namespace="ns", cluster=None, namespaced=local)
    assert missing == Trouble("BaseModelNotFound", "spec.model.name: ClusterBaseModel qwen3 does not exist")


def test_trouble_with_what_is_referred_to_is_the_components() -> None:
    """1.3: not found; a router does not need the model."""
    gone = Trouble("RuntimeNotFound", "x")
    assert _bad(service(engine={}), by=gone) is gone
    no_model = Trouble("BaseModelNotFound", "x")
    assert _bad(service(engine={}), with_model=no_model) is no_model
    assert _good(service(router={}), "router", with_model=no_model).component == "router"


# -- templates


def test_a_single_pods_template() -> None:
    """1.1.1: the runner is the main container, ``ome-container`` by default; labels and annotations go onto pods."""
    of = service(
        engine={
            "labels": {"a": "1"},
            "annotations": {"b": "2", "ome.io/deploymentMode": "OMENative"},
            "containers": [{"name": "side", "image": "s"}],
            "runner": {"args": ["x"]},
            "tolerations": [{"operator": "Exists"}],
            "timeoutSeconds": 9,
            "hostname": "mine",
        }
    )
    by = runtime(engineConfig={"runner": {"image": "server:1"}}, nodeSelector={"gpu": "h100"}, schedulerName="gangs")
    [one] = _good(of, by=by).runners
    assert one == {
        "name": "default",
        "size": 1,
        "template": {
            "metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}},
            "spec": {
                "nodeSelector": {"gpu": "h100"},
                "schedulerName": "gangs",
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"image": "server:1", "args": ["x"], "name": "ome-container"}, {"name": "side", "image": "s"}],
            },
        },
    }


def test_a_gangs_templates() -> None:
    """1.1.1: leader 1, worker ``size``; the service's size wins; both sides' pod specs stay apart."""
    of = service(engine={"leader": {}, "worker": {"size": 5, "nodeSelector": {"w": "1"}}, "serviceAccountName": "sa"})
    found = _good(of, by=gang_runtime())
    assert [(one["name"], one["size"]) for one in found.runners] == [("leader", 1), ("worker", 5)]
    leader, worker = (one["template"]["spec"] for one in found.runners)
    assert leader == {"serviceAccountName": "sa", "containers": [{"image": "server:1", "name": "ome-container"}]}
    assert worker["nodeSelector"] == {"w": "1"}
    assert found.declares_worker
    assert not _good(service(engine={}), by=gang_runtime()).declares_worker


def test_a_worker_size_that_nobody_sets_is_one() -> None:
    """1.1.1: size: the runtime's, else 1."""
    part = {"runner": {"image": "i"}}
    found = _good(service(engine={}), by=runtime(engineConfig={"leader": part, "worker": part}))
    assert found.runners[1]["size"] == 1


def test_a_routers_config_becomes_environment() -> None:
    """1.1.1: a string map that becomes env; what the container sets itself is left alone."""
    of = service(router={"config": {"POLICY": "cache", "KEPT": "no"}, "runner": {"env": [{"name": "KEPT", "value": "yes"}]}})
    [one] = _good(of, "router").runners
    env = {item["name"]: item["value"] for item in one["template"]["spec"]["containers"][0]["env"]}
    assert env == {"POLICY": "cache", "KEPT": "yes"}


@pytest.mark.parametrize(
    ("limits", "gang", "expected"),
    [
        ({"nvidia.com/gpu": 2}, False, ["2"]),
        ({"nvidia.com/gpu": "8"}, True, ["32", "32"]),
        ({"amd.com/gpu": 1, "cpu": 4}, False, ["1"]),
        ({"cpu": 4}, False, [None]),
        ({"nvidia.com/gpu": "many"}, False, [None]),
    ],
)
def test_the_size_of_parallelism_counts_the_gpus_of_an_instance(limits: Object, gang: bool, expected: list[str | None]) -> None:
    """2.3: PARALLELISM_SIZE, GPUs per pod times pods per Instance: runtimes of OME's catalog have it in their arguments."""
    runner = {"runner": {"image": "i", "resources": {"limits": limits}}}
    config: Object = {"leader": runner, "worker": {**runner, "size": 3}} if gang else runner
    found = _good(service(engine={}), by=runtime(engineConfig=config))
    values = []
    for one in found.runners:
        env = one["template"]["spec"]["containers"][0].get("env", [])
        values.append(next((item["value"] for item in env if item["name"] == "PARALLELISM_SIZE"), None))
    assert values == expected


@pytest.mark.parametrize(
    ("namespace", "label"), [("", "models.ome.io/clusterbasemodel.qwen3"), ("ns", "models.ome.io/ns.basemodel.qwen3")]
)
def test_a_model_brings_its_node_its_mount_and_its_path(namespace: str, label: str) -> None:
    """1.4: node selector, read-only mount, MODEL_PATH."""
    found = _good(service(engine={}), with_model=model(namespace, storageUri="hf://q", path="/models/q"))
    spec = found.runners[0]["template"]["spec"]
    assert spec["nodeSelector"] == {label: "Ready"}
    [main] = spec["containers"]
    assert {"name": "MODEL_PATH", "value": "/models/q"} in main["env"]
    [mount] = main["volumeMounts"]
    [volume] = spec["volumes"]
    assert (mount["mountPath"], mount["readOnly"], mount["name"]) == ("/models/q", True, volume["name"])
    assert volume["hostPath"] == {"path": "/models/q"}


def test_a_model_that_is_nowhere_asks_for_no_node() -> None:
    """1.4: without storage a service runs with stub images on any node; a runtime's own MODEL_PATH is left alone."""
    plain = _good(service(engine={}))
    assert _good(service(engine={}), with_model=model()).runners == plain.runners
    own = service(engine={"runner": {"env": [{"name": "MODEL_PATH", "value": "/mine"}]}})
    env = _good(own, with_model=model(path="/p")).runners[0]["template"]["spec"]["containers"][0]["env"]
    assert env == [{"name": "MODEL_PATH", "value": "/mine"}]


# -- what is wrong


@pytest.mark.parametrize(
    ("own", "config", "texts"),
    [
        (
            {},
            {"lifecycle": {"restartPolicy": "Always"}},
            ("ClusterServingRuntime srt: spec.engineConfig.lifecycle.restartPolicy", '"Always"', '"None", "Recreate'),
        ),
        ({"lifecycle": {"restartPolicy": "Always"}}, {}, ('spec.engine.lifecycle.restartPolicy: Unsupported value: "Always"',)),
        ({}, {"lifecycle": {"instanceReadyTimeout": "60"}}, ("spec.engineConfig.lifecycle.instanceReadyTimeout", "missing unit")),
        ({}, {"lifecycle": {"minReadySeconds": "x"}}, ("spec.engineConfig", "minReadySeconds")),
        ({}, {"leader": {"runner": {"image": "l"}}}, ("InvalidLeaderWorkerPairing", "has a leader and no worker")),
        ({"worker": {"size": 2}}, {}, ("InvalidLeaderWorkerPairing", "has a worker and no leader")),
        ({}, {"leader": {}, "worker": {"size": 0}}, ("InvalidLeaderWorkerPairing", "at least 1, got 0")),
        (
            {"lifecycle": {"readyPolicy": "None"}},
            {"leader": {"runner": {"image": "l"}}, "worker": {"runner": {"image": "l"}}},
            ("spec.engine.lifecycle.readyPolicy", "not allowed for a component with a leader"),
        ),
        ({"maxUnavailable": "200%"}, {}, ("spec.engine.maxUnavailable", "0% to 100%")),
        ({"labels": {"a": 1}}, {}, ("spec.engine", "labels")),
    ],
)
def test_what_a_merge_gets_wrong_is_told_with_path_value_and_rule(own: Object, config: Object, texts: tuple[str, ...]) -> None:
    """Issue 6, "Bad input": values from a runtime become a condition on every service that uses it."""
    found = _bad(service(engine=own), by=runtime(engineConfig={"runner": {"image": "i"}, **config}))
    assert found.reason == "InvalidComponent"
    for text in texts:
        assert text in found.message


def test_two_zero_budgets_that_meet_in_the_merge_are_no_error() -> None:
    """1.1.2: a zero pair that arises only through the runtime passes."""
    own = {"lifecycle": {"updateStrategy": {"rollingUpdate": {"maxSurge": 0}}}}
    _good(service(engine=own), by=_single(lifecycle={"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}))


def test_no_container_anywhere() -> None:
    """1.3: a service whose runtime has nothing for the component, and one that names no runtime."""
    found = _bad(service(engine={}), by=runtime(engineConfig=None))
    assert "spec.engine: no container" in found.message
    alone = _bad(service(runtime=None, model={"name": "m"}, engine={}), by=runtime(engineConfig=None))
    assert "not chosen automatically" in alone.message


def _single(**config: Any) -> ServingRuntime:
    return runtime(engineConfig={"runner": {"name": "ome-container", "image": "server:1"}, **config})
