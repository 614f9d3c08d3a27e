"""A user's hands for InferenceServices on any plane: fixtures F1-F3 of spec/omenative.md 8, looking, waiting."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.planes.plane import NAMESPACE, Event, Plane

from regroup.kube.meta import Condition, ObjectView, find_condition
from regroup.kube.resources import CONFIGMAPS, CONTROLLER_REVISIONS, PODS
from regroup.omenative import keys
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.row import READY, RESTARTING, Row
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.omenative.view import InstancePod
from regroup.wire.errors import NotFound

RECREATE = "RecreateInstanceOnPodRestart"
MANAGER = "kubectl"
ABSENT = "absent"
"""Begins the name of an image that no node can pull."""
STUCK = frozenset({"ErrImagePull", "ImagePullBackOff"})


class Ome:
    """Works on one InferenceService of one plane."""

    def __init__(self, plane: Plane, name: str = "svc") -> None:
        self.plane = plane
        self.name = name

    # -- doing

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        """Apply an InferenceService."""
        name = manifest["metadata"]["name"]
        await self.plane.client.apply(INFERENCE_SERVICES, name, manifest, namespace=NAMESPACE, field_manager=MANAGER)

    async def runtime(self, name: str = "stub", **spec: Any) -> None:
        """Apply a ClusterServingRuntime."""
        body = runtime_manifest(name, **spec)
        await self.plane.client.apply(CLUSTER_SERVING_RUNTIMES, name, body, field_manager=MANAGER)

    async def patch(self, spec: Mapping[str, Any]) -> None:
        await self.plane.client.merge_patch(INFERENCE_SERVICES, self.name, {"spec": spec}, namespace=NAMESPACE)

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        """Annotate the InferenceService; None takes an annotation away."""
        body = {"metadata": {"annotations": dict(annotations)}}
        await self.plane.client.merge_patch(INFERENCE_SERVICES, self.name, body, namespace=NAMESPACE)

    async def annotate_replica(self, annotations: Mapping[str, str | None], component: str = keys.ENGINE) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        await self.plane.client.merge_patch(INFERENCE_REPLICAS, self.replica_name(component), body, namespace=NAMESPACE)

    async def finalize(self, pod: str, finalizers: Sequence[str] | None) -> None:
        """Keep a pod by finalizers of somebody else; None lets it go."""
        await self.plane.client.merge_patch(PODS, pod, {"metadata": {"finalizers": finalizers}}, namespace=NAMESPACE)

    async def configure(self, lifecycle: str) -> None:
        """Write the ``lifecycle`` entry of the operator's ConfigMap."""
        body = {"data": {"lifecycle": lifecycle}}
        namespace = self.plane.config_namespace
        await self.plane.client.merge_patch(CONFIGMAPS, "inferenceservice-config", body, namespace=namespace)

    async def settings(self, **changed: Any) -> None:
        """Write the chart's ``lifecycle`` settings with some changed; None leaves one out."""
        chart: dict[str, Any] = {"instanceReadyTimeout": "30m", "stuckPodGracePeriod": "60s", "repairBatchSize": 10}
        await self.configure(json.dumps({name: value for name, value in (chart | changed).items() if value is not None}))

    async def wedge(self, *pods: str) -> None:
        """Give the main container of each pod another image, which nobody has: it ends and waits for ever. Or until the operator,
        where there is one, has taken the pod away."""
        await self.plane.faults.refuse_image(ABSENT)
        before = {pod.name: pod.uid for pod in await self.pods_named(pods)}
        change = [{"op": "replace", "path": "/spec/containers/0/image", "value": f"{ABSENT}:1"}]
        for name in pods:
            await self.plane.client.json_patch(PODS, name, change, namespace=NAMESPACE)

        async def stuck() -> bool:
            there = {pod.name: pod for pod in await self.pods_named(pods) if pod.uid == before[pod.name]}
            return all(name not in there or waits_for(there[name]) in STUCK for name in before)

        await self.plane.wait_for(stuck, timeout=60, what=f"{', '.join(pods)} wait for their image")

    async def crash(self, *pods: str, container: str = keys.MAIN_CONTAINER, exit_code: int = 1, restarts: int = 1) -> None:
        """End a container of each pod, and wait until their kubelets have started it again."""
        for name in pods:
            await self.plane.faults.crash(NAMESPACE, name, container=container, exit_code=exit_code)

        async def restarted() -> bool:
            there = await self.pods_named(pods)
            return len(there) == len(pods) and all(
                any(one.name == container and one.restart_count >= restarts for one in pod.all_container_statuses())
                for pod in there
            )

        await self.plane.wait_for(restarted, timeout=60, what=f"{container} of {', '.join(pods)} runs again")

    # -- looking

    async def pods_named(self, names: Sequence[str]) -> list[InstancePod]:
        page = await self.plane.client.list_all(PODS, namespace=NAMESPACE, type=InstancePod)
        return [pod for pod in page.items if pod.metadata.name in names]

    def restarting(self, since: int, component: str = keys.ENGINE) -> list[list[int]]:
        """The Instances in phase Restarting by what the operator wrote from request ``since`` on, each state once."""
        found: list[list[int]] = []
        for entry in self.plane.writes(since=since):
            if not entry.request.path.endswith(f"/inferencereplicas/{self.replica_name(component)}/status"):
                continue
            rows = (entry.body.get("status") or {}).get("instanceStatuses")
            if rows is not None:
                now = [row["index"] for row in rows if row.get("phase") == RESTARTING]
                if not found or found[-1] != now:
                    found.append(now)
        return found

    def replica_name(self, component: str = keys.ENGINE) -> str:
        return f"{self.name}-{component}"

    def pod_name(self, index: int = 0, runner: str = "default", ordinal: int = 0, *, component: str = keys.ENGINE) -> str:
        return f"{self.replica_name(component)}-{index}-{runner}-{ordinal}"

    async def replica(self, component: str = keys.ENGINE) -> InferenceReplica:
        name = self.replica_name(component)
        return await self.plane.client.get(INFERENCE_REPLICAS, name, namespace=NAMESPACE, type=InferenceReplica)

    async def rows(self, component: str = keys.ENGINE) -> dict[int, Row]:
        try:
            found = await self.replica(component)
        except NotFound:
            return {}
        return {row.index: row for row in found.status.rows}

    async def row(self, index: int = 0, component: str = keys.ENGINE) -> Row | None:
        return (await self.rows(component)).get(index)

    async def pods(self, component: str = keys.ENGINE) -> dict[str, InstancePod]:
        """The component's pods by name, terminating ones included."""
        selector = f"{keys.SERVICE}={self.name},{keys.COMPONENT}={component}"
        page = await self.plane.client.list_all(PODS, namespace=NAMESPACE, type=InstancePod, label_selector=selector)
        return {pod.metadata.name: pod for pod in page.items}

    async def uids(self, component: str = keys.ENGINE) -> dict[str, str]:
        return {name: pod.metadata.uid for name, pod in (await self.pods(component)).items()}

    async def revisions(self, component: str = keys.ENGINE) -> list[str]:
        selector = f"{keys.SERVICE}={self.name},{keys.COMPONENT}={component}"
        page = await self.plane.client.list_all(
            CONTROLLER_REVISIONS, namespace=NAMESPACE, type=ObjectView, label_selector=selector
        )
        return sorted(found.metadata.name for found in page.items)

    async def condition(self, kind: str) -> Condition | None:
        """A condition of the InferenceService."""
        found = await self.plane.client.get(INFERENCE_SERVICES, self.name, namespace=NAMESPACE, type=dict)
        conditions = [
            Condition(type=one["type"], status=one["status"], reason=one.get("reason", ""), message=one.get("message", ""))
            for one in found.get("status", {}).get("conditions", [])
        ]
        return find_condition(conditions, kind)

    async def events(self, reason: str = "") -> list[Event]:
        return await self.plane.events(reason)

    # -- waiting

    async def wait_ready(self, count: int = 1, *, component: str = keys.ENGINE, timeout: float = 120.0) -> dict[int, Row]:
        """Wait until exactly ``count`` Instances are Ready and serving."""

        async def ready() -> dict[int, Row] | None:
            rows = await self.rows(component)
            fine = [row for row in rows.values() if row.phase == READY and row.serving_pod_count >= max(1, row.pod_count)]
            return rows if len(rows) == count and len(fine) == count else None

        found: dict[int, Row] = await self.plane.wait_for(ready, timeout=timeout, what=f"{count} {component} Instances are Ready")
        return found

    async def wait_row(
        self,
        index: int = 0,
        *,
        phase: str | None = None,
        incarnation: int | None = None,
        component: str = keys.ENGINE,
        timeout: float = 120.0,
    ) -> Row:
        """Wait until the row says so."""

        async def so() -> Row | None:
            row = await self.row(index, component)
            if row is None or (phase is not None and row.phase != phase):
                return None
            return row if incarnation is None or row.incarnation == incarnation else None

        what = f"Instance {index} of {component} is {phase or 'there'} at incarnation {incarnation or 'any'}"
        found: Row = await self.plane.wait_for(so, timeout=timeout, what=what)
        return found

    async def wait_restarted(
        self, index: int = 0, *, incarnation: int = 2, component: str = keys.ENGINE, timeout: float = 180.0
    ) -> Row:
        """Wait until the Instance is Ready again at that incarnation."""
        return await self.wait_row(index, phase=READY, incarnation=incarnation, component=component, timeout=timeout)


