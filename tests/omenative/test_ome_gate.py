"""The serving condition and the drain (spec/omenative.md 2.5, 3.5, 9.17)."""

from typing import Any

import msgspec
import pytest
from tests.omenative.ome_simulator import World

from regroup.omenative.engine.drain import drained
from regroup.omenative.pods import gate
from regroup.omenative.view import InstancePod, ReplicaView, Routing


def pod(message: str | None = None, *, status: str = "True", runner: str = "leader", revision: str = "abc") -> InstancePod:
    conditions: list[dict[str, Any]] = [{"type": "ContainersReady", "status": "True"}]
    if message is not None:
        conditions.append({"type": "ome.io/serving", "status": status, "message": message})
    labels = {"ome.io/runner": runner, "ome.io/revision-hash": revision}
    meta = {"name": "p", "uid": "u", "resourceVersion": "7", "labels": labels}
    return msgspec.convert({"metadata": meta, "status": {"phase": "Running", "conditions": conditions}}, InstancePod)


TWO = '[{"userAgent":"RestartDrain","key":"0-2"},{"userAgent":"somebody","key":"x"}]'


@pytest.mark.parametrize(
    ("message", "status", "holders", "serves"),
    [
        (None, "", (gate.LIFECYCLE,), False),
        ("[]", "True", (), True),
        ("", "True", (), True),
        (TWO, "False", (("RestartDrain", "0-2"), ("somebody", "x")), False),
        ("no JSON", "False", (gate.LIFECYCLE,), False),
        ('{"userAgent": 1}', "False", (gate.LIFECYCLE,), False),
        ('[1, {"key": 2}]', "False", (gate.LIFECYCLE,), False),
    ],
)
def test_who_holds(message: str | None, status: str, holders: tuple[gate.Hold, ...], serves: bool) -> None:
    """3.5: a pod without the condition is held by the lifecycle; what cannot be read is as if there were none."""
    found = pod(message, status=status)
    assert gate.holders(found) == holders
    assert gate.serves(found) == serves


def test_each_lets_go_of_its_own_hold_only() -> None:
    """3.5: several writers; another's hold stays, and keeps the pod out."""
    action = gate.released(pod(TWO, status="False"), index=0)
    assert action is not None
    assert action.holders == (("somebody", "x"),)
    assert action.resource_version == "7"
    assert gate.released(pod('[{"userAgent":"somebody","key":"x"}]', status="False"), index=0) is None
    assert gate.released(pod("[]"), index=0) is None
    held = gate.held(pod("[]"), ("RestartDrain", "0-2"), index=0)
    assert held is not None
    assert held.holders == (("RestartDrain", "0-2"),)
    assert gate.held(pod(TWO, status="False"), ("RestartDrain", "0-2"), index=0) is None
    third = gate.held(pod(TWO, status="False"), ("DeleteDrain", "0"), index=0)
    assert third is not None
    assert len(third.holders) == 3


def test_a_list_of_holders_is_bounded() -> None:
    """Bad input: a condition with a message without end."""
    many = msgspec.json.encode([{"userAgent": f"a{number}" * 99, "key": "k"} for number in range(500)]).decode()
    found = gate.holders(pod(many, status="False"))
    assert len(found) <= 16
    assert all(len(agent) <= 128 for agent, _ in found)


def view(routing: dict[str, Routing], stable: frozenset[str] = frozenset()) -> ReplicaView:
    world = World()
    seen = world.view()
    return ReplicaView(replica=seen.replica, now=seen.now, settings=seen.settings, pods=(), routing=routing, stable_ready=stable)


@pytest.mark.parametrize(
    ("routing", "runner", "revision", "expected"),
    [
        (Routing(service_exists=True, slices=1, ready_pods=frozenset({"u"})), "leader", "abc", False),
        (Routing(service_exists=True, slices=1, ready_pods=frozenset({"p"})), "leader", "abc", False),
        (Routing(service_exists=True, slices=1, ready_pods=frozenset({"v"})), "leader", "abc", True),
        (Routing(service_exists=True, slices=0), "leader", "abc", False),
        (Routing(service_exists=False, slices=0), "default", "abc", True),
        (Routing(service_exists=True, slices=0), "worker", "abc", True),
        (Routing(service_exists=True, slices=1, ready_pods=frozenset({"u"})), "leader", "", True),
        (None, "leader", "abc", True),
    ],
)
def test_the_evidence_of_a_drain(routing: Routing | None, runner: str, revision: str, expected: bool) -> None:
    """2.5, 9.17: the routed Service of the revision; none at all counts as drained, an existing one without slices does not."""
    found = view({"abc": routing} if routing is not None else {})
    assert drained(pod("[]", runner=runner, revision=revision), found) == expected


def test_the_service_that_clients_use_counts() -> None:
    """Seed, "once the Service stops routing to them": workers may be in the stable Service (2.4, 2.5)."""
    assert not drained(pod("[]", runner="worker"), view({}, frozenset({"u"})))


def test_a_worker_that_the_stable_service_lists_is_taken_out() -> None:
    """Seed: out of the Service first, deleted once it stops routing to them; others of the gang cost no write."""
    world = World(policy="RecreateInstanceOnPodRestart", workers=2).settle()
    world.run(5)
    world.crash(world.pod(0, "leader"))
    worker = world.pod(0, "worker", 1)
    seen = world.view()
    listed = ReplicaView(
        replica=seen.replica,
        now=seen.now,
        settings=seen.settings,
        pods=seen.pods,
        revisions=seen.revisions,
        update_revision=seen.update_revision,
        routing=seen.routing,
        stable_ready=frozenset({worker.uid}),
    )
    outcome = world.operate(view=listed)
    assert sorted(action.name for action in outcome.actions) == sorted(  # type: ignore[attr-defined] # all are SetGate
        [world.pod(0, "leader").name, worker.name]
    )
