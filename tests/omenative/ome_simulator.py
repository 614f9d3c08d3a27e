"""A small world for one InferenceReplica: pods, kubelet, endpoints and a status, with a clock of its own. No mocks of our code.

It carries out ``Outcome``s the way the controller does (status first, then actions, then events) and plays everybody else:
a kubelet that starts containers, an EndpointSlice controller, a user. All of it is plain Python on one clock, so a story of hours
runs in milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from regroup.omenative.api.replica import InferenceReplica, InferenceReplicaStatus
from regroup.omenative.api.row import Row
from regroup.omenative.configuration.settings import LiveSettings, Settings, StartSettings
from regroup.omenative.engine import passes
from regroup.omenative.names import pod_name
from regroup.omenative.outcome import (
    CreatePod,
    DeletePod,
    DeletePodGroup,
    DropAnnotation,
    DropFinalizer,
    EnsurePodGroup,
    Outcome,
    PatchImages,
    Refusal,
    SetGate,
    Told,
)
from regroup.omenative.view import InstancePod, NodeFacts, ReplicaView, Revision, Routing

NOW = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
NAMESPACE = "qwen3-native"
SERVICE = "qwen3-0-6b"
MAIN = "ome-container"
CHART = Settings(
    live=LiveSettings(instance_ready_timeout=1800.0, stuck_pod_grace=60.0),
    start=StartSettings(repair_batch_size=10),
)


def text(time: datetime) -> str:
    """RFC 3339 in whole seconds."""
    return time.replace(microsecond=0).isoformat().replace("+00:00", "Z")


@dataclass
class Container:
    """A container of a pod, as its kubelet sees it."""

    name: str = MAIN
    image: str = "img:1"
    init: bool = False
    running_since: datetime | None = None
    waiting: str = "ContainerCreating"
    restarts: int = 0
    ended: dict[str, Any] | None = None
    last: dict[str, Any] | None = None

    def status(self) -> dict[str, Any]:
        if self.ended is not None:
            state: dict[str, Any] = {"terminated": self.ended}
        elif self.running_since is not None:
            state = {"running": {"startedAt": text(self.running_since)}}
        else:
            state = {"waiting": {"reason": self.waiting, "message": f"because of {self.waiting}"}}
        found = {"name": self.name, "restartCount": self.restarts, "ready": self.running_since is not None, "state": state}
        if self.last is not None:
            found["lastState"] = {"terminated": self.last}
        return found


@dataclass
class SimPod:
    """A pod as it stands in the API server."""

    name: str
    uid: str
    labels: dict[str, str]
    created: datetime
    node: str = "n1"
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    containers: list[Container] = field(default_factory=lambda: [Container()])
    gone_at: datetime | None = None
    stays: bool = False
    """It never goes: a finalizer, or a kubelet that is silent."""
    holders: list[dict[str, str]] | None = None
    probe_fails: bool = False
    ready_since: datetime | None = None
    listed_ready: bool = False
    """The EndpointSlice of its revision's routed Service lists it as ready."""
    blocked: str = ""
    """Why its containers do not start: a waiting reason, or Unschedulable."""
    blocked_since: datetime | None = None
    version: int = 1

    @property
    def containers_ready(self) -> bool:
        regular = [one for one in self.containers if not one.init]
        return self.phase == "Running" and not self.probe_fails and all(one.running_since is not None for one in regular)

    @property
    def in_rotation(self) -> bool:
        return self.holders is not None and not self.holders

    @property
    def serves(self) -> bool:
        return self.containers_ready and self.in_rotation and self.gone_at is None

    def container(self, name: str = MAIN) -> Container:
        return next(one for one in self.containers if one.name == name)

    def view(self) -> InstancePod:
        conditions: list[dict[str, Any]] = []
        if self.holders is not None:
            status = "False" if self.holders else "True"
            conditions.append({"type": "ome.io/serving", "status": status, "message": msgspec.json.encode(self.holders).decode()})
        conditions.append({"type": "ContainersReady", "status": "True" if self.containers_ready else "False"})
        ready: dict[str, Any] = {"type": "Ready", "status": "True" if self.ready_since else "False"}
        if self.ready_since is not None:
            ready["lastTransitionTime"] = text(self.ready_since)
        conditions.append(ready)
        placed: dict[str, Any] = {"type": "PodScheduled", "status": "True"}
        if self.blocked == "Unschedulable":
            since = text(self.blocked_since or self.created)
            placed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
        conditions.append(placed)
        meta: dict[str, Any] = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": self.uid,
            "labels": dict(self.labels),
            "creationTimestamp": text(self.created),
            "resourceVersion": str(self.version),
        }
        if self.gone_at is not None:
            meta["deletionTimestamp"] = text(self.gone_at)
        standing: dict[str, Any] = {
            "phase": self.phase,
            "reason": self.reason,
            "message": self.message,
            "conditions": conditions,
            "containerStatuses": [one.status() for one in self.containers if not one.init],
            "initContainerStatuses": [one.status() for one in self.containers if one.init],
        }
        spec: dict[str, Any] = {"containers": [{"name": one.name, "image": one.image} for one in self.containers if not one.init]}
        if self.blocked != "Unschedulable":
            spec["nodeName"] = self.node
        return msgspec.convert({"metadata": meta, "spec": spec, "status": standing}, InstancePod)


