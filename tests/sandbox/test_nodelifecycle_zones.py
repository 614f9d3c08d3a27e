"""Lost zones: how fast pods are told to go, and when not at all."""

import asyncio

import msgspec
import pytest
from tests.sandbox.cluster_fixtures import condition, items, node, running, taints

from regroup.kube.node import Node
from regroup.kube.resources import NODES
from regroup.sandbox.cluster import Cluster
from regroup.sandbox.nodelifecycle.zones import EvictionRates, State, spacing, state_of, zone_of

RATES = EvictionRates()
EXECUTE = ("node.kubernetes.io/unreachable", "NoExecute")


def make_node(zone: str, **labels: str) -> Node:
    places = {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r", **labels}
    return msgspec.convert({"metadata": {"name": "n", "labels": places}}, Node)


@pytest.mark.parametrize(
    ("ready", "lost", "state"),
    [
        (3, 0, State.NORMAL),
        (1, 2, State.NORMAL),  # two are never a disruption
        (2, 3, State.PARTIAL),  # 60 %
        (3, 3, State.NORMAL),  # 50 %
        (9, 11, State.PARTIAL),  # 55 %
        (0, 1, State.FULL),
        (0, 5, State.FULL),
    ],
)
def test_the_state_of_a_zone(ready: int, lost: int, state: State) -> None:
    """Partially lost: more than two, and 55 % at least; lost: all."""
    assert state_of([True] * ready + [False] * lost, RATES) is state


@pytest.mark.parametrize(
    ("ready", "lost", "other_ready", "gap"),
    [
        (4, 1, 1, 10.0),
        (1, 4, 1, None),  # a small zone, partially lost
        (20, 30, 1, None),  # 50 nodes are small
        (20, 31, 1, 100.0),  # 51 are large
        (0, 4, 1, 10.0),  # a whole zone, while another one is well
        (0, 4, 0, None),  # every zone
    ],
)
def test_the_pace_of_a_zone(ready: int, lost: int, other_ready: int, gap: float | None) -> None:
    """0.1 nodes/s; 0.01 in a large zone that is partially lost, none in a small one; none when no node is well at all."""
    ours, other = make_node("a"), make_node("b")
    nodes = [(ours, True)] * ready + [(ours, False)] * lost + [(other, bool(other_ready))]
    assert spacing(nodes, zone_of(ours), RATES) == (None if gap is None else pytest.approx(gap))


def test_old_labels_come_first() -> None:
    """Nodes of long ago name their zone by beta labels; those that name none are together."""
    assert zone_of(make_node("a", **{"failure-domain.beta.kubernetes.io/zone": "old"})) == ("r", "old")
    assert zone_of(msgspec.convert({"metadata": {"name": "n"}}, Node)) == ("", "")


async def marked(cluster: Cluster) -> set[str]:
    """Nodes whose pods are told to go."""
    found = await items(cluster.client("test"), NODES)
    return {entry["metadata"]["name"] for entry in found if EXECUTE in taints(entry)}


@pytest.mark.looptime
async def test_a_zone_that_is_mostly_lost_keeps_its_pods() -> None:
    """Three of four nodes fall silent: none is emptied until one is back, then one after the other."""
    async with running(nodes=8) as cluster:
        faults = cluster.faults()
        for name in ("node-0", "node-2", "node-4"):  # zone a
            await faults.node_down(name)
        await asyncio.sleep(300)
        lost = await node(cluster.client("test"), "node-0")
        assert condition(lost, "Ready")[0] == "Unknown"
        assert ("node.kubernetes.io/unreachable", "NoSchedule") in taints(lost)
        early = await marked(cluster)
        assert len(early) <= 2, "those that fell silent before it was a disruption"
        await asyncio.sleep(300)
        assert await marked(cluster) == early
        await faults.node_up("node-4")
        await asyncio.sleep(60)
        assert await marked(cluster) == {"node-0", "node-2"}


@pytest.mark.looptime
async def test_a_lost_zone_is_emptied_node_by_node() -> None:
    """All four nodes of a zone, while the other zone is well: one in ten seconds."""
    async with running(nodes=8) as cluster:
        for name in ("node-0", "node-2", "node-4", "node-6"):
            await cluster.faults().node_down(name)
        counts = []
        for _ in range(200):
            await asyncio.sleep(1)
            counts.append(len(await marked(cluster)))
        assert counts[-1] == 4
        first, second, third, fourth = (counts.index(number) for number in (1, 2, 3, 4))
        assert min(second - first, third - second, fourth - third) >= 9
        assert fourth - first <= 45
