"""A Deployment: which ReplicaSet is the new one, and how the sets are scaled next. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from regroup.kube.meta import Condition, ObjectView, View, owner_reference
from regroup.sandbox.controllers.deploying.replicas import ReplicaSet
from regroup.sandbox.controllers.views import percent_or_count

API_VERSION = "apps/v1"
KIND = "Deployment"
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_OWN_ANNOTATIONS = frozenset(
    {
        REVISION,
        REVISION_HISTORY,
        DESIRED,
        MAXIMUM,
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
    }
)
_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class RollingUpdate(View, frozen=True, gc=False, kw_only=True):
    """``spec.strategy.rollingUpdate``."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(View, frozen=True, gc=False, kw_only=True):
    """``spec.strategy``."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(View, frozen=True, gc=False, kw_only=True):
    """``spec`` of a Deployment."""

    replicas: int | None = None
    selector: dict[str, Any] | None = None
    template: msgspec.Raw = msgspec.Raw()
    strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    paused: bool = False


class DeploymentCondition(Condition, frozen=True, gc=False, kw_only=True):
    """A condition that also tells when it was last confirmed: the deadline for progress counts from there."""

    last_update_time: datetime | None = None


class DeploymentStatus(View, frozen=True, gc=False, kw_only=True):
    """``status`` of a Deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    raw_conditions: tuple[DeploymentCondition, ...] | None = msgspec.field(name="conditions", default=None)

    def condition(self, kind: str) -> DeploymentCondition | None:
        """The condition of that type."""
        return next((entry for entry in self.raw_conditions or () if entry.type == kind), None)


class Deployment(ObjectView, frozen=True, gc=False, kw_only=True):
    """A Deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    raw_status: DeploymentStatus | None = msgspec.field(name="status", default=None)

    @property
    def status(self) -> DeploymentStatus:
        return self.raw_status or DeploymentStatus()

    @property
    def replicas(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def template(self) -> dict[str, Any]:
        raw = bytes(self.spec.template)
        return dict(msgspec.json.decode(raw)) if raw else {}

    @property
    def recreates(self) -> bool:
        return self.spec.strategy.type == "Recreate"

    @property
    def history_limit(self) -> int:
        limit = self.spec.revision_history_limit
        return 10 if limit is None else limit

    def limits(self) -> tuple[int, int]:
        """(maxSurge, maxUnavailable) as counts. Both zero would stand still, so one pod may then be unavailable."""
        if self.recreates:
            return 0, 0
        rolling = self.spec.strategy.rolling_update or RollingUpdate()
        surge = percent_or_count(rolling.max_surge, self.replicas, round_up=True, default="25%")
        unavailable = percent_or_count(rolling.max_unavailable, self.replicas, round_up=False, default="25%")
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return surge, min(unavailable, self.replicas)


@dataclass(frozen=True, slots=True)
class Scale:
    """A ReplicaSet gets another size; its annotations are written with it."""

    rs: ReplicaSet
    replicas: int


def template_hash(template: Mapping[str, Any], collision_count: int) -> str:
    """The value of ``pod-template-hash``: letters and digits that spell nothing. The same template gives the same hash."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":")) + (str(collision_count) if collision_count else "")
    number = int.from_bytes(sha256(text.encode()).digest()[:4], "big")
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in str(number))


def same_template(deployment: Deployment, rs: ReplicaSet) -> bool:
    """Whether the set makes the pods that the Deployment wants; the label with the hash aside."""
    return _without_hash(deployment.template) == _without_hash(rs.template)


def by_age(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Oldest first."""
    return sorted(sets, key=_age)


def new_replica_set(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The set of the Deployment's present template; of several the oldest."""
    return next((rs for rs in by_age(sets) if same_template(deployment, rs)), None)


def revision_of(rs: ReplicaSet) -> int:
    """The set's revision; 0 when it has none."""
    text = rs.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def build_replica_set(deployment: Deployment, *, revision: int, replicas: int, collision_count: int) -> dict[str, Any]:
    """A new ReplicaSet of the present template."""
    template = deployment.template
    digest = template_hash(template, collision_count)
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
    selector = dict(deployment.spec.selector or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": selector,
        "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
    }
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    annotations = {
        **{key: value for key, value in deployment.metadata.annotations.items() if key not in _OWN_ANNOTATIONS},
        REVISION: str(revision),
        **size_annotations(deployment),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.name}-{digest}",
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(deployment, api_version=API_VERSION, kind=KIND)],
        },
        "spec": spec,
    }


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """What each set is told of the Deployment's size, so that a change of it can be seen."""
    return {DESIRED: str(deployment.replicas), MAXIMUM: str(deployment.replicas + deployment.limits()[0])}


