"""The event recorder (design 4): aggregated, bounded, limited in rate, and never in the way of the work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.runtime.edges_plane import Api, Log, start_api

from regroup.kube.meta import ObjectRef
from regroup.kube.resources import EVENTS
from regroup.runtime import events
from regroup.runtime.events import EventRecorder
from regroup.sandbox.apifaults import Match

POD = ObjectRef(api_version="v1", kind="Pod", namespace="default", name="web-0", uid="u-0")

pytestmark = pytest.mark.looptime

ON_EVENTS = Match(verb="write", resource="events.events.k8s.io")


def recorder_on(api: Api, *, instance: str = "one", log: Log | None = None) -> EventRecorder:
    client = api.new_client("recorder")
    return EventRecorder(client, component="regroup.dev/test", instance=instance, clock=api.clock, log=log or Log())


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(recorder.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def tell(recorder: EventRecorder, message: str = "it broke", *, regarding: ObjectRef = POD, reason: str = "Broken") -> None:
    recorder.event(regarding, type="Warning", reason=reason, message=message, action="Watch")


async def stored(api: Api, namespace: str = "default") -> list[dict[str, Any]]:
    return (await api.client.list_all(EVENTS, namespace=namespace)).items


async def test_an_event_says_who_what_about_whom_and_when() -> None:
    """An event carries reporter, type, reason, action, note, time and both objects, and is written at once."""
    api = await start_api()
    recorder = recorder_on(api)
    set_ref = ObjectRef(api_version="apps/v1", kind="StatefulSet", namespace="default", name="web", uid="u-s")
    async with running(recorder):
        recorder.event(POD, type="Normal", reason="Built", message="all good", action="Create", related=set_ref)
        await asyncio.sleep(0.1)
        (event,) = await stored(api)
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web-0", "uid": "u-0"}
    assert event["related"]["name"] == "web"
    assert (event["type"], event["reason"], event["action"], event["note"]) == ("Normal", "Built", "Create", "all good")
    assert (event["reportingController"], event["reportingInstance"]) == ("regroup.dev/test", "one")
    assert event["eventTime"] == "2026-08-01T12:00:00.000000Z"
    assert "series" not in event


async def test_repeats_become_a_series_on_one_object() -> None:
    """The same event again extends the first object: one object, count and last time of all repeats, few writes."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        for _ in range(30):
            tell(recorder)
            await asyncio.sleep(1)
        await asyncio.sleep(70)
    (event,) = await stored(api)
    assert event["series"]["count"] == 30
    assert event["series"]["lastObservedTime"] == "2026-08-01T12:00:29.000000Z"
    assert len(api.asked()) <= 7, "one create and a series that is written more and more seldom"
    statistics = recorder.statistics()
    assert (statistics.noted, statistics.aggregated, statistics.dropped, statistics.failed) == (30, 29, 0, 0)


async def test_a_repeat_does_not_delay_another_event() -> None:
    """While a series waits for its turn a new event is written at once."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        tell(recorder)
        await asyncio.sleep(0.1)
        tell(recorder)
        await asyncio.sleep(0.1)
        tell(recorder, "something else")
        await asyncio.sleep(0.1)
        assert {event["note"] for event in await stored(api)} == {"it broke", "something else"}


async def test_a_repeat_after_a_long_time_is_a_new_event() -> None:
    """Past the window the same event starts a new object, as client-go's broadcaster does."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        tell(recorder)
        await asyncio.sleep(events.SERIES_WINDOW + 1)
        tell(recorder)
        await asyncio.sleep(0.1)
    assert len(await stored(api)) == 2


async def test_a_repeat_of_an_expired_event_starts_anew() -> None:
    """When the server forgot the first object, the next repeat makes a new one."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        tell(recorder)
        await asyncio.sleep(0.1)
        (event,) = await stored(api)
        await api.client.delete(EVENTS, event["metadata"]["name"], namespace="default")
        tell(recorder)
        await asyncio.sleep(5)
        tell(recorder)
        await asyncio.sleep(0.1)
    assert len(await stored(api)) == 1


async def test_a_flood_from_one_object_is_cut_off_and_others_are_heard() -> None:
    """A burst, then a trickle, for each object: a noisy one neither fills the server nor silences another."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        for number in range(500):
            tell(recorder, f"message {number}")
        tell(recorder, "calm", regarding=ObjectRef(kind="Pod", namespace="default", name="calm-0", uid="u-1"))
        await asyncio.sleep(1)
        assert len(await stored(api)) == events.BURST + 1
        await asyncio.sleep(5 / events.REFILL)
        for number in range(500, 600):
            tell(recorder, f"message {number}")
        await asyncio.sleep(1)
    assert len(await stored(api)) == events.BURST + 1 + 5
    assert recorder.statistics().dropped == 600 - events.BURST - 5


