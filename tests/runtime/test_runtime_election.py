"""Leader election (design 4): two never lead at once whatever the API does, and a stop hands over at once (case C126)."""

import asyncio
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.edges_plane import NAMESPACE, Api, Log, start_api

from regroup.kube.resources import LEASES
from regroup.runtime.election import RELEASE_LIMIT, Election, ElectionTiming, LeadershipLost, Lease
from regroup.sandbox.apifaults import Match
from regroup.wire.client import Client
from regroup.wire.errors import Forbidden, NotFound
from regroup.wire.transport import Request, Response, Stream, Transport

pytestmark = pytest.mark.looptime

T = ElectionTiming()


@dataclass
class Candidate:
    """A process that wants to lead, and when it did."""

    api: Api
    name: str
    stop_takes: float = 0.0
    """Seconds that its work needs to end."""
    log: Log = field(default_factory=Log)
    leading: asyncio.Event = field(default_factory=asyncio.Event)
    spans: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.election = Election(
            self.api.new_client(self.name),
            namespace=NAMESPACE,
            name="lease",
            identity=self.name,
            clock=self.api.clock,
            rng=Random(self.name),
            log=self.log,
        )
        self.task = asyncio.create_task(self.election.run(self.work))

    async def work(self) -> None:
        began = self.api.clock.monotonic()
        self.leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(self.stop_takes)
            finally:
                self.leading.clear()
                self.spans.append((began, self.api.clock.monotonic()))

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, LeadershipLost):
            await self.task


async def lease_of(api: Api) -> Lease:
    return await api.client.get(LEASES, "lease", namespace=NAMESPACE, type=Lease)


async def test_the_first_leads_and_the_second_waits() -> None:
    """One holder at a time; the record names it and is renewed."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    two = Candidate(api, "two")
    await asyncio.sleep(60)
    assert one.leading.is_set()
    assert not two.leading.is_set()
    lease = await lease_of(api)
    assert lease.spec.holder_identity == "one"
    assert lease.spec.renew_time is not None
    assert (api.clock.now() - lease.spec.renew_time).total_seconds() <= T.retry_period + 0.1
    assert two.election.statistics().holder == "one"
    await one.stop()
    await two.stop()


async def test_a_stop_gives_the_lease_back_and_the_next_leads_at_once() -> None:
    """Case C126.1: the holder is cleared and the next candidate leads within 5 s."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    two = Candidate(api, "two")
    await asyncio.sleep(10)
    began = api.clock.monotonic()
    await one.stop()
    assert (await lease_of(api)).spec.holder_identity == ""
    await two.leading.wait()
    assert api.clock.monotonic() - began <= 5
    assert (await lease_of(api)).spec.lease_transitions == 1
    await two.stop()


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
async def test_a_stop_in_the_middle_of_a_renewal_gives_the_lease_back(moment: float) -> None:
    """Case C126.2: with 1 s latency a renewal is nearly always on its way; the stop still clears the lease within 5 s."""
    api = await start_api()
    api.faults.slow(1.0)
    one = Candidate(api, "one")
    await one.leading.wait()
    await asyncio.sleep(10 + moment)
    began = api.clock.monotonic()
    await one.stop()
    assert api.clock.monotonic() - began <= 5
    assert (await lease_of(api)).spec.holder_identity == ""


async def test_a_release_that_always_meets_another_write_ends_in_time() -> None:
    """C126: the stop tries again after each conflict, a pause apart, and gives up within its limit."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    api.faults.fail(409, match=Match(verb="update", resource="leases"), times=1000)
    api.asked()
    began = api.clock.monotonic()
    await one.stop()
    assert RELEASE_LIMIT <= api.clock.monotonic() - began <= 5
    assert 10 <= sum(entry.verb == "update" for entry in api.asked()) <= 100


async def test_a_stop_while_the_lease_is_being_taken_gives_it_back() -> None:
    """Cancelled between the request that took it and its answer: nobody has to wait for it to run out."""
    api = await start_api()
    api.faults.lose(match=Match(verb="create", resource="leases"), times=1)
    one = Candidate(api, "one")
    await asyncio.sleep(1)
    assert (await lease_of(api)).spec.holder_identity == "one"
    assert not one.leading.is_set()
    await one.stop()
    assert (await lease_of(api)).spec.holder_identity == ""


async def test_the_lease_is_kept_until_the_work_has_ended() -> None:
    """Work that takes long to stop still holds the lease meanwhile: the next begins only when it has ended."""
    api = await start_api()
    one = Candidate(api, "one", stop_takes=40)
    await one.leading.wait()
    two = Candidate(api, "two")
    await asyncio.sleep(5)
    await one.stop()
    await two.leading.wait()
    await two.stop()
    assert one.spans[0][1] <= two.spans[0][0]


async def test_a_dead_holder_is_followed_after_its_lease_ran_out() -> None:
    """A holder that vanished is waited for: its whole lease, as seen by the candidate, and not much longer."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    two = Candidate(api, "two")
    await asyncio.sleep(7)
    api.faults.refuse(match=Match(user_agent="one"))
    dead_at = api.clock.monotonic()
    await two.leading.wait()
    took = api.clock.monotonic() - dead_at
    assert T.lease_duration - T.retry_period * 1.2 <= took <= T.lease_duration + 2 * T.retry_period * 1.2
    with pytest.raises(LeadershipLost, match="not renewed within 10 s"):
        await one.task
    await two.stop()


