"""What is wrong with other built-in objects is said as Kubernetes 1.36.3 says it."""

from typing import Any

import pytest
from tests.sandbox.kinds_hands import CONTAINER, Obj, kind, made, pod, refusals, template, workload
from tests.sandbox.schema_samples import crd

MISMATCH = "`selector` does not match template `labels`"
SPEC_FIXED = (
    "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
SEALED = "Forbidden: field is immutable when `immutable` is set"
STS, DEPLOYMENT, BUDGET = "apps/StatefulSet", "apps/Deployment", "policy/PodDisruptionBudget"
HOOKS = "admissionregistration.k8s.io/MutatingWebhookConfiguration"
CRD = "apiextensions.k8s.io/CustomResourceDefinition"
TIMEOUT = "the timeout value must be between 1 and 30 seconds"
PRESERVE = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
BOTH = '{"MinAvailable":1,"Selector":null,"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}'
SLICE = "discovery.k8s.io/EndpointSlice"
PERCENT = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "


def hook(**fields: Any) -> Obj:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    base = {"name": "a.b.c", "clientConfig": {"url": "https://x"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    return {"webhooks": [{**base, "rules": [rule], **fields}]}


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        (STS, workload(), []),
        (
            STS,
            {"spec": {}},
            [
                "spec.selector: Required value",
                f"spec.template.metadata.labels: Invalid value: null: {MISMATCH}",
                "spec.template.spec.containers: Required value",
            ],
        ),
        (
            STS,
            workload(template=template({"x": "y"})),
            [f'spec.template.metadata.labels: Invalid value: {{"x":"y"}}: {MISMATCH}'],
        ),
        (STS, workload(replicas=-1), ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        (STS, workload(selector={}), ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"]),
        (
            STS,
            workload(podManagementPolicy="X"),
            ["spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"],
        ),
        (
            STS,
            workload(template=template(restartPolicy="Never")),
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
        ),
        (
            STS,
            workload(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            [
                (
                    'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: '
                    "only allowed for updateStrategy 'RollingUpdate'"
                )
            ],
        ),
        (
            STS,
            workload(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}),
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"],
        ),
        (
            STS,
            {"metadata": {"name": "a.b"}, **workload()},
            ['metadata.name: Invalid value: "a.b": must not contain dots'],
        ),
        (
            STS,
            {**workload(), "status": {"replicas": 1, "readyReplicas": 2}},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (DEPLOYMENT, workload(), []),
        (DEPLOYMENT, workload(selector={}), ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
        (
            DEPLOYMENT,
            workload(progressDeadlineSeconds=5, minReadySeconds=5),
            ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
        ),
        (
            DEPLOYMENT,
            workload(strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        ),
        (
            DEPLOYMENT,
            workload(strategy={"type": "Recreate", "rollingUpdate": {}}),
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            DEPLOYMENT,
            workload(strategy={"rollingUpdate": {"maxUnavailable": "x"}}),
            [f'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "x": {PERCENT}' + "validation is '[0-9]+%')"],
        ),
        ("Service", {"spec": {}}, ["spec.ports: Required value"]),
        ("Service", {"spec": {"clusterIP": "None"}}, []),
        ("Service", {"spec": {"ports": [{"port": 80}]}}, []),
        (
            "Service",
            {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        (
            "Service",
            {"spec": {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]}},
            ["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        ),
        ("Service", {"spec": {"type": "ExternalName"}}, ["spec.externalName: Required value"]),
        (
            "ConfigMap",
            {"data": {"a": "c"}, "binaryData": {"a": "YQ=="}},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
        ),
        ("ConfigMap", {"data": {"..": "x"}}, ["data[..]: Invalid value: \"..\": must not be '..'"]),
        ("ConfigMap", {"data": {"a": "c" * 1048577}}, ["[]: Too long: may not be more than 1048576 bytes"]),
        ("Secret", {"type": "kubernetes.io/tls"}, ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("Namespace", {"metadata": {"name": "a.b"}}, ['metadata.name: Invalid value: "a.b": must not contain dots']),
        (
            "Node",
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}},
            [
                (
                    'metadata.taints[1]: Duplicate value: {"Key":"b","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
                    "taints must be unique by key and effect pair"
                )
            ],
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {}},
            ["spec.accessModes: Required value: at least 1 access mode is required", "spec.resources[storage]: Required value"],
        ),
        (
            "coordination.k8s.io/Lease",
            {"spec": {"leaseDurationSeconds": 0}},
            ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
        ),
        (
            BUDGET,
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            [
                f"spec: Invalid value: {BOTH}: minAvailable and maxUnavailable cannot be both set",
            ],
        ),
        (
            BUDGET,
            {"spec": {"maxUnavailable": "101%"}},
            ['spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
        ),
        (SLICE, {}, ["addressType: Required value"]),
        (
            SLICE,
            {"addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]},
            ['endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'],
        ),
        (
            "Event",
            {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "other"}},
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
        ),
        (
            "events.k8s.io/Event",
            {"regarding": {"kind": "Pod", "name": "a", "namespace": "default"}},
            ["eventTime: Required value", 'type: Invalid value: "": has invalid value: '],
        ),
        (HOOKS, hook(), []),
        (
            HOOKS,
            hook(name="a"),
            ['webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots'],
        ),
        (HOOKS, hook(clientConfig={}), ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"]),
        (
            HOOKS,
            hook(sideEffects="Some"),
            ['webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
        ),
        (
            HOOKS,
            hook(timeoutSeconds=40),
            ["webhooks[0].timeoutSeconds: Invalid value: 40: the timeout value must be between 1 and 30 seconds"],
        ),
        (
            "rbac.authorization.k8s.io/Role",
            {"rules": [{"verbs": ["get"], "resources": ["a"]}]},
            ["rules[0].apiGroups: Required value: resource rules must supply at least one api group"],
        ),
        (
            "scheduling.k8s.io/PriorityClass",
            {"value": 2_000_000_000},
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
    ],
)
def test_a_new_object(name: str, body: Obj, expected: list[str]) -> None:
    assert refusals(name, body) == expected


@pytest.mark.parametrize(
    ("name", "body", "change", "expected"),
    [
        (STS, workload(), {"spec": workload()["spec"] | {"serviceName": "s"}}, [SPEC_FIXED]),
        (STS, workload(), {"spec": workload()["spec"] | {"podManagementPolicy": "Parallel"}}, [SPEC_FIXED]),
        (STS, workload(), {"spec": workload()["spec"] | {"replicas": 3, "minReadySeconds": 4, "ordinals": {"start": 3}}}, []),
        (
            DEPLOYMENT,
            workload(),
            {"spec": {"selector": {"matchLabels": {"c": "d"}}, "template": template({"c": "d"})}},
            ['spec.selector: Invalid value: {"matchLabels":{"c":"d"}}: field is immutable'],
        ),
        ("ConfigMap", {"data": {"a": "b"}, "immutable": True}, {"data": {"a": "c"}, "immutable": True}, [f"data: {SEALED}"]),
        ("ConfigMap", {"immutable": True}, {}, [f"immutable: {SEALED}"]),
        ("Secret", {}, {"type": "y"}, ['type: Invalid value: "y": field is immutable']),
        (
            "Service",
            {"spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 1}]}},
            {"spec": {"clusterIP": "10.96.0.6", "ports": [{"port": 1}]}},
            ['spec.clusterIPs[0]: Invalid value: ["10.96.0.6"]: may not change once set'],
        ),
        (SLICE, {"addressType": "IPv4"}, {"addressType": "IPv6"}, ['addressType: Invalid value: "IPv6": field is immutable']),
        (
            "apps/ControllerRevision",
            {"data": {"a": 1}, "revision": 1},
            {"data": {"a": 2}, "revision": 1},
            ['data: Invalid value: {"a":2}: field is immutable'],
        ),
        (
            "rbac.authorization.k8s.io/RoleBinding",
            {"roleRef": {"kind": "Role", "name": "a"}},
            {"roleRef": {"kind": "Role", "name": "b"}},
            ['roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"b"}: cannot change roleRef'],
        ),
        (
            "scheduling.k8s.io/PriorityClass",
            {"value": 5},
            {"value": 6},
            ["value: Forbidden: may not be changed in an update."],
        ),
    ],
)
def test_an_update(name: str, body: Obj, change: Obj, expected: list[str]) -> None:
    assert refusals(name, change, made(name, body)) == expected


def definition(**spec: Any) -> Obj:
    base = crd()
    return {"metadata": base["metadata"], "spec": base["spec"] | spec}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (definition(), []),
        (
            definition(group="ex"),
            [
                'metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group',
                'spec.group: Invalid value: "ex": should be a domain with at least one dot',
            ],
        ),
        (definition(scope="X"), ['spec.scope: Unsupported value: "X": supported values: "Cluster", "Namespaced"']),
        (
            definition(versions=[{"name": "v1", "served": True, "storage": True}]),
            ["spec.versions[0].schema.openAPIV3Schema: Required value"],
        ),
        (
            definition(preserveUnknownFields=True),
            [
                f"spec.preserveUnknownFields: Invalid value: true: {PRESERVE}",
            ],
        ),
    ],
)
def test_a_definition_of_a_custom_kind(body: Obj, expected: list[str]) -> None:
    assert refusals(CRD, body) == expected


def test_a_definition_with_cel_rules_is_taken_with_a_warning() -> None:
    """Nobody may believe that the rules hold."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    obj = made(CRD, definition(versions=[version]))
    assert kind(CRD).validate(obj, None) == []
    warn = kind(CRD).warnings
    assert warn is not None
    assert warn(obj) == [
        (
            "spec.versions[0].schema.openAPIV3Schema: x-kubernetes-validations at .spec are kept, "
            "but this server does not evaluate CEL rules"
        )
    ]


def test_metadata_of_an_update_stays() -> None:
    old = made("ConfigMap", {})
    new = made("ConfigMap", {"metadata": {"uid": "other"}})
    assert [error.message() for error in kind("ConfigMap").validate(new, old)] == [
        'metadata.uid: Invalid value: "other": field is immutable'
    ]


def test_causes_name_field_reason_and_message() -> None:
    error = next(iter(kind("Pod").validate(made("Pod", pod(containers=[CONTAINER, CONTAINER])), None)))
    assert error.cause() == {
        "reason": "FieldValueDuplicate",
        "message": 'Duplicate value: "c"',
        "field": "spec.containers[1].name",
    }
