"""Looking after a group that is not failing: its Service, the leader's gate, its worker set. Pure.

Rules: spec/leaderworkerset.md 3.3, 3.4, 4.3, 5.3, 6.7, 8.1, Q30.
"""

from datetime import datetime, timedelta
from itertools import islice

from regroup.kube.meta import find_condition
from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.census import owned_counters
from regroup.leaderworkerset.groups.decisions import (
    Admit,
    CreatePodGroups,
    CreateService,
    CreateWorkers,
    Decision,
    RemoveWorkers,
    RepairWorkers,
    Stay,
    TellReady,
    Wait,
    pod_id,
)
from regroup.leaderworkerset.groups.failure import Absorbed
from regroup.leaderworkerset.groups.gate import Admission, admit_hash, admit_ordinal
from regroup.leaderworkerset.keys import GROUP_READY, LEADER_NAME
from regroup.leaderworkerset.objects.identity import parent_and_ordinal
from regroup.leaderworkerset.view import GroupView, Owner, PodGroupState, Rules, ServiceState, WorkerSet, is_gated, is_whole

_NAMED = 8
"""Missing workers that a reason names at most."""
NEWS_AFTER = 5.0
"""Seconds that a leader must be held behind its gate before an event says so."""


def upkeep(view: GroupView, now: datetime) -> Decision:
    """What a group needs in order to become and stay complete."""
    owner = view.owner
    if owner is None:
        return Stay(rule="lws 6.10", why="the LeaderWorkerSet does not exist")
    surplus = _surplus(view, owner)
    if surplus is not None:
        return surplus
    leader, rules = view.leader, view.rules
    if leader is None:
        if view.leader_set is None:
            kind = "Deployment" if view.hash_mode else "StatefulSet"
            why = f"there is no leader, because {kind} {view.key.lws}, which makes the leaders, does not exist"
            return Stay(rule="lws 3.1", why=why)
        return Stay(rule="lws 3.1", why="there is no leader; the leader set makes one")
    if LEADER_NAME in leader.metadata.annotations:
        why = f"leader pod {leader.metadata.name} looks like a worker: this cluster is too old to know ordinals.start"
        return Wait(rule="lws 3.8", why=why, event="FailedCreate", warning=True, pod=pod_id(leader))
    if rules is None:
        return Wait(rule="lws 3.5", why=f"revision {view.revision or 'without a name'} does not exist yet")
    if view.service is ServiceState.FOREIGN:
        why = f"Service {leader.spec.subdomain or leader.metadata.name} is terminating or belongs to somebody else"
        return Wait(rule="lws 3.4", why=why, event="FailedCreate", warning=True)
    if view.service is ServiceState.MISSING:
        return CreateService(rule="lws 3.4", why="the group has no Service yet", leader=pod_id(leader))
    placing = _pod_groups(view)
    if placing is not None:
        return placing
    if is_gated(leader):
        return _gate(view, leader, rules, now=now)
    if rules.size == 1:
        return Stay(rule="lws 3.3", why="a group of one needs nothing more")
    return _worker_set(view, rules, owner)


def _gate(view: GroupView, leader: Pod, rules: Rules, *, now: datetime) -> Decision:
    """Lift the leader's gate, or say what holds it (4.3-4.5)."""
    owned = None
    if view.hash_mode:
        if view.census is None:
            return Wait(rule="lws 4.5", why="the other groups are not known")
        admission = admit_hash(leader, view.census)
        owned = owned_counters(view.census) if rules.counts else None
    else:
        admission = admit_ordinal(view)
    if not admission.admitted:
        return _held(admission, leader, now=now)
    if view.not_before is not None and now < view.not_before:
        why = "the pods of earlier leaders failed before a container had started: the next one waits a little longer each time"
        return Wait(rule="lws C136", why=why, again_at=view.not_before)
    if owned is not None and view.counter_error:
        return Wait(rule="lws 5.5", why=view.counter_error, event="FailedRestartCount", warning=True)
    return Admit(rule=admission.rule, why=admission.why, leader=pod_id(leader), owned=owned)


