"""When a leader's scheduling gate is lifted (spec/leaderworkerset.md 4.3-4.5). Pure.

Ordinal: nothing of the previous incarnation may be left. Hash: slots of the revision first, then groups that still block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from regroup.kube.pod import Pod
from regroup.leaderworkerset.view import GroupView, is_exhausted, is_gated, revision_of

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether the gate is lifted, and why or why not."""

    admitted: bool
    rule: str
    why: str
    blocked_by: Sequence[str] = ()
    """Names of pods that hold it."""


def admit_ordinal(view: GroupView) -> Admission:
    """Hold while any other pod of this group exists whose owner chain leads, or led, to this LeaderWorkerSet.

    Under policy None surviving workers of the leader's own revision do not hold it (5.3).
    """
    leader = view.leader
    keeps = view.rules is not None and not view.rules.policy.recreates
    others = [
        pod
        for pod in view.pods
        if leader is None or pod.metadata.uid != leader.metadata.uid
        if not (keeps and revision_of(pod) == view.revision and pod in view.workers)
    ]
    if others:
        names = sorted(pod.metadata.name for pod in others)
        why = f"{len(names)} pod(s) of the previous group still exist: {', '.join(names[:8])}"
        return Admission(False, "lws 4.4", why, names)
    return Admission(True, "lws 4.4", "nothing of a previous group is left")


@dataclass(frozen=True, slots=True)
class HashCensus:
    """All leader pods of a Hash LeaderWorkerSet, and the group-index values that still have a pod of any kind."""

    leaders: Sequence[Pod]
    groups_with_pods: frozenset[str]
    replicas: int
    current_revision: str
    """Revision key that the leader workload carries; empty when it is not known."""
    immediate: bool


def admit_hash(leader: Pod, census: HashCensus, *, group_label: str) -> Admission:
    """The rule of 4.5 for one gated leader. ``group_label`` is the label group-index."""
    revision = revision_of(leader)
    if census.current_revision and revision != census.current_revision:
        return Admission(False, "lws 4.5.1", "leaders of an outdated revision are never scheduled")
    slots = _slot_rule(leader, census, revision)
    if slots is not None:
        return slots
    blocking = blocking_groups(census, group_label=group_label)
    gated = sorted(
        _waiting(census.leaders), key=lambda pod: (revision_of(pod) != (census.current_revision or revision), *_age_key(pod))
    )
    rank = _position(gated, leader)
    if blocking and rank >= len(gated) - blocking:
        what = "retained exhausted group(s)" if census.immediate else "group(s) that have not ended"
        return Admission(False, "lws 4.5.3", f"{blocking} {what} hold back the youngest gated leaders")
    return Admission(True, "lws 4.5", "a slot is free and nothing holds it")


def blocking_groups(census: HashCensus, *, group_label: str) -> int:
    """Groups that hold back one gated leader each: under PostTermination those with pods but no living leader, under Immediate
    the retained exhausted ones. A leader lives if it is neither deleting nor exhausted."""
    if census.immediate:
        return sum(1 for pod in census.leaders if is_exhausted(pod))
    living = {pod.metadata.labels.get(group_label, "") for pod in census.leaders if not pod.deleting and not is_exhausted(pod)}
    return len(census.groups_with_pods - living)


def _slot_rule(leader: Pod, census: HashCensus, revision: str) -> Admission | None:
    same = [pod for pod in census.leaders if revision_of(pod) == revision]
    exhausted = sum(1 for pod in same if is_exhausted(pod))
    admitted = sum(1 for pod in same if not pod.deleting and not is_gated(pod) and not is_exhausted(pod))
    rank = _position(sorted(_waiting(same), key=_age_key), leader)
    if admitted + exhausted + rank < census.replicas:
        return None
    return Admission(
        False,
        "lws 4.5.2",
        f"{admitted} admitted and {exhausted} exhausted groups of {census.replicas}, {rank} gated leader(s) come first",
    )


def _waiting(pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if is_gated(pod) and not pod.deleting]


def _age_key(pod: Pod) -> tuple[datetime, str]:
    return (pod.metadata.creation_timestamp or _EARLIEST, pod.metadata.name)


def _position(pods: Sequence[Pod], pod: Pod) -> int:
    """Where ``pod`` stands; at the end when it is not among them."""
    return next((place for place, other in enumerate(pods) if other.metadata.uid == pod.metadata.uid), len(pods))
