"""When a leader's scheduling gate is lifted (spec/leaderworkerset.md 4.3-4.5). Pure.

Ordinal: nothing of the previous incarnation may be left. Hash: slots of the revision first, then groups that still block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.census import blocking_groups, by_age, places, position, waiting
from regroup.leaderworkerset.view import GroupView, HashCensus, revision_of


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether the gate is lifted, and why or why not."""

    admitted: bool
    rule: str
    why: str
    blocked_by: Sequence[str] = ()
    """Names of pods that hold it."""
    told: bool = False
    """A group that is ending, or retained, holds it: an event says so."""


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
        return Admission(False, "lws 4.4", why, names, told=True)
    return Admission(True, "lws 4.4", "nothing of a previous group is left")


def admit_hash(leader: Pod, census: HashCensus) -> Admission:
    """The rule of 4.5 for one gated leader."""
    revision = revision_of(leader)
    if census.current_revision and revision != census.current_revision:
        return Admission(False, "lws 4.5.1", "leaders of an outdated revision are never scheduled")
    slots = _slot_rule(leader, census, revision)
    if slots is not None:
        return slots
    blocking = blocking_groups(census)
    gated = sorted(
        waiting(census.leaders), key=lambda pod: (revision_of(pod) != (census.current_revision or revision), *by_age(pod))
    )
    rank = position(gated, leader)
    if blocking and rank >= len(gated) - blocking:
        what = "retained exhausted group(s)" if census.immediate else "group(s) that have not ended"
        return Admission(False, "lws 4.5.3", f"{blocking} {what} hold back the youngest gated leaders", told=True)
    return Admission(True, "lws 4.5", "a place is free and no group that is ending holds it")


def _slot_rule(leader: Pod, census: HashCensus, revision: str) -> Admission | None:
    found = places(census, revision)
    same = [pod for pod in census.leaders if revision_of(pod) == revision]
    rank = position(sorted(waiting(same), key=by_age), leader)
    if found.admitted + found.exhausted + rank < census.replicas:
        return None
    why = (
        f"{found.admitted} admitted and {found.exhausted} exhausted groups of {census.replicas}, "
        f"{rank} gated leader(s) come first"
    )
    # A leader beyond the replicas is no news: its workload takes it away again.
    return Admission(False, "lws 4.5.2", why, told=found.exhausted > 0)
