"""What `regroup manifests` prints (design 1, 9): complete, in order, with the rights that are used and no others, restricted."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from tests.operator.ome_story import ome_story
from tests.planes.gang_apis import scheduler_plugins_crd
from tests.runtime.edges_plane import NAMESPACE, START, Log

from regroup.kube.pod import Pod
from regroup.kube.resources import (
    CONFIGMAPS,
    CRDS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    SERVICES,
    STATEFULSETS,
    VALIDATING_WEBHOOKS,
)
from regroup.leaderworkerset.keys import LEADERWORKERSETS, NAME
from regroup.leaderworkerset.objects.gang import Provider
from regroup.operator.config import NAMESPACE as HOME
from regroup.operator.config import SERVICE, OperatorConfig
from regroup.operator.manifests import PARTS, ManifestOptions, manifests
from regroup.operator.start import Operator
from regroup.runtime.clock import LoopClock
from regroup.sandbox.apifaults import Recorded
from regroup.sandbox.cluster import Cluster
from regroup.wire import yamlish
from regroup.wire.client import Client

Manifest = dict[str, Any]


def named(documents: Sequence[Manifest]) -> dict[str, Manifest]:
    return {f"{one['kind']}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one for one in documents}


def test_what_is_printed_is_read_back_the_same() -> None:
    """The YAML means exactly the objects: strings that look like numbers or booleans survive."""
    documents = manifests(ManifestOptions(ca_bundle=b"yes"))
    text = "---\n".join(yamlish.dump(document) for document in documents)
    assert yamlish.load_documents(text) == documents


def test_parts_come_in_the_order_to_apply_them() -> None:
    """A namespace before what lives in it, a CRD before what admits its objects; every name once."""
    documents = manifests(ManifestOptions())
    kinds = [document["kind"] for document in documents]
    assert kinds.index("CustomResourceDefinition") < kinds.index("MutatingWebhookConfiguration")
    namespace = next(position for position, one in enumerate(documents) if one["kind"] == "Namespace")
    assert all(position > namespace for position, one in enumerate(documents) if "namespace" in one["metadata"])
    assert len(named(documents)) == len(documents)


def test_only_some_parts() -> None:
    """Together the parts are the whole."""
    options = ManifestOptions()
    assert [one for part in PARTS for one in manifests(options, only=[part])] == manifests(options)
    assert {one["kind"] for one in manifests(options, only=["crds"])} == {"CustomResourceDefinition"}
    with pytest.raises(KeyError):
        manifests(options, only=["bogus"])


def test_everything_refers_to_what_is_there() -> None:
    """Bindings, Service, webhooks and Deployment fit together, in any namespace."""
    found = named(manifests(ManifestOptions(namespace="ops", namespaces=("a", "b"))))
    for document in found.values():
        if "roleRef" in document:
            kind, name = document["roleRef"]["kind"], document["roleRef"]["name"]
            where = document["metadata"].get("namespace", "") if kind == "Role" else ""
            assert f"{kind}/{where}/{name}" in found
            for subject in document["subjects"]:
                assert f"ServiceAccount/{subject['namespace']}/{subject['name']}" in found
    deployment = found["Deployment/ops/regroup"]
    pod = deployment["spec"]["template"]
    service = found[f"Service/ops/{SERVICE}"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] in ports
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} <= ports
    for kind in ("Mutating", "Validating"):
        for webhook in found[f"{kind}WebhookConfiguration//regroup"]["webhooks"]:
            assert webhook["clientConfig"]["service"] | {"path": ""} == {
                "namespace": "ops",
                "name": SERVICE,
                "port": service["spec"]["ports"][0]["port"],
                "path": "",
            }


def test_chosen_namespaces_get_roles_and_no_cluster_wide_right_to_workloads() -> None:
    """Nothing is cluster-wide that can be namespaced (design 9)."""
    found = named(manifests(ManifestOptions(namespaces=("a", "b")), only=["rbac"]))
    assert {"Role/a/regroup-workloads", "Role/b/regroup-workloads"} <= set(found)
    cluster_wide = {
        resource
        for document in found.values()
        if document["kind"] == "ClusterRole"
        for rule in document["rules"]
        for resource in rule["resources"]
    }
    assert cluster_wide == {
        "nodes",
        "clusterservingruntimes",
        "clusterbasemodels",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    }


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (Provider.NONE, set()),
        (Provider.VOLCANO, {("scheduling.volcano.sh", "podgroups", "get list watch create patch")}),
        (
            Provider.KUBERNETES,
            {
                ("scheduling.k8s.io", "workloads", "get list watch create patch"),
                ("scheduling.k8s.io", "podgroups", "get list watch create patch delete"),
            },
        ),
    ],
)
def test_rights_for_gangs(provider: Provider, expected: set[tuple[str, str, str]]) -> None:
    """spec/leaderworkerset.md 8.5: rights on scheduling objects only where a provider needs them, which the operator is told."""
    documents = manifests(ManifestOptions(scheduler_provider=provider))
    rules = [rule for document in documents for rule in document.get("rules", ())]
    found = {
        (group, resource, " ".join(rule["verbs"]))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if group.startswith("scheduling.") and group != "scheduling.x-k8s.io"  # OMENative's own
    }
    assert found == expected
    (args,) = [one["spec"]["template"]["spec"]["containers"][0]["args"] for one in documents if one["kind"] == "Deployment"]
    told = args[args.index("--scheduler-provider") + 1] if "--scheduler-provider" in args else "none"
    assert told == str(provider)


@pytest.mark.parametrize("namespaces", [(), ("a", "b")])
def test_rights_are_narrow(namespaces: tuple[str, ...]) -> None:
    """No wildcard, no secrets but our own, nothing that gives itself more rights or runs code elsewhere."""
    for document in manifests(ManifestOptions(namespaces=namespaces), only=["rbac"]):
        for rule in document.get("rules", ()):
            assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
            assert not {"pods/exec", "roles", "clusterroles", "rolebindings", "serviceaccounts"} & set(rule["resources"])
            if "secrets" in rule["resources"]:
                assert document["kind"] == "Role"
                assert document["metadata"]["namespace"] == NAMESPACE
                assert rule["verbs"] == ["create"] or "resourceNames" in rule


def test_the_pod_is_restricted() -> None:
    """What the restricted Pod Security standard asks for, a read-only root, and no priority that is not everybody's."""
    namespace, deployment = manifests(ManifestOptions(), only=["namespace", "deployment"])
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert "priorityClassName" not in pod
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all(set(volume) <= {"name", "emptyDir"} for volume in pod["volumes"])
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]


