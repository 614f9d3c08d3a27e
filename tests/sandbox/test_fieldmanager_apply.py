"""Server-side apply and managedFields on real kinds; every expectation was seen on Kubernetes 1.36.3."""

import json
from typing import Any

import pytest

from regroup.kube.resources import CONFIGMAPS, DEPLOYMENTS, PODS, SERVICES
from regroup.sandbox.fieldmanager.lastapplied import ANNOTATION
from regroup.sandbox.fieldmanager.manager import ApplyConflict, ApplyError, apply, update
from regroup.sandbox.kinds.builtin import BUILTINS
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.wire.resource import Resource

Obj = dict[str, Any]
KINDS = {kind.resource: kind for kind in BUILTINS}
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


class Cluster:
    """One object, as the server keeps it between requests."""

    def __init__(self, resource: Resource) -> None:
        self.kind: KindDefinition = KINDS[resource]
        self.live: Obj | None = None

    def _settle(self, obj: Obj) -> Obj:
        kept, _ = self.kind.decode(obj)
        self.kind.default(kept)
        return kept

    def apply(self, body: Obj, manager: str, *, force: bool = False, subresource: str = "", now: str = NOW) -> Obj:
        config = {
            "apiVersion": self.kind.resource.api_version,
            "kind": self.kind.resource.kind,
            "metadata": {"name": "n"},
            **body,
        }
        schema = self.kind.schema
        result = apply(self.live, config, manager=manager, force=force, subresource=subresource, now=now, schema=schema)
        self.live = self._settle(result)
        return self.live

    def write(self, body: Obj, manager: str, *, subresource: str = "", now: str = NOW) -> Obj:
        base = {"apiVersion": self.kind.resource.api_version, "kind": self.kind.resource.kind, "metadata": {"name": "n"}}
        new = self._settle({**(self.live or base), **body})
        self.live = update(self.live, new, manager=manager, subresource=subresource, now=now, schema=self.kind.schema)
        return self.live

    def fields(self, manager: str, operation: str = "Apply") -> Obj | None:
        for entry in (self.live or {})["metadata"].get("managedFields", []):
            if (entry["manager"], entry["operation"]) == (manager, operation):
                fields: Obj = entry["fieldsV1"]
                return fields
        return None

    def entry(self, manager: str) -> Obj:
        found = [entry for entry in (self.live or {})["metadata"]["managedFields"] if entry["manager"] == manager]
        assert len(found) == 1
        return dict(found[0])


def containers(*items: Obj) -> Obj:
    return {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(items)}},
        }
    }


def shown(live: Obj) -> list[Obj]:
    return list(live["spec"]["template"]["spec"]["containers"])


def test_an_applier_owns_what_it_says() -> None:
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"a": "1", "b": "2"}}, "x")
    assert cluster.entry("x") == {
        "manager": "x",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}},
    }


def test_the_same_value_makes_a_second_owner_without_a_time() -> None:
    """Nothing in the object changed, so no time is written: a real server's own quirk."""
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"a": "1", "b": "2"}}, "x")
    cluster.apply({"data": {"a": "1"}}, "y", now=LATER)
    assert cluster.fields("y") == {"f:data": {"f:a": {}}}
    assert "time" not in cluster.entry("y")
    assert cluster.entry("x")["time"] == NOW


def test_another_value_conflicts_with_every_owner() -> None:
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"a": "1", "b": "2"}}, "x")
    cluster.apply({"data": {"a": "1"}}, "y")
    with pytest.raises(ApplyConflict) as one:
        cluster.apply({"data": {"b": "3"}}, "z")
    assert str(one.value) == 'Apply failed with 1 conflict: conflict with "x": .data.b'
    with pytest.raises(ApplyConflict) as many:
        cluster.apply({"data": {"a": "2", "b": "3"}}, "z")
    assert str(many.value) == (
        'Apply failed with 3 conflicts: conflicts with "x":\n- .data.a\n- .data.b\nconflicts with "y":\n- .data.a'
    )
    assert {"reason": "FieldManagerConflict", "message": 'conflict with "y"', "field": ".data.a"} in many.value.causes


def test_force_takes_the_field_from_the_others() -> None:
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"a": "1", "b": "2"}}, "x")
    live = cluster.apply({"data": {"a": "2"}}, "y", force=True)
    assert live["data"] == {"a": "2", "b": "2"}
    assert cluster.fields("x") == {"f:data": {"f:b": {}}}


