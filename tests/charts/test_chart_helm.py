"""charts/regroup as Helm renders and installs it: the same objects as `regroup manifests` prints (design 1)."""

import json
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from charts.chart import FOLDER
from charts.settings import SETTINGS, Setting
from tests.charts.cases import BUNDLE, CASES, HOME, Values, by_name, only, printed
from tests.charts.conftest import LIMIT, RELEASE, Helm
from tests.planes.realplane.controlplane import ControlPlane
from tests.planes.realplane.ports import free_port

from regroup.cli import run as run_command
from regroup.operator.config import LEASE, SECRET, SERVICE_ACCOUNT
from regroup.wire import yamlish

pytestmark = pytest.mark.real

KEPT = {"helm.sh/resource-policy": "keep"}
PATIENCE = 60.0
"""Seconds for what a cluster does by itself."""
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations/regroup"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{HOME}/deployments/regroup"


def written(folder: Path, values: Values) -> str:
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    return str(path)


def rendered(helm: Helm, folder: Path, values: Values, *, namespace: str = HOME) -> list[dict[str, Any]]:
    return yamlish.load_documents(helm.template("--values", written(folder, values), namespace=namespace))


def pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Deployment"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("case", CASES)
def test_it_renders_what_the_manifests_print(case: str, helm: Helm, tmp_path: Path) -> None:
    """For each option of `regroup manifests`: the same objects with the same contents, but for the note that keeps CRDs."""
    arguments, values = CASES[case]
    namespace = arguments[arguments.index("--namespace") + 1] if "--namespace" in arguments else HOME
    found = by_name(rendered(helm, tmp_path, values, namespace=namespace))
    for one in found.values():
        if one["kind"] == "CustomResourceDefinition":
            assert one["metadata"].pop("annotations") == KEPT
    assert found == by_name(printed(arguments, tmp_path))


def test_lint(helm: Helm) -> None:
    """Helm has nothing to say, even where it only warns."""
    assert "0 chart(s) failed" in helm("lint", "--strict", str(FOLDER))


def test_it_asks_for_a_cluster_that_is_new_enough(helm: Helm) -> None:
    """README: Kubernetes 1.27 or later."""
    helm.template("--kube-version", "1.27.0", namespace=HOME)
    refused = helm.run("template", RELEASE, str(FOLDER), "--kube-version", "1.26.9")
    assert "chart requires kubeVersion: >=1.27.0-0" in refused.stderr


