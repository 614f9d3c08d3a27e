"""The shared cache: one watch for each kind, several namespaces, kinds that fail alone, and what is known of their health."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from tests.runtime.runtime_router import Router
from tests.runtime.runtime_server import ScriptedServer, names, status

from regroup.kube.meta import ObjectView
from regroup.kube.node import Node
from regroup.kube.pod import Pod
from regroup.kube.resources import NODES, PODS
from regroup.runtime.cache import Cache
from regroup.runtime.clock import LoopClock
from regroup.runtime.store import Change
from regroup.wire.client import Client
from regroup.wire.transport import Transport

pytestmark = pytest.mark.looptime


def _cache(transport: Transport, *, namespaces: Sequence[str] = ()) -> Cache:
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    return Cache(Client(transport, rng=random.Random(2)), clock=clock, rng=random.Random(1), namespaces=namespaces)


@asynccontextmanager
async def _running(cache: Cache) -> AsyncIterator[None]:
    task = asyncio.create_task(cache.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def by_group(pod: Pod) -> Iterable[str]:
    return [pod.metadata.labels.get("group", "")]


def by_name(pod: Pod) -> Iterable[str]:
    return [pod.metadata.name]


async def test_the_same_arguments_give_the_same_informer() -> None:
    """However many controllers read a kind, there is one watch; their indexers add up; another selector is another informer."""
    server = ScriptedServer()
    server.put("a", labels={"group": "g"})
    cache = _cache(server)
    first = cache.informer(PODS, type=Pod, indexers={"group": by_group})
    assert cache.informer(PODS, type=Pod, indexers={"name": by_name, "group": by_group}) is first
    assert cache.informer(PODS, type=ObjectView) is not first
    assert cache.informer(PODS, type=Pod, label_selector="x=y") is not first
    async with _running(cache):
        await cache.wait_synced()

        assert names(first.store.index("group", "g")) == names(first.store.index("name", "a")) == {"a"}
        assert len(server.watches) == 3
        assert [watch.query.get("labelSelector") for watch in server.watches].count("x=y") == 1


async def test_a_late_handler_hears_of_everything_that_is_there() -> None:
    """``add_handler`` on a filled informer gives each object as added, at once, and then every change like the others."""
    server = ScriptedServer()
    server.put("a")
    cache = _cache(server)
    informer = cache.informer(PODS, type=Pod)
    early: list[Change[Pod]] = []
    late: list[Change[Pod]] = []
    informer.add_handler(early.append)
    async with _running(cache):
        await cache.wait_synced()
        assert informer.synced
        informer.add_handler(late.append)
        assert late == early
        server.delete("a")
        await asyncio.sleep(1)

    assert [change.new is None for change in late] == [False, True]
    assert late[1] is early[1]


async def test_an_informer_may_come_while_the_cache_runs() -> None:
    """A kind that is first asked for later (a CRD that was installed) is watched from then on."""
    router = Router(pods=ScriptedServer(), nodes=ScriptedServer())
    router.servers["nodes"].put("n", namespace="")
    cache = _cache(router)
    cache.informer(PODS, type=Pod)
    async with _running(cache):
        await cache.wait_synced()
        nodes = cache.informer(NODES, type=Node)
        assert not nodes.synced
        await cache.wait_synced()

        assert names(list(nodes.store.values())) == {"n"}


async def test_several_namespaces_are_watched_apart_and_read_as_one() -> None:
    """With ``namespaces`` nothing cluster-wide is asked for; a relist of one namespace deletes nothing in the others."""
    server = ScriptedServer()
    for namespace in ("one", "two", "three"):
        server.put("a", namespace=namespace, labels={"group": "g"})
    cache = _cache(server, namespaces=["one", "two", "one"])
    pods = cache.informer(PODS, type=Pod, indexers={"group": by_group})
    changes: list[Change[Pod]] = []
    pods.add_handler(changes.append)
    async with _running(cache):
        await cache.wait_synced()
        assert [pod.metadata.namespace for pod in pods.store.index("group", "g")] == ["one", "two"]
        assert {watch.request.path for watch in server.watches} == {
            "/api/v1/namespaces/one/pods",
            "/api/v1/namespaces/two/pods",
        }

        server.silence_watches()
        server.delete("a", namespace="two")
        server.put("b", namespace="one")
        server.compact()
        await asyncio.sleep(100)

        assert {(pod.metadata.namespace, pod.metadata.name) for pod in pods.store.values()} == {("one", "a"), ("one", "b")}
        assert [change.object.metadata.namespace for change in changes if change.new is None] == ["two"]
        statistics = cache.statistics()[0]
        assert (statistics.objects, statistics.synced) == (2, True)
        assert [reflector.namespace for reflector in statistics.reflectors] == ["one", "two"]


async def test_kinds_without_namespace_are_watched_whole() -> None:
    """Nodes have no namespace to limit them to."""
    server = ScriptedServer()
    server.put("n", namespace="")
    cache = _cache(Router(nodes=server), namespaces=["one", "two"])
    nodes = cache.informer(NODES, type=Node)
    async with _running(cache):
        await cache.wait_synced()

        assert names(list(nodes.store.values())) == {"n"}
        assert [watch.request.path for watch in server.watches] == ["/api/v1/nodes"]


@pytest.mark.parametrize("code", [401, 403])
async def test_a_kind_that_may_not_be_read_is_tried_for_ever_while_others_go_on(code: int) -> None:
    """C116: rights that are lost for ten minutes deafen one kind, which is a fact, and end nothing; then all is caught up."""
    pods, nodes = ScriptedServer(), ScriptedServer()
    pods.put("a")
    nodes.put("n", namespace="")
    cache = _cache(Router(pods=pods, nodes=nodes))
    pod_informer, node_informer = cache.informer(PODS, type=Pod), cache.informer(NODES, type=Node)
    async with _running(cache):
        await cache.wait_synced()
        await asyncio.sleep(5)
        pods.watch_answers.extend([lambda: status(code, message="pods is forbidden")] * 10_000)
        pods.list_answers.extend([lambda: status(code, message="pods is forbidden")] * 10_000)
        pods.end_watches()
        pods.delete("a")
        pods.put("b")
        for number in range(60):
            nodes.put(f"n-{number}", namespace="")
            await asyncio.sleep(10)
            assert node_informer.store.get("", f"n-{number}") is not None
            unhealthy = cache.unhealthy(longer_than=300)
            assert (unhealthy is not None) == (number >= 30) or number == 29
        assert unhealthy is not None
        assert unhealthy.startswith("pods has had no working watch for 600 s")
        assert "pods is forbidden" in unhealthy
        reflector = next(entry for entry in cache.statistics() if entry.resource == "pods").reflectors[0]
        assert reflector.deaf_for == pytest.approx(600, abs=1)
        assert reflector.failures > 10
        assert names(list(pod_informer.store.values())) == {"a"}, "what was known stays"

        pods.watch_answers.clear()
        pods.list_answers.clear()
        await asyncio.sleep(31)

        assert cache.unhealthy(longer_than=300) is None
        assert names(list(pod_informer.store.values())) == {"b"}


async def test_a_kind_that_was_never_readable_is_unhealthy_and_not_synced() -> None:
    """Missing rights from the start: ``wait_synced`` waits, the reason is known, and rights that come later are enough."""
    server = ScriptedServer()
    server.put("a")
    server.watch_answers.extend([lambda: status(403, message="cannot watch pods")] * 10_000)
    server.list_answers.extend([lambda: status(403, message="cannot list pods")] * 10_000)
    cache = _cache(server)
    informer = cache.informer(PODS, type=Pod)
    assert cache.unhealthy(longer_than=0) is None, "before the start there is nothing to say"
    async with _running(cache):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cache.wait_synced(), 400)
        assert not informer.synced
        assert "cannot" in (cache.unhealthy(longer_than=300) or "")

        server.watch_answers.clear()
        server.list_answers.clear()
        await asyncio.wait_for(cache.wait_synced(), 31)


async def test_a_handler_that_raises_ends_the_cache() -> None:
    """A bug in a watch is never swallowed: the process ends rather than being alive and deaf."""
    server = ScriptedServer()
    server.put("a")
    cache = _cache(server)

    def broken(change: Change[Pod]) -> None:
        raise ZeroDivisionError

    cache.informer(PODS, type=Pod).add_handler(broken)
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(10):
            await cache.run()

    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
