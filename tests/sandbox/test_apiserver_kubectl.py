"""The real kubectl, as its users type it, against the API server on a socket: the machine's own and the one of the package."""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sandbox import kubectl_binaries
from tests.sandbox.apiserver_hands import PODS, Api, widgets

from regroup.kube.resources import NAMESPACES
from regroup.runtime.clock import SystemClock
from regroup.sandbox.apifaults import Match
from regroup.sandbox.apiserver.server import ApiServer
from regroup.sandbox.httpfront import kubeconfig, serve
from regroup.wire.yamlish import dump

pytestmark = [pytest.mark.kubectl, pytest.mark.http]
LIMIT = 60.0
STATEFULSET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, labels: {app: web}}
spec:
  serviceName: web
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "web:1", env: [{name: A, value: "1"}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
"""


@pytest.fixture(params=kubectl_binaries.KINDS)
def binary(request: pytest.FixtureRequest) -> str:
    return kubectl_binaries.find(request.param)


class Logs:
    """Two lines of every container."""

    def read(self, uid: str, container: str, *, previous: bool = False, timestamps: bool = False) -> list[str] | None:
        lines = [f"2026-01-01T00:00:0{number}.000000000Z {container} line {number}" for number in (1, 2)]
        return lines if timestamps else [line.partition(" ")[2] for line in lines]


class Kubectl:
    """One kubectl with a fresh home, and the server that it talks to."""

    def __init__(self, binary: str, home: Path, api: Api) -> None:
        self.api = api
        self._binary = binary
        self._home = home

    async def fails(self, *arguments: str, text: str = "") -> str:
        """What it says when it ends with an error."""
        code, output = await self._run(arguments, text)
        assert code != 0, output
        return output

    async def __call__(self, *arguments: str, text: str = "") -> str:
        """What it says; it must succeed. ``text`` is its standard input."""
        code, output = await self._run(arguments, text)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """One that goes on until the block is left; its output."""
        process = await self._start(arguments)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def _run(self, arguments: tuple[str, ...], text: str) -> tuple[int, str]:
        process = await self._start(arguments)
        try:
            async with asyncio.timeout(LIMIT):
                output, _ = await process.communicate(text.encode())
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def _start(self, arguments: tuple[str, ...]) -> asyncio.subprocess.Process:
        environment = {"HOME": str(self._home), "KUBECONFIG": str(self._home / "config"), "PATH": os.environ.get("PATH", "")}
        return await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            env=environment,
            cwd=self._home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )


@asynccontextmanager
async def kubectl(binary: str, home: Path) -> AsyncIterator[Kubectl]:
    server = ApiServer(clock=SystemClock(), rng=random.Random(1))
    server.logs = Logs()
    meta = {"name": "default", "uid": "default"}
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": meta, "spec": {}, "status": {"phase": "Active"}}
    server.storage.put(NAMESPACES, ("", "default"), namespace)
    async with serve(server) as url:
        (home / "config").write_text(kubeconfig(url))
        yield Kubectl(binary, home, Api(server))


async def test_apply_change_and_look(binary: str, tmp_path: Path) -> None:
    """apply -f twice, get in every form, describe, annotate, label, patch, set env, scale, diff, replace, delete."""
    async with kubectl(binary, tmp_path) as k:
        (tmp_path / "web.yaml").write_text(STATEFULSET)
        assert await k("apply", "-f", "web.yaml") == "statefulset.apps/web created\nservice/web created\n"
        assert await k("apply", "-f", "web.yaml") == "statefulset.apps/web unchanged\nservice/web unchanged\n"
        assert await k("diff", "-f", "web.yaml") == ""
        wide = await k("get", "sts,svc", "-o", "wide")
        assert "0/2" in wide
        assert "web:1" in wide
        assert "kind: StatefulSet" in await k("get", "sts", "web", "-o", "yaml")
        assert '"replicas": 2' in await k("get", "sts", "web", "-o", "json")
        assert await k("get", "all", "-o", "name") == "service/web\nstatefulset.apps/web\n"
        assert await k("annotate", "sts", "web", "a=b") == "statefulset.apps/web annotated\n"
        assert await k("label", "sts", "web", "x=y") == "statefulset.apps/web labeled\n"
        assert "web" in await k("get", "sts", "-l", "x=y")
        image = '{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"web:2"}]}}}}'
        assert await k("patch", "sts", "web", "-p", image) == "statefulset.apps/web patched\n"
        assert await k("patch", "sts", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/x"}]') == (
            "statefulset.apps/web patched\n"
        )
        assert await k("set", "env", "sts/web", "B=2") == "statefulset.apps/web env updated\n"
        assert await k("scale", "sts", "web", "--replicas=5") == "statefulset.apps/web scaled\n"
        line = "{.spec.replicas} {.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[*].name}"
        assert await k("get", "sts", "web", "-o", f"jsonpath={line}") == "5 web:2 A B"
        described = await k("describe", "sts", "web")
        assert "5 desired | 0 total" in described
        assert "Annotations:" in described
        assert 'statefulset.apps "web" deleted' in await k("delete", "-f", "web.yaml")
        assert "not found" in await k.fails("get", "sts", "web")


async def test_server_side_apply(binary: str, tmp_path: Path) -> None:
    """Create, change nothing, meet another manager's field, force it."""
    async with kubectl(binary, tmp_path) as k:
        (tmp_path / "web.yaml").write_text(STATEFULSET)
        for _ in range(2):
            output = await k("apply", "--server-side", "-f", "web.yaml")
            assert output == "statefulset.apps/web serverside-applied\nservice/web serverside-applied\n"
        await k("scale", "sts", "web", "--replicas=5")
        conflict = await k.fails("apply", "--server-side", "-f", "web.yaml")
        assert ".spec.replicas" in conflict
        await k("apply", "--server-side", "--force-conflicts", "-f", "web.yaml")
        assert await k("get", "sts", "web", "-o", "jsonpath={.spec.replicas}") == "2"
        assert "serverside-applied (server dry run)" in await k("apply", "--server-side", "--dry-run=server", "-f", "web.yaml")


async def test_custom_resources(binary: str, tmp_path: Path) -> None:
    """A CRD, its objects by short name with its columns, wait for a condition, explain, edit-style patches, a refused field."""
    async with kubectl(binary, tmp_path) as k:
        (tmp_path / "crd.yaml").write_text(dump(widgets()))
        await k("apply", "-f", "crd.yaml")
        await k("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s")
        widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 3}\n"
        assert await k("apply", "-f", "-", text=widget) == "widget.example.com/w created\n"
        header, row = (await k("get", "wd")).splitlines()
        assert (header.split(), row.split()[:2]) == (["NAME", "SIZE", "AGE"], ["w", "3"])
        assert "MODE" in await k("get", "wd", "-o", "wide")
        assert "size" in await k("explain", "widgets.spec")
        assert await k("apply", "-f", "-", text=widget.replace("3", "4")) == "widget.example.com/w configured\n"
        assert await k("patch", "wd", "w", "--type=merge", "-p", '{"spec":{"size":5}}') == "widget.example.com/w patched\n"
        strategic = await k.fails("patch", "wd", "w", "--type=strategic", "-p", '{"spec":{"size":6}}')
        assert "accepted media types include" in strategic
        refused = await k.fails("apply", "-f", "-", text=widget.replace("size: 3", "size: 0"))
        assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in refused
        unknown = await k.fails(
            "create", "-f", "-", text=widget.replace("size: 3", "size: 3, sise: 4").replace("name: w", "name: x")
        )
        assert 'unknown field "spec.sise"' in unknown
        waiting = asyncio.create_task(k("wait", "wd/w", "--for=jsonpath={.status.replicas}=2", "--timeout=20s"))
        await _until_watching(k, "widgets")
        await k.api.patch("/apis/example.com/v1/namespaces/default/widgets/w/status", {"status": {"replicas": 2}})
        assert await waiting == "widget.example.com/w condition met\n"
        assert await k("scale", "wd/w", "--replicas=7") == "widget.example.com/w scaled\n"
        assert 'widget.example.com "w" deleted' in await k("delete", "wd", "w", "--cascade=foreground", "--wait=false")


