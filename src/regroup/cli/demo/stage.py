"""Where a story plays: one namespace of a cluster, what is in it now, and what has been checked. Speaks only to the API."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from regroup.cli.demo.hands import Hands
from regroup.cli.demo.screen import Screen
from regroup.cli.errors import EXIT_CLUSTER, CommandFailed
from regroup.kube.meta import ObjectView
from regroup.kube.pod import Pod
from regroup.kube.resources import EVENTS, NAMESPACES, PODS
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import GROUP_INDEX, LEADERWORKERSETS, NAME, WORKER_INDEX
from regroup.omenative.keys import INFERENCE_SERVICES, SERVICE
from regroup.runtime.clock import Clock
from regroup.wire import yamlish
from regroup.wire.client import Client
from regroup.wire.errors import NotFound
from regroup.wire.resource import Resource

CLOSE_LIMIT = 60.0
"""Seconds for the pods of a story to go; what is left then goes with the namespace, whenever that is."""
ANSWER_LIMIT = 30.0
LOOK_PERIOD = 0.5
"""Seconds of cluster time between two looks while waiting."""


class CheckFailed(Exception):
    """What must hold did not; the story cannot go on."""


class StoryEvent(ObjectView, frozen=True, gc=False, kw_only=True):
    """An event as a story reads it."""

    reason: str = ""
    type: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of a group at one moment."""

    pod: Pod

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def node(self) -> str:
        return self.pod.spec.node_name