def resized(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the Deployment was scaled since its sets were: a scaling goes before a rollout."""
    wanted = str(deployment.replicas)
    return any(rs.replicas > 0 and rs.metadata.annotations.get(DESIRED, wanted) != wanted for rs in sets)


def initial_size(deployment: Deployment, sets: Sequence[ReplicaSet]) -> int:
    """The size of a new set that does not exist yet, with the others as they are."""
    return _grown(deployment, 0, sum(rs.replicas for rs in sets))


def roll(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Scale]:
    """One step of a rolling update: first up, and only when there is nothing to add, down."""
    if new.replicas > deployment.replicas:
        return [Scale(new, deployment.replicas)]
    total = new.replicas + sum(rs.replicas for rs in old)
    size = _grown(deployment, new.replicas, total)
    if size != new.replicas:
        return [Scale(new, size)]
    return _shrink(deployment, new, by_age(old), total)


def recreate(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, old_pods: bool) -> list[Scale]:
    """One step of the strategy ``Recreate``: the old ones go entirely before the new ones come."""
    down = [Scale(rs, 0) for rs in old if rs.replicas > 0]
    if down or old_pods or new is None or new.replicas == deployment.replicas:
        return down
    return [Scale(new, deployment.replicas)]


def rescale(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Scale]:
    """The sets' sizes after the Deployment was scaled: in proportion, so that a rollout under way keeps its risk."""
    sets = [*old, *((new,) if new is not None else ())]
    active = [rs for rs in sets if rs.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else (new if new is not None else (by_age(sets)[-1] if sets else None))
        return [Scale(only, deployment.replicas)] if only is not None and only.replicas != deployment.replicas else []
    if new is not None and _saturated(deployment, new):
        return [Scale(rs, 0) for rs in old if rs.replicas > 0]
    if deployment.recreates:
        return []
    return _proportional(deployment, active)


def outdated(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The empty ones among the old sets beyond the history limit, oldest revision first. Sets with pods count as well."""
    present = sorted((rs for rs in old if not rs.metadata.deleting), key=lambda rs: (revision_of(rs), _age(rs)))
    surplus = max(len(present) - deployment.history_limit, 0)
    return [
        rs
        for rs in present[:surplus]
        if rs.replicas == 0 and rs.status.replicas == 0 and rs.metadata.generation <= rs.status.observed_generation
    ]


def complete(deployment: Deployment, *, updated: int, total: int, available: int) -> bool:
    """Whether the rollout is over: all pods are new and available."""
    return (
        updated == total == available == deployment.replicas
        and deployment.status.observed_generation >= deployment.metadata.generation
    )


def _grown(deployment: Deployment, size: int, total: int) -> int:
    """The size of the new set when ``total`` pods are there in all sets."""
    if deployment.recreates:
        return deployment.replicas
    room = deployment.replicas + deployment.limits()[0] - total
    return size if room <= 0 else size + max(min(room, deployment.replicas - size), 0)


def _shrink(deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet], total: int) -> list[Scale]:
    """Old sets after one step down: broken pods first, then as many healthy ones as may be missed."""
    minimum = deployment.replicas - deployment.limits()[1]
    allowance = total - minimum - (new.replicas - new.status.available_replicas)
    if allowance <= 0 or not any(rs.replicas for rs in old):
        return []
    sizes = {rs.metadata.uid: rs.replicas for rs in old}
    for rs in old:
        broken = max(rs.replicas - rs.status.available_replicas, 0)
        taken = min(broken, allowance)
        sizes[rs.metadata.uid] -= taken
        allowance -= taken
    spare = new.status.available_replicas + sum(rs.status.available_replicas for rs in old) - minimum
    for rs in old:
        taken = min(max(spare, 0), sizes[rs.metadata.uid])
        sizes[rs.metadata.uid] -= taken
        spare -= taken
    return [Scale(rs, sizes[rs.metadata.uid]) for rs in old if sizes[rs.metadata.uid] != rs.replicas]


def _proportional(deployment: Deployment, active: Sequence[ReplicaSet]) -> list[Scale]:
    allowed = deployment.replicas + deployment.limits()[0] if deployment.replicas > 0 else 0
    add = allowed - sum(rs.replicas for rs in active)
    # The larger sets take the rounding; of equals the newer one grows and the older one shrinks first.
    ordered = sorted(active, key=_age, reverse=add > 0)
    ordered.sort(key=lambda rs: -rs.replicas)
    left = add
    sizes: dict[str, int] = {}
    for rs in ordered:
        share = _share(deployment, rs, add, left) if add else 0
        sizes[rs.metadata.uid] = rs.replicas + share
        left -= share
    first = ordered[0].metadata.uid
    sizes[first] = max(sizes[first] + left, 0)
    return [Scale(rs, sizes[rs.metadata.uid]) for rs in ordered]


def _share(deployment: Deployment, rs: ReplicaSet, add: int, left: int) -> int:
    """How many of ``add`` pods go to this set, in proportion to its part of the Deployment's earlier size."""
    earlier = int(rs.metadata.annotations.get(MAXIMUM, "0") or 0) or deployment.status.replicas
    if deployment.replicas == 0:
        fraction = -rs.replicas
    elif earlier <= 0:
        return 0
    else:
        goal = rs.replicas * (deployment.replicas + deployment.limits()[0]) / earlier
        fraction = _round_half_away(goal) - rs.replicas
    return min(fraction, left) if add > 0 else max(fraction, left)


def _round_half_away(value: float) -> int:
    return int(value + 0.5)


def _saturated(deployment: Deployment, rs: ReplicaSet) -> bool:
    return (
        rs.replicas == deployment.replicas
        and rs.metadata.annotations.get(DESIRED) == str(deployment.replicas)
        and rs.status.available_replicas == deployment.replicas
    )


def _without_hash(template: Mapping[str, Any]) -> dict[str, Any]:
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def _age(rs: ReplicaSet) -> tuple[float, str]:
    created = rs.metadata.creation_timestamp
    return (created.timestamp() if created is not None else 0.0, rs.metadata.name)
