"""Gang scheduling: which PodGroups a group of pods has and what they say (spec/leaderworkerset.md 2.6, 3.6). Pure.

Two providers. Volcano: one PodGroup a group, owned by the leader pod, for every LeaderWorkerSet. Kubernetes itself
(``scheduling.k8s.io``): a Workload for a LeaderWorkerSet that asks for it, and PodGroups by group, or by group and role. Must not
know how an object gets into the cluster.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec

from regroup.kube.meta import ObjectView, View, owner_reference
from regroup.kube.pod import Pod
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LEADER_READY, LeaderWorkerSet
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.leaderworkerset.objects import requests
from regroup.wire.resource import Resource

Object = dict[str, Any]

VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
_NATIVE = "scheduling.k8s.io"
NATIVE_VERSIONS = ("v1beta1", "v1alpha2")
"""Of ``scheduling.k8s.io``, the newest first: what Kubernetes 1.37 and 1.36 serve."""

GROUP_NAME = "scheduling.k8s.io/group-name"
"""Annotation by which Volcano knows the PodGroup of a pod."""
QUEUE = "scheduling.volcano.sh/queue-name"
"""Annotation of a LeaderWorkerSet: the Volcano queue of its groups."""
_VOLCANO_PREFIX = "volcano.sh/"
_NAME_LIMIT = 253
_DISRUPTION = {"single": "Pod", "all": "PodGroup"}
"""The shape of v1beta1 in the words of v1alpha2."""
FIXED_VERSION = "v1alpha2"
"""In which the members of a gang cannot change once it exists."""
DELEGATIONS = ("scheduling.k8s.io/group-template-name", "scheduling.k8s.io/parent-compositepodgroup")
"""Annotations by which a parent has the groups of a LeaderWorkerSet made from its own Workload."""


class Provider(StrEnum):
    """Who schedules gangs: ``--scheduler-provider``."""

    NONE = "none"
    VOLCANO = "volcano"
    KUBERNETES = "kubernetes"


class Level(StrEnum):
    """What one PodGroup holds: all replicas, one replica, or one role of one replica."""

    ALL = "lws"
    REPLICA = "replica"
    ROLE = "role"


class SeveralLevels(ValueError):
    """More than one level of ``spec.scheduling`` is in use. The message names them."""


class PodGroupSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a PodGroup."""

    scheduling_policy: dict[str, Any] | None = msgspec.field(name="schedulingPolicy", default=None)


class PodGroup(ObjectView, frozen=True, gc=False, kw_only=True):
    """A PodGroup of either provider: whose it is, and of how many members its gang is."""

    spec: PodGroupSpec = PodGroupSpec()

    @property
    def min_count(self) -> int | None:
        """Members that are placed together; None where it is no gang of ``scheduling.k8s.io``."""
        found = ((self.spec.scheduling_policy or {}).get("gang") or {}).get("minCount")
        return found if isinstance(found, int) else None


class WorkloadSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Workload."""

    raw_templates: tuple[dict[str, Any], ...] | None = msgspec.field(name="podGroupTemplates", default=None)

    @property
    def templates(self) -> Sequence[Mapping[str, Any]]:
        return self.raw_templates or ()


class Workload(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ``scheduling.k8s.io`` Workload."""

    spec: WorkloadSpec = WorkloadSpec()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A PodGroup that a group of pods needs. ``role`` is empty where it holds the whole group."""

    name: str
    role: str = ""


def native(plural: str, kind: str, version: str) -> Resource:
    """A resource of ``scheduling.k8s.io``."""
    return Resource(_NATIVE, version, plural, kind)


def level(scheduling: Mapping[str, Any]) -> Level:
    """The level that is in use; an empty object, or an empty ``replica``, means one gang for each replica. Raises
    ``SeveralLevels``."""
    replica = scheduling.get("replica")
    inner = replica if isinstance(replica, Mapping) else {}
    roles = any(inner.get(role) is not None for role in (keys.LEADER, keys.WORKER))
    used = []
    if _configured(scheduling):
        used.append(Level.ALL)
    if _configured(inner) or (replica is not None and not roles):
        used.append(Level.REPLICA)
    if roles:
        used.append(Level.ROLE)
    if len(used) > 1:
        raise SeveralLevels(f"exactly one level may be used, got {', '.join(used)}")
    return used[0] if used else Level.REPLICA


def parts(scheduling: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """What is configured for each template of the Workload, by the template's name. Raises ``SeveralLevels``."""
    found, replica = level(scheduling), scheduling.get("replica") or {}
    if found is Level.ALL:
        return {Level.ALL: scheduling}
    if found is Level.REPLICA:
        return {Level.REPLICA: replica}
    return {role: replica.get(role) or {} for role in (keys.LEADER, keys.WORKER)}


