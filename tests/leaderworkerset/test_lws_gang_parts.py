"""Levels, names, sums and refusals of gang scheduling (spec/leaderworkerset.md 2.6, 3.6, 3.8 step 4)."""

from typing import Any

import pytest
from tests.leaderworkerset.lws_api_builders import lws_dict, pod_dict
from tests.leaderworkerset.lws_builders import NOW, pod, view

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.admission.gang_validation import scheduling_problems
from regroup.leaderworkerset.admission.pod_admission import mutate_pod
from regroup.leaderworkerset.api import types
from regroup.leaderworkerset.groups.decisions import Admit, CreatePodGroups, Stay, Wait
from regroup.leaderworkerset.groups.upkeep import upkeep
from regroup.leaderworkerset.objects import gang, requests
from regroup.leaderworkerset.objects import workloads as objects
from regroup.leaderworkerset.objects.gang import Level, Provider
from regroup.leaderworkerset.view import PodGroups, PodGroupState

GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {}}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({}, Level.REPLICA),
        ({"replica": {}}, Level.REPLICA),
        ({"replica": GANG}, Level.REPLICA),
        ({"replica": {"leader": {}}}, Level.ROLE),
        ({"replica": {"worker": GANG}}, Level.ROLE),
        (BASIC, Level.ALL),
    ],
)
def test_levels(scheduling: dict[str, Any], expected: Level) -> None:
    """2.6: what is not said means one gang for each replica."""
    assert gang.level(scheduling) is expected


@pytest.mark.parametrize(
    "scheduling", [{**BASIC, "replica": {}}, {"replica": {**GANG, "worker": {}}}, {**GANG, "replica": {"leader": {}}}]
)
def test_exactly_one_level(scheduling: dict[str, Any]) -> None:
    """2.6."""
    with pytest.raises(gang.SeveralLevels, match="exactly one level"):
        gang.level(scheduling)
    assert gang.template_annotations(types.decode(lws_dict(spec={"scheduling": scheduling}))) == {}