def _held(admission: Admission, leader: Pod, *, now: datetime) -> Wait:
    """Each recreation holds the next leader for a moment; it is told where that lasts."""
    since = leader.metadata.creation_timestamp or now
    tell_at = since + timedelta(seconds=NEWS_AFTER)
    if admission.told and now < tell_at:
        return Wait(rule=admission.rule, why=admission.why, again_at=tell_at)
    event = "GroupReplacementDeferred" if admission.told else ""
    return Wait(rule=admission.rule, why=admission.why, event=event, pod=pod_id(leader))


def _pod_groups(view: GroupView) -> Decision | None:
    """The PodGroups exist before the gate is lifted (4.3, 3.6). A group that runs is not stopped for theirs."""
    leader, groups = view.leader, view.pod_groups
    assert leader is not None  # noqa: S101 - only asked with a leader
    if groups.state is PodGroupState.MISSING:
        why = f"the gang has no PodGroup yet: {', '.join(groups.missing)}"
        return CreatePodGroups(rule="lws 3.6", why=why, leader=pod_id(leader), names=groups.missing)
    if groups.state in {PodGroupState.NOT_WANTED, PodGroupState.THERE} or not is_gated(leader):
        return None
    if groups.state is PodGroupState.GOING:
        return Wait(rule="lws 3.6", why=groups.why)
    if groups.state is PodGroupState.FOREIGN:
        event = "UnexpectedPodGroupOwner"
        return Wait(rule="lws 3.6", why=groups.why, event=event, warning=True, pod=pod_id(leader), on_pod=True)
    return Wait(rule="lws 3.6", why=groups.why, event="FailedCreate", warning=True)


def _surplus(view: GroupView, owner: Owner) -> RemoveWorkers | None:
    """A worker set that belongs to the LeaderWorkerSet (policy None) and has lost its place (5.3 b)."""
    workers, leader, leader_set, ordinal = view.worker_set, view.leader, view.leader_set, view.ordinal
    if workers is None or workers.deleting or not workers.controlled_by(owner.uid):
        return None
    if leader_set is not None and ordinal is not None and ordinal >= leader_set.replicas:
        why = f"the group is scaled away: {leader_set.replicas} groups are left"
    elif leader is not None and not leader.deleting and view.revision != workers.revision:
        why = f"its leader is at revision {view.revision}, the worker set at {workers.revision}"
    else:
        return None
    return RemoveWorkers(rule="lws 5.3", why=why, set_name=workers.name, set_uid=workers.uid)


def _worker_set(view: GroupView, rules: Rules, owner: Owner) -> Decision:
    leader, workers = view.leader, view.worker_set
    assert leader is not None  # noqa: S101 - only asked with a leader
    told = _group_ready(view, leader)
    if told is not None:
        return told
    if workers is None:
        return _missing_workers(view, rules)
    mine = workers.controlled_by(leader.metadata.uid)
    kept = workers.controlled_by(owner.uid)
    if workers.deleting:
        return Wait(rule="lws 5.9", why=f"worker set {workers.name} is still terminating")
    if not mine and not kept:
        return _not_ours(workers, leader_name=leader.metadata.name)
    if kept and rules.policy.recreates:
        why = "its groups are recreated as one, so the worker set must belong to the leader"
        return RemoveWorkers(rule="lws 5.3", why=why, set_name=workers.name, set_uid=workers.uid)
    outlives = not rules.policy.recreates and not view.hash_mode
    drift = [*workers.drift, *(["owner"] if mine and outlives else [])]
    if drift and workers.revision == view.revision:
        why = f"{', '.join(drift)} of worker set {workers.name} differ from the group's revision"
        return RepairWorkers(rule="lws Q30", why=why, set_name=workers.name, set_uid=workers.uid, fields=drift)
    missing, count = _missing(view, rules)
    if missing:
        why = f"{count} worker pod(s) are not made yet: {', '.join(missing)}"
        return Wait(rule="lws 3.3", why=why, missing=missing)
    return Stay(rule="lws 5.10", why="the group has all that it needs")