def test_webhooks_by_url_need_no_service() -> None:
    """For an operator outside the cluster."""
    documents = manifests(ManifestOptions(webhook_url="https://10.0.0.1:9443", ca_bundle=b"pem"), only=["webhooks"])
    assert [one["kind"] for one in documents] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    for one in documents:
        for webhook in one["webhooks"]:
            assert webhook["clientConfig"]["url"].startswith("https://10.0.0.1:9443/")
            assert webhook["clientConfig"]["caBundle"] == "cGVt"


# -- the rights against what a running operator asks for


def granted(documents: Sequence[Manifest]) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(namespace, rule)``, with an empty namespace for rules that hold everywhere."""
    for document in documents:
        if document["kind"] in {"Role", "ClusterRole"}:
            for rule in document["rules"]:
                yield document["metadata"].get("namespace", ""), rule


def permitted(entry: Recorded, rules: Sequence[tuple[str, dict[str, Any]]]) -> bool:
    """As RBAC decides: some rule covers the verb, the resource, the name and the namespace. A list or watch of one name by field
    selector is a request for that name."""
    name = entry.name or entry.query.get("fieldSelector", "").removeprefix("metadata.name=")
    resource = f"{entry.resource}/{entry.subresource}" if entry.subresource else entry.resource
    return any(
        (not where or where == entry.namespace)
        and entry.group in rule["apiGroups"]
        and resource in rule["resources"]
        and entry.verb in rule["verbs"]
        and (not rule.get("resourceNames") or name in rule["resourceNames"])
        for where, rule in rules
    )


def lws(name: str, **template: Any) -> Manifest:
    pod = {"spec": {"containers": [{"name": "main", "image": "worker:1"}]}}
    group = {"size": 3, "restartPolicy": "RecreateGroupOnPodRestart", "workerTemplate": pod, **template}
    return {
        "apiVersion": LEADERWORKERSETS.api_version,
        "kind": LEADERWORKERSETS.kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "leaderWorkerTemplate": group,
        },
    }


async def story(client: Client, cluster: Cluster) -> None:
    """Build, fail, rebuild, scale, update, delete."""
    await client.create(LEADERWORKERSETS, lws("demo"), namespace="default")
    await asyncio.sleep(60)
    ready: dict[str, Any] = await client.get(LEADERWORKERSETS, "demo", namespace="default")
    assert ready["status"]["readyReplicas"] == 2
    before: dict[str, Any] = await client.get(PODS, "demo-0-1", namespace="default")
    await cluster.faults().crash("default", "demo-0-1", exit_code=1)
    await asyncio.sleep(60)
    after: dict[str, Any] = await client.get(PODS, "demo-0-1", namespace="default")
    assert before["metadata"]["uid"] != after["metadata"]["uid"], "the group was rebuilt"
    await client.delete(SERVICES, "demo-0", namespace="default")
    await client.delete(STATEFULSETS, "demo-1", namespace="default", propagation="Background")
    await asyncio.sleep(60)
    await client.merge_patch(LEADERWORKERSETS, "demo", {"spec": {"replicas": 3}}, namespace="default")
    await asyncio.sleep(60)
    update = {
        "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [{"name": "main", "image": "worker:2"}]}}}}
    }
    await client.merge_patch(LEADERWORKERSETS, "demo", update, namespace="default")
    await asyncio.sleep(180)
    await client.delete(LEADERWORKERSETS, "demo", namespace="default", propagation="Foreground")
    await asyncio.sleep(60)
    left = await client.list_all(PODS, namespace="default", label_selector=NAME, type=Pod)
    assert left.items == []


@pytest.mark.looptime
@pytest.mark.parametrize("namespaces", [(), ("default",)])
async def test_every_request_of_an_operator_is_covered_by_its_rights(namespaces: tuple[str, ...]) -> None:
    """An operator lives through a whole story; each of its requests is permitted by what `regroup manifests` grants."""
    clock = LoopClock(start=START)
    operator: Operator | None = None

    async def call(url: str, body: bytes, ca: bytes | None, timeout: float) -> bytes:
        assert operator is not None
        return await operator.admission.handle("/" + url.rsplit("/", 1)[1], body)

    cluster = Cluster(clock=clock, rng=random.Random(1), nodes=4, webhook_caller=call)
    options = ManifestOptions(namespaces=namespaces)
    world = asyncio.create_task(cluster.run())
    try:
        await cluster.ready.wait()
        client = cluster.client("kubectl")
        resources = {one.kind: one for one in (CRDS, NAMESPACES, CONFIGMAPS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}
        await client.create(CRDS, scheduler_plugins_crd())
        for document in manifests(options, only=["crds", "namespace", "config", "webhooks"]):
            if document["kind"] in resources:
                where = document["metadata"].get("namespace")
                await client.create(resources[document["kind"]], document, namespace=where)
        record = cluster.server.faults.record()
        config = OperatorConfig(host="127.0.0.1", metrics_port=None, webhook_port=0, namespaces=namespaces, config_namespace=HOME)
        operator = Operator(cluster.client("the-operator"), config=config, clock=clock, rng=random.Random(1), log=Log())
        life = asyncio.create_task(operator.run())
        ready = asyncio.create_task(operator.ready.wait())
        await asyncio.wait({life, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if life.done():
            life.result()
        await story(client, cluster)
        await ome_story(client, cluster)
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life
    finally:
        world.cancel()
        with suppress(asyncio.CancelledError):
            await world
    asked = [entry for entry in record if entry.user_agent.startswith("the-operator")]
    written = {"pods", "statefulsets", "services", "controllerrevisions", "events", "leases", "secrets"}
    written |= {"inferencereplicas", "inferenceservices", "poddisruptionbudgets", "podgroups"}
    assert written <= {entry.resource for entry in asked if entry.writes}
    rules = list(granted(manifests(options, only=["rbac"])))
    assert sorted({str(entry) for entry in asked if not permitted(entry, rules)}) == []
