"""Admission of pods, step by step (spec/leaderworkerset.md 3.8)."""

import copy
import hashlib
from typing import Any

import pytest
from tests.leaderworkerset.lws_api_builders import pod_dict

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.admission.pod_admission import PodRefused, mutate_pod
from regroup.leaderworkerset.objects.identity import group_key, subgroup_key

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HASH = {keys.GROUP_IDENTITY: "Hash"}


def _admit(pod: dict[str, Any], key: str = "0123456789abcdef") -> dict[str, Any]:
    return mutate_pod(pod, namespace="t", random_key=key)


def _gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


TPU_CONTAINERS = [{"name": "c", "resources": {"limits": {"google.com/tpu": "4"}}}]


def test_foreign_pods_are_left_alone() -> None:
    """3.8: a pod without our name label is returned untouched."""
    pod = {"metadata": {"name": "x", "labels": {"app": "x"}}, "spec": {"containers": []}}
    assert _admit(copy.deepcopy(pod)) == pod
    assert _admit({"metadata": {"name": "x"}}) == {"metadata": {"name": "x"}}


def test_ordinal_leader() -> None:
    """3.8 step 2 a, e: index from the name, key from namespace and name, behind our gate."""
    pod = _admit(pod_dict("demo-12", index="0"))
    labels = pod["metadata"]["labels"]
    assert labels[keys.GROUP_INDEX] == "12"
    assert labels[keys.GROUP_KEY] == group_key("t", "demo-12")
    assert _gates(pod) == [keys.GATE]
    assert keys.POD_DELETION_COST not in pod["metadata"]["annotations"]
    assert pod["spec"]["subdomain"] == "demo"


def test_the_input_is_not_changed() -> None:
    """Pure."""
    pod = pod_dict("demo-0", index="0")
    before = copy.deepcopy(pod)
    _admit(pod)
    assert pod == before


def test_foreign_gates_stay() -> None:
    """4.3: ours is added to the user's."""
    pod = _admit(pod_dict("demo-0", index="0", spec={"schedulingGates": [{"name": "example.com/quota"}]}))
    assert _gates(pod) == ["example.com/quota", keys.GATE]


def test_a_pod_that_no_workload_made_is_not_held() -> None:
    """C104: nobody would ever lift the gate of a pod that is not ours."""
    assert _gates(_admit(pod_dict("demo-0", index="0", owner=None))) == []


def test_unique_subdomain() -> None:
    """3.8 step 2 b: per-replica Services are named after the leader (Ordinal) or its host name (Hash)."""
    annotations = {keys.SUBDOMAIN_POLICY: "UniquePerReplica"}
    assert _admit(pod_dict("demo-1", index="0", annotations=annotations))["spec"]["subdomain"] == "demo-1"
    hashed = _admit(pod_dict("demo-x-y", index="0", annotations={**annotations, **HASH}, spec={"hostname": ""}))
    assert hashed["spec"]["subdomain"] == hashed["spec"]["hostname"]
    address = hashed["spec"]["containers"][0]["env"][0]["value"]
    assert address == f"{hashed['spec']['hostname']}.{hashed['spec']['hostname']}.t"


def test_hash_leader() -> None:
    """3.8 step 2 a, e: key drawn from namespace and the random text, host name from the key, cheap to delete while gated."""
    pod = _admit(pod_dict("", index="0", annotations=HASH, spec={"hostname": ""}, owner="ReplicaSet"))
    key = hashlib.sha1(b"t/0123456789abcdef").hexdigest()
    labels = pod["metadata"]["labels"]
    assert labels[keys.GROUP_KEY] == labels[keys.GROUP_INDEX] == key
    assert pod["spec"]["hostname"] == f"demo-{key[:8]}"
    assert pod["metadata"]["annotations"][keys.POD_DELETION_COST] == "-100"
    assert _gates(pod) == [keys.GATE]


@pytest.mark.parametrize("annotations", [{}, HASH])
def test_a_second_invocation_changes_nothing(annotations: dict[str, str]) -> None:
    """Behaviour 31, B15: another draw of the key does not show, and nothing is added twice."""
    extra = {keys.EXCLUSIVE_TOPOLOGY: "rack", keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: "host", keys.SUBGROUP_SIZE: "2"}
    pod = pod_dict("demo-0", index="0", annotations={**annotations, **extra}, spec={"hostname": ""}, owner="ReplicaSet")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"google.com/tpu": 1}}
    once = _admit(pod)
    assert _admit(once, key="another key here") == once


def test_a_users_deletion_cost_stays() -> None:
    """2.9: the cost is ours only when we set it."""
    annotations = {**HASH, keys.POD_DELETION_COST: "5"}
    pod = _admit(pod_dict("x", index="0", annotations=annotations, owner="ReplicaSet"))
    assert pod["metadata"]["annotations"][keys.POD_DELETION_COST] == "5"


def test_worker() -> None:
    """3.8 step 3: index from the name; no gate; the group's labels come from its set."""
    labels = {keys.GROUP_INDEX: "1", keys.GROUP_KEY: "k"}
    pod = _admit(pod_dict("demo-1-3", labels=labels, annotations={keys.LEADER_NAME: "demo-1"}))
    assert pod["metadata"]["labels"] == {keys.NAME: "demo", **labels, keys.WORKER_INDEX: "3"}
    assert _gates(pod) == []


def test_a_worker_never_becomes_a_leader_by_its_labels() -> None:
    """C112: worker-index 0 from a user's template is overridden by the name; the leader's name says that it is a worker."""
    pod = _admit(pod_dict("demo-0-1", index="0", annotations={keys.LEADER_NAME: "demo-0"}))
    assert pod["metadata"]["labels"][keys.WORKER_INDEX] == "1"
    assert keys.GROUP_KEY not in pod["metadata"]["labels"]
    assert _gates(pod) == []