async def test_texts_are_cut_to_the_limits_of_the_api() -> None:
    """Notes and reasons from outside are bounded in bytes, and text that UTF-8 cannot say breaks nothing."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        recorder.event(POD, type="Normal", reason="R" * 500, message="ä" * 5000, action="A" * 500)
        tell(recorder, "half a character: \ud800")
        await asyncio.sleep(0.1)
    long, odd = sorted(await stored(api), key=lambda event: -len(event["note"]))
    assert len(long["note"].encode()) <= events.NOTE_LIMIT
    assert long["note"].endswith("ä...")
    assert len(long["reason"]) == len(long["action"]) == events.REASON_LIMIT
    assert odd["note"] == "half a character: ?"


async def test_names_are_valid_and_never_collide() -> None:
    """Two instances that tell the same at the same moment, and names that end badly when cut, give valid names of their own."""
    api = await start_api()
    one, two = recorder_on(api, instance="one"), recorder_on(api, instance="two")
    long = ObjectRef(kind="Pod", namespace="default", name="x" * 199 + "-and-more", uid="u-2")
    async with running(one), running(two):
        for recorder in (one, two):
            tell(recorder)
            tell(recorder, regarding=long)
        await asyncio.sleep(0.1)
    names = [event["metadata"]["name"] for event in await stored(api)]
    assert len(set(names)) == 4
    assert all(len(name) <= 253 and "-." not in name for name in names)


async def test_names_sort_by_time() -> None:
    """kubectl get and describe show events in the order of their names: what was told first comes first."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        for number in range(12):
            tell(recorder, message=f"number {number:02}")
            if number % 3:
                await asyncio.sleep(0.01 if number % 2 else 7)
    told = sorted(await stored(api), key=lambda event: event["metadata"]["name"])
    assert [event["note"] for event in told] == [f"number {number:02}" for number in range(12)]


async def test_what_has_no_namespace_is_told_in_default() -> None:
    """Events about nodes live in the namespace ``default``."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        tell(recorder, regarding=ObjectRef(kind="Node", name="node-1", uid="u-n"))
        await asyncio.sleep(0.1)
    (event,) = await stored(api)
    assert event["metadata"]["name"].startswith("node-1.")


async def test_events_survive_an_outage() -> None:
    """An API server that does not answer for a while loses no event; one warning tells of the whole outage."""
    api = await start_api()
    log = Log()
    recorder = recorder_on(api, log=log)
    down = api.faults.refuse(match=ON_EVENTS)
    async with running(recorder):
        tell(recorder, "first")
        tell(recorder, "second")
        tell(recorder, "second")
        await asyncio.sleep(20)
        assert await stored(api) == []
        down.end()
        await asyncio.sleep(30)
    found = {event["note"]: event.get("series", {}).get("count") for event in await stored(api)}
    assert found == {"first": None, "second": 2}
    assert log.of("warning") == ["event not written"]


async def test_a_write_whose_answer_was_lost_is_not_told_twice() -> None:
    """The second try of a create that was done meets its own name and takes that for success."""
    api = await start_api()
    recorder = recorder_on(api)
    lost = api.faults.lose(match=Match(verb="create", resource="events.events.k8s.io"), times=1, done=True)
    async with running(recorder):
        tell(recorder)
        await asyncio.sleep(60)
        tell(recorder)
        await asyncio.sleep(60)
    assert lost.hits == 1
    (event,) = await stored(api)
    assert event["series"]["count"] == 2
    assert recorder.statistics().failed == 0


async def test_an_event_that_is_refused_is_dropped_and_stops_nothing() -> None:
    """A refusal (no right, namespace gone) is counted and the next event is written."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        tell(recorder, regarding=ObjectRef(kind="Pod", namespace="gone", name="x", uid="u-x"))
        api.faults.fail(403, match=Match(verb="create", namespace="default"), times=1)
        tell(recorder, "refused")
        tell(recorder, "written")
        await asyncio.sleep(10)
    assert [event["note"] for event in await stored(api)] == ["written"]
    assert recorder.statistics().failed == 2


async def test_one_event_that_always_fails_does_not_hold_up_the_others() -> None:
    """A create that the server cannot do is given up after some tries; the others are not kept waiting that long."""
    api = await start_api()
    recorder = recorder_on(api)
    api.faults.fail(500, match=Match(verb="create", resource="events.events.k8s.io", namespace="regroup-system"))
    async with running(recorder):
        tell(recorder, regarding=ObjectRef(kind="Pod", namespace="regroup-system", name="x", uid="u-x"))
        tell(recorder, "written")
        await asyncio.sleep(2 * events.RETRY_PAUSE)
        assert [event["note"] for event in await stored(api)] == ["written"]
        await asyncio.sleep(2 * events.ATTEMPTS * events.RETRY_PAUSE)
    assert recorder.statistics().failed == 1


async def test_a_clean_stop_writes_what_is_left() -> None:
    """At the stop unwritten events and the counts of series are written."""
    api = await start_api()
    recorder = recorder_on(api)
    async with running(recorder):
        tell(recorder)
        await asyncio.sleep(0.1)
        tell(recorder)
        tell(recorder, "last words")
    found = {event["note"]: event.get("series", {}).get("count") for event in await stored(api)}
    assert found == {"it broke": 2, "last words": None}


async def test_the_stop_does_not_wait_for_an_api_server_that_hangs() -> None:
    """Case C126: the stop is bounded whatever the API server does."""
    api = await start_api()
    log = Log()
    recorder = recorder_on(api, log=log)
    api.faults.slow(1000, match=ON_EVENTS)
    async with running(recorder):
        tell(recorder)
        await asyncio.sleep(0.1)
        began = api.clock.monotonic()
    assert api.clock.monotonic() - began <= events.STOP_LIMIT + 0.1
    assert log.of("warning") == ["events were left unwritten at the stop"]


async def test_what_is_noted_while_nobody_writes_is_bounded() -> None:
    """Without ``run`` memory stays bounded: pending events and known objects alike."""
    api = await start_api()
    recorder = recorder_on(api)
    for number in range(events.PENDING_LIMIT + 500):
        tell(recorder, regarding=ObjectRef(kind="Pod", namespace="default", name=f"p-{number}", uid=f"u-{number}"))
    assert recorder.statistics().dropped == 500
    await recorder.flush()
    assert len(await stored(api)) == events.PENDING_LIMIT
