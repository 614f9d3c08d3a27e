"""What the built-in kinds are called, what defaults they have, and what kubectl shows of them (as on Kubernetes 1.36.3)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.sandbox.kinds_hands import CONTAINER, Obj, kind, made, pod, template, workload

from regroup.sandbox.kinds.builtin import BUILTINS
from regroup.sandbox.kinds.prepare import quality
from regroup.sandbox.schema.openapi import component_name, document
from regroup.wire import codec

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC)
START = "2026-01-01T00:00:00Z"


def cells(name: str, obj: Obj, *, wide: bool = False) -> dict[str, Any]:
    columns = [column for column in kind(name).columns if wide or not column.priority]
    return {column.name: column.cell(obj, NOW) for column in columns}


def test_every_kind_can_be_empty() -> None:
    """Defaults and columns cope with an object that has only a name; making it twice changes nothing."""
    for each in BUILTINS:
        bare = {"apiVersion": each.resource.api_version, "kind": each.resource.kind, "metadata": {"name": "x"}}
        obj, _ = each.decode(bare)
        each.default(obj)
        again, _ = each.decode(codec.decode(codec.encode(obj), dict))
        each.default(again)
        assert again == obj, each.resource
        assert each.decode(obj) == (obj, []), each.resource
        for column in each.columns:
            codec.encode(column.cell(obj, NOW))


def test_names() -> None:
    names = {each.resource.plural: (each.singular, each.short_names, each.categories) for each in BUILTINS}
    assert names["pods"] == ("pod", ("po",), ("all",))
    assert names["customresourcedefinitions"] == ("customresourcedefinition", ("crd", "crds"), ("api-extensions",))
    assert names["secrets"] == ("secret", (), ())


def test_defaults_of_a_pod() -> None:
    body = pod(
        containers=[
            CONTAINER
            | {
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "1000m"}},
                "readinessProbe": {"httpGet": {"port": 80}},
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            }
        ],
        volumes=[{"name": "v", "configMap": {"name": "x"}}, {"name": "e"}],
    )
    spec = made("Pod", body)["spec"]
    assert spec["volumes"] == [{"name": "v", "configMap": {"name": "x", "defaultMode": 420}}, {"name": "e", "emptyDir": {}}]
    assert spec["containers"][0] == {
        "name": "c",
        "image": "i",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
        "readinessProbe": {
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    rest = {key: value for key, value in spec.items() if key not in {"containers", "volumes", "tolerations"}}
    assert rest == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert [entry["key"] for entry in spec["tolerations"]] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("a:1", "IfNotPresent"),
        ("host:5000/a", "Always"),
        ("host:5000/a:1", "IfNotPresent"),
        ("a@sha256:00", "IfNotPresent"),
    ],
)
def test_when_an_image_is_pulled(image: str, policy: str) -> None:
    assert made("Pod", pod(containers=[{"name": "c", "image": image}]))["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_template_gets_the_defaults_of_pods_but_not_of_one_pod() -> None:
    """Requests follow limits only when a pod is made."""
    limits = {"resources": {"limits": {"cpu": "1"}}}
    spec = made("apps/StatefulSet", workload(template=template(containers=[CONTAINER | limits])))["spec"]
    assert spec["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "enableServiceLinks" not in spec["template"]["spec"]
    assert {key: value for key, value in spec.items() if key not in {"template", "selector"}} == {
        "replicas": 1,
        "serviceName": "",
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    }


def test_defaults_of_a_deployment() -> None:
    spec = made("apps/Deployment", workload())["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)


def test_a_service_gets_an_address_that_stays() -> None:
    body = {"spec": {"ports": [{"port": 80}]}}
    obj = made("Service", body)
    assert obj["spec"]["clusterIPs"] == [obj["spec"]["clusterIP"]]
    assert obj["spec"]["clusterIP"].startswith("10.96.")
    assert obj["spec"]["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    assert made("Service", {**body, "metadata": {"uid": "other"}}, obj)["spec"]["clusterIP"] == obj["spec"]["clusterIP"]
    other = made("Service", {**body, "metadata": {"name": "y"}})
    assert other["spec"]["clusterIP"] != obj["spec"]["clusterIP"]


def test_a_headless_service() -> None:
    spec = made("Service", {"spec": {"clusterIP": "None", "selector": {"a": "b"}}})["spec"]
    assert (spec["clusterIPs"], spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["None"], ["IPv4"], "SingleStack")


def test_node_ports_stay_and_differ() -> None:
    body = {"spec": {"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}
    obj = made("Service", body)
    ports = [port["nodePort"] for port in obj["spec"]["ports"]]
    assert len(set(ports)) == 2
    assert all(30000 <= port < 32768 for port in ports)
    assert [port["nodePort"] for port in made("Service", body, obj)["spec"]["ports"]] == ports


def test_what_the_server_sets_first() -> None:
    assert made("Pod", pod())["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert made("Pod", pod(terminationGracePeriodSeconds=-5))["spec"]["terminationGracePeriodSeconds"] == 1
    gated = made("Pod", pod(schedulingGates=[{"name": "a/b"}]))["status"]["conditions"]
    assert [(entry["type"], entry["status"], entry["reason"]) for entry in gated] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]
    namespace = made("Namespace", {})
    assert (namespace["spec"], namespace["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    taints = made("Node", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})["spec"]["taints"]
    assert [taint["key"] for taint in taints] == ["a", "node.kubernetes.io/not-ready"]


def test_a_secret_takes_plain_text_and_keeps_none() -> None:
    obj = made("Secret", {"stringData": {"a": "b"}, "data": {"a": "YQ==", "c": ""}})
    assert (obj["data"], obj["type"], "stringData" in obj) == ({"a": "Yg==", "c": ""}, "Opaque", False)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, {}], "Burstable"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2", "memory": "1"}}], "Burstable"),
    ],
)
def test_the_class_of_service(resources: list[Obj], expected: str) -> None:
    assert quality({"containers": [{"resources": each} for each in resources]}) == expected


def running(*, ready: bool = True, restarts: int = 0, **state: Any) -> Obj:
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state or {"running": {}}}


def status(*containers: Obj, phase: str = "Running", **more: Any) -> Obj:
    return {"phase": phase, "containerStatuses": list(containers), **more}


@pytest.mark.parametrize(
    ("given", "ready", "shown", "restarts"),
    [
        ({"phase": "Pending"}, "0/1", "Pending", "0"),
        (status(running()), "1/1", "Running", "0"),
        (status(running(ready=False, waiting={"reason": "CrashLoopBackOff"}, restarts=3)), "0/1", "CrashLoopBackOff", "3"),
        (status(running(ready=False, terminated={"exitCode": 1, "reason": "Error"})), "0/1", "Error", "0"),
        (status(running(ready=False, terminated={"exitCode": 3})), "0/1", "ExitCode:3", "0"),
        (
            status(running(ready=False, terminated={"exitCode": 0, "reason": "Completed"}), phase="Succeeded"),
            "0/1",
            "Completed",
            "0",
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            "0/1",
            "SchedulingGated",
            "0",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "0/1", "Evicted", "0"),
        (
            status(running() | {"restartCount": 2, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:03:00Z"}}}),
            "1/1",
            "Running",
            "2 (2m ago)",
        ),
    ],
)
def test_the_row_of_a_pod(given: Obj, ready: str, shown: str, restarts: str) -> None:
    obj = {"metadata": {"name": "p", "creationTimestamp": START}, "spec": pod()["spec"], "status": given}
    assert cells("Pod", obj) == {"Name": "p", "Ready": ready, "Status": shown, "Restarts": restarts, "Age": "5m"}


@pytest.mark.parametrize(
    ("init", "shown"),
    [
        ([{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}], "Init:0/2"),
        ([{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"running": {}}}], "Init:1/2"),
        ([{"name": "a", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}], "Init:Error"),
        ([{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], "Init:CrashLoopBackOff"),
    ],
)
def test_the_row_of_a_pod_that_starts(init: list[Obj], shown: str) -> None:
    spec = pod(initContainers=[{"name": "a"}, {"name": "b"}])["spec"]
    obj = {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Pending", "initContainerStatuses": init}}
    assert cells("Pod", obj)["Status"] == shown


def test_the_row_of_a_pod_that_goes() -> None:
    obj = {"metadata": {"name": "p", "deletionTimestamp": START}, "spec": pod()["spec"], "status": status(running())}
    assert cells("Pod", obj)["Status"] == "Terminating"
    obj["status"]["reason"] = "NodeLost"
    assert cells("Pod", obj)["Status"] == "Unknown"


def test_wide_columns_of_a_pod() -> None:
    spec = pod(nodeName="n", readinessGates=[{"conditionType": "a"}, {"conditionType": "b"}])["spec"]
    given = {"podIPs": [{"ip": "1.2.3.4"}], "conditions": [{"type": "a", "status": "True"}]}
    row = cells("Pod", {"metadata": {"name": "p"}, "spec": spec, "status": given}, wide=True)
    assert [row[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == ["1.2.3.4", "n", "<none>", "1/2"]


def test_rows_of_other_kinds() -> None:
    meta = {"name": "x", "creationTimestamp": START}
    node = {"metadata": meta | {"labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": True}}
    node["status"] = {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kubeletVersion": "v1"}}
    assert list(cells("Node", node).values()) == ["x", "NotReady,SchedulingDisabled", "worker", "5m", "v1"]
    sts = made("apps/StatefulSet", {**workload(replicas=3), "metadata": meta, "status": {"readyReplicas": 2}})
    assert list(cells("apps/StatefulSet", sts, wide=True).values()) == ["x", "2/3", "5m", "c", "i"]
    service = made("Service", {"metadata": meta, "spec": {"clusterIP": "None", "selector": {"b": "2", "a": "1"}}})
    assert list(cells("Service", service, wide=True).values()) == ["x", "ClusterIP", "None", "<none>", "<none>", "5m", "a=1,b=2"]
    revision = {
        "metadata": meta
        | {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": True}]}
    }
    assert list(cells("apps/ControllerRevision", revision | {"revision": 2}).values()) == ["x", "statefulset.apps/s", 2, "5m"]
    lease = {"metadata": meta, "spec": {"holderIdentity": "me"}}
    assert list(cells("coordination.k8s.io/Lease", lease).values()) == ["x", "me", "5m"]
    budget = {"metadata": meta, "spec": {"minAvailable": 1}, "status": {"disruptionsAllowed": 2}}
    assert list(cells("policy/PodDisruptionBudget", budget).values()) == ["x", "1", "N/A", 2, "5m"]


def test_events_are_shown_alike_in_both_forms() -> None:
    about = {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"}
    new = {
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": "e"},
        "regarding": about,
        "note": " text ",
        "reason": "R",
        "type": "Normal",
        "eventTime": START,
        "reportingController": "me",
        "series": {"count": 4, "lastObservedTime": "2026-01-01T00:04:00Z"},
    }
    old = {
        "apiVersion": "v1",
        "metadata": {"name": "e"},
        "involvedObject": about,
        "message": " text ",
        "reason": "R",
        "type": "Normal",
        "firstTimestamp": START,
        "lastTimestamp": "2026-01-01T00:04:00Z",
        "count": 4,
        "source": {"component": "me"},
    }
    expected = ["60s", "Normal", "R", "pod/p", "spec.containers{c}", "me", "text", "5m", 4, "e"]
    assert list(cells("events.k8s.io/Event", new, wide=True).values()) == expected
    assert list(cells("Event", old, wide=True).values()) == expected


def test_field_selectors_read_their_fields() -> None:
    obj = made("Pod", pod(nodeName="n"))
    select = kind("Pod").field_selectors
    assert (select["spec.nodeName"](obj), select["spec.hostNetwork"](obj), select["status.podIP"](obj)) == ("n", "false", "")


def test_openapi_documents_hold_all_they_name() -> None:
    """Every reference leads to a component, every kind is marked with what it is, and PATCH lists ``fieldValidation``."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for each in BUILTINS:
        groups.setdefault((each.resource.group, each.resource.version), []).append(each)
    for kinds in groups.values():
        text = codec.encode(document(kinds)).decode()
        found = codec.decode(text.encode(), dict)
        schemas = found["components"]["schemas"]
        for reference in set(text.split('"$ref":"#/components/schemas/')[1:]):
            assert reference.partition('"')[0] in schemas
        for each in kinds:
            marks = schemas[component_name(each)]["x-kubernetes-group-version-kind"]
            assert [mark["kind"] for mark in marks] == [each.resource.kind]
        patches = [item["patch"] for item in found["paths"].values() if "patch" in item]
        assert patches
        assert all("fieldValidation" in [entry["name"] for entry in patch["parameters"]] for patch in patches)
