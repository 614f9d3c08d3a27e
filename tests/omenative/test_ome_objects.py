"""Pods, PodGroups and stored revisions (spec/omenative.md 2.1-2.4, 2.6)."""

import dataclasses
from typing import Any

import pytest
from tests.omenative.ome_api_builders import create, gang, single, stored, template

from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.objects import instances as objects

Object = dict[str, Any]


def _pod(of: InferenceReplica, name: str, **order: Any) -> Object:
    grace = order.pop("termination_grace", None)
    return objects.pod(of, stored(of), create(name, **order), termination_grace=grace)


def _env(pod: Object, container: int = 0) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][container]["env"]}


def test_labels_of_a_single_pod() -> None:
    """2.2, and behaviour 78: incarnation and revision hash are labels."""
    of = single()
    made = _pod(of, "qwen3-0-6b-engine-3-default-1", index=3, ordinal=1, incarnation=2)
    assert made["metadata"]["labels"] == {
        "ome.io/inferenceservice": "qwen3-0-6b",
        "component": "engine",
        "ome.io/managed-by": "OMENative",
        "ome.io/instance-index": "3",
        "ome.io/instance-incarnation": "2",
        "ome.io/runner": "default",
        "ome.io/pod-ordinal": "1",
        "ome.io/revision-hash": stored(of).hash,
    }
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
        "InferenceReplica",
        "qwen3-0-6b-engine",
        "uid-1",
        True,
    )


def test_a_template_cannot_set_our_labels() -> None:
    """2.2: OME's labels override the template's; case C112: none can be smuggled in where ours is absent."""
    pod = template()
    pod["metadata"] = {"labels": {"app": "x", "component": "router", "scheduling.x-k8s.io/pod-group": "p"}}
    labels = _pod(single(pod=pod), "p")["metadata"]["labels"]
    assert labels["component"] == "engine"
    assert labels["app"] == "x"
    assert "scheduling.x-k8s.io/pod-group" not in labels


def test_a_gangs_pods_are_in_its_pod_group() -> None:
    """Behaviour 121: PodGroup ``…-engine-0``, minMember 4."""
    of = gang()
    made = _pod(of, "llama-engine-0-worker-1", runner="worker", ordinal=1)
    group = objects.pod_group(of, index=0, min_member=of.spec.pods_per_instance, timeout=600)
    assert made["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"] == "llama-engine-0"
    assert group["spec"] == {"minMember": 4, "scheduleTimeoutSeconds": 600}
    assert (group["apiVersion"], group["kind"]) == ("scheduling.x-k8s.io/v1alpha1", "PodGroup")


def test_a_worker_knows_its_place() -> None:
    """Behaviour 122."""
    env = _env(_pod(gang(), "llama-engine-0-worker-1", runner="worker", ordinal=1))
    assert env["OME_INSTANCE_POD_RANK"] == "2"
    assert env["OME_RUNNER_INDEX"] == "1"
    assert env["OME_RUNNER_SIZE"] == "3"
    assert env["OME_INSTANCE_POD_COUNT"] == "4"
    assert env["OME_LEADER_ADDRESS"] == "llama-engine-0-leader-0.llama-engine-headless"
    leader = _env(_pod(gang(), "llama-engine-0-leader-0", runner="leader"))
    assert (leader["OME_INSTANCE_POD_RANK"], leader["OME_RUNNER_SIZE"], leader["OME_RUNNER_INDEX"]) == ("0", "1", "0")


def test_a_single_pod_knows_its_place() -> None:
    """2.3: what is multi-pod only is not there, and the runner index of ``default`` is always 0."""
    env = _env(_pod(single(replicas=5), "p", ordinal=1, index=2))
    assert env == {
        "OME_INFERENCESERVICE_NAME": "qwen3-0-6b",
        "OME_COMPONENT": "engine",
        "OME_COMPONENT_REPLICAS": "5",
        "OME_INSTANCE_INDEX": "2",
        "OME_RUNNER": "default",
        "OME_RUNNER_SIZE": "1",
        "OME_RUNNER_INDEX": "0",
        "OME_INSTANCE_SUBDOMAIN": "qwen3-0-6b-engine-2",
    }


def test_our_variables_win_and_only_regular_containers_get_them() -> None:
    """Behaviour 123, and 2.3: never init containers; sidecars do."""
    pod = template(initContainers=[{"name": "init", "image": "i"}])
    pod["spec"]["containers"][0]["env"] = [{"name": "OME_RUNNER", "value": "mine"}, {"name": "KEPT", "value": "1"}]
    pod["spec"]["containers"].append({"name": "sidecar", "image": "s"})
    made = _pod(single(pod=pod), "p")
    listed = [one["name"] for one in made["spec"]["containers"][0]["env"]]
    assert listed.count("OME_RUNNER") == 1
    assert listed[-1] == "KEPT", "a template's variables can refer to ours"
    assert _env(made)["OME_RUNNER"] == "default"
    assert _env(made, 1)["OME_RUNNER"] == "default"
    assert made["spec"]["initContainers"] == [{"name": "init", "image": "i"}]


