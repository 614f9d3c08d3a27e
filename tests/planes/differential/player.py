"""Plays a conversation to any API server through a transport and gives the shapes of its answers."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from tests.planes.differential.shape import Shaper, find, pick
from tests.planes.differential.table import Conversation, Step

from regroup.wire.transport import Request, Response, Transport

LIMIT = 30.0
"""Seconds for one answer."""
WATCH_SECONDS = 1
PATIENCE = 200
"""How often a step with ``until`` is asked."""


class Player:
    """Hands on one server. ``values`` are known to all conversations, such as the address of the webhooks."""

    def __init__(self, transport: Transport, *, values: Mapping[str, str] | None = None) -> None:
        self._transport = transport
        self._values = dict(values or {})
        self.requests = 0

    async def play(self, conversation: Conversation) -> list[dict[str, Any]]:
        """One shape a step: status, warnings, body or events."""
        shaper = Shaper()
        values = {**self._values, "ns": conversation.namespace}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": values["ns"]}}
        made = await self._send("POST", "/api/v1/namespaces", json.dumps(namespace).encode())
        assert made.status == 201, made.body
        answers = []
        for step in conversation.steps:
            try:
                answers.append(await self._step(step, values, shaper))
            except Exception as error:
                error.add_note(f"in {conversation}: {step}")
                raise
        return answers

    async def _step(self, step: Step, values: dict[str, str], shaper: Shaper) -> dict[str, Any]:
        self.requests += 1
        target = _filled(step.target, values)
        if step.method == "WATCH":
            return await self._watch(step, target, shaper)
        body = _filled(step.body, values)
        data = (
            None if body is None else body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()
        )
        for _ in range(PATIENCE):
            answer = await self._send(step.method, target, data, media=step.media, accept=step.accept)
            content = _decoded(answer)
            if _settled(step.until, answer, content):
                break
            await asyncio.sleep(0.05)
        for name, path in step.keep.items():
            values[name] = str(find(content, path))
        shape: dict[str, Any] = {"status": answer.status}
        if (kind := answer.headers.get("content-type", "")) != "application/json":
            shape["type"] = kind
        if warnings := _warnings(answer.headers.get("warning", "")):
            shape["warnings"] = warnings
        shaped = shaper.shape(content)
        shape["body"] = shaped if step.pick is None or answer.status >= 300 else pick(shaped, step.pick)
        return _without_address(shape, self._values)

    async def _watch(self, step: Step, target: str, shaper: Shaper) -> dict[str, Any]:
        request = _request("GET", target, extra=[("watch", "true"), ("timeoutSeconds", str(WATCH_SECONDS))], accept=step.accept)
        data = b""
        async with (
            asyncio.timeout(LIMIT),
            self._transport.stream(request, connect_timeout=LIMIT, read_timeout=LIMIT) as stream,
        ):
            if stream.status != 200:
                return {"status": stream.status, "body": shaper.shape(json.loads(await stream.read()))}
            async for chunk in stream.chunks():
                data += chunk
        events = [shaper.shape(_bookmarked(json.loads(line))) for line in data.splitlines() if line]
        return {"status": 200, "events": [event for event in events if not _plain_bookmark(event)]}

    async def _send(
        self, method: str, target: str, data: bytes | None, *, media: str = "application/json", accept: str = "application/json"
    ) -> Response:
        return await self._transport.request(_request(method, target, data=data, media=media, accept=accept), timeout=LIMIT)


def _request(
    method: str,
    target: str,
    *,
    data: bytes | None = None,
    media: str = "application/json",
    accept: str,
    extra: list[tuple[str, str]] | None = None,
) -> Request:
    path, _, query = target.partition("?")
    pairs = [(name, value) for name, _, value in (pair.partition("=") for pair in query.split("&") if pair)]
    headers = {"user-agent": "player/1", "accept": accept}
    if data is not None:
        headers["content-type"] = media
    return Request(method, path, [*pairs, *(extra or [])], data, headers)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """``$name`` in texts replaced by what is known under that name; others stay."""
    match value:
        case str():
            return re.sub(r"\$([a-zA-Z]+\d*)", lambda found: values.get(found[1], found[0]), value)
        case dict():
            return {_filled(name, values): _filled(entry, values) for name, entry in value.items()}
        case list():
            return [_filled(entry, values) for entry in value]
        case _:
            return value


def _settled(until: str, answer: Response, content: Any) -> bool:
    path, equals, value = until.partition("=")
    if not until:
        return True
    if equals:
        return str(find(content, path)) == value
    return "warning" in answer.headers if until == "warned" else answer.status == int(until)


def _decoded(answer: Response) -> Any:
    text = answer.body.decode()
    if "json" not in answer.headers.get("content-type", ""):
        return text
    return json.loads(text)


def _warnings(header: str) -> list[str]:
    texts = re.findall(r'299 [^ ]+ "((?:[^"\\]|\\.)*)"', header)
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


def _bookmarked(event: dict[str, Any]) -> dict[str, Any]:
    """A bookmark says how far the server is, which other clients move on: only that it says so is to be compared."""
    meta = (event.get("object") or {}).get("metadata") or {}
    if event.get("type") == "BOOKMARK" and "resourceVersion" in meta:
        meta["resourceVersion"] = bool(meta["resourceVersion"])
    return event


def _plain_bookmark(event: Mapping[str, Any]) -> bool:
    """A bookmark that may come or not; the one that ends the initial events must come."""
    annotations = (event.get("object") or {}).get("metadata", {}).get("annotations") or {}
    return event.get("type") == "BOOKMARK" and "k8s.io/initial-events-end" not in annotations


def _without_address(shape: dict[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Nothing of this run's own addresses in a shape."""
    text = json.dumps(shape)
    for name, value in values.items():
        if value and value in text:
            text = text.replace(value, f"<{name}>")
    found: dict[str, Any] = json.loads(text)
    return found
