"""The objects that the operator creates (spec/leaderworkerset.md 3.1-3.5)."""

import copy
from typing import Any

import msgspec
import pytest
from tests.leaderworkerset.lws_api_builders import CONTAINER, LWS_UID, NAMESPACE, TEMPLATE, leader, lws, rolling

from regroup.kube.workloads import StatefulSet
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.objects.identity import group_key
from regroup.leaderworkerset.objects.revision import revision_data
from regroup.leaderworkerset.objects.workloads import (
    hpa_selector,
    leader_deployment,
    leader_set,
    outlives_leader,
    replica_service,
    revision_object,
    shared_service,
    worker_set,
    worker_set_drift,
)

OWNER_LWS = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "name": "demo",
    "uid": LWS_UID,
    "controller": True,
    "blockOwnerDeletion": True,
}
OWNER_LEADER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "name": "demo-0",
    "uid": "leader-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
NONE = {"restartPolicy": "None"}
UNIQUE = {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}
RESERVED = dict.fromkeys((*keys.RESERVED_POD_LABELS,), "user")


def _leaders(**parts: Any) -> dict[str, Any]:
    return leader_set(lws(**parts), revision="r1", replicas=2, partition=0)


def _meta(template: dict[str, Any], name: str) -> dict[str, str]:
    found: dict[str, str] = template["spec"]["template"]["metadata"][name]
    return found


