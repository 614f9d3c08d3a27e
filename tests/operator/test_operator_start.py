"""The life of an operator process (design 1, 4, 9): order of start, clear ends, webhooks from every replica, never deaf."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.runtime.edges_plane import NAMESPACE, Api, Log, start_api

from regroup.kube.meta import ObjectRef
from regroup.kube.resources import CRDS, LEASES, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from regroup.leaderworkerset.api import schema
from regroup.operator.apis import NotInstalled
from regroup.operator.config import LEASE, SECRET, OperatorConfig
from regroup.operator.start import DEAF_AFTER, Operator, RegisteredByService
from regroup.operator.webhooks import WEBHOOK_CONFIGURATION, configurations
from regroup.runtime.certificates import CHECK_PERIOD
from regroup.runtime.election import LeadershipLost
from regroup.sandbox.apifaults import Match
from regroup.wire.errors import ConnectionFailed, Forbidden

pytestmark = pytest.mark.looptime


async def installed() -> Api:
    """An API server that serves LeaderWorkerSets, with our webhooks registered by Service and without a bundle."""
    api = await start_api()
    await api.client.create(CRDS, schema.crd())
    for body in configurations(service=(NAMESPACE, "regroup-webhook")):
        resource = MUTATING_WEBHOOKS if body["kind"] == MUTATING_WEBHOOKS.kind else VALIDATING_WEBHOOKS
        await api.client.create(resource, body)
    api.faults.record().clear()
    return api


def operator_on(api: Api, **config: Any) -> Operator:
    values: dict[str, Any] = {"host": "127.0.0.1", "metrics_port": None, "webhook_port": None, "identity": "one"} | config
    client = api.new_client(values["identity"])
    return Operator(client, config=OperatorConfig(**values), clock=api.clock, rng=Random(1), log=Log())


@asynccontextmanager
async def running(operator: Operator) -> AsyncIterator["asyncio.Task[None]"]:
    life = asyncio.create_task(operator.run())
    try:
        yield life
    finally:
        life.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await life


async def holder(api: Api) -> str:
    lease: dict[str, Any] = await api.client.get(LEASES, LEASE, namespace=NAMESPACE)
    return str(lease["spec"]["holderIdentity"])


def first(group: BaseException) -> BaseException:
    return first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def ended_by(life: "asyncio.Task[None]") -> BaseException:
    with pytest.raises(BaseException) as error:  # noqa: PT011 - which one is for the caller to say
        await life
    return first(error.value)


async def test_a_cluster_without_our_resources_is_told_so() -> None:
    """Not installed: one clear error before anything is served or written."""
    api = await start_api()
    with pytest.raises(NotInstalled, match="leaderworkersets"):
        await operator_on(api).run()
    assert api.asked() == []


WATCHED = ("leaderworkersets", "pods", "statefulsets", "services", "controllerrevisions", "nodes")


@pytest.mark.parametrize("resource", [*WATCHED, "leases", "secrets"])
async def test_a_missing_right_ends_the_start(resource: str) -> None:
    """Forbidden at the start is an error that names the right, not an operator that retries for ever."""
    api = await installed()
    api.faults.fail(403, match=Match(resource=resource))
    life = asyncio.create_task(operator_on(api, webhook_port=0 if resource == "secrets" else None).run())
    async with asyncio.timeout(30):
        assert isinstance(await ended_by(life), Forbidden)


@pytest.mark.parametrize("resource", WATCHED)
async def test_a_right_that_is_taken_away_is_told_at_once(resource: str) -> None:
    """A kind that may not be watched any more: one line in the log that has the server's words, and readiness says which."""
    api = await installed()
    why = f'{resource} is forbidden: User "regroup" cannot watch resource "{resource}"'
    api.faults.fail(403, match=Match(verb="watch", resource=resource), message=why)
    operator = operator_on(api)
    with capture_logs() as logs:
        async with running(operator):
            await asyncio.sleep(60)
            problem = operator.manager.cache.refused()
            assert problem is not None
            assert f"{resource}" in problem.split(" cannot be listed")[0]
            assert why in problem
            told = [entry for entry in logs if entry["log_level"] == "error"]
            assert [(entry["resource"].split(".")[0], entry["error"]) for entry in told] == [(resource, why)]
            api.faults.clear()
            await asyncio.sleep(60)
            assert operator.manager.cache.refused() is None
            assert operator.ready.is_set()


async def test_an_api_server_that_is_down_ends_the_start() -> None:
    """Unreachable: ConnectionFailed after the client's few tries."""
    api = await installed()
    api.faults.refuse()
    with pytest.raises(ConnectionFailed):
        await operator_on(api).run()


async def test_the_one_that_leads_works_and_a_stop_hands_over() -> None:
    """Caches and controllers run only in the leader; a clean stop gives the lease to the next within 5 s (C126)."""
    api = await installed()
    one, two = operator_on(api), operator_on(api, identity="two")
    async with running(one) as life:
        await one.ready.wait()
        assert await holder(api) == "one"
        async with running(two):
            await asyncio.sleep(20)
            assert not two.ready.is_set()
            began = api.clock.monotonic()
            life.cancel()
            with pytest.raises(asyncio.CancelledError):
                await life
            await two.ready.wait()
            assert api.clock.monotonic() - began <= 5
            assert await holder(api) == "two"
    assert await holder(api) == ""