def test_what_only_helm_can_set(helm: Helm, tmp_path: Path) -> None:
    """Where the pods run, with what, and how images are pulled: each arrives where Kubernetes looks for it."""
    placing: dict[str, Any] = {
        "nodeSelector": {"disk": "ssd", "on": "true"},
        "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "registry"}],
    }
    values = {
        **placing,
        "podAnnotations": {"scrape": "true"},
        "image": {"pullPolicy": "Always", "tag": ""},
        "resources": {"limits": {"memory": "1Gi", "cpu": 2}},
        "crds": {"keep": False},
        "config": {"lifecycle": {"repairBatchSize": 3, "teardown": None}},
    }
    documents = rendered(helm, tmp_path, values)
    found = pod(documents)
    assert {key: found[key] for key in placing} == placing
    (container,) = found["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("regroup-operator", "Always")
    # Values are laid over those that are shipped.
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi", "cpu": 2}}
    (template,) = [one["spec"]["template"] for one in documents if one["kind"] == "Deployment"]
    assert template["metadata"]["annotations"] == {"scrape": "true"}
    assert [one for one in documents if one["metadata"].get("annotations") == KEPT] == []
    (data,) = [one["data"] for one in documents if one["kind"] == "ConfigMap"]
    lifecycle = json.loads(data["lifecycle"])
    assert lifecycle["repairBatchSize"] == 3
    assert lifecycle["instanceReadyTimeout"] == "30m"
    assert "teardown" not in lifecycle


@pytest.mark.parametrize("grace", [0, 0.5, 12_000_000])
def test_flags_are_such_as_the_operator_takes(grace: float, helm: Helm, tmp_path: Path) -> None:
    """The command that the container runs reads the values that were given."""
    values = {"nodeLossGrace": grace, "workers": 3, "logLevel": "debug", "namespaces": ["a", "b"], "schedulerProvider": "volcano"}
    (container,) = pod(rendered(helm, tmp_path, values))["containers"]
    assert container["args"][0] == "run"
    told = run_command.command.make_context("run", container["args"][1:]).params
    assert told["node_loss_grace"] == grace
    assert (told["workers"], told["log_level"], told["namespaces"]) == (3, "debug", ["a", "b"])
    assert told["scheduler_provider"] == "volcano"


def test_a_certificate_of_ones_own(helm: Helm, tmp_path: Path) -> None:
    """A Secret is mounted where the operator is told to look, and the webhooks' configurations say who fills in its CA."""
    note = {"cert-manager.io/inject-ca-from": f"{HOME}/regroup"}
    documents = rendered(helm, tmp_path, {"webhooks": {"certificateSecret": "mine", "annotations": note}})
    found = pod(documents)
    (container,) = found["containers"]
    where = container["args"][container["args"].index("--certificate-dir") + 1]
    (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == where]
    (volume,) = [one for one in found["volumes"] if one["name"] == mount["name"]]
    assert volume["secret"] == {"secretName": "mine"}
    assert mount["readOnly"] is True
    assert {one["kind"] for one in documents if one["metadata"].get("annotations") == note} == {
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }


# -- refusals


def leaves(settings: tuple[Setting, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for one in settings:
        yield from leaves(tuple(one.inner), (*path, one.name)) if one.inner else [(*path, one.name)]


def nested(path: tuple[str, ...], value: Any) -> Values:
    for name in reversed(path):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def refusal(helm: Helm, folder: Path, values: Values) -> str:
    done = helm.run("template", RELEASE, str(FOLDER), "--values", written(folder, values))
    assert done.returncode != 0, f"taken: {values}"
    return done.stderr


def at(path: tuple[str, ...]) -> str:
    """How Helm tells a path."""
    return f"at '{''.join(f'/{name}' for name in path)}'"


def test_every_value_of_another_type_is_refused(helm: Helm, tmp_path: Path) -> None:
    """By its path; so is one that is taken away (null) where the templates need one."""
    for path in leaves(tuple(SETTINGS)):
        told = refusal(helm, tmp_path, nested(path, [[7]]))
        assert at(path).removesuffix("'") in told, told
    for path in (("replicas",), ("image", "repository"), ("config", "lifecycle"), ("create", "rbac"), ("webhooks",)):
        told = refusal(helm, tmp_path, nested(path, None))
        assert f"{at(path[:-1])}: missing property '{path[-1]}'" in told, told


def test_what_is_empty_can_be_null(helm: Helm, tmp_path: Path) -> None:
    """Then it is as if nobody had set it."""
    empty = ["imagePullSecrets", "namespaces", "tolerations", "affinity", "nodeSelector", "priorityClassName", "podAnnotations"]
    values = {**dict.fromkeys(empty), "webhooks": {"url": None, "caBundle": None, "annotations": None}, "image": {"digest": None}}
    assert rendered(helm, tmp_path, values) == rendered(helm, tmp_path, {})


def test_every_misspelt_name_is_refused(helm: Helm, tmp_path: Path) -> None:
    """In each group of values."""
    for path in {path[:-1] for path in leaves(tuple(SETTINGS))}:
        told = refusal(helm, tmp_path, nested((*path, "bogus"), 1))
        assert f"{at(path)}: additional properties 'bogus' not allowed" in told, told


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 0),
        ("replicas", 11),
        ("replicas", 1.5),
        ("namespaces/1", "A"),
        ("namespaces/1", "a.b"),
        ("namespaces/1", ""),
        ("namespaces", ["a", "a"]),
        ("schedulerProvider", "slurm"),
        ("nodeLossGrace", -1),
        ("workers", 0),
        ("logLevel", "loud"),
        ("image/repository", ""),
        ("image/repository", "my image"),
        ("image/tag", "a/b"),
        ("image/digest", "sha256:1"),
        ("image/pullPolicy", "Sometimes"),
        ("imagePullSecrets/0", {}),
        ("webhooks/url", "http://x"),
        ("webhooks/url", "https://"),
        ("webhooks/url", "https://x?y"),
        ("webhooks/caBundle", "nothing"),
        ("webhooks/certificateSecret", "Mine"),
        ("webhooks/annotations/a", 1),
        ("create/crds", "yes"),
        ("crds/keep", 0),
        ("resources/limits/memory", "much"),
        ("resources/limits/memory", -1),
        ("resources/limit", {}),
        ("nodeSelector/a", True),
        ("tolerations/0/effect", "Nothing"),
        ("tolerations/0/keys", "a"),
        ("affinity/nodeaffinity", {}),
        ("podAnnotations/a", 1),
        ("config/lifecycle/instanceReadyTimeout", "30"),
        ("config/lifecycle/repairBatchSize", 0),
        ("config/lifecycle/updateRetry/multiplier", 0.5),
        ("config/lifecycle/stuckPodGrace", "1m"),
        ("config/deploy/defaultDeploymentMode", "Serverless"),
        ("config/deploy/updateStrategy/motor", {}),
        ("config/deploy/updateStrategy/engine/type", "Rolling"),
        ("config/deploy/updateStrategy/engine/maxSurge", "101%"),
        ("config/podDisruptionBudget/omeNative/maxUnavailable", -1),
    ],
)
def test_wrong_values_are_refused(path: str, value: Any, helm: Helm, tmp_path: Path) -> None:
    """By the path of the value, or of what it stands in where its name is the fault."""
    for name in reversed(path.split("/")):
        value = [*(["a"] if name == "1" else []), value] if name.isdigit() else {name: value}
    told = refusal(helm, tmp_path, value)
    above, _, last = path.rpartition("/")
    assert f"at '/{path}'" in told or f"at '/{above}': additional properties '{last}' not allowed" in told, told