def test_given_up_fields_go_unless_another_owns_them() -> None:
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"a": "1", "b": "2", "c": "3"}}, "x")
    cluster.apply({"data": {"b": "2"}}, "y")
    live = cluster.apply({"data": {"c": "3"}}, "x")
    assert live["data"] == {"b": "2", "c": "3"}
    live = cluster.apply({}, "x")
    assert live["data"] == {"b": "2"}
    assert cluster.fields("x") is None


def test_a_plain_write_owns_what_it_changed_and_conflicts_name_its_version() -> None:
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"q": "1"}}, "x")
    cluster.write({"data": {"q": "2", "n": "1"}}, "u", now=LATER)
    assert cluster.fields("u", "Update") == {"f:data": {"f:n": {}, "f:q": {}}}
    assert cluster.fields("x") is None
    with pytest.raises(ApplyConflict) as caught:
        cluster.apply({"data": {"q": "1"}}, "x")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "u" using v1: .data.q'


def test_a_plain_write_that_takes_away_leaves_no_owner_behind() -> None:
    cluster = Cluster(CONFIGMAPS)
    cluster.apply({"data": {"q": "1", "r": "1"}}, "x")
    cluster.write({"data": {"r": "1"}}, "u")
    assert cluster.fields("x") == {"f:data": {"f:r": {}}}
    assert cluster.fields("u", "Update") is None