async def test_a_stop_is_bounded_while_the_api_server_hangs() -> None:
    """C126: SIGTERM ends within 5 s also when nothing is answered and events are unwritten."""
    api = await installed()
    operator = operator_on(api)
    async with running(operator) as life:
        await operator.ready.wait()
        api.faults.slow(1000)
        operator.recorder.event(
            ObjectRef(kind="Pod", namespace="default", name="x", uid="u"),
            type="Normal",
            reason="Test",
            message="never written",
            action="Test",
        )
        await asyncio.sleep(1)
        began = api.clock.monotonic()
        life.cancel()
        with pytest.raises(asyncio.CancelledError):
            await life
        assert api.clock.monotonic() - began <= 5


async def test_losing_the_lease_ends_the_process() -> None:
    """The error is LeadershipLost, so that the command says why."""
    api = await installed()
    operator = operator_on(api)
    async with running(operator) as life:
        await operator.ready.wait()
        await api.client.merge_patch(LEASES, LEASE, {"spec": {"holderIdentity": "other"}}, namespace=NAMESPACE)
        assert isinstance(await ended_by(life), LeadershipLost)
    assert not operator.ready.is_set()


async def test_the_death_of_a_controller_ends_the_process() -> None:
    """No part may die while the others look alive; the lease is given back on the way out."""
    api = await installed()
    operator = operator_on(api)

    async def dies() -> None:
        await asyncio.sleep(5)
        raise ZeroDivisionError

    operator.manager.add(dies, name="mortal")
    async with running(operator) as life:
        assert isinstance(await ended_by(life), ZeroDivisionError)
    assert await holder(api) == ""


async def test_a_port_that_is_taken_is_told(unused_tcp_port: int) -> None:
    """OSError of the bind reaches the caller; nothing leads without its webhooks."""
    api = await installed()
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", unused_tcp_port)
    async with taken, running(operator_on(api, webhook_port=unused_tcp_port)) as life:
        error = await ended_by(life)
    assert isinstance(error, OSError)
    assert str(unused_tcp_port) in str(error)
    assert [entry for entry in api.asked() if entry.resource == "leases"] == []


async def test_the_webhooks_trust_is_there_before_the_work_begins() -> None:
    """Certificate, then webhooks, then caBundle, then the lease; also a replica that does not lead serves."""
    api = await installed()
    one, two = operator_on(api, webhook_port=0), operator_on(api, webhook_port=0, identity="two")
    async with running(one):
        await one.ready.wait()
        assert one.webhook_port
        async with running(two):
            await asyncio.sleep(60)
            assert two.webhook_port
            assert not two.ready.is_set()
    secret: dict[str, Any] = await api.client.get(SECRETS, SECRET, namespace=NAMESPACE)
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        found: dict[str, Any] = await api.client.get(resource, WEBHOOK_CONFIGURATION)
        assert {webhook["clientConfig"]["caBundle"] for webhook in found["webhooks"]} == {secret["data"]["ca.crt"]}
    order = [entry.resource for entry in api.asked() if entry.user_agent.startswith("one")]
    assert order.index("secrets") < order.index("mutatingwebhookconfigurations") < order.index("leases")


