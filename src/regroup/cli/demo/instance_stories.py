"""The stories of the seed "Instance restart policy", on its own InferenceServices with runtimes that run stub images."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from regroup.cli.demo.stage import Member, Stage, all_ready, uids
from regroup.kube.meta import find_condition
from regroup.kube.resources import PODS
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.row import READY, Row
from regroup.omenative.api.types import InferenceService
from regroup.omenative.keys import (
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    COMPONENT,
    COMPONENTS,
    ENGINE,
    INCARNATION,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
)
from regroup.omenative.names import replica_name
from regroup.wire.errors import NotFound
from regroup.wire.resource import Resource

KINDS: Mapping[str, Resource] = {one.kind: one for one in (CLUSTER_BASE_MODELS, CLUSTER_SERVING_RUNTIMES, INFERENCE_SERVICES)}
START_LIMIT = 120.0
_GOES_ON_LIMIT = 60
RESTART_LIMIT = 300.0


async def one_instance(stage: Stage) -> None:
    """RecreateInstanceOnPodRestart on a single pod: a crashed engine starts over in a new pod, one incarnation higher."""
    stage.screen.say("  A container that restarts in place keeps its emptyDir and skips its init containers; a new pod does not.")
    name = await stage.apply_service("qwen3-0-6b-runtime.yaml", "qwen3-0-6b-native.yaml", kinds=KINDS)
    before = await stage.until("the engine becomes Ready", all_ready(1), limit=START_LIMIT)
    await stage.until_true("the Instance is Ready", lambda: _is_ready(stage, name, ENGINE, incarnation=1), limit=60.0)
    await _pause(stage)

    victim = before[0]
    stage.screen.say(f"\n  The engine's container in {victim.name} is killed: out of memory.")
    await stage.hands.crash(stage.namespace, victim.name, exit_code=137, reason="OOMKilled")
    after = await stage.until("the Instance is rebuilt", _rebuilt(before, incarnation="2"), limit=RESTART_LIMIT)
    await stage.until_true("the Instance is Ready", lambda: _is_ready(stage, name, ENGINE, incarnation=2), limit=60.0)
    stage.check("the pod has the same name, a new UID and incarnation 2", after[0].name == victim.name)
    wanted = (
        f"OMENative component=engine instance=0 restart triggered: pod {victim.name} container ome-container restarted after "
        "Ready: OOMKilled (exit 137) (incarnation=2)"
    )
    await _told(stage, "RestartTriggered", wanted)
    await _told(stage, "RestartCompleted", "OMENative component=engine instance=0 restart complete (incarnation=2)")
    row = await _row(stage, name, ENGINE)
    failure = row.last_failure if row is not None else None
    kept = failure is not None and (failure.container_name, failure.reason, failure.exit_code)
    stage.check("lastFailure keeps the container, the reason and the exit code", kept == ("ome-container", "OOMKilled", 137))

    stage.screen.say(f"\n  Somebody deletes {victim.name}.")
    stage.screen.command(f"kubectl delete pod -n {stage.namespace} {victim.name}")
    await stage.client.delete(PODS, victim.name, namespace=stage.namespace, uid=after[0].uid)
    await stage.until("the Instance is rebuilt", _rebuilt(after, incarnation="3"), limit=RESTART_LIMIT)
    await stage.until_true("the Instance is Ready", lambda: _is_ready(stage, name, ENGINE, incarnation=3), limit=60.0)
    await _told(
        stage,
        "RestartTriggered",
        "OMENative component=engine instance=0 restart triggered: pod count 0 below desired 1 (incarnation=3)",
    )
    kept_too = await _row(stage, name, ENGINE)
    stage.check(
        "a pod that was deleted has not failed: lastFailure stays", kept_too is not None and kept_too.last_failure == failure
    )


async def components(stage: Stage) -> None:
    """The prefill-decode service: the engine rebuilds Instances, decoder and router repair single pods."""
    name = await stage.apply_service("llama-pd-runtime.yaml", "llama-pd.yaml", kinds=KINDS)
    before = await stage.until("two engine Instances, the decoder and the router become Ready", all_ready(4), limit=START_LIMIT)
    await stage.until_true("their Instances are Ready", lambda: _all_ready(stage, name), limit=60.0)
    await _pause(stage)

    engine = [member for member in before if _component(member) == ENGINE]
    stage.screen.say(f"\n  A prefill engine crashes: the container of {engine[0].name} exits with code 1.")
    since = (await _service(stage, name)).metadata.resource_version
    await stage.hands.crash(stage.namespace, engine[0].name, exit_code=1)
    goes_on = await _goes_on(stage, name, since=since)
    stage.check("EngineReady stays True with MinimumAvailable: 1/2 Instances serving (min 1)", held=goes_on)
    after = await stage.until("the Instance is rebuilt", _replaced(before, {engine[0].name}, count=4), limit=RESTART_LIMIT)
    stage.check("no other pod was touched", _changed(before, after) == {engine[0].name})

    for component, rule in (("decoder", "states None"), ("router", "has None by default")):
        victim = next(member for member in after if _component(member) == component)
        stage.screen.say(f"\n  The {component}, which {rule}: somebody deletes {victim.name}.")
        stage.screen.command(f"kubectl delete pod -n {stage.namespace} {victim.name}")
        await stage.client.delete(PODS, victim.name, namespace=stage.namespace, uid=victim.uid)
        before = after
        after = await stage.until("that pod is made again", _replaced(before, {victim.name}, count=4), limit=RESTART_LIMIT)
        again = next(member for member in after if member.name == victim.name)
        stage.check(
            f"only {victim.name} is new, at the same incarnation",
            _changed(before, after) == {victim.name} and _incarnation(again) == _incarnation(victim),
        )


def _rebuilt(before: Sequence[Member], *, incarnation: str) -> Callable[[Sequence[Member]], bool]:
    old = set(uids(before).values())
    return lambda members: (
        all_ready(len(before))(members)
        and not old & set(uids(members).values())
        and all(_incarnation(member) == incarnation for member in members)
    )


def _replaced(before: Sequence[Member], names: set[str], *, count: int) -> Callable[[Sequence[Member]], bool]:
    old = uids(before)
    return lambda members: all_ready(count)(members) and all(uids(members).get(name) not in {None, old[name]} for name in names)


def _changed(before: Sequence[Member], after: Sequence[Member]) -> set[str]:
    old, new = uids(before), uids(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _component(member: Member) -> str:
    return member.pod.metadata.labels.get(COMPONENT, "")


def _incarnation(member: Member) -> str:
    return member.pod.metadata.labels.get(INCARNATION, "")


async def _pause(stage: Stage) -> None:
    """What happens in the very second in which an Instance became Ready counts as part of its start."""
    until = stage.clock.monotonic() + 2

    async def later() -> bool:
        return stage.clock.monotonic() >= until

    await stage.until_true("a moment has passed", later, limit=10.0)


async def _row(stage: Stage, name: str, component: str) -> Row | None:
    try:
        replica = await stage.client.get(
            INFERENCE_REPLICAS, replica_name(name, component), namespace=stage.namespace, type=InferenceReplica
        )
    except NotFound:
        return None
    return next(iter(replica.status.rows), None)


async def _is_ready(stage: Stage, name: str, component: str, *, incarnation: int) -> bool:
    row = await _row(stage, name, component)
    return row is not None and (row.phase, row.incarnation) == (READY, incarnation)


async def _all_ready(stage: Stage, name: str) -> bool:
    states = [await _is_ready(stage, name, component, incarnation=1) for component in COMPONENTS]
    return all(states)


async def _service(stage: Stage, name: str) -> InferenceService:
    return await stage.client.get(INFERENCE_SERVICES, name, namespace=stage.namespace, type=InferenceService)


async def _goes_on(stage: Stage, name: str, *, since: str) -> bool:
    """Whether the engine says that it goes on with one Instance, in any state of the service after version ``since``: where pods
    start in no time this one is gone before a second look."""
    wanted = ("True", "MinimumAvailable", "1/2 Instances serving (min 1)")
    watch = stage.client.watch(
        INFERENCE_SERVICES,
        type=InferenceService,
        namespace=stage.namespace,
        field_selector=f"metadata.name={name}",
        resource_version=since,
        timeout_seconds=_GOES_ON_LIMIT,
    )
    try:
        async with asyncio.timeout(_GOES_ON_LIMIT), watch as changes:
            async for change in changes:
                found = find_condition(change.object.status.conditions, "EngineReady") if change.object is not None else None
                if found is not None and (found.status, found.reason, found.message) == wanted:
                    return True
    except TimeoutError:
        pass
    return False


async def _told(stage: Stage, reason: str, note: str) -> None:
    async def told() -> bool:
        return any(event.note == note for event in await stage.events(reason))

    await stage.until_true(f"an event {reason} says so", told, limit=30.0)
    event = next(event for event in await stage.events(reason) if event.note == note)
    stage.screen.event(event.type, event.reason, event.note)
    stage.check(f"event {reason} in the seed's words", held=True)
