"""What the built-in controllers share: claiming, batches, discovery; and the small decisions."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.sandbox.controllers_fixtures import NOW, set_pod

from regroup.kube.meta import ObjectMeta
from regroup.kube.node import Node
from regroup.sandbox.controllers.batches import slow_start
from regroup.sandbox.controllers.claiming import adoption_patch, claim, release_patch
from regroup.sandbox.controllers.discovery import Catalog, parse
from regroup.sandbox.controllers.namespace import Namespace, Remainder, conditions, same_conditions
from regroup.sandbox.controllers.podgc import doomed, failure
from regroup.sandbox.controllers.views import Pod
from regroup.sandbox.controllers.volumebinder import BindableClaim, binding
from regroup.wire.errors import WireError


def pod(name: str, *, owner: str = "", app: str = "web", deleting: bool = False, version: int = 1, **rest: Any) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    metadata["resourceVersion"] = str(version)
    if owner:
        metadata["ownerReferences"] = [{"kind": "StatefulSet", "name": "web", "uid": owner, "controller": True}]
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return msgspec.json.decode(msgspec.json.encode({"metadata": metadata, **rest}), type=Pod)


def owner_meta(*, deleting: bool = False) -> ObjectMeta:
    return ObjectMeta(name="web", namespace="default", uid="set", deletion_timestamp=NOW if deleting else None)


@pytest.mark.parametrize("deleting", [False, True])
def test_claiming_adopts_orphans_and_releases_strays_unless_the_owner_goes(deleting: bool) -> None:
    """Ownership is by UID; a deleting owner adopts and releases nothing; a deleting orphan is left alone."""
    pods = [
        pod("mine", owner="set"),
        pod("mine-going", owner="set", deleting=True),
        pod("stray", owner="set", app="other"),
        pod("theirs", owner="other-set"),
        pod("orphan"),
        pod("orphan-going", deleting=True),
        pod("foreign", app="other"),
    ]
    found = claim(owner_meta(deleting=deleting), pods, lambda entry: entry.metadata.labels.get("app") == "web")
    names = [tuple(entry.metadata.name for entry in group) for group in (found.owned, found.adopt, found.release)]
    assert names == [("mine", "mine-going"), () if deleting else ("orphan",), () if deleting else ("stray",)]


def test_claiming_patches_carry_the_uid() -> None:
    """A replacement of the same name must not be adopted or released by mistake."""
    assert adoption_patch(pod("a"), {"uid": "set"}) == {"metadata": {"uid": "a", "ownerReferences": [{"uid": "set"}]}}
    assert release_patch(pod("a"), "set")["metadata"] == {
        "uid": "a",
        "ownerReferences": [{"$patch": "delete", "uid": "set"}],
    }


@pytest.mark.looptime
async def test_batches_grow_and_stop_at_the_first_failure() -> None:
    """1, 2, 4, ...: a server that refuses everything costs one request; the whole failing batch is carried out."""
    running = 0
    widths: list[int] = []

    async def step(fails: bool) -> None:
        nonlocal running
        running += 1
        await asyncio.sleep(1)
        widths.append(running)
        await asyncio.sleep(1)
        running -= 1
        if fails:
            raise WireError("no")

    assert await slow_start([lambda: step(False)] * 10) == 10
    assert widths == [1] + [2] * 2 + [4] * 4 + [3] * 3
    widths.clear()
    with pytest.raises(WireError):
        await slow_start([lambda: step(False), lambda: step(True), lambda: step(False), lambda: step(False)])
    assert len(widths) == 3


def test_discovery_prefers_the_first_version_and_skips_events() -> None:
    """Owner kinds are found in any served version, watches are only kept on one."""

    def resource(name: str, kind: str, verbs: list[str], scope: str = "Namespaced") -> dict[str, Any]:
        return {"resource": name, "responseKind": {"kind": kind}, "scope": scope, "verbs": verbs}

    everything = ["create", "delete", "get", "list", "watch"]
    groups = [
        {
            "metadata": {"name": "example.com"},
            "versions": [
                {"version": "v2", "resources": [resource("things", "Thing", everything)]},
                {
                    "version": "v1",
                    "resources": [resource("things", "Thing", everything), resource("events", "Event", everything)],
                },
            ],
        },
        {"metadata": {}, "versions": [{"version": "v1", "resources": [resource("bindings", "Binding", ["create"])]}]},
    ]
    document = {"kind": "APIGroupDiscoveryList", "items": groups}
    catalog = Catalog(tuple(parse(msgspec.json.encode(document))))
    assert [str(entry) + " " + entry.version for entry in catalog.collectable()] == ["things.example.com v2"]
    assert catalog.find(api_version="example.com/v1", kind="Thing") is not None
    assert catalog.find(api_version="example.com/v3", kind="Thing") is None
    with pytest.raises(WireError, match="APIGroupList"):
        parse(b'{"kind": "APIGroupList"}')


def node(*, ready: bool, tainted: bool) -> Node:
    taints = [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}] if tainted else []
    conditions_ = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    body = {"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": {"conditions": conditions_}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Node)


def test_pods_that_no_kubelet_will_finish_are_doomed() -> None:
    """Of lost nodes; terminating and unscheduled; terminating on a node out of service; ended beyond the limit."""
    pods = [
        pod("lost", spec={"nodeName": "gone"}),
        pod("missing-for-a-moment", spec={"nodeName": "new"}),
        pod("unscheduled", deleting=True),
        pod("waiting"),
        pod("out", deleting=True, spec={"nodeName": "dead"}),
        pod("not-deleting", spec={"nodeName": "dead"}),
        pod("tainted-but-ready", deleting=True, spec={"nodeName": "tainted"}),
        pod("down", deleting=True, spec={"nodeName": "down"}),
        pod("ended-1", spec={"nodeName": "tainted"}, status={"phase": "Failed"}),
        pod("ended-2", spec={"nodeName": "tainted"}, status={"phase": "Succeeded"}),
    ]
    nodes = {
        "dead": node(ready=False, tainted=True),
        "tainted": node(ready=True, tainted=True),
        "down": node(ready=False, tainted=False),
    }
    found = doomed(pods, nodes, frozenset({"gone"}), limit=1)
    assert [(entry.pod.metadata.name, entry.why) for entry in found] == [
        ("lost", "orphaned"),
        ("unscheduled", "unscheduled"),
        ("out", "out-of-service"),
        ("ended-1", "terminated"),
    ]


def test_a_collected_pod_fails_first() -> None:
    """Who looks at it sees phase Failed; for a lost node also why. A pod that ended is left as it is."""
    patch = failure(pod("a"), "orphaned", now="2026-03-01T12:00:00Z")
    assert patch is not None
    assert patch["metadata"]["uid"] == "a"
    assert patch["status"]["phase"] == "Failed"
    assert patch["status"]["conditions"][0]["reason"] == "DeletionByPodGC"
    bare = failure(pod("a"), "unscheduled", now="")
    assert bare is not None
    assert "conditions" not in bare["status"]
    assert failure(set_pod(0, phase="Succeeded"), "orphaned", now="") is None


def test_a_namespace_tells_what_is_left_in_it() -> None:
    """Conditions keep their transition time while their status stays, and are not written twice."""
    remainder = Remainder(objects={"pods": 2}, finalizers={"example.com/x": 1})
    written = conditions(remainder, "", (), NOW)
    told = {entry["type"]: (entry["status"], entry["message"]) for entry in written}
    assert told["NamespaceContentRemaining"] == ("True", "Some resources are remaining: pods has 2 resource instances")
    assert told["NamespaceFinalizersRemaining"][1].endswith("example.com/x in 1 resource instances")
    assert told["NamespaceDeletionContentFailure"][0] == "False"
    namespace = msgspec.json.decode(msgspec.json.encode({"status": {"conditions": written}}), type=Namespace)
    assert same_conditions(written, namespace.conditions)
    later = conditions(Remainder(), "", namespace.conditions, NOW + timedelta(hours=1))
    assert not same_conditions(later, namespace.conditions)
    times = {entry["type"]: entry["lastTransitionTime"] for entry in later}
    assert times["NamespaceContentRemaining"] == "2026-03-01T13:00:00Z"
    assert times["NamespaceDeletionContentFailure"] == "2026-03-01T12:00:00Z"


def test_a_claim_is_bound_to_a_volume_of_its_own() -> None:
    """First the name, then the status; a bound or deleting claim is left alone."""
    body: dict[str, Any] = {
        "metadata": {"name": "c", "uid": "u"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    spec, status = binding(msgspec.convert(body, BindableClaim))
    assert spec is not None
    assert status is not None
    assert spec["spec"] == {"volumeName": "pvc-u"}
    assert status["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    bound = {**body, "spec": {**body["spec"], "volumeName": "pvc-u"}, "status": {"phase": "Bound"}}
    assert binding(msgspec.convert(bound, BindableClaim)) == (None, None)
    going = {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}}
    assert binding(msgspec.convert(going, BindableClaim)) == (None, None)
