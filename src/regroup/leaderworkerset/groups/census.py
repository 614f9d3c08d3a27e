"""What the leaders of a Hash LeaderWorkerSet amount to together: places, retained groups, whose counters are whose. Pure.

Rules: spec/leaderworkerset.md 4.5, 5.5, 5.6.5. Groups are interchangeable in Hash mode, so whether one may start, has to go, or
keeps its counter depends on the others. Must not know what is done about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.budget import counter_key
from regroup.leaderworkerset.keys import GROUP_INDEX
from regroup.leaderworkerset.view import HashCensus, is_exhausted, is_gated, revision_of

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Places:
    """Leaders of one revision: how many take a place, and how many wait for one."""

    admitted: int
    exhausted: int
    gated: int

    @property
    def pending(self) -> int:
        """Gated leaders that no exhausted group holds back: each of those holds back one."""
        return max(0, self.gated - self.exhausted)


def places(census: HashCensus, revision: str) -> Places:
    """The places at ``revision``. A leader that is being deleted takes none unless it is retained."""
    same = [pod for pod in census.leaders if revision_of(pod) == revision]
    return Places(
        admitted=sum(1 for pod in same if is_living(pod) and not is_gated(pod)),
        exhausted=sum(1 for pod in same if is_exhausted(pod)),
        gated=len(waiting(same)),
    )


def is_living(pod: Pod) -> bool:
    """Neither on its way out nor retained."""
    return not pod.deleting and not is_exhausted(pod)


def waiting(pods: Sequence[Pod]) -> list[Pod]:
    """Leaders that wait behind our gate."""
    return [pod for pod in pods if is_gated(pod) and not pod.deleting]


def by_age(pod: Pod) -> tuple[datetime, str]:
    """The order in which leaders come to their turn: creation time, then name."""
    return (pod.metadata.creation_timestamp or _EARLIEST, pod.metadata.name)


def position(pods: Sequence[Pod], pod: Pod) -> int:
    """Where ``pod`` stands; at the end when it is not among them."""
    return next((place for place, other in enumerate(pods) if other.metadata.uid == pod.metadata.uid), len(pods))


def blocking_groups(census: HashCensus) -> int:
    """Groups that hold back one gated leader each: under PostTermination those with pods but no living leader, under Immediate
    the retained exhausted ones."""
    if census.immediate:
        return sum(1 for pod in census.leaders if is_exhausted(pod))
    living = {pod.metadata.labels.get(GROUP_INDEX, "") for pod in census.leaders if is_living(pod)}
    return len(census.groups_with_pods - living)


def scaled_away(census: HashCensus, leader: Pod) -> bool:
    """Whether a retained group has lost its place to scaling down (5.6.5): living groups keep theirs, those on their way up
    included, and of the retained ones the oldest stay."""
    revision = revision_of(leader)
    found = places(census, revision)
    allowed = max(0, census.replicas - found.admitted - found.pending)
    retained = sorted((pod for pod in census.leaders if revision_of(pod) == revision and is_exhausted(pod)), key=by_age)
    return position(retained, leader) >= allowed


def owned_counters(census: HashCensus) -> frozenset[str]:
    """Counters whose leader lives or is retained. Any other is free for the next leader of its revision (5.5)."""
    owners = (pod for pod in census.leaders if is_living(pod) or is_exhausted(pod))
    return frozenset(counter_key(revision_of(pod), pod.metadata.labels.get(GROUP_INDEX, "")) for pod in owners)


def counter_room(census: HashCensus, revision: str, *, surge: int) -> int:
    """How many free counters of ``revision`` may be kept for leaders still to come (5.5). ``surge`` in groups."""
    found = places(census, revision)
    occupied = found.admitted + found.exhausted
    most = census.replicas + min(surge, census.replicas)
    return max(0, max(census.replicas, min(most, occupied + found.pending)) - occupied)
