"""kubectl on OMENative, as a person types it, and the fixtures of spec/omenative.md 8 as manifests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from tests.stories.lws.story_cluster import LIMIT, Kubectl

Object = dict[str, Any]

RECREATE = "RecreateInstanceOnPodRestart"
_API = "/apis/ome.io/v1beta1"
_PHASES = '{.status.instanceStatuses[*].phase}{"\\n"}'


class OmeKubectl(Kubectl):
    """kubectl with its plugin ``kubectl ome``, in one namespace of the cluster."""

    def __init__(self, kubeconfig: Path, *, namespace: str) -> None:
        super().__init__(kubeconfig, namespace=namespace)
        folder = kubeconfig.parent / "bin"
        folder.mkdir(exist_ok=True)
        plugin = folder / "kubectl-ome"
        # What the installed entry point does, also where the package was installed before there was one.
        plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from regroup.cli.ome.main import main; main()" "$@"\n')
        plugin.chmod(0o755)
        self._env["PATH"] = f"{folder}{os.pathsep}{self._env['PATH']}"

    def apply_ome_example(self, file: str) -> str:
        """One of our example files, as it stands there."""
        return self("apply", "-f", "-", text=resources.files("regroup.omenative").joinpath("examples", file).read_text())

    def ome(self, *arguments: str) -> str:
        """``kubectl ome instance ...``: flags follow the plugin's name."""
        return self.without_namespace("ome", "instance", *arguments, "-n", self.namespace)

    def tries(self, *arguments: str, text: str = "") -> tuple[int, str]:
        """As a person does who is told that the webhook was not reached: again. In a cluster that runs faster than the wall its
        ten seconds are less than half of one, which a busy machine misses now and then."""
        for _ in range(5):
            code, output = super().tries(*arguments, text=text)
            if "failed to call webhook: context deadline exceeded" not in output:
                break
        return code, output

    # -- looking

    def replica(self, name: str = "svc-engine") -> Object:
        found: Object = self.read(f"{_API}/namespaces/{self.namespace}/inferencereplicas/{name}")
        return found

    def rows(self, name: str = "svc-engine") -> dict[int, Object]:
        found = self.read(f"{_API}/namespaces/{self.namespace}/inferencereplicas?fieldSelector=metadata.name%3D{name}")
        return {row["index"]: row for one in found["items"] for row in one.get("status", {}).get("instanceStatuses", ())}

    def instance_pods(self, name: str = "svc", component: str = "engine") -> dict[str, Object]:
        """The pods of a component that are not on their way out."""
        selector = f"ome.io%2Finferenceservice%3D{name}%2Ccomponent%3D{component}"
        found = self.read(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}")
        return {one["metadata"]["name"]: one for one in found["items"] if "deletionTimestamp" not in one["metadata"]}

    def pod_uids(self, name: str = "svc", component: str = "engine") -> dict[str, str]:
        return {pod: one["metadata"]["uid"] for pod, one in self.instance_pods(name, component).items()}

    def restarts(self, pod: str, container: str = "ome-container", *, name: str = "svc", component: str = "engine") -> int:
        """How often the kubelet restarted a container; 0 where there is no such pod."""
        found = self.instance_pods(name, component).get(pod, {}).get("status", {}).get("containerStatuses", ())
        return next((int(one["restartCount"]) for one in found if one["name"] == container), 0)

    def says(self, kind: str, *expected: str, name: str = "svc") -> None:
        """Wait until a condition of the service has that status, reason and message."""
        self.until(lambda: self.service_condition(kind, name) == expected, what=f"{kind} is {' '.join(expected)}")

    def service_condition(self, kind: str, name: str = "svc") -> tuple[str, str, str]:
        """Status, reason and message; empty texts when it is not there."""
        found = self.read(f"{_API}/namespaces/{self.namespace}/inferenceservices/{name}")
        for one in found.get("status", {}).get("conditions", ()):
            if one["type"] == kind:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def notes(self, reason: str) -> list[str]:
        """What the events of that reason say."""
        return [event["message"] for event in self.events(reason)]

    # -- doing

    def end_container(self, *pods: str, code: int = 1, container: str = "ome-container", reason: str = "") -> None:
        """End a container of each of ``pods`` at once: what `regroup fault crash` does, with kubectl alone."""
        self._faults += 1
        order = {"action": "crash", "code": code, "container": container, "id": f"{self.namespace}-{self._faults}"}
        text = json.dumps(order | ({"reason": reason} if reason else {}))
        self("annotate", "pod", *pods, "--overwrite", f"sandbox.regroup.dev/fault={text}")

    def refuse_images(self, prefix: str | None) -> None:
        """No node can pull images whose name begins so: what `regroup fault refuse-image` does, with kubectl alone."""
        names = [node["metadata"]["name"] for node in self.get("nodes")]
        order = "sandbox.regroup.dev/refuse-images"
        self("annotate", "node", *names, f"{order}={prefix}" if prefix else f"{order}-", "--overwrite")

    def wedge(self, *pods: str, selector: str = "") -> None:
        """Give pods an image that nobody has, by name or all of a selector, and wait until they wait for it."""
        absent = f"absent-{self.namespace}"
        self.refuse_images(absent)
        self("set", "image", "pod", *(["-l", selector] if selector else pods), f"ome-container={absent}:1")
        names = pods or [one["metadata"]["name"] for one in self.get("pods", "-l", selector)]
        self.until(lambda: all(self._stuck(name) for name in names), what=f"{', '.join(names)} wait for their image")

    def _stuck(self, pod: str) -> bool:
        found = self.read(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
        waiting = [one["state"].get("waiting", {}).get("reason") for one in found["status"].get("containerStatuses", ())]
        return bool({"ErrImagePull", "ImagePullBackOff"} & set(waiting))

    def freezes(self, components: Sequence[str] = ("engine",)) -> None:
        """Freeze the service, and wait until its replicas know."""
        self("annotate", "isvc", "svc", "ome.io/rollout-paused=freeze")
        self.until(
            lambda: all(self.replica(f"svc-{one}")["spec"].get("pauseMode") == "Freeze" for one in components),
            what=f"the freeze reaches {', '.join(components)}",
        )

    def resumes(self) -> None:
        self("annotate", "isvc", "svc", "ome.io/rollout-paused-")

    @contextmanager
    def watching(self, name: str = "svc-engine") -> Iterator[Callable[[], list[list[str]]]]:
        """`kubectl get -w`: gives a function for the phases of all Instances in each state of the replica since then."""
        command = [self._binary, "-n", self.namespace, "get", "irep", name, "-w", "-o", f"jsonpath={_PHASES}"]
        file = Path(self._env["HOME"]) / f"{self.namespace}-{name}.watch"
        with file.open("wb") as output, subprocess.Popen(command, env=self._env, stdout=output) as process:
            try:
                self.until(file.read_text, what="kubectl watches")
                yield lambda: [line.split() for line in file.read_text().splitlines()]
            finally:
                process.terminate()

    # -- waiting

    def settled(self, count: int = 1, *, name: str = "svc-engine", incarnation: int | None = None, index: int = 0) -> Object:
        """Wait until ``count`` Instances are Ready and serve, and give the row of Instance ``index``."""

        def so() -> Object | None:
            rows = self.rows(name)
            fine = [row for row in rows.values() if row.get("phase") == "Ready" and _serves(row)]
            if len(rows) != count or len(fine) != count:
                return None
            return rows[index] if incarnation is None or rows[index]["incarnation"] == incarnation else None

        return self.until(so, what=f"{count} Instances of {name} are Ready, {index} at incarnation {incarnation or 'any'}")

    def phase(self, phase: str, *, name: str = "svc-engine", index: int = 0, limit: float = LIMIT) -> Object:
        """Wait until Instance ``index`` is in ``phase``."""

        def so() -> Object | None:
            row = self.rows(name).get(index)
            return row if row is not None and row.get("phase") == phase else None

        return self.until(so, what=f"Instance {index} of {name} is {phase}", limit=limit)


def _serves(row: Object) -> bool:
    return bool(row.get("podCount", 0) > 0 and row.get("servingPodCount", 0) >= row["podCount"])


def runtime(namespace: str, *, name: str = "stub", image: str = "server:1", config: Mapping[str, Any] | None = None) -> Object:
    """A ServingRuntime of the story's own namespace, with one container a component."""
    runner = {"runner": {"name": "ome-container", "image": image}, "terminationGracePeriodSeconds": 5}
    engine = {**runner, **(config or {})}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "ServingRuntime",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"engineConfig": engine, "decoderConfig": runner, "routerConfig": runner},
    }


def gang(namespace: str, *, workers: int = 3) -> Object:
    """F3: a leader and workers."""
    part = {"runner": {"name": "ome-container", "image": "server:1"}, "terminationGracePeriodSeconds": 5}
    return runtime(namespace, config={"leader": part, "worker": {**part, "size": workers}})


def service(
    policy: str | None = None,
    *,
    instances: int = 1,
    lifecycle: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    engine: Mapping[str, Any] | None = None,
    **components: Any,
) -> Object:
    """F1 with ``policy``, F1n without: an InferenceService ``svc``. ``annotations`` go onto its engine's pods."""
    wanted = {**({"restartPolicy": policy} if policy else {}), **(lifecycle or {})}
    component: Object = {"minReplicas": instances, "maxReplicas": instances, **(engine or {})}
    if wanted:
        component["lifecycle"] = wanted
    if annotations:
        component["annotations"] = dict(annotations)
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "svc"},
        "spec": {
            "deploymentMode": "OMENative",
            "runtime": {"name": "stub", "kind": "ServingRuntime"},
            "engine": component,
            **components,
        },
    }