def _group_ready(view: GroupView, leader: Pod) -> TellReady | None:
    """Hash: the leader is ready only as long as its workers are, so that its Deployment counts groups (4.2). A leader that says
    nothing yet is not ready, and a leader on its way out is asked by nobody."""
    if not view.hash_mode or leader.deleting:
        return None
    workers = view.worker_set
    ready = (
        workers is not None and workers.controlled_by(leader.metadata.uid) and not workers.deleting and is_whole(workers.object)
    )
    condition = find_condition(leader.status.conditions, GROUP_READY)
    if ready == (condition is not None and condition.status == "True"):
        return None
    if not ready and view.rules is not None and view.rules.policy.recreates and any(map(_restarts_soon, view.workers)):
        return None  # a failure any moment now, which ends this leader: what it says in between is nobody's news
    why = f"all workers of {leader.metadata.name} are {'available' if ready else 'not available any more'}"
    return TellReady(rule="lws 4.2", why=why, leader=pod_id(leader), ready=ready)


def _restarts_soon(worker: Pod) -> bool:
    """A container has ended and its kubelet is about to start it again, which is what counts (5.1)."""
    if worker.deleting or worker.terminal or worker.restarts > Absorbed.of(worker).restarts:
        return False
    return any(one.state is not None and one.state.terminated is not None for one in worker.status.container_statuses)


def _missing(view: GroupView, rules: Rules) -> tuple[list[str], int]:
    """The first workers that do not exist under any UID of ours, by name, and how many they are in all. No group is walked to
    its end: its size may be anything that fits into 31 bits."""
    there = {pod.metadata.name for pod in view.pods}
    name = view.worker_set.name if view.worker_set is not None else ""
    absent = (one for index in range(1, rules.size) if (one := f"{name}-{index}") not in there)
    places = (parent_and_ordinal(one) for one in there)
    present = sum(place is not None and place[0] == name and 1 <= place[1] < rules.size for place in places)
    return list(islice(absent, _NAMED)), rules.size - 1 - present


def _missing_workers(view: GroupView, rules: Rules) -> Decision:
    leader = view.leader
    assert leader is not None  # noqa: S101 - only asked with a leader
    # Ready includes our own group-ready in Hash, which waits for the workers (behaviour 118).
    ready = leader.containers_ready if view.hash_mode else leader.ready
    if rules.leader_ready_first and not ready:
        return Wait(rule="lws 6.7", why="startupPolicy LeaderReady: the leader is not ready yet")
    if rules.exclusive_topology:
        if not leader.spec.node_name:
            return Wait(rule="lws 3.3", why="exclusive topology: the leader is not on a node yet")
        if view.topology_value is None:
            why = f"node {leader.spec.node_name} has no label {rules.exclusive_topology}"
            return Wait(rule="lws 3.3", why=why, event="FailedCreate", warning=True, pod=pod_id(leader))
    if view.telling:
        return Wait(rule="lws 3.3", why="the workers of the earlier leader are still being told to end, by names that come again")
    return CreateWorkers(rule="lws 3.3", why="the leader is there and its workers are not", leader=pod_id(leader))


def _not_ours(workers: WorkerSet, *, leader_name: str) -> Wait:
    """A set of that name with another owner: an earlier leader's is about to be collected, anybody else's is never touched."""
    controller = workers.controller
    if controller is not None and controller.kind == "Pod" and controller.name == leader_name:
        return Wait(rule="lws 5.9", why=f"worker set {workers.name} of the previous leader is not gone yet")
    owner = f"{controller.kind} {controller.name}" if controller is not None else "nobody"
    why = f"StatefulSet {workers.name} belongs to {owner}, not to this group"
    return Wait(rule="lws 3.3", why=why, event="FailedCreate", warning=True)
