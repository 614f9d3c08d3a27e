"""What the stories of LeaderWorkerSets wait for and check."""

from collections.abc import Callable, Sequence

from regroup.cli.demo.stage import Member, Stage, all_ready, uids
from regroup.leaderworkerset.keys import GROUP_INDEX

GROUPS, SIZE = 2, 4
PODS_IN_ALL = GROUPS * SIZE
START_LIMIT = 120.0
REBUILD_LIMIT = 180.0


async def rebuilt(stage: Stage, before: Sequence[Member], *, group: str) -> list[Member]:
    """Wait until every pod of the group is another one, and all are Ready."""
    old = {member.uid for member in before if group_of(member) == group}
    return await stage.until(
        f"group {group} is rebuilt",
        lambda members: all_ready(PODS_IN_ALL)(members) and not old & {member.uid for member in members},
        limit=REBUILD_LIMIT,
    )


def check_rebuilt(stage: Stage, before: Sequence[Member], after: Sequence[Member], *, group: str) -> None:
    """What must hold after a group was rebuilt."""
    changed = changed_names(before, after)
    mine = {member.name for member in before if group_of(member) == group}
    stage.check(f"all {SIZE} pods of group {group} have new UIDs", mine <= changed)
    stage.check("no other pod was touched", changed <= mine)


def replaced(target: Member) -> Callable[[Sequence[Member]], bool]:
    """All are Ready, and ``target`` is another pod."""
    return lambda members: all_ready(PODS_IN_ALL)(members) and uids(members).get(target.name) != target.uid


async def tell(stage: Stage, reason: str, *, naming: str) -> None:
    """Wait for an event that names the pod, and show it."""

    async def told() -> bool:
        return any(naming in event.note for event in await stage.events(reason))

    await stage.until_true(f"an event {reason} names {naming}", told, limit=30.0)
    event = next(event for event in await stage.events(reason) if naming in event.note)
    stage.screen.event(event.type, event.reason, event.note)
    stage.check(f"event {reason} names the pod that failed", held=True)


def changed_names(before: Sequence[Member], after: Sequence[Member]) -> set[str]:
    """Names of the pods that are not the same as before."""
    old, new = uids(before), uids(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def group_of(member: Member) -> str:
    """The index of the group that the pod is in."""
    return member.pod.metadata.labels.get(GROUP_INDEX, "")