def is_gang(part: Mapping[str, Any], *, template: str) -> bool:
    """Whether its pods are placed all together or not at all: said so, or by default for a whole replica."""
    policy = part.get("schedulingPolicy") or {}
    if policy.get("basic") is None and policy.get("gang") is None:
        return template == Level.REPLICA
    return policy.get("gang") is not None


def members(template: str, *, size: int) -> int:
    """Pods of one PodGroup that is made from the template of a replica or of a role."""
    return {keys.LEADER: 1, keys.WORKER: size - 1}.get(template, size)


def members_of_all(*, replicas: int, lost: int, sizes: Collection[int]) -> int:
    """Pods that a gang of all replicas can count on: while a rollout changes the size those of the smallest, and nothing of the
    ``lost`` groups, which are retained; more would wait for pods that nobody makes. At least 1, as the API asks."""
    return max(1, (replicas - lost) * min(sizes, default=1))


def used_level(lws: LeaderWorkerSet) -> Level | None:
    """The level at which its pods are placed; None where nothing is asked for."""
    try:
        return None if lws.spec.scheduling is None else level(lws.spec.scheduling)
    except SeveralLevels:
        return None  # refused at admission; one that got past it is placed pod by pod


def delegated_by(lws: LeaderWorkerSet) -> str:
    """The annotation by which a parent takes its scheduling over; empty where none does."""
    return next((key for key in DELEGATIONS if key in lws.metadata.annotations), "")


def template_annotations(lws: LeaderWorkerSet, *, workload: str = "") -> dict[str, str]:
    """What pods carry so that their admission can name their PodGroup. ``workload``: of that name, unless it is ours."""
    at = used_level(lws)
    return {} if at is None else {keys.WORKLOAD_SCHEDULING: str(at), keys.WORKLOAD_NAME: workload or workload_name(lws)}


def noted_workload(template: Mapping[str, Any]) -> str:
    """The Workload that a pod template names; empty when it names none."""
    return str(((template.get("metadata") or {}).get("annotations") or {}).get(keys.WORKLOAD_NAME) or "")


def workload_name(lws: LeaderWorkerSet) -> str:
    """The Workload of this very LeaderWorkerSet: another of the same name never meets it."""
    digest = sha256(lws.metadata.uid.encode()).hexdigest()[:8]
    return _joined(lws.name, digest)


def volcano_name(name: str, *, group: str, revision: str) -> str:
    """``<lws>-<group-index>-<revision>``, as the Go controller calls it."""
    return f"{name}-{group}-{revision}"