def test_fields_that_are_set_on_every_pod() -> None:
    """2.4 and behaviour 14: restartPolicy is Always unless the template says otherwise."""
    pod = template(readinessGates=[{"conditionType": "mine"}])
    spec = _pod(single(pod=pod), "qwen3-0-6b-engine-0-default-0")["spec"]
    assert spec["hostname"] == "qwen3-0-6b-engine-0-default-0"
    assert spec["subdomain"] == "qwen3-0-6b-engine-headless"
    assert spec["readinessGates"] == [{"conditionType": "mine"}, {"conditionType": "ome.io/serving"}]
    assert spec["restartPolicy"] == "Always"
    assert "terminationGracePeriodSeconds" not in spec
    never = _pod(single(pod=template(restartPolicy="Never")), "p")["spec"]
    assert never["restartPolicy"] == "Never", "unrelated to lifecycle.restartPolicy"


@pytest.mark.parametrize(("own", "expected"), [(None, 600), (30, 30), (0, 0)])
def test_the_clusters_grace_fills_what_a_template_leaves_open(own: int | None, expected: int) -> None:
    """6.4: ``deploy.terminationGracePeriodSeconds``."""
    pod = template() if own is None else template(terminationGracePeriodSeconds=own)
    assert _pod(single(pod=pod), "p", termination_grace=600)["spec"]["terminationGracePeriodSeconds"] == expected


def test_workers_follow_their_own_leader() -> None:
    """2.4: required pod affinity on ``topologyKey``; the leader has none."""
    of = gang(topologyKey="rack")
    worker = _pod(of, "w", runner="worker", index=1, incarnation=3)["spec"]["affinity"]["podAffinity"]
    [term] = worker["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "rack"
    assert term["labelSelector"]["matchLabels"] == {
        "ome.io/inferenceservice": "llama",
        "component": "engine",
        "ome.io/managed-by": "OMENative",
        "ome.io/instance-index": "1",
        "ome.io/instance-incarnation": "3",
        "ome.io/runner": "leader",
    }
    assert "affinity" not in _pod(of, "l", runner="leader")["spec"]


@pytest.mark.parametrize(
    ("spread", "expected"), [("Required", "DoNotSchedule"), ("Preferred", "ScheduleAnyway"), ("", "ScheduleAnyway")]
)
def test_instances_are_spread_by_their_first_pod(spread: str, expected: str) -> None:
    """2.4: maxSkew 1 on ``topologySpreadKey``, on the leader or the sole pod."""
    of = gang(topologySpread=spread, topologySpreadKey="zone")
    [constraint] = _pod(of, "l", runner="leader")["spec"]["topologySpreadConstraints"]
    assert (constraint["maxSkew"], constraint["topologyKey"], constraint["whenUnsatisfiable"]) == (1, "zone", expected)
    assert constraint["labelSelector"]["matchLabels"]["ome.io/runner"] == "leader"
    assert "topologySpreadConstraints" not in _pod(of, "w", runner="worker")["spec"]


def test_nodes_to_avoid_are_excluded_in_every_alternative() -> None:
    """5.4: a node that spoiled an attempt is excluded, whatever else the template asks of nodes."""
    of = single(
        pod=template(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {"matchFields": []}]
                    }
                }
            }
        )
    )
    order = dataclasses.replace(create("p"), avoid_nodes=("bad",))
    spec = objects.pod(of, stored(of), order)["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    exclusion = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["bad"]}
    assert [exclusion in term["matchExpressions"] for term in terms] == [True, True]
    assert terms[0]["matchExpressions"][0]["key"] == "gpu"


def test_the_template_is_not_changed() -> None:
    """Stored revisions are shared: making a pod leaves them as they are."""
    of = gang(topologyKey="rack")
    revision = stored(of)
    before = str(revision)
    objects.pod(of, revision, create("w", runner="worker"))
    assert str(revision) == before


def test_the_services_own_labels_and_annotations_reach_the_pods() -> None:
    """1.2: labels are copied; what is only the replica's is not passed on, and the template wins."""
    pod = {**template(), "metadata": {"labels": {"team": "pod"}, "annotations": {"a": "pod"}}}
    of = single(
        pod=pod,
        metadata={
            "labels": {"team": "svc", "queue": "q"},
            "annotations": {
                "a": "svc",
                "b": "svc",
                "ome.io/reset-instances": "all",
                "note": "of the replica itself",
                "ome.io/revision-excluded-annotation-keys": "a,b",
                "omenative.regroup.dev/inherited-labels": "queue,team",
            },
        },
    )
    made = _pod(of, "p")["metadata"]
    assert (made["labels"]["team"], made["labels"]["queue"]) == ("pod", "q")
    assert made["annotations"] == {"a": "pod", "b": "svc"}


def test_a_runner_that_the_revision_lacks_is_told() -> None:
    """A restart follows the stored revision: a runner that it does not have cannot be made."""
    of = single()
    with pytest.raises(objects.RunnerUnknown, match="no runner worker"):
        objects.pod(of, stored(of), create("w", runner="worker"))


def test_the_stored_revision() -> None:
    """2.1 and 2.6."""
    of = single()
    revision = stored(of)
    made = objects.revision_object(of, revision)
    assert made["metadata"]["name"] == f"qwen3-0-6b-engine-{revision.hash}"
    assert made["revision"] == 1
    assert made["data"] == revision.data
    assert objects.component_selector(of) == "component=engine,ome.io/inferenceservice=qwen3-0-6b,ome.io/managed-by=OMENative"
