"""What the suites about Hash groups need: groups by their keys, because names are drawn."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.planes.plane import NAMESPACE, Plane, lws_manifest

from regroup.kube.pod import Pod
from regroup.kube.resources import PODS
from regroup.leaderworkerset import keys


@dataclass(frozen=True)
class Group:
    """One incarnation of a group. ``leader`` is None where its object is gone."""

    key: str
    leader: Pod | None
    workers: tuple[Pod, ...]

    @property
    def pods(self) -> tuple[Pod, ...]:
        return (*((self.leader,) if self.leader is not None else ()), *self.workers)

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(pod.metadata.uid for pod in self.pods)

    @property
    def gated(self) -> bool:
        return self.leader is not None and self.leader.gated_by(keys.GATE) and not self.leader.deleting

    @property
    def revision(self) -> str:
        return self.leader.metadata.labels[keys.REVISION] if self.leader is not None else ""

    @property
    def retained(self) -> bool:
        """Marked and kept. A worker that was on its way out already cannot be kept, and may go (behaviour 88)."""
        if self.leader is None or self.leader.metadata.annotations.get(keys.EXHAUSTED) != "true":
            return False
        return keys.CLEANUP_FINALIZER in self.leader.metadata.finalizers and all(pod.deleting for pod in self.pods)

    def ready(self, size: int) -> bool:
        return len(self.pods) == size and all(pod.running_and_ready and not pod.deleting for pod in self.pods)

    @property
    def lead(self) -> Pod:
        assert self.leader is not None
        return self.leader

    @property
    def name(self) -> str:
        """Of the leader pod."""
        return self.lead.metadata.name

    @property
    def last(self) -> str:
        """Name of the last member."""
        return self.pods[-1].metadata.name


def hashed(
    *, limit: int | None = None, policy: str = "RecreateGroupOnPodRestart", template: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A Hash LeaderWorkerSet."""
    budget = {} if limit is None else {"maxGroupRestarts": limit}
    values = {"groupIdentity": "Hash", "size": 2, "template": {**budget, **(template or {})}, "policy": policy, **more}
    return lws_manifest(**values)


async def groups(plane: Plane, name: str = "demo") -> dict[str, Group]:
    """All groups by key; the oldest leader first."""
    found: dict[str, list[Pod]] = {}
    pods = (await plane.pods(name)).values()
    for pod in sorted(pods, key=lambda pod: (pod.metadata.labels[keys.WORKER_INDEX] != "0", *_age(pod))):
        found.setdefault(pod.metadata.labels[keys.GROUP_INDEX], []).append(pod)
    return {
        key: Group(
            key,
            next((pod for pod in members if pod.metadata.labels[keys.WORKER_INDEX] == "0"), None),
            tuple(
                sorted(
                    (pod for pod in members if pod.metadata.labels[keys.WORKER_INDEX] != "0"),
                    key=lambda pod: int(pod.metadata.labels[keys.WORKER_INDEX]),
                )
            ),
        )
        for key, members in found.items()
    }


def _age(pod: Pod) -> tuple[str, str]:
    return (str(pod.metadata.creation_timestamp), pod.metadata.name)


async def only(plane: Plane) -> Group:
    """The one group that there is."""
    (group,) = (await groups(plane)).values()
    return group


async def gated(plane: Plane) -> list[Group]:
    return [group for group in (await groups(plane)).values() if group.gated]


async def wait_ready(
    plane: Plane, *, count: int = 1, size: int = 2, without: Iterable[str] = (), timeout: float = 90.0
) -> list[Group]:
    """Wait until ``count`` groups are ready whose keys are not ``without``; gives them."""
    old = frozenset(without)

    result: list[Group] = []

    async def found() -> bool:
        result[:] = [group for group in (await groups(plane)).values() if group.ready(size) and group.key not in old]
        return len(result) == count

    await plane.wait_for(found, timeout=timeout, what=f"{count} ready groups without {sorted(old)}")
    return result


async def settled(
    plane: Plane, *, count: int = 1, size: int = 2, without: Iterable[str] = (), timeout: float = 120.0
) -> list[Group]:
    """Wait until Available, with nothing left of other groups, nor of those whose keys are ``without``; gives the groups."""
    old = frozenset(without)

    async def gone() -> bool:
        return not old & (await groups(plane)).keys()

    # What has just been failed is Available until the operator has seen it.
    await plane.wait_for(gone, timeout=timeout, what=f"nothing is left of {sorted(old)}")
    await plane.wait_available(timeout=timeout)

    async def alone() -> bool:
        return len(await groups(plane)) == count

    await plane.wait_for(alone, timeout=timeout, what=f"{count} groups and nothing else")
    return await wait_ready(plane, count=count, size=size)


async def wait_group(
    plane: Plane, key: str, predicate: Callable[[Group], Any], *, timeout: float = 60.0, what: str = ""
) -> Group:
    """Wait until the group of that key is as wanted; gives it."""

    async def found() -> Group | None:
        group = (await groups(plane)).get(key)
        return group if group is not None and predicate(group) else None

    result: Group = await plane.wait_for(found, timeout=timeout, what=what or f"group {key[:8]} is as wanted")
    return result


async def exhaust(plane: Plane, group: Group) -> Group:
    """Fail a group whose budget is used up; gives it as it is retained."""
    await plane.faults.crash(NAMESPACE, group.last)
    return await wait_group(plane, group.key, lambda found: found.retained, what="the group is retained")


async def recover(plane: Plane, group: Group, value: str = "true") -> None:
    await plane.client.merge_patch(PODS, group.name, {"metadata": {"annotations": {keys.RECOVER: value}}}, namespace=NAMESPACE)


async def counts(plane: Plane, name: str = "demo") -> dict[str, int]:
    """Restart counts by group key."""
    text = (await plane.lws(name)).metadata.annotations.get(keys.RESTART_COUNTS, "{}")
    value: dict[str, int] = json.loads(text)
    return {key.split("/")[1]: count for key, count in value.items()}


async def degraded(plane: Plane) -> str:
    condition = await plane.condition("Degraded")
    return f"{condition.status} {condition.reason}" if condition is not None else ""


async def until(task: "asyncio.Task[Any]", event: asyncio.Event) -> None:
    """Wait for either."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
