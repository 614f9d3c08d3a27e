"""What is wrong with a pod is said as Kubernetes 1.36.3 says it."""

from typing import Any

import pytest
from tests.sandbox.kinds_hands import CONTAINER, Obj, kind, made, pod, refusals, template, workload

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LETTERS = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
UNKNOWN_FIELD = "error converting fieldPath: field label not supported"
ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
ONE_TERM = "must have at least one node selector term"
C0 = "spec.containers[0]"


def with_container(**fields: Any) -> Obj:
    return pod(containers=[CONTAINER | fields])


def affinity(kind_name: str, **fields: Any) -> Obj:
    return pod(affinity={kind_name: fields})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"spec": {}}, ["spec.containers: Required value"]),
        (pod(containers=[{"image": "i"}]), [f"{C0}.name: Required value"]),
        (pod(containers=[{"name": "A_b", "image": "i"}]), [f'{C0}.name: Invalid value: "A_b": {LABEL}']),
        (with_container(image=""), [f"{C0}.image: Required value"]),
        (with_container(image=" i "), [f'{C0}.image: Invalid value: " i ": must not have leading or trailing whitespace']),
        (pod(containers=[CONTAINER, CONTAINER]), ['spec.containers[1].name: Duplicate value: "c"']),
        (pod(initContainers=[CONTAINER]), ['spec.initContainers[0].name: Duplicate value: "c"']),
        (
            pod(restartPolicy="Sometimes"),
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (with_container(ports=[{"containerPort": 0}]), [f"{C0}.ports[0].containerPort: Required value"]),
        (
            with_container(ports=[{"containerPort": 70000, "name": "Bad_Name", "protocol": "X"}]),
            [
                f'{C0}.ports[0].name: Invalid value: "Bad_Name": {LETTERS}',
                f"{C0}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                f'{C0}.ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            ],
        ),
        (
            with_container(
                env=[{"name": ""}, {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            ),
            [
                f"{C0}.env[0].name: Required value",
                f'{C0}.env[1].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
            ],
        ),
        (
            with_container(env=[{"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
            [f'{C0}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: "x": {UNKNOWN_FIELD}: x'],
        ),
        (
            with_container(volumeMounts=[{"name": "x", "mountPath": "/a"}]),
            [f'{C0}.volumeMounts[0].name: Not found: "x"'],
        ),
        (
            pod(volumes=[{"name": "v", "emptyDir": {}, "configMap": {"name": "x"}}]),
            ["spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type"],
        ),
        (pod(volumes=[{"name": "v", "secret": {}}]), ["spec.volumes[0].secret.secretName: Required value"]),
        (
            with_container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            [f'{C0}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            with_container(resources={"limits": {"a.b/c": "1500m"}}),
            [
                f'{C0}.resources.limits[a.b/c]: Invalid value: "1500m": must be an integer',
                f'{C0}.resources.requests[a.b/c]: Invalid value: "1500m": must be an integer',
            ],
        ),
        (with_container(livenessProbe={}), [f"{C0}.livenessProbe: Required value: must specify a handler type"]),
        (
            with_container(readinessProbe={"tcpSocket": {"port": 0}}),
            [f"{C0}.readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            with_container(livenessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2}),
            [f"{C0}.livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            pod(activeDeadlineSeconds=0),
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (pod(hostname="A_"), [f'spec.hostname: Invalid value: "A_": {LABEL}']),
        (pod(nodeName="A_"), [f'spec.nodeName: Invalid value: "A_": {SUBDOMAIN}']),
        (
            pod(nodeSelector={"a b": "c d"}),
            [f'spec.nodeSelector: Invalid value: "a b": {NAME}', f'spec.nodeSelector: Invalid value: "c d": {VALUE}'],
        ),
        (
            pod(tolerations=[{"key": "", "operator": "Equal"}]),
            [
                f'spec.tolerations[0].operator: Invalid value: "Equal": {ALL_KEYS}',
            ],
        ),
        (
            pod(tolerations=[{"key": "a", "tolerationSeconds": 5}]),
            ["spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        ),
        (pod(schedulingGates=[{"name": "x"}, {"name": "x"}]), ['spec.schedulingGates[1]: Duplicate value: "x"']),
        (
            pod(schedulingGates=[{"name": "x.y/z"}], nodeName="n"),
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        (
            affinity("nodeAffinity", **{REQUIRED: {"nodeSelectorTerms": []}}),
            [f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: {ONE_TERM}"],
        ),
        (
            affinity("podAffinity", **{PREFERRED: [{"weight": 0, "podAffinityTerm": {"topologyKey": "x"}}]}),
            [f"spec.affinity.podAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100"],
        ),
        (
            pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
            ["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
        ),
        (pod(dnsPolicy="None"), ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
        (
            pod(ephemeralContainers=[{"name": "e", "image": "x"}]),
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            {"metadata": {"labels": {"a": "c d"}}, **pod()},
            [f'metadata.labels: Invalid value: "c d": {VALUE}'],
        ),
        (
            {"metadata": {"annotations": {"a": "x" * 262145}}, **pod()},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        ({"metadata": {"name": "A"}, **pod()}, [f'metadata.name: Invalid value: "A": {SUBDOMAIN}']),
        (
            {"metadata": {"finalizers": ["x"]}, **pod()},
            ['metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified'],
        ),
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]}, **pod()},
            ['metadata.ownerReferences.uid: Invalid value: "": must not be empty'],
        ),
        (pod(), []),
    ],
)
def test_a_new_pod(body: Obj, expected: list[str]) -> None:
    assert refusals("Pod", body) == expected


FIXED = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def changed(old: Obj, **spec: Any) -> list[str]:
    return refusals("Pod", {**old, "spec": old["spec"] | spec}, old)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodeName": "x"}, "nodeName"),
        ({"restartPolicy": "Never"}, "restartPolicy"),
        ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
        ({"nodeSelector": {"a": "b"}}, "nodeSelector"),
        ({"priority": 5}, "priority"),
        ({"containers": [CONTAINER | {"env": [{"name": "a"}]}]}, "containers"),
    ],
)
def test_what_must_not_change_of_a_pod(spec: Obj, field: str) -> None:
    """The first line is the server's; the field is named where a real one prints a difference of its own structs."""
    assert changed(made("Pod", pod()), **spec) == [f"{FIXED}\nchanged: spec.{field}"]


def test_what_may_change_of_a_pod() -> None:
    old = made("Pod", pod(tolerations=[{"key": "a", "operator": "Exists"}]))
    image = old["spec"]["containers"][0] | {"image": "j"}
    more = [*old["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]
    assert changed(old, containers=[image], tolerations=more, activeDeadlineSeconds=5) == []


def test_tolerations_may_not_go_and_containers_not_come() -> None:
    old = made("Pod", pod(tolerations=[{"key": "a", "operator": "Exists"}]))
    refused = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    assert changed(old, tolerations=[]) == [refused]
    two = [*old["spec"]["containers"], {"name": "d", "image": "j", "imagePullPolicy": "Always"}]
    assert changed(old, containers=two) == ["spec.containers: Forbidden: pod updates may not add or remove containers"]


def test_gates_are_lifted_and_never_added() -> None:
    gated = made("Pod", pod(schedulingGates=[{"name": "x/y"}]))
    assert changed(gated, schedulingGates=[]) == []
    refused = "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x/y'"
    assert changed(made("Pod", pod()), schedulingGates=[{"name": "x/y"}]) == [refused]


def test_a_gated_pod_may_be_told_more_narrowly_where_to_run() -> None:
    gated = made("Pod", pod(schedulingGates=[{"name": "x/y"}], nodeSelector={"a": "b"}))
    assert changed(gated, nodeSelector={"a": "b", "c": "d"}) == []
    assert changed(gated, nodeSelector={"a": "z"}) == [f"{FIXED}\nchanged: spec.nodeSelector"]


def test_warnings() -> None:
    """Of a template also that a negative grace will be one second; of a pod not, because there it has become one."""
    assert warnings("Pod", pod(imagePullSecrets=[{"name": ""}], terminationGracePeriodSeconds=-1)) == [
        'spec.imagePullSecrets[0].name: invalid empty name ""'
    ]
    negative = "must be >= 0; negative values are invalid and will be treated as 1"
    assert warnings("apps/StatefulSet", workload(template=template(terminationGracePeriodSeconds=-1))) == [
        f"spec.template.spec.terminationGracePeriodSeconds: {negative}"
    ]


def warnings(name: str, body: Obj) -> list[str]:
    warn = kind(name).warnings
    assert warn is not None
    return list(warn(made(name, body)))