CPU = {"resources": {"requests": {"cpu": "100m"}}}


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ([{"containers": [CPU, CPU]}], {"cpu": "200m"}),
        ([{"containers": [CPU]}] * 3, {"cpu": "300m"}),
        (
            [{"containers": [{"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 8}}}]}],
            {"memory": "1073741824", "nvidia.com/gpu": "8"},
        ),
        ([{"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}], {"cpu": "1"}),
        ([{"containers": [CPU], "initContainers": [{"resources": {"requests": {"cpu": 2}}}]}], {"cpu": "2"}),
        (
            [
                {
                    "containers": [CPU],
                    "initContainers": [{**CPU, "restartPolicy": "Always"}, {"resources": {"requests": {"cpu": "1"}}}],
                }
            ],
            {"cpu": "1100m"},
        ),
        ([{"containers": [CPU], "overhead": {"cpu": "0.25", "memory": "1e3"}}], {"cpu": "350m", "memory": "1k"}),
        ([{"containers": [{"resources": {"requests": {"cpu": "lots", "memory": "5M"}}}]}], {"memory": "5M"}),
        ([{"containers": [{}]}], {}),
        ([{}], {}),
    ],
)
def test_requests_of_a_group(specs: list[dict[str, Any]], expected: dict[str, str]) -> None:
    """3.6 minResources: what the scheduler counts for a pod, times the pods."""
    assert requests.total([{"spec": spec} for spec in specs]) == expected


def test_admission_names_the_pod_group() -> None:
    """3.8 step 4: Volcano by annotation on every pod; Kubernetes by spec.schedulingGroup on pods that ask; nothing without a
    provider, because nobody would make the PodGroup that the pod would wait for."""
    labels = {keys.REVISION: "r1", keys.GROUP_INDEX: "0"}
    asks = {keys.WORKLOAD_SCHEDULING: "role", keys.WORKLOAD_NAME: "demo-12345678"}
    leader = pod_dict("demo-0", index="0", labels=labels, annotations=asks)
    worker = pod_dict("demo-0-1", labels=labels, annotations={**asks, keys.LEADER_NAME: "demo-0"})

    def admitted(one: dict[str, Any], provider: Provider) -> dict[str, Any]:
        return mutate_pod(one, namespace="t", random_key="k", provider=provider)

    assert admitted(leader, Provider.VOLCANO)["metadata"]["annotations"][gang.GROUP_NAME] == "demo-0-r1"
    assert admitted(worker, Provider.VOLCANO)["metadata"]["annotations"][gang.GROUP_NAME] == "demo-0-r1"
    names = [admitted(one, Provider.KUBERNETES)["spec"]["schedulingGroup"]["podGroupName"] for one in (leader, worker)]
    assert names == ["demo-12345678-0-leader-r1", "demo-12345678-0-worker-r1"]
    for one in (leader, worker):
        plain = admitted(one, Provider.NONE)
        assert "schedulingGroup" not in plain["spec"]
        assert gang.GROUP_NAME not in plain["metadata"]["annotations"]
        again = admitted(one, Provider.KUBERNETES)
        assert admitted(again, Provider.KUBERNETES) == again, "B15"


def test_workers_are_placed_with_their_leader() -> None:
    """3.6, KEP-666: the Go controller tells incarnations of a leader apart by its copy of the Workload's name; workers take the
    leader's, and its PodGroups are those that its admission named."""
    lws = types.decode(lws_dict(spec={"scheduling": {}}, template={"size": 3}))
    placed = {keys.WORKLOAD_SCHEDULING: "replica", keys.WORKLOAD_NAME: "demo-b7c8d2f1.x2k9q"}
    leader = pod(0, annotations=placed)
    made = objects.worker_set(lws, leader=leader)["spec"]["template"]["metadata"]["annotations"]
    assert made.items() >= placed.items()
    (wanted,) = gang.wanted(leader, provider=Provider.KUBERNETES)
    assert wanted.name.startswith("demo-b7c8d2f1.x2k9q-0-")
    kept = objects.leader_set(lws, revision="r", replicas=1, partition=0, workload="demo-b7c8d2f1")
    assert gang.noted_workload(kept["spec"]["template"]) == "demo-b7c8d2f1"


@pytest.mark.parametrize(
    ("replicas", "lost", "sizes", "expected"), [(2, 0, {2}, 4), (2, 0, {2, 4}, 4), (3, 1, {2}, 4), (0, 0, {2}, 1), (1, 1, {4}, 1)]
)
def test_members_of_all(replicas: int, lost: int, sizes: set[int], expected: int) -> None:
    """3.6: never more than there can be, and at least one."""
    assert gang.members_of_all(replicas=replicas, lost=lost, sizes=sizes) == expected


def test_names_fit() -> None:
    """A name of an object has at most 253 characters; the end tells groups apart, so the beginning is cut."""
    labels = {keys.GROUP_INDEX: "9", keys.REVISION: "r1"}
    name = gang.native_name(labels, {keys.WORKLOAD_SCHEDULING: "replica", keys.WORKLOAD_NAME: "x" * 253})
    assert len(name) == 253
    assert name.endswith("-9-r1")


@pytest.mark.parametrize(
    ("groups", "gated", "decision"),
    [
        (PodGroups(), True, Admit),
        (PodGroups(PodGroupState.THERE), True, Admit),
        (PodGroups(PodGroupState.MISSING, ["demo-0-r1"]), True, CreatePodGroups),
        (PodGroups(PodGroupState.MISSING, ["demo-0-r1"]), False, CreatePodGroups),
        (PodGroups(PodGroupState.GOING, why="it goes"), True, Wait),
        (PodGroups(PodGroupState.FOREIGN, why="not ours"), True, Wait),
        (PodGroups(PodGroupState.UNSERVED, why="not served"), True, Wait),
        (PodGroups(PodGroupState.FOREIGN, why="not ours"), False, Stay),
        (PodGroups(PodGroupState.UNSERVED, why="not served"), False, Stay),
    ],
)
def test_pod_groups_come_before_the_gate(groups: PodGroups, gated: bool, decision: type) -> None:
    """4.3, 3.6: they exist before the gate is lifted; a group that runs already is not held up by them."""
    leader = pod(0, gated=True, scheduled="SchedulingGated", phase="Pending", ready=False) if gated else pod(0)
    if gated:
        found = upkeep(view(leader=leader, workers=(), worker_set=None, pod_groups=groups), NOW)
    else:
        found = upkeep(view(leader=leader, pod_groups=groups), NOW)
    assert type(found) is decision
    if isinstance(found, Wait):
        assert found.rule == "lws 3.6"
        assert found.on_pod is (groups.state is PodGroupState.FOREIGN)


def _lws(scheduling: Any, **parts: Any) -> dict[str, Any]:
    return lws_dict(spec={"scheduling": scheduling, **parts.pop("spec", {})}, **parts)


CLAIM = {"name": "nvlink", "resourceClaimTemplateName": "link"}


@pytest.mark.parametrize(
    ("obj", "provider", "expected"),
    [
        (_lws({}), Provider.NONE, "spec.scheduling: Forbidden: needs an operator that is started with --scheduler-provider"),
        (_lws({"replica": {"leader": {}}}, template={"size": 1}), Provider.KUBERNETES, "spec.leaderWorkerTemplate.size: Invalid"),
        (
            _lws({"replica": {"worker": {"schedulingPolicy": {"gang": {"minCount": 4}}}}}, template={"size": 4}),
            Provider.KUBERNETES,
            "spec.scheduling.replica.worker.schedulingPolicy.gang.minCount: Invalid value: 4: must be all 3 pods",
        ),
        (
            _lws({"replica": {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}}),
            Provider.KUBERNETES,
            "spec.scheduling.replica.schedulingPolicy.gang.minGroupCount: Forbidden",
        ),
        (
            _lws({"replica": {"schedulingPolicy": {"gang": {}, "basic": {}}}}),
            Provider.KUBERNETES,
            "spec.scheduling.replica.schedulingPolicy: Invalid",
        ),
        (
            _lws({"replica": {"disruptionMode": {"single": {}, "all": {}}}}),
            Provider.KUBERNETES,
            "spec.scheduling.replica.disruptionMode: Invalid",
        ),
        (
            _lws({"replica": {"worker": {"resourceClaims": [CLAIM]}}}, template={"size": 2}),
            Provider.KUBERNETES,
            "spec.scheduling.replica.worker.resourceClaims[0]: Invalid value",
        ),
        (
            _lws({"replica": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}),
            Provider.VOLCANO,
            "spec.scheduling: Forbidden",
        ),
        (_lws({}, spec={"startupPolicy": "LeaderReady"}), Provider.VOLCANO, "spec.scheduling: Forbidden"),
    ],
)
def test_refused(obj: dict[str, Any], provider: Provider, expected: str) -> None:
    """2.6: path, value and rule."""
    (problem,) = scheduling_problems(obj, provider=provider)
    assert problem.message.startswith(expected), problem.message


def test_what_was_so_before_does_not_hold_up_other_changes() -> None:
    """Adoption: an object from an operator with another provider can be scaled and relabelled."""
    old = _lws({})
    assert scheduling_problems(_lws({}, labels={"a": "b"}), old, provider=Provider.NONE) == []
    assert len(scheduling_problems(_lws({}), lws_dict(), provider=Provider.NONE)) == 1
    assert len(scheduling_problems(_lws({}), {"spec": "x"}, provider=Provider.NONE)) == 1


@pytest.mark.parametrize("provider", list(Provider))
def test_nothing_asked_nothing_refused(provider: Provider) -> None:
    """2.6: a LeaderWorkerSet without spec.scheduling is none of this."""
    assert scheduling_problems(lws_dict(), provider=provider) == []
