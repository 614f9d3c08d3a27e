"""One small value a group for the LeaderWorkerSet's own pass: what its status and its rollout need to know. Pure.

Kept beside the cache so that a pass over a thousand groups reads a thousand values, not their pods.
"""

from dataclasses import dataclass
from datetime import datetime

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.failure import complete
from regroup.leaderworkerset.groups.members import Entry, entry_of, leader_digest, record_name
from regroup.leaderworkerset.groups.node_loss import Stuck, judge
from regroup.leaderworkerset.groups.start_state import is_unschedulable
from regroup.leaderworkerset.objects.rollout import GroupState
from regroup.leaderworkerset.status.ordinal import GroupFacts
from regroup.leaderworkerset.view import GroupView, is_exhausted, is_retained, revision_of


@dataclass(frozen=True, slots=True)
class Summary:
    """A group without regard to which revision is the current one."""

    index: int
    """The ordinal; -1 in Hash mode, where groups have no order."""
    name: str = ""
    """How the record of members names it."""
    exists: bool = False
    ready: bool = False
    revision: str = ""
    """Of the leader."""
    set_revision: str | None = None
    """Of the worker set; None without one."""
    needs_set: bool = True
    leaving: bool = False
    """The leader is being deleted."""
    leader_ready: bool = False
    exhausted: bool = False
    unschedulable: bool = False
    incarnation: str = ""
    entry: Entry | None = None
    blocked: str = ""

    def facts(self, *, revision: str) -> GroupFacts:
        """What it means when ``revision`` is the current one."""
        has_set = self.set_revision is not None
        updated = self.exists and self.revision == revision and (not self.needs_set or self.set_revision == revision)
        return GroupFacts(
            index=self.index,
            name=self.name,
            exists=self.exists,
            leaving=self.leaving,
            leader_ready=self.leader_ready,
            at_revision=self.exists and self.revision == revision,
            state=GroupState(ready=self.ready, updated=updated, retained=self.exhausted),
            on_revision=self.exists and self.revision == revision and self.set_revision in {None, revision},
            has_workers=has_set or not self.needs_set,
            exhausted=self.exhausted,
            unschedulable=self.unschedulable,
            incarnation=self.incarnation,
            entry=self.entry,
            blocked=self.blocked,
        )


def summarize(view: GroupView, *, now: datetime) -> Summary | None:
    """The summary of a group, None when nothing of it exists or its index is neither an ordinal nor a key."""
    if (view.ordinal is None and not view.hash_mode) or (not view.pods and view.worker_set is None):
        return None
    leader, rules, workers = view.leader, view.rules, view.worker_set
    generation = workers.object.metadata.generation if workers is not None else 0
    remembered = leader is not None and rules is not None and rules.policy.recreates and rules.size > 1
    entry = None
    if leader is not None and remembered and complete(view) and is_ready(view):
        entry = entry_of(leader.metadata.uid, (pod.metadata.uid for pod in view.workers), set_generation=generation)
    return Summary(
        index=-1 if view.ordinal is None else view.ordinal,
        name=record_name(view.key.index),
        exists=leader is not None,
        leaving=leader is not None and leader.deleting,
        leader_ready=leader is not None and _serves(leader),
        ready=is_ready(view),
        revision=view.revision,
        set_revision=workers.revision if workers is not None else None,
        needs_set=rules is None or rules.size > 1,
        exhausted=is_exhausted(leader),
        unschedulable=leader is not None and not leader.deleting and is_unschedulable(leader),
        incarnation=leader_digest(leader.metadata.uid, set_generation=generation) if leader is not None and remembered else "",
        entry=entry,
        blocked=_blocked(view, now=now),
    )


def is_ready(view: GroupView) -> bool:
    """The leader runs and is ready, so do all workers of its revision, and none of them is on its way out (7.3).

    A pod that failed or is being deleted is not ready, whatever its Ready condition still says (case C16).
    """
    leader, rules, workers = view.leader, view.rules, view.worker_set
    if leader is None or rules is None or not _serves(leader):
        return False
    if rules.size == 1:
        return True
    if workers is None or workers.deleting:
        return False
    serving = sum(1 for pod in view.workers if revision_of(pod) == view.revision and _serves(pod))
    return serving >= rules.size - 1


def _serves(pod: Pod) -> bool:
    return pod.running_and_ready and not pod.deleting


def _blocked(view: GroupView, *, now: datetime) -> str:
    """The member that a group cannot get rid of, once that is worth telling (Q29, behaviour 158)."""
    going = [pod for pod in view.pods if pod.deleting and not is_retained(pod)]
    # A pod that only waits for what it owns holds nobody up: whoever is told first is the one that does.
    for pod in sorted(going, key=lambda pod: tuple(pod.metadata.finalizers) == ("foregroundDeletion",)):
        verdict = judge(pod, view.nodes, rule=view.node_loss, now=now)
        if verdict.stuck in {Stuck.BLOCKED, Stuck.OVERDUE}:
            return f"pod {pod.metadata.name} on node {pod.spec.node_name or '<none>'} is Terminating: {verdict.why}"
    return ""