async def test_losing_the_lease_ends_the_work_and_the_process() -> None:
    """The API is gone: the leader stops its work before anybody else may lead, and run raises."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    await asyncio.sleep(30.3)
    cut_at = api.clock.monotonic()
    api.faults.refuse()
    with pytest.raises(LeadershipLost):
        await one.task
    assert one.spans[0][1] - cut_at <= T.renew_deadline
    assert api.clock.monotonic() - one.spans[0][1] <= RELEASE_LIMIT + 0.1


class SlowAnswers:
    """A line on which answers to writes take their time, while requests arrive at once."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.delay = 0.0

    async def request(self, request: Request, *, timeout: float) -> Response:
        answer = await self._inner.request(request, timeout=timeout)
        if request.method != "GET":
            await asyncio.sleep(self.delay)
        return answer

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request, connect_timeout=connect_timeout, read_timeout=read_timeout)

    async def close(self) -> None:
        await self._inner.close()


async def test_the_deadline_counts_from_the_beginning_of_the_last_renewal() -> None:
    """A renewal whose answer took long is as old as its record: the leader gives up that much sooner."""
    api = await start_api()
    line = SlowAnswers(api.server.transport())
    clock, leading = api.clock, asyncio.Event()
    ended: list[float] = []

    async def work() -> None:
        leading.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(clock.monotonic())

    client = Client(line, user_agent="one", rng=Random(1))
    election = Election(client, namespace=NAMESPACE, name="lease", identity="one", clock=clock, rng=Random(1), log=Log())
    task = asyncio.create_task(election.run(work))
    await leading.wait()
    line.delay = 3.0  # 3 s for this answer, 2 s of pause and 3 s for the next stay under the deadline of 10 s
    await asyncio.sleep(20)
    renewed = (await lease_of(api)).spec.renew_time
    async with asyncio.timeout(60):
        while (await lease_of(api)).spec.renew_time == renewed:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.1)
    written_at = clock.monotonic()
    api.faults.refuse(match=Match(user_agent="one"))
    with pytest.raises(LeadershipLost):
        await task
    assert ended[0] - written_at <= T.renew_deadline


async def test_a_lease_in_other_hands_ends_the_leader_at_once() -> None:
    """Somebody else's name in the record is not argued with."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    await api.client.merge_patch(LEASES, "lease", {"spec": {"holderIdentity": "other"}}, namespace=NAMESPACE)
    with pytest.raises(LeadershipLost, match="held by another"):
        await one.task
    assert (await lease_of(api)).spec.holder_identity == "other", "what is not ours is not given away"


async def test_a_short_outage_is_survived() -> None:
    """Failures for less than the deadline cost nothing."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    for code in (500, 429, 409):
        fault = api.faults.fail(code)
        await asyncio.sleep(6)
        fault.end()
        await asyncio.sleep(6)
    assert one.leading.is_set()
    await one.stop()