@dataclass(slots=True)
class Stage:
    """One story's namespace."""

    client: Client
    hands: Hands
    clock: Clock
    screen: Screen
    namespace: str
    lws: str = ""
    selector: str = ""
    """Of the pods that the story is about."""
    made: list[tuple[Resource, str, str | None]] = field(default_factory=list)
    """What was applied beside a LeaderWorkerSet: resource, name, namespace."""
    checks: list[tuple[str, bool]] = field(default_factory=list)

    async def open(self) -> None:
        """Make the namespace."""
        await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    async def close(self) -> None:
        """Take the namespace away with all in it. The workload goes first: Kubernetes waits for a namespace's pods before it
        touches anything else, and pods may wait for their workload."""
        for resource, name, namespace in reversed(self.made):
            with suppress(NotFound):
                await self.client.delete(resource, name, namespace=namespace)
        end = self.clock.monotonic() + CLOSE_LIMIT
        while self.made and self.clock.monotonic() < end:
            if not await self.members():
                break
            await asyncio.sleep(LOOK_PERIOD)
        await self.client.delete(NAMESPACES, self.namespace)

    async def apply_example(self, file: str, *, adding: Mapping[str, Any] | None = None) -> None:
        """Apply one of the LeaderWorkerSet seed's manifests, as it stands there. ``adding`` goes into leaderWorkerTemplate."""
        (document,) = _documents("regroup.leaderworkerset", file)
        self.lws = document["metadata"]["name"]
        self.selector = f"{NAME}={self.lws}"
        self.screen.command(f"kubectl apply -n {self.namespace} -f {file}")
        document["spec"]["leaderWorkerTemplate"] |= adding or {}
        await self._apply(LEADERWORKERSETS, self.hands.runnable(document))
        await self._answered()

    async def apply_service(self, *files: str, kinds: Mapping[str, Resource]) -> str:
        """Apply examples of OMENative, as they stand there but for the namespace, and give the InferenceService's name."""
        name = ""
        for file in files:
            self.screen.command(f"kubectl apply -f {file}")
            for document in _documents("regroup.omenative", file):
                resource = kinds.get(document["kind"])
                if resource is None:
                    continue  # the namespace, which is there
                await self._apply(resource, document)
                if document["kind"] == INFERENCE_SERVICES.kind:
                    name = document["metadata"]["name"]
        self.selector = f"{SERVICE}={name}"
        return name

    async def _apply(self, resource: Resource, body: dict[str, Any]) -> None:
        namespace = self.namespace if resource.namespaced else None
        name = body["metadata"]["name"]
        if namespace is not None:
            body = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
        await self.client.apply(resource, name, body, namespace=namespace, field_manager="kubectl")
        self.made.append((resource, name, namespace))

    async def _answered(self) -> None:
        """Wait until somebody looks after the workload. Raises ``CommandFailed``."""
        end = self.clock.monotonic() + ANSWER_LIMIT
        while not (await self.workload()).status.conditions:
            if self.clock.monotonic() > end:
                raise CommandFailed(
                    f"nobody answers: {self.lws} in namespace {self.namespace} has no status after {ANSWER_LIMIT:g} s",
                    hints=["is the operator running there, and does it keep this namespace? kubectl get pods -n regroup-system"],
                    exit_code=EXIT_CLUSTER,
                )
            await asyncio.sleep(LOOK_PERIOD)

    async def members(self) -> list[Member]:
        """The pods that the story is about, by group and index."""
        page = await self.client.list_all(PODS, namespace=self.namespace, type=Pod, label_selector=self.selector)
        return [Member(pod) for pod in sorted(page.items, key=_place)]

    async def group(self, index: str) -> list[Member]:
        return [member for member in await self.members() if member.pod.metadata.labels.get(GROUP_INDEX) == index]

    async def workload(self) -> LeaderWorkerSet:
        return await self.client.get(LEADERWORKERSETS, self.lws, namespace=self.namespace, type=LeaderWorkerSet)

    async def events(self, reason: str) -> list[StoryEvent]:
        page = await self.client.list_all(EVENTS, namespace=self.namespace, type=StoryEvent)
        return [event for event in page.items if event.reason == reason]

    async def until(self, what: str, holds: Callable[[Sequence[Member]], bool], *, limit: float) -> list[Member]:
        """Wait until the pods are as ``holds`` wants them. Raises ``CheckFailed`` after ``limit`` seconds of cluster time."""
        return await self._until(what, holds, limit=limit)

    async def until_true(self, what: str, holds: Callable[[], Awaitable[bool]], *, limit: float) -> None:
        """Wait until ``holds`` answers yes. Raises ``CheckFailed`` after ``limit`` seconds of cluster time."""
        end = self.clock.monotonic() + limit
        while not await holds():
            self._not_later_than(end, what, limit)
            await asyncio.sleep(LOOK_PERIOD)

    def check(self, text: str, held: bool) -> None:
        """Note and tell one thing that must hold; the story goes on either way."""
        self.checks.append((text, held))
        self.screen.check(text, held=held)

    async def _until(self, what: str, holds: Callable[[Sequence[Member]], bool], *, limit: float) -> list[Member]:
        end = self.clock.monotonic() + limit
        with self.screen.live(what) as update:
            while True:
                members = await self.members()
                update(members, self.clock.now())
                if holds(members):
                    return members
                self._not_later_than(end, what, limit)
                await asyncio.sleep(LOOK_PERIOD)

    def _not_later_than(self, end: float, what: str, limit: float) -> None:
        if self.clock.monotonic() > end:
            self.check(f"{what} (not within {limit:g} s)", held=False)
            raise CheckFailed(what)


def uids(members: Sequence[Member]) -> dict[str, str]:
    """Name to UID."""
    return {member.name: member.uid for member in members}


def all_ready(count: int) -> Callable[[Sequence[Member]], bool]:
    """Exactly ``count`` pods, all Ready and none going."""
    return lambda members: (
        len(members) == count and all(member.pod.running_and_ready and not member.pod.deleting for member in members)
    )


def _documents(package: str, file: str) -> list[dict[str, Any]]:
    return yamlish.load_documents(resources.files(package).joinpath("examples", file).read_text())


def _place(pod: Pod) -> tuple[Any, ...]:
    labels = pod.metadata.labels
    group, index = labels.get(GROUP_INDEX, ""), labels.get(WORKER_INDEX, "")
    return (int(group) if group.isdecimal() else -1, group, int(index) if index.isdecimal() else -1, pod.metadata.name)