def native_name(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """The PodGroup of a pod with these labels and annotations; empty when it is in none."""
    at, workload = annotations.get(keys.WORKLOAD_SCHEDULING), annotations.get(keys.WORKLOAD_NAME, "")
    group, revision = labels.get(keys.GROUP_INDEX, ""), labels.get(keys.REVISION, "")
    if at == Level.ALL and workload:
        return name_of_all(workload)
    if not workload or not group:
        return ""
    if at == Level.REPLICA:
        return _joined(workload, group, revision)
    if at == Level.ROLE:
        role = keys.LEADER if labels.get(keys.WORKER_INDEX) == keys.LEADER_INDEX else keys.WORKER
        return _joined(workload, group, role, revision)
    return ""


def name_of_all(workload: str) -> str:
    """The one PodGroup of all replicas; it stays as long as the LeaderWorkerSet does."""
    return _joined(workload, str(Level.ALL))


def wanted(leader: Pod, *, provider: Provider) -> tuple[Wanted, ...]:
    """The PodGroups that must exist before ``leader`` may start: those that admission put its group into."""
    labels, annotations = leader.metadata.labels, leader.metadata.annotations
    if provider is Provider.VOLCANO:
        name = volcano_name(
            labels.get(keys.NAME, ""), group=labels.get(keys.GROUP_INDEX, ""), revision=labels.get(keys.REVISION, "")
        )
        return (Wanted(name),) if annotations.get(GROUP_NAME) == name else ()
    if provider is not Provider.KUBERNETES:
        return ()
    name = native_name(labels, annotations)
    if not name:
        return ()
    if annotations[keys.WORKLOAD_SCHEDULING] != Level.ROLE:
        return (Wanted(name),)
    workers = native_name({**labels, keys.WORKER_INDEX: "1"}, annotations)
    return Wanted(name, keys.LEADER), Wanted(workers, keys.WORKER)


def volcano_pod_group(lws: LeaderWorkerSet, *, leader: Pod, name: str) -> Object:
    """The Volcano PodGroup of one group. ``lws`` is at the group's own revision.

    With startupPolicy LeaderReady the leader is placed alone first, because its workers do not exist before; the resources are
    still asked for all of them.
    """
    template = lws.template
    total = requests.total(
        [template.effective_leader_template, *[template.worker_template] * (template.size - 1)],
    )
    spec: Object = {"minMember": 1 if lws.spec.startup_policy == LEADER_READY else template.size, "minResources": total}
    if QUEUE in lws.metadata.annotations:
        spec["queue"] = lws.metadata.annotations[QUEUE]
    copied = {key: value for key, value in lws.metadata.annotations.items() if key.startswith(_VOLCANO_PREFIX)}
    return {
        "apiVersion": VOLCANO_POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": lws.namespace,
            "labels": _labels(lws, leader),
            **({"annotations": copied} if copied else {}),
            "ownerReferences": [owner_reference(leader, api_version="v1", kind="Pod")],
        },
        "spec": spec,
    }


def native_pod_group(lws: LeaderWorkerSet, *, leader: Pod, wanted: Wanted, workload: Workload, version: str) -> Object:
    """A ``scheduling.k8s.io`` PodGroup of one group. ``lws`` is at the group's own revision."""
    template = wanted.role or Level.REPLICA
    spec = _group_spec(lws, template, version=version, count=members(template, size=lws.template.size))
    labels = {
        **_labels(lws, leader),
        keys.SCHEDULING_LEVEL: str(Level.ROLE if wanted.role else Level.REPLICA),
        **({keys.ROLE: wanted.role} if wanted.role else {}),
    }
    return _pod_group(lws, name=wanted.name, labels=labels, template=template, spec=spec, workload=workload, version=version)


def pod_group_of_all(lws: LeaderWorkerSet, *, workload: Workload, count: int, version: str) -> Object:
    """The ``scheduling.k8s.io`` PodGroup of all replicas. ``count``: ``members_of_all``."""
    return _pod_group(
        lws,
        name=name_of_all(workload.metadata.name),
        labels={keys.NAME: lws.name, keys.SCHEDULING_LEVEL: str(Level.ALL)},
        template=Level.ALL,
        spec=_group_spec(lws, Level.ALL, version=version, count=count),
        workload=workload,
        version=version,
    )