async def test_a_request_that_hangs_does_not_use_up_the_deadline() -> None:
    """Requests are bounded below the deadline: one that hangs leaves time for another."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    api.faults.slow(1000, times=1)
    await asyncio.sleep(60)
    assert one.leading.is_set()
    await one.stop()


async def test_a_deleted_lease_does_not_make_two_leaders() -> None:
    """Somebody deletes the Lease: a candidate that knows the holder gives it the time to make it again."""
    api = await start_api()
    one = Candidate(api, "one")
    await one.leading.wait()
    two = Candidate(api, "two")
    await asyncio.sleep(20)
    for _ in range(5):
        await api.client.delete(LEASES, "lease", namespace=NAMESPACE)
        await asyncio.sleep(7.7)
        assert one.leading.is_set()
        assert not two.leading.is_set()
    await two.stop()
    await one.stop()


async def test_times_in_the_record_are_not_trusted() -> None:
    """A record from a machine with a wrong clock holds for its length from when we first saw it, no more and no less."""
    api = await start_api()
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "1999-01-01T00:00:00.000000Z"}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease"}, "spec": spec}
    await api.client.create(LEASES, body, namespace=NAMESPACE)
    one = Candidate(api, "one")
    await one.leading.wait()
    assert 15 <= api.clock.monotonic() <= 15 + 2 * T.retry_period * 1.2
    await one.stop()


async def test_what_waiting_cannot_mend_is_said_at_once() -> None:
    """No right to the lease, or no such namespace: an error, not a process that waits for ever."""
    api = await start_api()
    fault = api.faults.fail(403, match=Match(resource="leases"))
    with pytest.raises(Forbidden):
        await Candidate(api, "one").task
    fault.end()
    elsewhere = Election(api.client, namespace="nowhere", name="lease", identity="x", clock=api.clock, rng=Random(1), log=Log())
    with pytest.raises(NotFound, match="nowhere"):
        await elsewhere.run(lambda: asyncio.sleep(0))


async def test_work_that_fails_gives_the_lease_back_and_tells() -> None:
    """The error of the work is the error of run; the lease is free."""
    api = await start_api()

    async def work() -> None:
        raise ZeroDivisionError

    election = Election(api.client, namespace=NAMESPACE, name="lease", identity="x", clock=api.clock, rng=Random(1), log=Log())
    with pytest.raises(ZeroDivisionError):
        await election.run(work)
    assert (await lease_of(api)).spec.holder_identity == ""


@pytest.mark.parametrize("timing", [(10, 10, 2), (15, 2.3, 2), (15, 16, 2)])
async def test_timings_that_cannot_be_safe_are_refused(timing: tuple[float, float, float]) -> None:
    """lease > deadline > jittered retry, as client-go checks."""
    with pytest.raises(ValueError, match="leader election needs"):
        ElectionTiming(*timing)


@dataclass(frozen=True)
class Disturbance:
    """Something that goes wrong for one candidate, for some seconds."""

    who: str
    what: str
    seconds: float
    pause: float


DISTURBANCES = st.lists(
    st.builds(
        Disturbance,
        who=st.sampled_from(["one", "two", "three"]),
        what=st.sampled_from(["slow", "slower", "refuse", "lose", "fail", "restart"]),
        seconds=st.floats(0.5, 25),
        pause=st.floats(0, 20),
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(disturbances=DISTURBANCES, stop_takes=st.sampled_from([0.0, 2.0, 4.5]))
async def test_two_never_lead_at_once(disturbances: list[Disturbance], stop_takes: float) -> None:
    """Slow, lost, refused and failed requests, restarts: never two at work, as long as work ends within lease - deadline."""
    api = await start_api()
    candidates = {name: Candidate(api, name, stop_takes) for name in ("one", "two", "three")}
    past: list[Candidate] = []
    for one in disturbances:
        match = Match(user_agent=one.who)
        fault = None
        match one.what:
            case "slow":
                fault = api.faults.slow(2.4, match=match)
            case "slower":
                fault = api.faults.slow(7.0, match=match)
            case "refuse":
                fault = api.faults.refuse(match=match)
            case "lose":
                fault = api.faults.lose(match=match)
            case "fail":
                fault = api.faults.fail(500, match=match)
            case _:
                await candidates[one.who].stop()
        await asyncio.sleep(one.seconds)
        if fault is not None:
            fault.end()
        await asyncio.sleep(one.pause)
        for name, candidate in candidates.items():
            if candidate.task.done():
                with suppress(LeadershipLost, asyncio.CancelledError):
                    candidate.task.result()
                past.append(candidate)
                candidates[name] = Candidate(api, name, stop_takes)
    api.faults.clear()
    await asyncio.sleep(60)
    assert sum(candidate.leading.is_set() for candidate in candidates.values()) == 1, "in the end somebody leads"
    for candidate in candidates.values():
        await candidate.stop()
    spans = sorted(span for candidate in (*past, *candidates.values()) for span in candidate.spans)
    for (_, ended), (began, _) in pairwise(spans):
        assert ended <= began
