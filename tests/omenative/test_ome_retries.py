"""The ladder's arithmetic, marks of told events, plans and memberships (spec/omenative.md 1.1.3, 4.10, 5.4, 9.32)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.omenative.ome_simulator import CHART, World

from regroup.omenative.api.lifecycle import RollingUpdate, UpdateStrategy
from regroup.omenative.api.row import Operation, Row
from regroup.omenative.configuration.settings import UpdateRetry
from regroup.omenative.engine import announced, plan, retries
from regroup.omenative.engine.draft import Draft


@pytest.mark.parametrize(("number", "expected"), [(1, 60), (2, 120), (3, 240), (6, 1800), (10**6, 1800)])
def test_delays(number: int, expected: float) -> None:
    """5.4: min(initial * multiplier ** (n - 1), most)."""
    assert retries.delay(number, 60.0, 1800.0, 2.0) == expected


@given(number=st.integers(1, 400), initial=st.floats(0.1, 1e4), most=st.floats(0.1, 1e5), factor=st.floats(1.0, 10.0))
def test_delays_never_shrink_nor_pass_their_bound(number: int, initial: float, most: float, factor: float) -> None:
    """5.4, for any ladder."""
    one, two = (retries.delay(n, initial, most, factor) for n in (number, number + 1))
    assert one <= two <= most


def test_failures_of_one_start_are_one_attempt() -> None:
    """5.4: ten Instances that fail together do not use up the ladder."""
    world = World(replicas=10)
    world.on_create = lambda pod: setattr(pod, "blocked", "ErrImagePull")
    retry = UpdateRetry(max_attempts=3, initial_delay=60.0, max_delay=1800.0)
    world.settings = replace(CHART, live=replace(CHART.live, update_retry=retry))
    world.until(lambda: all(row.phase == "Failed" for row in world.status.rows) and bool(world.status.rows))
    assert [(one.attempts_started, one.state) for one in world.status.retry_blocks] == [(1, "Backoff")]


def test_marks_of_told_events() -> None:
    """4.10: once an episode; the operation is the episode, else the incarnation; dead ones are forgotten."""
    row = Row(index=0, incarnation=3)
    told = announced.announce(row, "RepairHeld")
    assert told is not None
    assert told.announced == ("RepairHeld@#3",)
    assert announced.announce(told, "RepairHeld") is None
    at_work = Row(index=0, incarnation=4, operation=Operation(id="restart-0-7"), raw_announced=told.raw_announced)
    first = announced.announce(at_work, "FoundOrphan", of="p1")
    assert first is not None
    second = announced.announce(first, "FoundOrphan", of="p2")
    assert second is not None
    standing = announced.announce(second, "GangSplitRisk", standing=True)
    assert standing is not None
    kept = announced.pruned(standing).announced
    assert kept == ("FoundOrphan@restart-0-7/p1", "FoundOrphan@restart-0-7/p2", "GangSplitRisk@#4")
    assert announced.pruned(row) is row


def test_marks_are_bounded() -> None:
    """A list on a row does not grow without end."""
    row = Row(index=0, incarnation=1)
    for number in range(100):
        found = announced.announce(row, "FoundOrphan", of=f"p{number}")
        assert found is not None
        row = found
    assert len(row.announced) <= 32


def planned(world: World) -> plan.Plan:
    return plan.make(world.view())


def test_the_clusters_budget_fills_what_the_strategy_reads() -> None:
    """1.1.3, 9.19: under SurgeThenDrain maxUnavailable stays unset, so repairs are not capped."""
    default = UpdateStrategy(type="SurgeThenDrain", rolling_update=RollingUpdate(max_surge="25%", max_unavailable="25%"))
    settings = replace(CHART, live=replace(CHART.live, update_strategies={"engine": default}))
    found = planned(World(replicas=5, settings=settings))
    assert (found.strategy, found.max_surge, found.max_unavailable) == ("SurgeThenDrain", 2, None)
    found = planned(World(replicas=5, settings=settings, lifecycle={"updateStrategy": {"type": "RecreatePod"}}))
    assert (found.strategy, found.max_surge, found.max_unavailable) == ("RecreatePod", None, 2)
    own = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}
    found = planned(World(replicas=5, settings=settings, lifecycle=own))
    assert (found.max_surge, found.max_unavailable) == (2, 1)


def test_policies_by_shape() -> None:
    """1, 2, 3, 5: None for one pod and routers, the other for a gang; an explicit value wins."""
    assert not planned(World()).recreates
    assert planned(World(workers=3)).recreates
    assert not planned(World(component="router")).recreates
    assert not planned(World(workers=3, policy="None")).recreates
    assert planned(World(policy="RecreateInstanceOnPodRestart")).recreates


def test_what_cannot_be_read_counts_as_unset() -> None:
    """Bad input stops nothing: it is a problem, with its path."""
    bad = {"instanceReadyTimeout": "soon", "updateStrategy": {"rollingUpdate": {"maxUnavailable": "many"}}}
    world = World(lifecycle=bad)
    found = planned(world)
    assert (found.timeout, found.max_unavailable) == (1800.0, None)
    assert [problem.split()[0] for problem in found.problems] == ["spec.lifecycle.updateStrategy.rollingUpdate.maxUnavailable"]
    world.settle()


def test_members_and_strangers() -> None:
    """9.32: the names that the Instance's operations make; orphans by their label, whatever their name."""
    world = World(workers=2).settle()
    stranger = world.pod(0, "worker", 1)
    copy = replace(stranger, name=stranger.name + "-x", uid="x", labels=dict(stranger.labels))
    beyond = replace(stranger, name=stranger.name[:-1] + "9", uid="y", labels={**stranger.labels, "ome.io/pod-ordinal": "9"})
    orphan = replace(stranger, name="other", uid="z", labels={**stranger.labels})
    del orphan.labels["ome.io/instance-incarnation"]
    for pod in (copy, beyond, orphan):
        world.pods[pod.name] = pod
    view = world.view()
    members = Draft(view, plan.make(view)).members(world.row())
    assert [pod.name.rpartition("engine-0-")[2] for pod in members.own] == ["leader-0", "worker-0", "worker-1"]
    assert {pod.name for pod in members.strangers} == {copy.name, beyond.name}
    assert [pod.name for pod in members.orphans] == ["other"]