def test_as_part_of_another_chart(helm: Helm, tmp_path: Path) -> None:
    """What Helm hands down to a dependency, and what a parent switches it with, is no misspelt name."""
    parent = tmp_path / "parent"
    (parent / "charts").mkdir(parents=True)
    (parent / "charts" / "regroup").symlink_to(FOLDER)
    (parent / "Chart.yaml").write_text(
        yamlish.dump(
            {
                "apiVersion": "v2",
                "name": "parent",
                "version": "0.0.1",
                "dependencies": [{"name": "regroup", "version": "*", "condition": "regroup.enabled"}],
            }
        )
    )
    (parent / "values.yaml").write_text("global: {a: b}\nregroup: {enabled: true, replicas: 3}\n")
    documents = yamlish.load_documents(helm("template", RELEASE, str(parent), "--namespace", HOME))
    assert [one["spec"]["replicas"] for one in documents if one["kind"] == "Deployment"] == [3]


# -- on a cluster


def get(control: ControlPlane, path: str) -> dict[str, Any]:
    found = control.request("GET", path)
    assert isinstance(found, dict)
    return found


def is_there(control: ControlPlane, path: str) -> bool:
    try:
        control.request("GET", path)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return False
        raise
    return True


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.1)


def bundles(control: ControlPlane) -> list[str]:
    found = [get(control, WEBHOOKS.format(kind))["webhooks"] for kind in ("mutating", "validating")]
    return [one["clientConfig"].get("caBundle", "") for webhooks in found for one in webhooks]