def waits_for(pod: InstancePod) -> str:
    """The reason for which its first container waits; empty when it does not."""
    status = next(iter(pod.status.container_statuses), None)
    waiting = status.state.waiting if status is not None and status.state is not None else None
    return waiting.reason if waiting is not None else ""


def runtime_manifest(name: str = "stub", **spec: Any) -> dict[str, Any]:
    """A ClusterServingRuntime with one container a component; ``spec`` adds to it or replaces a component's config."""
    runner = {"runner": {"name": keys.MAIN_CONTAINER, "image": "server:1"}}
    # None takes a part away: an API server refuses null where it wants an object.
    whole = {"engineConfig": runner, "decoderConfig": runner, "routerConfig": runner, **spec}
    return {
        "apiVersion": CLUSTER_SERVING_RUNTIMES.api_version,
        "kind": CLUSTER_SERVING_RUNTIMES.kind,
        "metadata": {"name": name},
        "spec": {name: part for name, part in whole.items() if part is not None},
    }


def gang_runtime(name: str = "gang", *, workers: int = 3, apart: bool = False) -> dict[str, Any]:
    """A runtime whose engine is a leader and workers (F3); ``apart``: each on a node of its own."""
    container = {"name": keys.MAIN_CONTAINER, "image": "server:1"}
    others = {"labelSelector": {"matchLabels": {keys.COMPONENT: "engine"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [others]}}
    pod = {"runner": container, **({"affinity": affinity} if apart else {})}
    config = {"leader": pod, "worker": {**pod, "size": workers}}
    return runtime_manifest(name, engineConfig=config)


def service_manifest(
    name: str = "svc",
    *,
    runtime: str = "stub",
    instances: int = 1,
    policy: str | None = None,
    lifecycle: Mapping[str, Any] | None = None,
    engine: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """An InferenceService in OMENative mode with an engine: F1 with ``policy=RECREATE``, F1n without."""
    component: dict[str, Any] = {"minReplicas": instances, "maxReplicas": instances, **(engine or {})}
    wanted = {**({"restartPolicy": policy} if policy else {}), **(lifecycle or {})}
    if wanted:
        component["lifecycle"] = wanted
    meta: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if annotations:
        meta["annotations"] = dict(annotations)
    return {
        "apiVersion": INFERENCE_SERVICES.api_version,
        "kind": INFERENCE_SERVICES.kind,
        "metadata": meta,
        "spec": {"deploymentMode": keys.OMENATIVE, "runtime": {"name": runtime}, "engine": component, **spec},
    }