def test_a_cluster_without_ordinals_shows() -> None:
    """3.8, B30: a worker numbered 0 has index 0 and its leader's name, which the controller warns about."""
    pod = _admit(pod_dict("demo-0-0", annotations={keys.LEADER_NAME: "demo-0"}))
    assert pod["metadata"]["labels"][keys.WORKER_INDEX] == "0"
    assert _gates(pod) == []


def test_exclusive_topology_on_leaders_only() -> None:
    """3.8 step 2 c: workers follow by nodeSelector."""
    annotations = {keys.EXCLUSIVE_TOPOLOGY: "rack"}
    leader = _admit(pod_dict("demo-0", index="0", annotations=annotations))
    (term,) = leader["spec"]["affinity"]["podAffinity"][REQUIRED]
    assert term["labelSelector"]["matchExpressions"][0]["values"] == [group_key("t", "demo-0")]
    worker = _admit(pod_dict("demo-0-1", annotations={**annotations, keys.LEADER_NAME: "demo-0"}))
    assert "affinity" not in worker["spec"]


def test_subgroups_of_leader_and_workers() -> None:
    """3.8 steps 2 d and 3: the leader is in subgroup 0; keys come from the leader's name; the pair sits on leader and workers."""
    annotations = {keys.SUBGROUP_SIZE: "2", keys.SUBGROUP_POLICY_TYPE: "LeaderWorker", keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: "rack"}
    leader = _admit(pod_dict("demo-0", index="0", annotations=annotations))
    worker = _admit(pod_dict("demo-0-3", annotations={**annotations, keys.LEADER_NAME: "demo-0"}))
    for pod, index in ((leader, 0), (worker, 1)):
        labels = pod["metadata"]["labels"]
        assert labels[keys.SUBGROUP_INDEX] == str(index)
        assert labels[keys.SUBGROUP_KEY] == subgroup_key("demo-0", index)
        (term,) = pod["spec"]["affinity"]["podAffinity"][REQUIRED]
        expression = term["labelSelector"]["matchExpressions"][0]
        assert (expression["key"], expression["values"]) == (keys.SUBGROUP_KEY, [subgroup_key("demo-0", index)])


def test_leader_excluded() -> None:
    """3.8 step 2 d: then the leader is in no subgroup, and workers count without it."""
    annotations = {keys.SUBGROUP_SIZE: "2", keys.SUBGROUP_POLICY_TYPE: "LeaderExcluded", keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: "rack"}
    leader = _admit(pod_dict("demo-0", index="0", size=5, annotations=annotations))
    assert keys.SUBGROUP_INDEX not in leader["metadata"]["labels"]
    assert "affinity" not in leader["spec"]
    workers = [
        _admit(pod_dict(f"demo-0-{i}", size=5, annotations={**annotations, keys.LEADER_NAME: "demo-0"})) for i in range(1, 5)
    ]
    assert [pod["metadata"]["labels"][keys.SUBGROUP_INDEX] for pod in workers] == ["0", "0", "1", "1"]


def test_subgroups_in_hash_mode() -> None:
    """3.8: keys come from the group's key, on leader and worker alike."""
    annotations = {keys.SUBGROUP_SIZE: "2", **HASH}
    leader = _admit(pod_dict("x", index="0", annotations=annotations, spec={"hostname": ""}))
    key = leader["metadata"]["labels"][keys.GROUP_KEY]
    labels = {keys.GROUP_KEY: key}
    worker = _admit(pod_dict(f"demo-{key[:8]}-1", labels=labels, annotations={**annotations, keys.LEADER_NAME: "x"}))
    assert leader["metadata"]["labels"][keys.SUBGROUP_KEY] == worker["metadata"]["labels"][keys.SUBGROUP_KEY]


@pytest.mark.parametrize(
    ("pod", "part"),
    [
        (pod_dict("demo", index="0"), "metadata.name: Invalid value: 'demo'"),
        (pod_dict("demo-0-x", annotations={keys.LEADER_NAME: "demo-0"}), "metadata.name: Invalid value: 'demo-0-x'"),
        (pod_dict("demo-0", index="0", annotations={keys.SIZE: "four"}), f"metadata.annotations[{keys.SIZE}]: Invalid value"),
        (pod_dict("demo-0", index="0", annotations={keys.SIZE: "0"}), f"metadata.annotations[{keys.SIZE}]: Invalid value"),
        (pod_dict("demo-0", index="0", annotations={keys.SIZE: "9" * 5000}), f"metadata.annotations[{keys.SIZE}]: Invalid value"),
        (
            pod_dict("demo-0", index="0", annotations={keys.SIZE: "2000000000"}, spec={"containers": TPU_CONTAINERS}),
            "at most 10000",
        ),
        (pod_dict("demo-0-1", annotations={keys.SUBGROUP_SIZE: "-1"}), f"metadata.annotations[{keys.SUBGROUP_SIZE}]: Invalid"),
    ],
)
def test_refused(pod: dict[str, Any], part: str) -> None:
    """3.8 steps 1-3: what cannot be a member is refused, and the message names field and value."""
    with pytest.raises(PodRefused) as caught:
        _admit(pod)
    assert part in str(caught.value)


def test_size_is_required() -> None:
    """3.8 step 1."""
    pod = pod_dict("demo-0", index="0")
    del pod["metadata"]["annotations"]
    with pytest.raises(PodRefused, match="Required value"):
        _admit(pod)