def test_leader_set() -> None:
    """3.1, behaviour 23: one set of leaders, named after the LeaderWorkerSet and owned by it."""
    found = leader_set(lws(), revision="r1", replicas=3, partition=1)
    assert found == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "demo",
            "namespace": NAMESPACE,
            "labels": {keys.NAME: "demo", keys.REVISION: "r1", keys.ROLE: "leader"},
            "annotations": {keys.REPLICAS: "2"},
            "ownerReferences": [OWNER_LWS],
        },
        "spec": {
            "replicas": 3,
            "serviceName": "demo",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {keys.NAME: "demo", keys.WORKER_INDEX: "0"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": 1}},
            "template": {
                "metadata": {
                    "labels": {keys.NAME: "demo", keys.WORKER_INDEX: "0", keys.REVISION: "r1"},
                    "annotations": {keys.SIZE: "4"},
                },
                "spec": TEMPLATE["spec"],
            },
        },
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [({}, 1), ({"maxUnavailable": 2, "maxSurge": 3}, 4), ({"maxUnavailable": "10%", "maxSurge": 0}, 1), ({"maxSurge": "50%"}, 2)],
)
def test_max_unavailable_of_the_leader_set(config: dict[str, Any], expected: int) -> None:
    """3.1: max(1, maxUnavailable + min(maxSurge, replicas)), with two replicas."""
    found = _leaders(spec=rolling(**config))
    assert found["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == expected


def test_leader_template_is_used_for_leaders_only() -> None:
    """3.1, 3.3."""
    own = {"spec": {"containers": [{"name": "leader", "image": "l"}]}}
    source = lws(template={"leaderTemplate": own})
    leaders = leader_set(source, revision="r", replicas=1, partition=0)
    assert leaders["spec"]["template"]["spec"] == own["spec"]
    assert worker_set(source, leader=leader())["spec"]["template"]["spec"] == TEMPLATE["spec"]


def test_annotations_of_the_leader_template() -> None:
    """2.9, 3.1: everything that admission needs; termination policy only when it is Parallel, so that an upgrade changes no
    template."""
    annotations = {keys.EXCLUSIVE_TOPOLOGY: "rack", keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: "host"}
    found = _leaders(
        annotations=annotations,
        spec={**UNIQUE, "podTerminationPolicy": "Parallel"},
        template={"subGroupPolicy": {"subGroupSize": 2}},
    )
    assert _meta(found, "annotations") == {
        **annotations,
        keys.SIZE: "4",
        keys.SUBGROUP_SIZE: "2",
        keys.SUBGROUP_POLICY_TYPE: "LeaderWorker",
        keys.SUBDOMAIN_POLICY: "UniquePerReplica",
        keys.POD_TERMINATION_POLICY: "Parallel",
    }
    assert keys.POD_TERMINATION_POLICY not in _meta(_leaders(spec={"podTerminationPolicy": "Default"}), "annotations")


def test_operator_keys_win() -> None:
    """3.1, C112: reserved labels and annotations of the user's template are overridden or dropped; the rest stays."""
    annotations = dict.fromkeys(keys.RESERVED_POD_ANNOTATIONS, "user")
    template = {
        "metadata": {
            "labels": {**RESERVED, "app": "x"},
            "annotations": {**annotations, "note": "x"},
            "finalizers": ["example.com/f"],
            "creationTimestamp": None,
        },
        "spec": TEMPLATE["spec"],
    }
    source = lws(template={"workerTemplate": template})
    leaders = leader_set(source, revision="r1", replicas=1, partition=0)
    workers = worker_set(source, leader=leader())
    assert _meta(leaders, "labels") == {"app": "x", keys.NAME: "demo", keys.WORKER_INDEX: "0", keys.REVISION: "r1"}
    assert _meta(leaders, "annotations") == {"note": "x", keys.SIZE: "4"}
    assert keys.WORKER_INDEX not in _meta(workers, "labels")
    assert _meta(workers, "labels")[keys.GROUP_INDEX] == "0"
    assert keys.RECOVER not in _meta(workers, "annotations")
    assert leaders["spec"]["template"]["metadata"]["finalizers"] == ["example.com/f"]
    assert "creationTimestamp" not in leaders["spec"]["template"]["metadata"]


def test_labels_and_annotations_are_copied_down_without_bookkeeping() -> None:
    """3.1: the user's travel to the workloads; counters, tool bookkeeping and our own extensions do not."""
    bookkeeping = {
        keys.RESTART_COUNTS: '{"r1/0":1}',
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kopf.zalando.org/last-handled-configuration": "{}",
        keys.OWN_PREFIX + "node-loss-grace": "30",
        keys.AFTER_START_EXPERIMENT: "",
    }
    labels = {"kueue.x-k8s.io/queue-name": "q", **RESERVED}
    source = lws(annotations={"note": "x", **bookkeeping}, labels=labels)
    leaders, workers = leader_set(source, revision="r1", replicas=1, partition=0), worker_set(source, leader=leader())
    assert leaders["metadata"]["annotations"] == {"note": "x", keys.REPLICAS: "2"}
    assert workers["metadata"]["annotations"] == {"note": "x"}
    assert leaders["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "q",
        keys.NAME: "demo",
        keys.REVISION: "r1",
        keys.ROLE: "leader",
    }
    assert workers["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert workers["metadata"]["labels"][keys.ROLE] == "worker"


def test_worker_set() -> None:
    """3.3, behaviours 23 and 25: size - 1 workers from ordinal 1, owned by the leader pod; the template names the incarnation."""
    labels = {keys.NAME: "demo", keys.GROUP_INDEX: "0", keys.GROUP_KEY: "key-0", keys.REVISION: "r1"}
    assert worker_set(lws(), leader=leader()) == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "demo-0",
            "namespace": NAMESPACE,
            "labels": {**labels, keys.ROLE: "worker"},
            "annotations": {},
            "ownerReferences": [OWNER_LEADER],
        },
        "spec": {
            "replicas": 3,
            "ordinals": {"start": 1},
            "serviceName": "demo",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {keys.GROUP_INDEX: "0", keys.NAME: "demo", keys.GROUP_KEY: "key-0"}},
            "template": {
                "metadata": {
                    "labels": {**labels, keys.LEADER_UID: "leader-uid"},
                    "annotations": {
                        keys.SIZE: "4",
                        keys.LEADER_NAME: "demo-0",
                        keys.LEADER_ADDRESS: f"demo-0.demo.{NAMESPACE}",
                    },
                },
                "spec": TEMPLATE["spec"],
            },
        },
    }


def test_worker_set_follows_the_groups_subdomain() -> None:
    """3.3, 3.4: per-replica Services name the leader in its own subdomain."""
    found = worker_set(lws(spec=UNIQUE), leader=leader(subdomain="demo-0"))
    assert found["spec"]["serviceName"] == "demo-0"
    assert _meta(found, "annotations")[keys.LEADER_ADDRESS] == f"demo-0.demo-0.{NAMESPACE}"
    assert keys.SUBDOMAIN_POLICY not in _meta(found, "annotations")


