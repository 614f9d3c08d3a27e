"""Stories of when a group is not recreated at once: still starting, out of budget, backing off. On the seed's manifests."""

from collections.abc import Sequence

from regroup.cli.demo.group_checks import (
    PODS_IN_ALL,
    REBUILD_LIMIT,
    SIZE,
    START_LIMIT,
    changed_names,
    check_rebuilt,
    group_of,
    rebuilt,
    tell,
)
from regroup.cli.demo.stage import Member, Stage, all_ready, uids
from regroup.kube.meta import find_condition
from regroup.kube.resources import PODS
from regroup.leaderworkerset.keys import CLEANUP_FINALIZER, LEADERWORKERSETS, RECOVER

BUDGET = 3
BACKOFF = {"restartBackoff": {"baseSeconds": 10, "capSeconds": 300}}
"""As the seed's manifest of restartBackoff has it, which has no workerTemplate and cannot be applied as it stands."""


async def after_start(stage: Stage) -> None:
    """RecreateGroupAfterStart: a failure is forgiven while any pod of the group is pending."""
    stage.screen.say("  Large images and long starts: a group that is still starting is not torn down by a first failure.")
    late = "leaderworkerset-sample-0-3"
    stage.screen.say(f"  No node takes {late} yet.")
    await stage.hands.hold_back(stage.namespace, late)
    await stage.apply_example("recreate-group-after-start.yaml")
    await stage.until("all pods but one are Ready", lambda members: _ready(members) == PODS_IN_ALL - 1, limit=START_LIMIT)
    before = await stage.members()

    victim = before[1].name
    stage.screen.say(f"\n  The container of {victim} exits with code 1 while {late} is pending.")
    await stage.hands.crash(stage.namespace, victim, exit_code=1)
    await tell(stage, "GroupUnschedulable", naming=late)
    after = await stage.until("the kubelet has restarted it", lambda members: _ready(members) == PODS_IN_ALL - 1, limit=60.0)
    stage.check("no pod of the group was replaced", changed_names(before, after) == set())

    stage.screen.say(f"\n  A node takes {late}.")
    await stage.hands.let_in(stage.namespace, late)
    before = await stage.until("both groups become Ready", all_ready(PODS_IN_ALL), limit=START_LIMIT)
    stage.check("the failure from before is forgiven for good", uids(after).items() <= uids(before).items())
    stage.screen.say(f"\n  The container of {victim} exits again, now that all pods have started.")
    await stage.hands.crash(stage.namespace, victim, exit_code=1)
    check_rebuilt(stage, before, await rebuilt(stage, before, group="0"), group="0")


async def budget(stage: Stage) -> None:
    """maxGroupRestarts 3: three recreations, then the group is retained until somebody recovers it."""
    stage.screen.say(
        f"  A group that fails again and again gives its hosts back after {BUDGET} recreations, and keeps its pods to look at."
    )
    await stage.apply_example("max-group-restarts.yaml")
    first = await stage.until("both groups become Ready", all_ready(PODS_IN_ALL), limit=START_LIMIT)
    now = first
    for number in range(1, BUDGET + 1):
        victim = now[1].name
        stage.screen.say(f"\n  Failure {number}: the container of {victim} exits with code 1.")
        await stage.hands.crash(stage.namespace, victim, exit_code=1)
        now = await rebuilt(stage, now, group="0")
    stage.check(f"{BUDGET} failures, {BUDGET} recreations", len(await stage.events("RecreateGroup")) == BUDGET)

    stage.screen.say(f"\n  Failure {BUDGET + 1}: the budget is used up.")
    await stage.hands.crash(stage.namespace, now[1].name, exit_code=1)
    now = await stage.until("the group is terminated and retained", _retained, limit=REBUILD_LIMIT)
    stage.check("its pods hold no node's resources any more", all(member.pod.terminal for member in _group(now)))
    stage.check("the other group was never touched", _uids_of(now, "1") == _uids_of(first, "1"))
    await stage.until_true("Degraded is True", lambda: _degraded(stage), limit=60.0)
    stage.check("Degraded=True with reason ReplicaRestartBudgetExceeded", await _degraded(stage))

    leader = now[0].name
    stage.screen.say("\n  Somebody raises the limit: that alone recovers nothing.")
    stage.screen.command(f"kubectl patch lws {stage.lws} -n {stage.namespace} ... maxGroupRestarts: 5")
    await stage.client.merge_patch(
        LEADERWORKERSETS, stage.lws, {"spec": {"leaderWorkerTemplate": {"maxGroupRestarts": 5}}}, namespace=stage.namespace
    )
    still = await stage.until("nothing has moved", _retained, limit=30.0)
    stage.check("the group is still retained", _uids_of(still, "0") == _uids_of(now, "0"))
    stage.screen.say("\n  The cause is mended, and the group is recovered.")
    stage.screen.command(f"kubectl annotate pod -n {stage.namespace} {leader} {RECOVER}=true")
    await stage.client.merge_patch(PODS, leader, {"metadata": {"annotations": {RECOVER: "true"}}}, namespace=stage.namespace)
    after = await rebuilt(stage, now, group="0")
    stage.check("the group is back, with a fresh budget", len(after) == PODS_IN_ALL)
    await stage.until_true("Degraded is no longer True", lambda: _not_degraded(stage), limit=60.0)


async def backoff(stage: Stage) -> None:
    """restartBackoff: a group must have existed for min(base * 2^count, cap) before it is recreated again."""
    stage.screen.say("  A tight loop of failures is spaced out; a group that was stable for long recovers at once.")
    await stage.apply_example("recreate-group-on-pod-restart.yaml", adding=BACKOFF)
    before = await stage.until("both groups become Ready", all_ready(PODS_IN_ALL), limit=START_LIMIT)
    victim = before[1].name
    stage.screen.say(f"\n  The container of {victim} exits with code 1, and again as soon as its group is back.")
    now = before
    for _ in range(2):
        await stage.hands.crash(stage.namespace, victim, exit_code=1)
        now = await rebuilt(stage, now, group="0")
    await stage.hands.crash(stage.namespace, victim, exit_code=1)
    await tell(stage, "GroupRestartBackoff", naming="restart count 2")
    created = now[0].pod.metadata.creation_timestamp
    after = await rebuilt(stage, now, group="0")
    recreated = after[0].pod.metadata.creation_timestamp
    assert created is not None  # noqa: S101 - the API server sets it
    assert recreated is not None  # noqa: S101
    lived = (recreated - created).total_seconds()
    stage.check(f"the group was there for at least min(10 x 2^2, 300) = 40 s before it was recreated: {lived:.0f} s", lived >= 40)
    check_rebuilt(stage, now, after, group="0")


def _ready(members: Sequence[Member]) -> int:
    return sum(1 for member in members if member.pod.running_and_ready and not member.pod.deleting)


def _group(members: Sequence[Member]) -> list[Member]:
    return [member for member in members if group_of(member) == "0"]


def _uids_of(members: Sequence[Member], group: str) -> dict[str, str]:
    return uids([member for member in members if group_of(member) == group])


def _retained(members: Sequence[Member]) -> bool:
    mine = _group(members)
    kept = [member for member in mine if CLEANUP_FINALIZER in member.pod.metadata.finalizers and member.pod.terminal]
    return len(mine) == SIZE and len(kept) == SIZE


async def _degraded(stage: Stage) -> bool:
    found = find_condition((await stage.workload()).status.conditions, "Degraded")
    return found is not None and (found.status, found.reason) == ("True", "ReplicaRestartBudgetExceeded")


async def _not_degraded(stage: Stage) -> bool:
    return not await _degraded(stage)