def runners(workers: int = 0, *, image: str = "img:1") -> list[dict[str, Any]]:
    """One pod, or a leader and ``workers``."""
    template = {"spec": {"containers": [{"name": MAIN, "image": image}]}}
    if not workers:
        return [{"name": "default", "size": 1, "template": template}]
    return [{"name": "leader", "size": 1, "template": template}, {"name": "worker", "size": workers, "template": template}]


class World:
    """One component, and everybody who has to do with it."""

    def __init__(
        self,
        *,
        component: str = "engine",
        replicas: int = 1,
        workers: int = 0,
        policy: str | None = None,
        lifecycle: Mapping[str, Any] | None = None,
        settings: Settings = CHART,
        min_ready: int = 0,
        image: str = "img:1",
    ) -> None:
        self.now = NOW
        self.settings = settings
        self.generation = 1
        self.workers = workers
        self.lifecycle: dict[str, Any] = {**({"restartPolicy": policy} if policy else {}), **(lifecycle or {})}
        self.spec: dict[str, Any] = {
            "parentRef": {"name": SERVICE},
            "component": component,
            "replicas": replicas,
            "minReadySeconds": min_ready,
            "runners": runners(workers, image=image),
        }
        self.annotations: dict[str, str] = {}
        self.finalizers = ["ome.io/ir-teardown"]
        self.deleted_at: datetime | None = None
        self.stored: InferenceReplicaStatus | None = None
        self.status_version = 1
        self.revisions: list[Revision] = []
        self.pods: dict[str, SimPod] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self.pod_groups: dict[str, str] = {}
        self.gang_api = False
        self.events: list[Told] = []
        self.outcome: Outcome | None = None
        self.status_writes = 0
        self.writes: list[str] = []
        """Every request that was made on pods, in order."""
        self.refuse: Callable[[CreatePod], str | None] = lambda _: None
        self.refused_creates = 0
        self.start_delay = timedelta(seconds=2)
        self.grace = timedelta(seconds=5)
        self.endpoints_lag = timedelta(seconds=1)
        self.on_create: Callable[[SimPod], None] = lambda _: None
        self.uids = 0
        self.lives: int | None = None
        """Writes until the operator is killed; None: it lives. The test starts the next one."""
        self.history: list[tuple[datetime, int, str, int]] = []
        """(time, index, phase, incarnation) of each change of a row."""
        self.revise()

    # What the test asks.

    @property
    def name(self) -> str:
        return f"{SERVICE}-{self.spec['component']}"

    @property
    def status(self) -> InferenceReplicaStatus:
        return self.stored or InferenceReplicaStatus()

    def row(self, index: int = 0) -> Row:
        return next(row for row in self.status.rows if row.index == index)

    def phases(self) -> list[str]:
        return [row.phase for row in self.status.rows]

    def told(self, reason: str) -> list[str]:
        return [event.message for event in self.events if event.reason == reason]

    def pod(self, index: int = 0, runner: str = "default", ordinal: int = 0) -> SimPod:
        return self.pods[pod_name(self.name, index, runner=runner, ordinal=ordinal)]

    def instance(self, index: int = 0) -> list[SimPod]:
        return [pod for pod in self.pods.values() if pod.labels["ome.io/instance-index"] == str(index)]

    def uids_of(self, index: int = 0) -> set[str]:
        return {pod.uid for pod in self.instance(index)}

    def condition(self, kind: str = "Ready") -> tuple[str, str, str]:
        found = next(one for one in self.status.conditions if one.type == kind)
        return found.status, found.reason, found.message

    def why(self, index: int = 0) -> str:
        assert self.outcome is not None
        return next((one.why for one in self.outcome.reasons if one.index == index), "")

    # What users and machines do.

    def edit(self, **spec: Any) -> None:
        self.spec.update(spec)
        self.generation += 1
        self.revise()

    def edit_lifecycle(self, **values: Any) -> None:
        self.lifecycle = {name: value for name, value in {**self.lifecycle, **values}.items() if value is not None}
        self.generation += 1

    def roll(self, image: str) -> str:
        """A new template; gives the name of its revision."""
        self.edit(runners=runners(self.workers, image=image))
        return self.update_revision

    def pause(self, mode: str = "") -> None:
        self.edit(paused=True, pauseMode=mode)

    def resume(self) -> None:
        self.edit(paused=False, pauseMode="")

    def revise(self) -> None:
        data = {"runners": self.spec["runners"]}
        known = next((one for one in self.revisions if one.data == data), None)
        if known is None:
            number = len(self.revisions) + 1
            hash_ = f"{number:08x}"
            known = Revision(name=f"{self.name}-{hash_}", hash=hash_, number=number, data=data)
            self.revisions.append(known)
        self.update_revision = known.name

    def crash(
        self, pod: SimPod, *, container: str = MAIN, reason: str = "Error", code: int = 1, at: datetime | None = None
    ) -> None:
        """The kubelet restarts a container in place."""
        found = pod.container(container)
        when = at or self.now
        found.last = {"exitCode": code, "finishedAt": text(when), **({"reason": reason} if reason else {})}
        found.restarts += 1
        found.running_since = when
        self._settle(pod)

    def wedge(self, pod: SimPod, reason: str = "CrashLoopBackOff", *, container: str = MAIN) -> None:
        """A container waits and does not run again."""
        found = pod.container(container)
        found.running_since = None
        found.waiting = reason
        pod.version += 1
        self._settle(pod)

    def fail(self, pod: SimPod, *, reason: str = "", message: str = "", code: int | None = None) -> None:
        """The pod ends in phase Failed and its object stays."""
        pod.phase, pod.reason, pod.message = "Failed", reason, message
        for found in pod.containers:
            found.running_since = None
            if code is not None:
                found.ended = {"exitCode": code, "reason": "Error", "finishedAt": text(self.now)}
        pod.version += 1
        self._settle(pod)

    def vanish(self, pod: SimPod) -> None:
        """The object is gone, whoever did it."""
        self.pods.pop(pod.name, None)

    def kubectl_delete(self, pod: SimPod) -> None:
        self._delete(pod)

    # The operator.

    def replica(self) -> InferenceReplica:
        meta: dict[str, Any] = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": "ir-uid",
            "generation": self.generation,
            "annotations": dict(self.annotations),
            "finalizers": list(self.finalizers),
        }
        if self.deleted_at is not None:
            meta["deletionTimestamp"] = text(self.deleted_at)
        found = msgspec.convert({"metadata": meta, "spec": {**self.spec, "lifecycle": self.lifecycle}}, InferenceReplica)
        return msgspec.structs.replace(found, raw_status=self.stored)

    def view(self) -> ReplicaView:
        pods = [pod.view() for pod in self.pods.values()]
        hashes = {one.hash for one in self.revisions}
        return ReplicaView(
            replica=self.replica(),
            now=self.now,
            settings=self.settings,
            pods=pods,
            revisions=tuple(self.revisions),
            update_revision=self.update_revision,
            routing={hash_: self._routing(hash_) for hash_ in hashes},
            headless_listed=frozenset(pod.uid for pod in self.pods.values() if pod.gone_at is None),
            nodes=dict(self.nodes),
            pod_groups=dict(self.pod_groups),
            gang_api=self.gang_api,
        )

    def _routing(self, hash_: str) -> Routing:
        ready = {pod.uid for pod in self.pods.values() if pod.labels.get("ome.io/revision-hash") == hash_ and pod.listed_ready}
        return Routing(service_exists=True, slices=1, ready_pods=frozenset(ready))

    def operate(self, *, view: ReplicaView | None = None, die: str = "") -> Outcome:
        """One pass. ``view``: what its cache shows instead of the truth. ``die``: "status" or "actions": the process is killed
        after that write; "actions:N" after N actions."""
        seen = view or self.view()
        version = self.status_version if view is None else -1
        outcome = passes.run(seen)
        self.outcome = outcome
        writes = self.status_writes
        if self.lives == 0 or not self._write(seen, outcome.status, version):
            return outcome
        if self.status_writes > writes and self._killed():
            return outcome
        if die == "status":
            return outcome
        self.events += outcome.events
        limit = int(die.partition(":")[2]) if die.startswith("actions:") else None
        refusals = []
        stopped: set[int] = set()
        for number, action in enumerate(outcome.actions):
            if limit is not None and number >= limit:
                return outcome
            if action.index in stopped and action.index >= 0:
                continue
            refusal = self._carry_out(action)
            if self._killed():
                return outcome
            if refusal is not None:
                refusals.append(refusal)
                stopped.add(action.index)
        if refusals:
            after = passes.refused(seen, outcome.status, refusals)
            self._write(seen, after.status, self.status_version)
            self.events += after.events
            for action in after.actions:
                self._carry_out(action)
        return outcome

    def _killed(self) -> bool:
        if self.lives is not None:
            self.lives -= 1
        return self.lives == 0

    def _write(self, seen: ReplicaView, status: InferenceReplicaStatus, version: int) -> bool:
        """False when the API server refuses it: the replica was written since the view was taken."""
        if seen.replica.raw_status is not None and status == seen.replica.raw_status:
            return True
        if version != self.status_version and seen.replica.raw_status != self.stored:
            return False
        for row in status.rows:
            old = next((one for one in self.status.rows if one.index == row.index), None)
            if old is None or (old.phase, old.incarnation) != (row.phase, row.incarnation):
                self.history.append((self.now, row.index, row.phase, row.incarnation))
        # Through the wire and back, as an API server gives it.
        self.stored = msgspec.json.decode(msgspec.json.encode(status), type=InferenceReplicaStatus)
        self.status_version += 1
        self.status_writes += 1
        return True

    def _carry_out(self, action: Any) -> Refusal | None:
        match action:
            case CreatePod():
                return self._create(action)
            case DeletePod():
                pod = self.pods.get(action.name)
                if pod is not None and pod.uid == action.uid:
                    self.writes.append(f"delete {action.name}")
                    self._delete(pod)
            case SetGate():
                pod = self.pods.get(action.name)
                if pod is not None and pod.uid == action.uid:
                    self.writes.append(f"gate {'off' if action.holders else 'on'} {action.name}")
                    pod.holders = [{"userAgent": agent, "key": key} for agent, key in action.holders]
                    pod.version += 1
            case PatchImages():
                self._patch(action)
            case EnsurePodGroup():
                self.pod_groups.setdefault(action.name, "ours")
            case DeletePodGroup():
                self.pod_groups.pop(action.name, None)
            case DropAnnotation():
                if self.annotations.get(action.key) == action.value:
                    del self.annotations[action.key]
            case DropFinalizer():
                self.finalizers.remove(action.name)
            case _:
                raise AssertionError(f"unknown action {action}")
        return None

    def _create(self, action: CreatePod) -> Refusal | None:
        refused = self.refuse(action)
        if refused is not None:
            self.refused_creates += 1
            return Refusal(index=action.index, pod=action.name, kind=refused, message=f"{refused} says no")
        if action.name in self.pods:
            return None
        revision = next(one for one in self.revisions if one.name == action.revision)
        self.uids += 1
        image = revision.data["runners"][0]["template"]["spec"]["containers"][0]["image"]
        pod = SimPod(
            name=action.name,
            uid=f"uid-{self.uids}",
            created=self.now,
            labels={
                "ome.io/inferenceservice": SERVICE,
                "component": self.spec["component"],
                "ome.io/managed-by": "OMENative",
                "ome.io/instance-index": str(action.index),
                "ome.io/instance-incarnation": str(action.incarnation),
                "ome.io/runner": action.runner,
                "ome.io/pod-ordinal": str(action.ordinal),
                "ome.io/revision-hash": revision.hash,
            },
            containers=[Container(image=image)],
        )
        self.pods[action.name] = pod
        self.writes.append(f"create {action.name}")
        self.on_create(pod)
        return None

    def _patch(self, action: PatchImages) -> None:
        pod = self.pods.get(action.name)
        if pod is None or pod.uid != action.uid:
            return
        self.writes.append(f"patch {action.name}")
        for name, image in action.images:
            found = pod.container(name)
            if found.image != image:
                found.image = image
                found.last = {"exitCode": 0, "reason": "Completed", "finishedAt": text(self.now)}
                found.restarts += 1
                found.running_since = self.now
        pod.labels.update(dict(action.labels))
        pod.version += 1

    # Kubelets and endpoints.

    def _delete(self, pod: SimPod) -> None:
        if pod.gone_at is None:
            pod.gone_at = self.now + self.grace
            pod.version += 1

    def _settle(self, pod: SimPod) -> None:
        ready = pod.containers_ready and pod.in_rotation
        if ready and pod.ready_since is None:
            pod.ready_since = self.now
            pod.version += 1
        elif not ready and pod.ready_since is not None:
            pod.ready_since = None
            pod.version += 1

    def tick(self, seconds: float = 1.0) -> None:
        """Time passes, and everybody but the operator does their work."""
        for pod in self.pods.values():
            # Endpoints follow what was so before this tick: they lag.
            pod.listed_ready = pod.ready_since is not None and pod.gone_at is None
        self.now += timedelta(seconds=seconds)
        for pod in list(self.pods.values()):
            if pod.gone_at is not None:
                if self.now >= pod.gone_at and not pod.stays:
                    del self.pods[pod.name]
                    continue
            elif pod.phase == "Pending" and self.now >= pod.created + self.start_delay:
                self._start(pod)
            self._settle(pod)

    def _start(self, pod: SimPod) -> None:
        if pod.blocked == "Unschedulable":
            pod.blocked_since = pod.blocked_since or pod.created
            return
        if pod.blocked:
            for found in pod.containers:
                found.waiting = pod.blocked
            return
        pod.phase = "Running"
        for found in pod.containers:
            if found.running_since is None and found.ended is None:
                found.running_since = self.now
        pod.version += 1

    # Time.

    def step(self, seconds: float = 1.0) -> None:
        """One pass, then time."""
        self.operate()
        self.tick(seconds)

    def run(self, seconds: float, *, step: float = 1.0) -> None:
        """Passes and time for ``seconds``."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.step(step)
        self.operate()

    def until(self, wanted: Callable[[], bool], *, limit: float = 300.0, step: float = 1.0) -> None:
        """Passes and time until ``wanted``; an AssertionError after ``limit`` seconds."""
        end = self.now + timedelta(seconds=limit)
        while not wanted():
            assert self.now < end, f"not within {limit} s: {self.status.rows}; {self.outcome and self.outcome.reasons}"
            self.step(step)

    def ready(self) -> bool:
        rows: Sequence[Row] = self.status.rows
        return len(rows) == max(1, self.spec["replicas"]) and all(row.phase == "Ready" for row in rows)

    def settle(self, *, limit: float = 300.0) -> "World":
        """Until every Instance is Ready and a pass changes nothing."""
        self.until(self.ready, limit=limit)
        self.run(3)
        return self
