"""The life of a StatefulSet as a client sees it: played on the sandbox and on Kubernetes itself, written down alike.

``controllers_story.json`` is what Kubernetes 1.36.3 showed. Left out is what depends on who else runs there: conditions that a
scheduler writes, and the moment between a pod's mark for deletion and its end.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from regroup.kube.resources import CONTROLLER_REVISIONS, PODS, STATEFULSETS
from regroup.runtime.clock import Clock, timestamp
from regroup.wire.client import Client
from regroup.wire.resource import Resource

COUNTS = ("observedGeneration", "replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")

Transcript = dict[str, dict[str, list[str]]]
"""By step, then by object, what was seen of it."""


class Story:
    """Plays the steps through ``client`` in one namespace and writes down what its watches show."""

    def __init__(self, client: Client, *, clock: Clock, quiet: float) -> None:
        self._client = client
        self._clock = clock
        self._quiet = quiet
        self._seen: dict[str, list[str]] = {}
        self._last: dict[str, str] = {}
        self._events = 0

    async def play(self) -> Transcript:
        """All steps, each until nothing changes any more."""
        watches = [asyncio.create_task(self._watch(resource)) for resource in (STATEFULSETS, PODS, CONTROLLER_REVISIONS)]
        try:
            await self._settle()
            transcript: Transcript = {}
            for title, step in self._steps():
                await step
                await self._settle()
                transcript[title] = {name: self._seen[name] for name in sorted(self._seen)}
                self._seen = {}
            return transcript
        finally:
            for watch in watches:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch

    async def _settle(self) -> None:
        """Until nothing was seen for ``quiet`` seconds."""
        before = -1
        while before != self._events:
            before = self._events
            await asyncio.sleep(self._quiet)

    def _steps(self) -> list[tuple[str, Awaitable[Any]]]:
        held = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}
        return [
            ("an ordered set of two", self._create(_web(2))),
            ("web-0 is ready", self._report("web-0")),
            ("web-1 is ready", self._report("web-1")),
            ("web-1 fails", self._report("web-1", phase="Failed")),
            ("web-1 is ready again", self._report("web-1")),
            ("another image", self._change({"template": _template("two")})),
            ("the new web-1 is ready", self._report("web-1")),
            ("the new web-0 is ready", self._report("web-0")),
            ("the first image again, for web-1 only", self._change({"template": _template("one"), **held})),
            ("web-1 is ready at the first image", self._report("web-1")),
            ("web-0 fails, below the partition", self._report("web-0", phase="Failed")),
            ("web-0 is ready below the partition", self._report("web-0")),
            ("one replica", self._change({"replicas": 1})),
            ("no replica", self._change({"replicas": 0})),
            ("the set is deleted", self._client.delete(STATEFULSETS, "web", namespace="default", propagation="Background")),
            ("a parallel set from ordinal 2", self._create(_web(2, podManagementPolicy="Parallel", ordinals={"start": 2}))),
            ("web-3 is ready, web-2 is not", self._report("web-3")),
            ("another image in parallel", self._change({"template": _template("two")})),
            ("the new web-3 is ready", self._report("web-3")),
            ("the new web-2 is ready", self._report("web-2")),
            ("the new web-3 fails", self._report("web-3", phase="Failed")),
            ("one replica from ordinal 4", self._change({"replicas": 1, "ordinals": {"start": 4}})),
        ]

    def _create(self, body: dict[str, Any]) -> Awaitable[Any]:
        return self._client.create(STATEFULSETS, body, namespace="default", type=dict)

    def _change(self, spec: dict[str, Any]) -> Awaitable[Any]:
        return self._client.merge_patch(STATEFULSETS, "web", {"spec": spec}, namespace="default", type=dict)

    async def _report(self, name: str, *, phase: str = "Running") -> None:
        """What a kubelet would tell."""
        ready = "True" if phase == "Running" else "False"
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": timestamp(self._clock.now())}
        body = {"status": {"phase": phase, "conditions": [condition]}}
        await self._client.merge_patch(PODS, name, body, namespace="default", subresource="status", type=dict)

    async def _watch(self, resource: Resource) -> None:
        page = await self._client.list_all(resource, namespace="default", type=dict)
        version = page.resource_version
        while True:
            async with self._client.watch(
                resource, type=dict, namespace="default", resource_version=version, timeout_seconds=300
            ) as events:
                async for event in events:
                    version = event.resource_version or version
                    if event.object is not None:
                        self._events += 1
                        self._note(resource, event.type, event.object)

    def _note(self, resource: Resource, kind: str, obj: dict[str, Any]) -> None:
        name = f"{resource.kind} {obj['metadata']['name']}"
        if resource == PODS and kind == "MODIFIED" and obj["metadata"].get("deletionTimestamp"):
            return
        words = "gone" if kind == "DELETED" else _WORDS[resource](obj)
        if self._last.get(name) != words:
            self._last[name] = words
            self._seen.setdefault(name, []).append(words)


def _status(obj: dict[str, Any]) -> str:
    status = obj.get("status") or {}
    counts = "/".join(str(status.get(name) or 0) for name in COUNTS)
    return f"{counts} {status.get('currentRevision', '')} {status.get('updateRevision', '')}".strip()


def _pod(obj: dict[str, Any]) -> str:
    status = obj["status"]
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in status.get("conditions") or ())
    revision = obj["metadata"]["labels"]["controller-revision-hash"]
    return f"{status['phase']}{' ready' if ready else ''} {revision} {obj['spec']['containers'][0]['image']}"


def _revision(obj: dict[str, Any]) -> str:
    return f"number {obj['revision']}"


_WORDS: dict[Resource, Callable[[dict[str, Any]], str]] = {
    STATEFULSETS: _status,
    PODS: _pod,
    CONTROLLER_REVISIONS: _revision,
}


def _template(image: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def _web(replicas: int, **spec: Any) -> dict[str, Any]:
    common = {
        "replicas": replicas,
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": _template("one"),
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": {**common, **spec}}