def test_lists_merge_by_all_their_keys() -> None:
    """A port's protocol is a key with a default: leaving it out means the same port."""
    cluster = Cluster(DEPLOYMENTS)
    cluster.apply(containers({"name": "c", "image": "i", "ports": [{"containerPort": 80}]}), "x")
    live = cluster.apply(
        containers({"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]}), "x"
    )
    assert shown(live)[0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "TCP"}]
    fields = cluster.fields("x")
    assert fields is not None
    ports = fields["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']["f:ports"]
    assert set(ports) == {'k:{"containerPort":80,"protocol":"TCP"}', 'k:{"containerPort":81,"protocol":"TCP"}'}


def test_appliers_share_a_list() -> None:
    """Each has its elements; what one gives up goes, the other's stays."""
    cluster = Cluster(DEPLOYMENTS)
    cluster.apply(containers({"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}), "x")
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}
    assert [entry["name"] for entry in shown(cluster.apply(side, "side"))] == ["c", "side"]
    live = cluster.apply(containers({"name": "c", "image": "i", "env": [{"name": "B", "value": "2"}]}), "x")
    assert shown(live)[0]["env"] == [{"name": "B", "value": "2"}]
    assert [entry["name"] for entry in shown(cluster.apply({}, "side"))] == ["c"]


def test_atomic_fields_are_owned_whole() -> None:
    cluster = Cluster(DEPLOYMENTS)
    cluster.apply(containers({"name": "c", "image": "i"}), "x")
    fields = cluster.fields("x")
    assert fields is not None
    assert fields["f:spec"]["f:selector"] == {}


def test_creating_owns_defaults_but_no_empty_structs() -> None:
    """What an object has before anything is set (spec, template, strategy) is nobody's doing and carries no dot."""
    cluster = Cluster(DEPLOYMENTS)
    cluster.write(containers({"name": "c", "image": "i"}), "kubectl-create")
    fields = cluster.fields("kubectl-create", "Update")
    assert fields is not None
    spec = fields["f:spec"]
    assert "." not in spec
    assert spec["f:strategy"] == {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}}
    assert spec["f:template"]["f:metadata"] == {"f:labels": {".": {}, "f:a": {}}}
    container = spec["f:template"]["f:spec"]["f:containers"]
    assert list(container) == ['k:{"name":"c"}']
    assert set(container['k:{"name":"c"}']) == {
        ".",
        "f:image",
        "f:imagePullPolicy",
        "f:name",
        "f:resources",
        "f:terminationMessagePath",
        "f:terminationMessagePolicy",
    }
    assert "f:status" not in fields


def test_subresources_have_entries_of_their_own() -> None:
    cluster = Cluster(PODS)
    cluster.write({"spec": {"containers": [{"name": "c", "image": "i"}]}}, "me")
    cluster.write(
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}, "me", subresource="status"
    )
    assert cluster.live is not None
    found = [(entry["manager"], entry.get("subresource")) for entry in cluster.live["metadata"]["managedFields"]]
    assert found == [("me", None), ("me", "status")]
    status = cluster.live["metadata"]["managedFields"][1]["fieldsV1"]["f:status"]
    assert set(status) == {"f:phase", "f:conditions"}
    assert "." in status["f:conditions"]['k:{"type":"Ready"}']


def test_an_object_without_a_record_gets_one_at_its_first_apply() -> None:
    """Plain writes leave it without; an apply finds that somebody wrote before."""
    cluster = Cluster(CONFIGMAPS)
    cluster.write({"data": {"a": "1"}}, "me")
    assert cluster.live is not None
    cluster.write({"metadata": {"name": "n", "managedFields": [{}]}}, "me")
    assert "managedFields" not in cluster.live["metadata"]
    cluster.write({"data": {"a": "1", "w": "1"}}, "me")
    assert "managedFields" not in cluster.live["metadata"]
    cluster.apply({"data": {"k": "1"}}, "x", now=LATER)
    assert cluster.fields("before-first-apply", "Update") == {"f:data": {".": {}, "f:a": {}, "f:w": {}}}


def test_the_oldest_plain_writers_are_joined() -> None:
    cluster = Cluster(CONFIGMAPS)
    for number in range(13):
        now = f"2026-01-01T00:00:{number:02d}Z"
        cluster.write({"data": {f"k{other}": "1" for other in range(number + 1)}}, f"m{number}", now=now)
    assert cluster.live is not None
    managers = [entry["manager"] for entry in cluster.live["metadata"]["managedFields"]]
    assert len(managers) == 10
    assert managers[0] == "ancient-changes"
    assert cluster.fields("ancient-changes", "Update") == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}


@pytest.mark.parametrize(
    ("resource", "body", "message"),
    [
        (CONFIGMAPS, {"foo": 1}, "(/n; /v1, Kind=ConfigMap): .foo: field not declared in schema"),
        (
            CONFIGMAPS,
            {"data": {"a": 1}},
            "(/n; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            PODS,
            {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            '(/n; /v1, Kind=Pod): .spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            DEPLOYMENTS,
            {"spec": {"replicas": "x"}},
            "(/n; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string",
        ),
    ],
)
def test_configurations_that_do_not_fit_the_schema_are_refused(resource: Resource, body: Obj, message: str) -> None:
    with pytest.raises(ApplyError) as caught:
        Cluster(resource).apply(body, "x")
    assert (str(caught.value), caught.value.code) == (f"failed to create typed patch object {message}", 500)


def test_what_an_apply_must_bring_and_must_not() -> None:
    with pytest.raises(ApplyError, match=r"metadata\.managedFields must be nil") as caught:
        Cluster(CONFIGMAPS).apply({"metadata": {"name": "n", "managedFields": []}}, "x")
    assert caught.value.code == 400
    with pytest.raises(ApplyError, match=r"fieldManager: Required value: is required for apply patch$") as caught:
        Cluster(CONFIGMAPS).apply({}, "")
    assert caught.value.code == 422


def test_service_ports_move_with_their_keys() -> None:
    cluster = Cluster(SERVICES)
    cluster.apply({"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}, "x")
    live = cluster.apply({"spec": {"ports": [{"port": 82, "name": "c"}, {"port": 81, "name": "b"}]}}, "x")
    assert [port["port"] for port in live["spec"]["ports"]] == [82, 81]


def test_kubectl_moves_from_client_side_to_server_side_apply_without_conflicts() -> None:
    """What its older apply set and nobody changed since is not in its way; the annotation follows."""
    cluster = Cluster(CONFIGMAPS)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "annotations": {}}, "data": {"a": "1", "b": "1"}}
    meta = {"name": "n", "annotations": {ANNOTATION: json.dumps(config)}}
    cluster.write({"metadata": meta, "data": {"a": "1", "b": "1"}}, "kubectl-client-side-apply")
    with pytest.raises(ApplyConflict):
        cluster.apply({"data": {"a": "2"}}, "other")
    live = cluster.apply({"data": {"a": "2", "b": "1"}}, "kubectl")
    assert live["data"] == {"a": "2", "b": "1"}
    assert json.loads(live["metadata"]["annotations"][ANNOTATION])["data"] == {"a": "2", "b": "1"}


def test_kubectl_meets_conflicts_where_others_changed_something_since() -> None:
    cluster = Cluster(CONFIGMAPS)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"a": "1"}}
    meta = {"name": "n", "annotations": {ANNOTATION: json.dumps(config)}}
    cluster.write({"metadata": meta, "data": {"a": "1"}}, "kubectl-client-side-apply")
    cluster.write({"data": {"a": "changed"}}, "someone")
    with pytest.raises(ApplyConflict) as caught:
        cluster.apply({"data": {"a": "2"}}, "kubectl")
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "someone" using v1: .data.a'