@contextmanager
def operator(control: ControlPlane, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`regroup run` with the installed ServiceAccount's own token, so with the rights of the release and no others."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/{SERVICE_ACCOUNT}/token"
    kubeconfig = folder / "operator.kubeconfig"
    kubeconfig.write_text(control.kubeconfig(token=control.request("POST", path, request)["status"]["token"]))
    ports = ["--host", "127.0.0.1", "--metrics-port", str(free_port()), "--webhook-port", str(free_port())]
    command = [str(Path(sys.executable).with_name("regroup")), "run", "--kubeconfig", str(kubeconfig), "--home", HOME, *ports]
    with (folder / "operator.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_a_release_lives(installer: Helm, control: ControlPlane, tmp_path: Path) -> None:
    """Install, run, upgrade, uninstall: the API server takes every object; the operator's rights are enough for it to lead and to
    put its CA where API servers look; an upgrade leaves that CA in place; and what is left at the end are the CRDs."""
    told = installer("install", RELEASE, str(FOLDER), "--namespace", HOME, "--create-namespace")
    assert "comes from no registry" in told
    assert get(control, DEPLOYMENT)["spec"]["replicas"] == 2
    with operator(control, tmp_path) as process:
        wait_for(lambda: process.poll() is not None or all(bundles(control)), "the CA bundle is in every webhook")
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/{LEASE}"
        wait_for(lambda: process.poll() is not None or is_there(control, lease), "the operator leads")
        assert process.poll() is None, (tmp_path / "operator.log").read_text()
        secret = f"/api/v1/namespaces/{HOME}/secrets/{SECRET}"
        assert is_there(control, secret)
    trusted = bundles(control)

    values = written(tmp_path, {"namespaces": ["default"], "replicas": 3, "image": {"repository": "r.example/regroup"}})
    told = installer("upgrade", RELEASE, str(FOLDER), "--namespace", HOME, "--values", values)
    assert "comes from no registry" not in told
    assert get(control, DEPLOYMENT)["spec"]["replicas"] == 3
    selected = get(control, WEBHOOKS.format("mutating"))["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert selected == [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]
    assert bundles(control) == trusted
    rights = "/apis/rbac.authorization.k8s.io/v1/{}/regroup-workloads"
    assert is_there(control, rights.format("namespaces/default/roles"))
    assert not is_there(control, rights.format("clusterroles"))

    storage = get(control, f"/api/v1/namespaces/{HOME}/secrets/sh.helm.release.v1.{RELEASE}.v2")["data"]["release"]
    assert len(storage) < 2**20 / 2, "a release is kept in a Secret, which holds a mebibyte"

    installer("uninstall", RELEASE, "--namespace", HOME)
    assert not any(is_there(control, WEBHOOKS.format(kind)) for kind in ("mutating", "validating"))
    assert not is_there(control, DEPLOYMENT)
    names = {one["metadata"]["name"] for one in get(control, CRDS)["items"]}
    crds = {one["metadata"]["name"] for one in printed(["--only", "crds"], tmp_path)}
    assert names >= crds

    # The same release takes them up again.
    installer("install", RELEASE, str(FOLDER), "--namespace", HOME)
    installer("uninstall", RELEASE, "--namespace", HOME)


def kubectl(helm: Helm, folder: Path, *words: str) -> str:
    command = [str(Path(sys.executable).with_name("kubectl")), "--kubeconfig", str(helm.kubeconfig), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_over_what_the_manifests_installed(installer: Helm, control: ControlPlane, tmp_path: Path) -> None:
    """docs/operating.md: who installed with `regroup manifests` goes over to Helm with --take-ownership, and no object is made
    anew; the next upgrade changes what kubectl had applied."""
    command = [str(Path(sys.executable).with_name("regroup")), "manifests"]
    bundle = tmp_path / "all.yaml"
    bundle.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    kubectl(installer, tmp_path, "apply", "--server-side", "-f", "all.yaml")
    look = ["get", "-f", "all.yaml", "-o", "json"]
    before = by_name(json.loads(kubectl(installer, tmp_path, *look))["items"])
    target = [RELEASE, str(FOLDER), "--namespace", HOME]
    refused = installer.run("install", *target)
    assert "invalid ownership metadata" in refused.stderr
    installer("install", *target, "--take-ownership")
    after = by_name(json.loads(kubectl(installer, tmp_path, *look))["items"])
    assert {name: one["metadata"]["uid"] for name, one in after.items()} == {
        name: one["metadata"]["uid"] for name, one in before.items()
    }
    owned = {name for name, one in after.items() if one["metadata"].get("annotations", {}).get("meta.helm.sh/release-name")}
    assert owned == {name for name, one in after.items() if one["kind"] != "Namespace"}
    installer("upgrade", *target, "--set", "replicas=1,nodeLossGrace=5")
    spec = get(control, DEPLOYMENT)["spec"]
    assert spec["replicas"] == 1
    assert spec["template"]["spec"]["containers"][0]["args"][-2:] == ["--node-loss-grace", "5"]


def test_crds_that_are_somebody_elses(installer: Helm, control: ControlPlane, tmp_path: Path) -> None:
    """With ``create.crds`` off they are left as they are, also when the release goes."""
    for one in printed(["--only", "crds"], tmp_path):
        control.request("POST", CRDS, one)
    before = {one["metadata"]["uid"] for one in get(control, CRDS)["items"]}
    values = written(tmp_path, only("rbac", "config", "webhooks", "deployment"))
    installer("install", RELEASE, str(FOLDER), "--namespace", HOME, "--create-namespace", "--values", values)
    installer("uninstall", RELEASE, "--namespace", HOME)
    found = get(control, CRDS)["items"]
    assert {one["metadata"]["uid"] for one in found} == before
    assert all("annotations" not in one["metadata"] for one in found)


def test_every_setting_together_is_taken_by_the_api_server(installer: Helm, control: ControlPlane, tmp_path: Path) -> None:
    """Nothing that the schema lets pass in these is refused by Kubernetes."""
    values: Mapping[str, Any] = {
        "image": {"pullPolicy": "Never"},
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"a": "b"},
        "webhooks": {"certificateSecret": "mine", "caBundle": BUNDLE, "annotations": {"a": "b"}},
        "resources": {"requests": {"cpu": "0.5", "memory": "0.5Gi", "ephemeral-storage": 1000000}},
        "nodeLossGrace": 0,
    }
    where = ["--namespace", HOME, "--create-namespace", "--values", written(tmp_path, values)]
    installer("install", RELEASE, str(FOLDER), *where)