async def test_webhooks_by_url_are_registered_and_kept() -> None:
    """Outside the cluster: we register ourselves under the URL, again when it is removed, and not otherwise."""
    api = await installed()
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await api.client.delete(resource, WEBHOOK_CONFIGURATION)
    operator = operator_on(api, webhook_port=0, webhook_url="https://127.0.0.1:9443/base/")
    async with running(operator):
        await operator.ready.wait()
        found: dict[str, Any] = await api.client.get(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
        assert [webhook["clientConfig"]["url"] for webhook in found["webhooks"]] == [
            "https://127.0.0.1:9443/base/mutate-lws",
            "https://127.0.0.1:9443/base/mutate-pod",
        ]
        api.faults.record().clear()
        await asyncio.sleep(CHECK_PERIOD * 3)
        assert [entry for entry in api.asked() if "webhook" in entry.resource] == []
        await api.client.delete(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
        await asyncio.sleep(CHECK_PERIOD + 1)
        found = await api.client.get(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
        assert len(found["webhooks"]) == 2
    assert SECRET not in [entry.name for entry in api.asked(writes=False)], "outside the cluster there is no Secret"


async def test_webhooks_of_an_operator_inside_are_not_taken_over() -> None:
    """`regroup manifests` was applied and somebody runs an operator by URL beside it: told, nothing is changed."""
    api = await installed()
    before: dict[str, Any] = await api.client.get(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
    life = asyncio.create_task(operator_on(api, webhook_port=0, webhook_url="https://127.0.0.1:9001").run())
    async with asyncio.timeout(30):
        assert isinstance(await ended_by(life), RegisteredByService)
    assert await api.client.get(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION) == before


async def test_of_two_outside_the_cluster_the_leader_answers() -> None:
    """A second operator that is started for a while takes the registration along; the leader takes it back, and one that only
    waits never puts its CA on a URL that is not its own. When it leads, the webhooks are its own at once."""

    async def registered() -> set[tuple[str, str]]:
        found: dict[str, Any] = await api.client.get(MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
        configs = [webhook["clientConfig"] for webhook in found["webhooks"]]
        return {(config["url"].rpartition("/")[0], config["caBundle"]) for config in configs}

    api = await installed()
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await api.client.delete(resource, WEBHOOK_CONFIGURATION)
    one = operator_on(api, webhook_port=0, webhook_url="https://127.0.0.1:9001")
    two = operator_on(api, webhook_port=0, webhook_url="https://127.0.0.1:9002", identity="two")
    async with running(one) as first:
        await one.ready.wait()
        (mine,) = await registered()
        assert mine[0] == "https://127.0.0.1:9001"
        async with running(two) as second:
            await asyncio.sleep(CHECK_PERIOD * 3)
            assert await registered() == {mine}
            first.cancel()
            with suppress(asyncio.CancelledError, BaseExceptionGroup):
                await first
            async with asyncio.timeout(30):
                await asyncio.wait({second, asyncio.create_task(two.ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
            assert not second.done(), second
            ((url, ca),) = await registered()
            assert url == "https://127.0.0.1:9002"
            assert ca != mine[1]


async def test_liveness_fails_when_a_watch_is_deaf_for_long() -> None:
    """Case C116: a kind that is not heard of for long fails the probe, with the kind's name; one that recovers passes again."""
    api = await installed()
    operator = operator_on(api)
    async with running(operator):
        await operator.ready.wait()
        await asyncio.sleep(400)
        assert operator.deaf() is None
        down = [api.faults.fail(500, match=Match(verb=verb, resource="pods")) for verb in ("watch", "list")]
        api.faults.cut_watches(match=Match(resource="pods"))
        await asyncio.sleep(DEAF_AFTER / 2)
        assert operator.deaf() is None
        await asyncio.sleep(DEAF_AFTER)
        assert "pods has had no working watch" in (operator.deaf() or "")
        for fault in down:
            fault.end()
        await asyncio.sleep(60)
        assert operator.deaf() is None


async def test_a_candidate_that_waits_is_alive() -> None:
    """A replica without the lease has no caches: that is not deafness."""
    api = await installed()
    one, two = operator_on(api), operator_on(api, identity="two")
    async with running(one), running(two):
        await asyncio.sleep(3 * DEAF_AFTER)
        assert two.deaf() is None


async def test_the_metrics_page_knows_queues_caches_and_leadership() -> None:
    """Names of controller-runtime where they exist; values follow the statistics."""
    api = await installed()
    operator = operator_on(api)
    async with running(operator):
        await operator.ready.wait()
        await asyncio.sleep(1)
        operator.metrics.refresh()
        page = operator.metrics.render().decode()
    assert 'leader_election_master_status{name="regroup"} 1.0' in page
    assert 'workqueue_depth{name="lws-group"} 0.0' in page
    assert 'regroup_cache_objects{resource="pods"} 0.0' in page
    assert 'controller_runtime_max_concurrent_reconciles{controller="lws-group"} 8.0' in page
    operator.metrics.refresh()
    assert 'leader_election_master_status{name="regroup"} 0.0' in operator.metrics.render().decode()


async def test_an_idle_operator_writes_only_its_lease() -> None:
    """No group: nothing but the renewal of the lease is written, and nothing is read (design 8)."""
    api = await installed()
    operator = operator_on(api)
    async with running(operator):
        await operator.ready.wait()
        await asyncio.sleep(5)
        api.faults.record().clear()
        await asyncio.sleep(60)
        assert {entry.resource for entry in api.asked()} == {"leases"}
        assert {entry.resource for entry in api.asked(writes=False) if entry.verb in {"get", "list"}} == set()


async def test_the_admission_server_of_an_operator_answers_for_its_kinds() -> None:
    """The wiring: the paths that the manifests register are the ones that are served."""
    api = await installed()
    operator = operator_on(api)
    bodies = configurations(service=("a", "b"))
    wanted = {webhook["clientConfig"]["service"]["path"] for body in bodies for webhook in body["webhooks"]}
    assert set(operator.admission.paths) == wanted
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": "leaderworkerset.x-k8s.io", "version": "v1", "kind": "LeaderWorkerSet"},
        "namespace": "default",
        "name": "demo",
        "object": {"metadata": {"name": "demo"}, "spec": {"replicas": -1, "leaderWorkerTemplate": {"workerTemplate": {}}}},
    }
    body = json.dumps({"request": request}).encode()
    status = json.loads(await operator.admission.handle("/validate-lws", body))["response"]["status"]
    assert (status["details"]["name"], status["details"]["kind"]) == ("demo", "LeaderWorkerSet")
    assert "spec.replicas" in [cause["field"] for cause in status["details"]["causes"]]