def test_workers_that_outlive_their_leader() -> None:
    """5.3 a, c: under None in Ordinal the set belongs to the LeaderWorkerSet and reads the same for every incarnation."""
    source = lws(template=NONE)
    found = worker_set(source, leader=leader())
    assert found["metadata"]["ownerReferences"] == [OWNER_LWS]
    assert keys.LEADER_UID not in _meta(found, "labels")
    assert found == worker_set(source, leader=leader(uid="another"))
    assert outlives_leader(source)
    assert not outlives_leader(lws())
    hashed = lws(template=NONE, spec={"groupIdentity": "Hash"})
    assert not outlives_leader(hashed)
    assert worker_set(hashed, leader=leader())["metadata"]["ownerReferences"] == [OWNER_LEADER]


def test_exclusive_topology_of_workers() -> None:
    """3.3, behaviour 30: workers are sent to the leader's domain; the user's own selector stays; the source is not changed."""
    template = {"spec": {"containers": [CONTAINER], "nodeSelector": {"disk": "ssd"}}}
    source = lws(annotations={keys.EXCLUSIVE_TOPOLOGY: "rack"}, template={"workerTemplate": template})
    before = copy.deepcopy(source.template.worker_template)
    found = worker_set(source, leader=leader(), topology_value="r7")
    assert found["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd", "rack": "r7"}
    assert _meta(found, "annotations")[keys.EXCLUSIVE_TOPOLOGY] == "rack"
    assert source.template.worker_template == before


def test_storage_is_passed_through() -> None:
    """6.8: claims and their retention go to both sets."""
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    retention = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    source = lws(template={"volumeClaimTemplates": claims, "persistentVolumeClaimRetentionPolicy": retention})
    for found in (leader_set(source, revision="r", replicas=1, partition=0), worker_set(source, leader=leader())):
        assert found["spec"]["volumeClaimTemplates"] == claims
        assert found["spec"]["persistentVolumeClaimRetentionPolicy"] == retention
    assert "volumeClaimTemplates" not in _leaders()["spec"]


def test_tpu_leaders_are_told_to_workers() -> None:
    """2.9: whether the leader requests TPUs, from its own template."""
    tpu = {"spec": {"containers": [{**CONTAINER, "resources": {"limits": {"google.com/tpu": 4}}}]}}
    with_tpu = worker_set(lws(template={"leaderTemplate": tpu}), leader=leader())
    assert _meta(with_tpu, "annotations")[keys.LEADER_REQUESTS_TPUS] == "true"
    only_workers = worker_set(lws(template={"leaderTemplate": TEMPLATE, "workerTemplate": tpu}), leader=leader())
    assert keys.LEADER_REQUESTS_TPUS not in _meta(only_workers, "annotations")


def test_leader_deployment() -> None:
    """3.2: Hash leaders; limits pass through as they are; a readiness gate only where there are workers."""
    source = lws(spec={"groupIdentity": "Hash", **rolling(maxUnavailable="25%", maxSurge=2)})
    found = leader_deployment(source, revision="r1")
    assert found["kind"] == "Deployment"
    assert found["metadata"]["ownerReferences"] == [OWNER_LWS]
    assert found["spec"]["replicas"] == 2
    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": "25%", "maxSurge": 2}
    template = found["spec"]["template"]
    assert template["metadata"]["annotations"][keys.GROUP_IDENTITY] == "Hash"
    assert template["spec"]["subdomain"] == "demo"
    assert template["spec"]["readinessGates"] == [{"conditionType": keys.GROUP_READY}]
    alone = leader_deployment(lws(spec={"groupIdentity": "Hash"}, template={"size": 1}), revision="r1")
    assert "readinessGates" not in alone["spec"]["template"]["spec"]
    assert "subdomain" not in source.template.worker_template["spec"]


def test_hash_workers() -> None:
    """3.3, 4.2: named after the host name, told which identity mode they are in."""
    found = worker_set(lws(spec={"groupIdentity": "Hash"}), leader=leader())
    assert _meta(found, "annotations")[keys.GROUP_IDENTITY] == "Hash"
    assert found["metadata"]["name"] == "demo-0"