async def test_pods(binary: str, tmp_path: Path) -> None:
    """run, get -o wide, -w, describe with events, logs (-f, --tail, --timestamps), wait for deletion, delete with grace."""
    async with kubectl(binary, tmp_path) as k:
        assert await k("run", "p", "--image=i") == "pod/p created\n"
        async with k.running("get", "pods", "-w", "--no-headers") as output:
            assert (await asyncio.wait_for(output.readline(), LIMIT)).split()[:3] == [b"p", b"0/1", b"Pending"]
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
            assert (await k.api.ask("POST", f"{PODS}/p/binding", binding)).status == 201
            state = {"name": "p", "ready": True, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {}}}
            status = {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [state]}
            await k.api.patch(f"{PODS}/p/status", {"status": status})
            line = b""
            while b"Running" not in line:
                line = await asyncio.wait_for(output.readline(), LIMIT)
            assert line.split()[:3] == [b"p", b"1/1", b"Running"]
        wide = await k("get", "pods", "-o", "wide")
        assert "10.0.0.7" in wide
        assert "n1" in wide
        pod = await k.api.get(f"{PODS}/p")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": pod["metadata"]["uid"]},
            "reason": "Started",
            "message": "Started container p",
            "type": "Normal",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "source": {"component": "kubelet"},
        }
        assert (await k.api.ask("POST", "/api/v1/namespaces/default/events", event)).status == 201
        for looks in (("describe", "pod", "p"), ("get", "events"), ("events",), ("get", "events.events.k8s.io")):
            assert "Started container p" in await k(*looks)
        assert await k("logs", "p") == "p line 1\np line 2\n"
        assert await k("logs", "p", "-c", "p", "--tail=1", "--timestamps") == "2026-01-01T00:00:02.000000000Z p line 2\n"
        async with k.running("logs", "-f", "p") as output:
            assert await asyncio.wait_for(output.readline(), LIMIT) == b"p line 1\n"
        assert "not valid for pod" in await k.fails("logs", "p", "-c", "x")
        deleting = asyncio.create_task(k("delete", "pod", "p", "--grace-period=9"))
        await _until_deleting(k)
        assert (await k.api.get(f"{PODS}/p"))["metadata"]["deletionGracePeriodSeconds"] == 9
        await k.api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert 'pod "p" deleted' in await deleting


