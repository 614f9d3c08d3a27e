"""Laws of the kubelet's machine that hold for any pod, any faults and any times of looking."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.kubelet_fixtures import START, Pod, make_pod

from regroup.sandbox.kubelet.machine import NEVER, PodRun, Stage
from regroup.sandbox.kubelet.options import Fault

BODIES = st.builds(
    lambda policy, regular, init, after, code: make_pod(
        containers=tuple(f"c{index}" for index in range(regular)),
        init=init,
        policy=policy,
        annotations={"exit-after": after, "exit-code": code} if after else {},
    ),
    st.sampled_from(("Always", "OnFailure", "Never")),
    st.integers(1, 2),
    st.sampled_from(
        (
            (),
            ({"name": "setup"},),
            ({"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}),
        )
    ),
    st.sampled_from(("", "5s", "c0=20s", "setup=2s")),
    st.sampled_from(("0", "3", "setup=1")),
)
ORDERS = st.lists(
    st.tuples(st.floats(0, 400), st.sampled_from(("look", "crash", "fail", "unready", "stop")), st.integers(0, 3)), max_size=8
).map(sorted)


def obey(pod: Pod, orders: list[Any], looks: list[float]) -> list[PodRun]:
    """Carry the orders out, looking at the pod also at ``looks``; the run after each step."""
    seen = []
    for at, action, number in sorted([*orders, *((moment, "look", 0) for moment in looks)]):
        if action == "look":
            seen.append(pod.at(at))
        elif action == "stop":
            seen.append(pod.stop(at, 30))
        else:
            seen.append(pod.strike(at, Fault(id=str(number), action=action, code=number, seconds=10)))
    seen.append(pod.at(1000))
    return seen


@settings(max_examples=200, deadline=None)
@given(BODIES, ORDERS, st.lists(st.floats(0, 900), max_size=10))
def test_looking_more_often_changes_nothing(body: Any, orders: list[Any], looks: list[float]) -> None:
    """The end is the same whether a kubelet looked at each event or only when it was told something."""
    often, seldom = obey(Pod(body), orders, looks)[-1], obey(Pod(body), orders, [])[-1]
    assert replace(often, at=0.0) == replace(seldom, at=0.0)


@settings(max_examples=200, deadline=None)
@given(BODIES, ORDERS, st.lists(st.floats(0, 900), max_size=10))
def test_counts_only_grow_and_an_end_is_an_end(body: Any, orders: list[Any], looks: list[float]) -> None:
    """Restart counts never fall; a pod that has ended stays as it is; nothing of it runs then."""
    before: PodRun | None = None
    for run in obey(Pod(body), orders, looks):
        if before is not None:
            pairs = list(zip(before.containers, run.containers, strict=True))
            assert all(old.restarts <= new.restarts for old, new in pairs)
            if before.over:
                assert run == before
        if run.over:
            assert all(entry.stage is not Stage.RUNNING for entry in run.containers)
        before = run


@settings(max_examples=200, deadline=None)
@given(BODIES, ORDERS)
def test_nothing_changes_before_it_is_due(body: Any, orders: list[Any]) -> None:
    """Just before ``next_due`` a pod is as it was: a kubelet that sleeps until then misses nothing and wakes for something."""
    pod = Pod(body)
    for at, action, number in orders:
        if action == "crash":
            pod.strike(at, Fault(id=str(number), action="crash", code=number))
        run = pod.at(at)
        due = run.next_due(START + at)
        if due == NEVER or due - (START + at) < 0.1:
            continue
        early = pod.at(due - START - 0.01)
        assert [entry.stage for entry in early.containers] == [entry.stage for entry in run.containers]
        break