def _pod_group(
    lws: LeaderWorkerSet,
    *,
    name: str,
    labels: Mapping[str, str],
    template: str,
    spec: Object,
    workload: Workload,
    version: str,
) -> Object:
    source = workload.metadata
    if version == FIXED_VERSION:
        ref: Object = {"workloadName": source.name, "podGroupTemplateName": str(template)}
        spec["podGroupTemplateRef"] = {"workload": ref}
    else:
        spec["workloadRef"] = {"workloadName": source.name, "templateName": str(template)}
    api_version = native("workloads", "Workload", version).api_version
    owner = {"apiVersion": api_version, "kind": "Workload", "name": source.name, "uid": source.uid, "controller": False}
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": lws.namespace,
            "labels": dict(labels),
            "ownerReferences": [_owner(lws), owner],
        },
        "spec": spec,
    }


def workload(lws: LeaderWorkerSet, *, count: int, version: str) -> Object:
    """The Workload of ``lws``: one template for each kind of PodGroup that it has. ``count``: members of all replicas."""
    templates = []
    for name in parts(lws.spec.scheduling or {}):
        of_it = count if name == Level.ALL else members(name, size=lws.template.size)
        templates.append({"name": str(name), **_group_spec(lws, name, version=version, count=of_it)})
    return {
        "apiVersion": native("workloads", "Workload", version).api_version,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(lws),
            "namespace": lws.namespace,
            "labels": {keys.NAME: lws.name},
            "ownerReferences": [_owner(lws)],
        },
        "spec": {
            "controllerRef": {"apiGroup": LEADERWORKERSETS.group, "kind": LEADERWORKERSETS.kind, "name": lws.name},
            "podGroupTemplates": templates,
        },
    }


def min_counts(templates: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """``minCount`` of each gang among a Workload's templates, by name."""
    found = {}
    for template in templates:
        gang = (template.get("schedulingPolicy") or {}).get("gang") or {}
        if "minCount" in gang:
            found[str(template.get("name"))] = int(gang["minCount"])
    return found


def resized(templates: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> list[Object]:
    """A Workload's templates with other members of their gangs; all else in them stays as it is."""
    result = []
    for template in templates:
        changed = dict(template)
        count = counts.get(str(template.get("name")))
        if count is not None and (template.get("schedulingPolicy") or {}).get("gang") is not None:
            gang = {**template["schedulingPolicy"]["gang"], "minCount": count}
            changed["schedulingPolicy"] = {**template["schedulingPolicy"], "gang": gang}
        result.append(changed)
    return result


def _group_spec(lws: LeaderWorkerSet, template: str, *, version: str, count: int) -> Object:
    part = parts(lws.spec.scheduling or {}).get(template) or {}
    gang = is_gang(part, template=template)
    policy: Object = {"gang": {"minCount": count}} if gang else {"basic": {}}
    spec: Object = {"schedulingPolicy": policy}
    for name in ("schedulingConstraints", "resourceClaims"):
        if part.get(name):
            spec[name] = part[name]
    mode = next((name for name in _DISRUPTION if name in (part.get("disruptionMode") or {})), None)
    if mode is not None:
        spec["disruptionMode"] = _DISRUPTION[mode] if version == FIXED_VERSION else {mode: {}}
    priority = (lws.template.worker_template.get("spec") or {}).get("priorityClassName")
    if priority and version != FIXED_VERSION:
        spec["priorityClassName"] = priority
    return spec


def _labels(lws: LeaderWorkerSet, leader: Pod) -> dict[str, str]:
    return {keys.NAME: lws.name} | {key: leader.metadata.labels.get(key, "") for key in (keys.GROUP_INDEX, keys.REVISION)}


def _configured(part: Mapping[str, Any]) -> bool:
    return any(part.get(name) is not None for name in ("schedulingPolicy", "schedulingConstraints", "disruptionMode"))


def _joined(prefix: str, *rest: str) -> str:
    tail = "-".join(rest)
    return f"{prefix[: _NAME_LIMIT - len(tail) - 1]}-{tail}"


def _owner(lws: LeaderWorkerSet) -> Object:
    return owner_reference(lws, api_version=LEADERWORKERSETS.api_version, kind=LEADERWORKERSETS.kind)
