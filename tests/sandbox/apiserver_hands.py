"""Hands for tests of the API server: requests as bytes, answers taken apart."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from regroup.sandbox.apiserver.server import ApiServer
from regroup.wire.transport import Request, Response

Obj = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
STATEFULSETS = "/apis/apps/v1/namespaces/default/statefulsets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

_KINDS = {
    "pods": ("v1", "Pod"),
    "configmaps": ("v1", "ConfigMap"),
    "namespaces": ("v1", "Namespace"),
    "nodes": ("v1", "Node"),
    "services": ("v1", "Service"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "widgets": ("example.com/v1", "Widget"),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
}


@dataclass(frozen=True)
class Answer:
    """An answer with its decoded body."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Reason and field of each cause."""
        return [(cause["reason"], cause["field"]) for cause in self.body["details"]["causes"]]

    @property
    def warnings(self) -> list[str]:
        texts = re.findall(r'299 - "((?:[^"\\]|\\.)*)"', self.headers.get("warning", ""))
        return [re.sub(r"\\(.)", r"\1", text) for text in texts]


class Watch:
    """An open watch: events as they come."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self._events: list[Obj] = []

    async def next(self, *, within: float = 5.0) -> Obj:
        """The next event. Raises ``TimeoutError`` or ``StopAsyncIteration``."""
        async with asyncio.timeout(within):
            while not self._events:
                lines = (self._rest + await anext(self._chunks)).split(b"\n")
                self._rest = lines.pop()
                self._events += [json.loads(line) for line in lines if line]
        return self._events.pop(0)

    async def brief(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def silent(self, *, seconds: float = 3.0) -> bool:
        """Whether nothing comes for a while."""
        try:
            await self.next(within=seconds)
        except TimeoutError:
            return True
        return False


class Api:
    """A server and requests to it through its in-process transport."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.transport = server.transport()

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "",
        agent: str = "test/1",
    ) -> Answer:
        """One request; ``target`` may carry a query."""
        path, _, query = target.partition("?")
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"user-agent": agent, "accept": accept or "application/json"}
        if data is not None:
            headers["content-type"] = content_type
        request = Request(method, path, parse_qsl(query, keep_blank_values=True), data, headers)
        answer: Response = await self.transport.request(request, timeout=30)
        return Answer(answer.status, answer.headers, answer.body.decode())

    async def get(self, target: str, *, accept: str = "") -> Obj:
        """A body that must be there."""
        answer = await self.ask("GET", target, accept=accept)
        assert answer.status == 200, answer.text
        return dict(answer.body)

    async def create(self, collection: str, name: str, **fields: Any) -> Obj:
        """An object of a collection's kind; ``labels``, ``annotations``, ``finalizers`` and the like go to its metadata."""
        version, kind = _KINDS[collection.rpartition("/")[2]]
        meta: Obj = {"name": name}
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            if field in fields:
                meta[field] = fields.pop(field)
        answer = await self.ask("POST", collection, {"apiVersion": version, "kind": kind, "metadata": meta, **fields})
        assert answer.status == 201, answer.text
        return dict(answer.body)

    async def pod(self, name: str, *, node: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> Obj:
        spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {}), **spec}
        return await self.create(PODS, name, spec=spec, labels=dict(labels or {}))

    async def patch(self, target: str, body: Any, *, content_type: str = MERGE) -> Answer:
        return await self.ask("PATCH", target, body, content_type=content_type)

    async def names(self, target: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(target))["items"]]

    async def version(self) -> str:
        """The present version of the whole storage."""
        return str((await self.get(f"{CONFIGMAPS}?limit=1"))["metadata"]["resourceVersion"])

    @asynccontextmanager
    async def watch(self, target: str, *, accept: str = "") -> AsyncIterator[Watch]:
        path, _, query = target.partition("?")
        headers = {"accept": accept or "application/json", "user-agent": "test/1"}
        request = Request("GET", path, [("watch", "true"), *parse_qsl(query)], None, headers)
        async with self.transport.stream(request, connect_timeout=5, read_timeout=600) as stream:
            assert stream.status == 200, await stream.read()
            yield Watch(stream.chunks())

    async def define_widgets(self, **changes: Any) -> Obj:
        """A CRD ``widgets.example.com`` with a schema, defaults, status, scale and columns; the served kind is there at once."""
        answer = await self.ask("POST", DEFINITIONS, widgets(**changes))
        assert answer.status == 201, answer.text
        return dict(answer.body)


def widgets(**changes: Any) -> Obj:
    """The definition; ``changes`` go into ``spec``."""
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "mode": {"type": "string", "default": "a", "enum": ["a", "b"]},
            "replicas": {"type": "integer"},
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                },
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": False,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                },
            ],
            **changes,
        },
    }


def template(**labels: str) -> Obj:
    """A pod template with these labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