async def test_generators_send_protobuf(binary: str, tmp_path: Path) -> None:
    """create configmap, secret, namespace, service, serviceaccount, deployment: protobuf bodies from kubectl 1.32 on."""
    async with kubectl(binary, tmp_path) as k:
        assert await k("create", "configmap", "c", "--from-literal=a=b") == "configmap/c created\n"
        assert await k("get", "cm", "c", "-o", "jsonpath={.data.a}") == "b"
        assert await k("create", "namespace", "n") == "namespace/n created\n"
        assert await k("create", "secret", "generic", "s", "--from-literal=a=b") == "secret/s created\n"
        assert await k("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
        assert await k("create", "serviceaccount", "robot") == "serviceaccount/robot created\n"
        assert await k("create", "service", "clusterip", "svc", "--tcp=80") == "service/svc created\n"
        assert await k("create", "deployment", "d", "--image=i", "--replicas=3") == "deployment.apps/d created\n"
        assert await k("get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "3"
        assert "AlreadyExists" in await k.fails("create", "namespace", "n")
        assert "Terminating" not in await k("get", "ns")
        await k("delete", "ns", "n", "--wait=false")
        assert "Terminating" in await k("get", "ns", "n")


async def test_what_needs_a_real_container_says_so(binary: str, tmp_path: Path) -> None:
    """exec, attach, cp, port-forward, debug: an error that says that containers are simulated and what works instead; top says
    that there are no metrics."""
    async with kubectl(binary, tmp_path) as k:
        await k("run", "p", "--image=i")
        await k.api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
        for arguments in (
            ("exec", "p", "--", "ls"),
            ("attach", "p"),
            ("cp", "p:/etc/hosts", "hosts"),
            ("port-forward", "pod/p", ":80"),
            ("debug", "p", "--image=i"),
        ):
            told = await k.fails(*arguments)
            assert "the containers of the sandbox are simulated" in told, arguments
            assert "regroup fault crash default/p" in told, arguments
        assert "NotFound" in await k.fails("exec", "q", "--", "ls")
        assert "Metrics API not available" in await k.fails("top", "pods")


async def test_questions_about_oneself(binary: str, tmp_path: Path) -> None:
    """auth can-i, can-i --list, whoami: everybody is one user who may do all."""
    async with kubectl(binary, tmp_path) as k:
        assert (await k("auth", "can-i", "create", "pods")).startswith("yes")
        assert (await k("auth", "can-i", "delete", "nodes", "--all-namespaces")).splitlines()[-1].startswith("yes")
        assert "*.*" in await k("auth", "can-i", "--list")
        assert "sandbox-user" in await k("auth", "whoami")


async def test_what_there_is(binary: str, tmp_path: Path) -> None:
    """version, api-resources, api-versions, explain, get --raw."""
    async with kubectl(binary, tmp_path) as k:
        assert "Server Version: v1.36" in await k("version")
        resources = await k("api-resources")
        assert all(name in resources for name in ("pods", "statefulsets", "leases", "customresourcedefinitions"))
        assert "apps/v1" in (await k("api-versions")).splitlines()
        explained = await k("explain", "sts.spec")
        assert "replicas" in explained
        assert "KIND:       StatefulSet" in explained
        assert await k("get", "--raw", "/readyz") == "ok"
        assert "No resources found" in await k("get", "pods")


async def _until_deleting(k: Kubectl) -> None:
    async with k.api.watch(PODS) as watch:
        while not (await watch.next(within=LIMIT))["object"]["metadata"].get("deletionTimestamp"):
            pass


async def _until_watching(k: Kubectl, resource: str) -> None:
    """Until somebody has a watch open."""
    async with asyncio.timeout(LIMIT):
        while not k.api.server.faults.watches(match=Match(resource=resource)):  # noqa: ASYNC110 - nobody tells when it comes
            await asyncio.sleep(0.01)