def test_services() -> None:
    """3.4, behaviours 23 and 26: headless, also for pods that are not ready, without ports."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True}
    assert shared_service(lws()) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "demo", "namespace": NAMESPACE, "labels": {keys.NAME: "demo"}, "ownerReferences": [OWNER_LWS]},
        "spec": {**spec, "selector": {keys.NAME: "demo"}},
    }
    assert replica_service(lws(), leader=leader(subdomain="demo-0")) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo-0",
            "namespace": NAMESPACE,
            "labels": {keys.NAME: "demo"},
            "ownerReferences": [OWNER_LEADER],
        },
        "spec": {**spec, "selector": {keys.NAME: "demo", keys.GROUP_INDEX: "0"}},
    }


def test_revision_object() -> None:
    """3.5."""
    data = revision_data(lws())
    assert revision_object(lws(), data=data, key="abc", number=7) == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": "demo-abc-7",
            "namespace": NAMESPACE,
            "labels": {keys.NAME: "demo", keys.REVISION: "abc"},
            "ownerReferences": [OWNER_LWS],
        },
        "data": data,
        "revision": 7,
    }


def test_autoscalers_see_leaders_only() -> None:
    """Behaviour 21."""
    assert hpa_selector("demo") == ("leaderworkerset.sigs.k8s.io/name=demo,leaderworkerset.sigs.k8s.io/worker-index=0")


def test_objects_are_the_same_every_time() -> None:
    """Level-triggered: what is applied again changes nothing, byte for byte."""
    once = msgspec.json.encode([_leaders(), worker_set(lws(), leader=leader()), shared_service(lws())])
    assert once == msgspec.json.encode([_leaders(), worker_set(lws(), leader=leader()), shared_service(lws())])


WANTED = worker_set(lws(), leader=leader())


def _live(change: Any = None) -> StatefulSet:
    """WANTED as an API server would give it back: with its own defaults, and ``change`` made to it."""
    body: dict[str, Any] = copy.deepcopy(WANTED)
    body["spec"]["revisionHistoryLimit"] = 10
    pods = body["spec"]["template"]
    pods["metadata"]["creationTimestamp"] = None
    pods["spec"] |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "x"}
    pods["spec"]["containers"][0] |= {"resources": {}, "imagePullPolicy": "Always", "terminationMessagePath": "/dev/x"}
    if change is not None:
        change(body)
    return msgspec.json.decode(msgspec.json.encode(body), type=StatefulSet)


def test_server_defaults_are_no_drift() -> None:
    """Q30: compared on what we set."""
    assert worker_set_drift(_live(), WANTED) == ()


def test_sets_of_the_go_controller_are_no_drift() -> None:
    """Q30: they do not know our label for the incarnation."""
    live = _live(lambda body: body["spec"]["template"]["metadata"]["labels"].pop(keys.LEADER_UID))
    assert worker_set_drift(live, WANTED) == ()
    assert keys.LEADER_UID in WANTED["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda body: body["spec"].update(replicas=5), ("spec.replicas",)),
        (lambda body: body["spec"].pop("replicas"), ("spec.replicas",)),
        (lambda body: body["spec"]["template"]["spec"]["containers"][0].update(image="other"), ("spec.template",)),
        (lambda body: body["spec"]["template"]["spec"]["containers"].append({"name": "extra"}), ("spec.template",)),
        (lambda body: body["spec"]["template"]["metadata"]["labels"].pop(keys.REVISION), ("spec.template",)),
        (lambda body: body["spec"]["template"]["metadata"]["labels"].update({keys.LEADER_UID: "x"}), ("spec.template",)),
        (lambda body: body["spec"].pop("template"), ("spec.template",)),
    ],
)
def test_drift(change: Any, expected: tuple[str, ...]) -> None:
    """Q30, anchor figures: what was changed by hand is named."""
    assert worker_set_drift(_live(change), WANTED) == expected


def test_names_of_a_group_fit_together() -> None:
    """3.3, 3.8: set, key and selector of one group agree, whoever computes them."""
    found = worker_set(lws(), leader=leader(3))
    assert found["metadata"]["name"] == "demo-3"
    assert found["spec"]["selector"]["matchLabels"].items() <= _meta(found, "labels").items()
    assert group_key(NAMESPACE, "demo-3") != group_key(NAMESPACE, "demo-4")
