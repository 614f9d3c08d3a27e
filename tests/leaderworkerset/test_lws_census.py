"""All leaders of a Hash LeaderWorkerSet together: places, retained groups, counters (spec/leaderworkerset.md 4.5, 5.5, 5.6.5)."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.leaderworkerset.lws_builders import P, at

from regroup.kube.pod import Pod
from regroup.leaderworkerset.groups.census import Places, blocking_groups, counter_room, owned_counters, places, scaled_away
from regroup.leaderworkerset.view import HashCensus


def leader(what: str, name: str, *, revision: str = "r1", age: float = 10) -> Pod:
    """``what``: living, gated, leaving, exhausted."""
    meta: dict[str, Any] = {
        "name": name,
        "uid": name,
        "creationTimestamp": at(-age),
        "labels": {f"{P}group-index": f"key-{name}", f"{P}worker-index": "0", f"{P}template-revision-hash": revision},
        "annotations": {f"{P}group-restart-budget-exhausted": "true"} if what == "exhausted" else {},
    }
    if what in {"leaving", "exhausted"}:
        meta["deletionTimestamp"] = at(-1)
    gates = [{"name": f"{P}group-replacement"}] if what == "gated" else []
    return msgspec.convert({"metadata": meta, "spec": {"schedulingGates": gates}}, Pod)


def census(*what: str, replicas: int = 2, immediate: bool = False, orphans: int = 0) -> HashCensus:
    """Leaders in the order of their age, the oldest first, named by their places."""
    leaders = [leader(one, str(number), age=100 - number) for number, one in enumerate(what)]
    groups = {pod.metadata.labels[f"{P}group-index"] for pod in leaders} | {f"orphan-{number}" for number in range(orphans)}
    return HashCensus(leaders, frozenset(groups), replicas, "r1", immediate)


def test_places() -> None:
    """Spec 4.5.2: a leaving leader takes no place, a retained one does."""
    found = places(census("living", "gated", "gated", "leaving", "exhausted"), "r1")
    assert found == Places(admitted=1, exhausted=1, gated=2)
    assert found.pending == 1
    assert places(census("living"), "r2") == Places(0, 0, 0)


@pytest.mark.parametrize(
    ("what", "immediate", "orphans", "blocking"),
    [
        (("living", "gated"), False, 0, 0),
        (("leaving", "gated"), False, 0, 1),
        (("leaving", "gated"), True, 0, 0),
        (("exhausted", "gated"), False, 0, 1),
        (("exhausted", "gated"), True, 0, 1),
        (("gated",), False, 1, 1),
        (("gated",), True, 1, 0),
        (("exhausted", "leaving", "gated", "gated"), False, 1, 3),
    ],
)
def test_blocking(what: Sequence[str], immediate: bool, orphans: int, blocking: int) -> None:
    """Behaviours 108, 109, 111, 113: retained groups block under both policies, ending ones only under PostTermination; a worker
    whose leader is gone still counts."""
    assert blocking_groups(census(*what, immediate=immediate, orphans=orphans)) == blocking


@pytest.mark.parametrize(
    ("what", "replicas", "released"),
    [
        (("exhausted", "gated"), 1, []),
        (("exhausted", "living", "gated"), 1, [0]),
        (("exhausted", "gated", "gated"), 1, [0]),
        (("exhausted", "exhausted", "gated", "gated"), 1, [1]),
        (("exhausted", "exhausted", "gated", "gated"), 0, [0, 1]),
        (("exhausted", "living", "living", "gated"), 3, []),
        (("exhausted", "leaving", "gated", "gated"), 2, []),
    ],
)
def test_scaled_away(what: Sequence[str], replicas: int, released: list[int]) -> None:
    """Behaviours 100, 116: living groups keep their places, those still gated included; of the retained the oldest stay."""
    found = census(*what, replicas=replicas)
    gone = [number for number, pod in enumerate(found.leaders) if what[number] == "exhausted" and scaled_away(found, pod)]
    assert gone == released


def test_whose_counters() -> None:
    """Spec 5.5: of leaders that live or are retained; a leaving leader's is free for the next."""
    assert owned_counters(census("living", "gated", "leaving", "exhausted")) == {"r1/key-0", "r1/key-1", "r1/key-3"}


@pytest.mark.parametrize(
    ("what", "replicas", "surge", "room"),
    [
        (("living", "leaving", "gated"), 2, 0, 1),
        (("living", "living"), 2, 0, 0),
        (("living", "living"), 1, 0, 0),
        (("living", "living", "gated"), 2, 1, 1),
        (("living", "living", "gated"), 2, 0, 0),
        (("exhausted", "gated"), 1, 0, 0),
        (("living",), 3, 0, 2),
    ],
)
def test_room_for_free_counters(what: Sequence[str], replicas: int, surge: int, room: int) -> None:
    """Spec 5.5, behaviour 83: as many as leaders may still come."""
    assert counter_room(census(*what, replicas=replicas), "r1", surge=surge) == room
