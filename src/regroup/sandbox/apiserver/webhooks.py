"""One webhook: whether it wants to be asked, the question, and what its answer means. Calling it is somebody else's: a caller."""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.registry import Served
from regroup.wire import codec
from regroup.wire.patches import PatchError, apply_json_patch
from regroup.wire.resource import Resource
from regroup.wire.selectors import from_object

Obj = dict[str, Any]

WebhookCaller = Callable[[str, bytes, bytes | None, float], Awaitable[bytes]]
"""``(url, body, CA bundle in PEM, time limit in seconds)`` to the answer's body; raises ``WebhookFailed``."""

TIMEOUT = 10.0
ANSWER_LIMIT = 3 * 1024 * 1024


class WebhookFailed(Exception):
    """A webhook gave no answer that can be used."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is admitted. ``warnings`` collects what the webhooks want the client to know."""

    served: Served
    operation: str
    namespace: str
    name: str
    subresource: str
    obj: Obj | None
    old: Obj | None
    dry_run: bool
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asked:
    """The kind in whose form a webhook wants the objects; another than the request's where versions are equivalent."""

    served: Served


def wanted_form(webhook: Obj, attributes: Attributes, versions: Sequence[Served]) -> Asked | None:
    """The form in which a webhook wants to be asked, None when its rules do not cover the request.

    ``versions`` are all the served versions of the kind: with ``matchPolicy: Equivalent`` a rule on any of them counts.
    """
    candidates = [attributes.served]
    if webhook.get("matchPolicy", "Equivalent") != "Exact":
        candidates += [served for served in versions if served.resource != attributes.served.resource]
    for served in candidates:
        if any(_rule_matches(rule, served.resource, attributes) for rule in webhook.get("rules") or []):
            return Asked(served)
    return None


def labels_match(webhook: Obj, attributes: Attributes, namespace_labels: Mapping[str, str] | None) -> bool:
    """Whether the selectors of a webhook take the objects and their namespace (None for what is in none)."""
    selector = from_object(webhook.get("objectSelector"))
    if selector:
        objects = [obj for obj in (attributes.obj, attributes.old) if obj is not None]
        if not any(selector.matches((obj.get("metadata") or {}).get("labels")) for obj in objects):
            return False
    selector = from_object(webhook.get("namespaceSelector"))
    return not selector or namespace_labels is None or selector.matches(namespace_labels)


async def ask(webhook: Obj, asked: Asked, attributes: Attributes, *, uid: str, caller: WebhookCaller) -> Obj:
    """The ``response`` of a webhook that allows; empty when it failed and may be ignored. Raises ``Failure``."""
    name = str(webhook.get("name", ""))
    seconds = float(webhook.get("timeoutSeconds") or TIMEOUT)
    try:
        url, bundle = _address(webhook)
        body = codec.encode(_review(uid, asked, attributes))
        async with asyncio.timeout(seconds):
            answer = await caller(url, body, bundle, seconds)
        response = _response(answer, uid)
    except (WebhookFailed, TimeoutError) as error:
        text = str(error) or "context deadline exceeded"
        if webhook.get("failurePolicy", "Fail") == "Ignore":
            return {}
        message = f'failed calling webhook "{name}": failed to call webhook: {text}'
        details = {"causes": [{"message": message}]}
        raise Failure(500, "InternalError", f"Internal error occurred: {message}", details=details) from error
    attributes.warnings.extend(str(warning) for warning in response.get("warnings") or [])
    if not response.get("allowed"):
        raise _refused(name, response.get("status") or {})
    return response


def patched(webhook: Obj, response: Obj, asked: Asked, attributes: Attributes) -> Obj:
    """The object as the webhook wants it. Raises ``Failure`` (500) for a patch that cannot be applied."""
    obj = attributes.obj or {}
    if not response.get("patch"):
        return obj
    if attributes.obj is None:
        why = (
            f'admission webhook "{webhook.get("name")}" attempted to modify the object, which is not supported for this operation'
        )
        raise Failure(500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]})
    try:
        result = _apply(response, _converted(asked, attributes, obj))
    except (PatchError, codec.DecodeError, binascii.Error) as error:
        why = f'the patch of webhook "{webhook.get("name")}" cannot be applied: {error}'
        raise Failure(500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]}) from error
    if asked.served is attributes.served:
        return result
    return attributes.served.from_stored(asked.served.to_stored(result))


def _apply(response: Obj, obj: Obj) -> Obj:
    if response.get("patchType") != "JSONPatch":
        raise PatchError(f'unsupported patch type "{response.get("patchType")}"')
    patch = codec.decode(base64.b64decode(response["patch"], validate=True), list)
    result = apply_json_patch(obj, patch, lenient=True)
    if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
        raise PatchError("the result is no object")
    return result


def _rule_matches(rule: Obj, resource: Resource, attributes: Attributes) -> bool:
    scope = rule.get("scope") or "*"
    return (
        _has(rule.get("operations"), attributes.operation)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), resource.version)
        and _resource_matches(rule.get("resources") or (), resource.plural, attributes.subresource)
        and (scope == "*" or (scope == "Namespaced") is bool(attributes.namespace))
    )


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and ("*" in values or value in values)


def _resource_matches(patterns: Sequence[str], plural: str, subresource: str) -> bool:
    wanted = {f"{plural}/{subresource}", f"{plural}/*", f"*/{subresource}", "*/*"} if subresource else {plural, "*", "*/*"}
    return not wanted.isdisjoint(patterns)


def _address(webhook: Obj) -> tuple[str, bytes | None]:
    """URL and CA bundle. Raises ``WebhookFailed``."""
    if webhook.get("matchConditions"):
        raise WebhookFailed("matchConditions are not supported here")
    config = webhook.get("clientConfig") or {}
    try:
        bundle = base64.b64decode(config["caBundle"]) if config.get("caBundle") else None
    except (binascii.Error, ValueError) as error:
        raise WebhookFailed(f"the CA bundle is no base64: {error}") from error
    if config.get("url"):
        return str(config["url"]), bundle
    service = config.get("service") or {}
    port, path = service.get("port") or 443, str(service.get("path") or "/")
    return f"https://{service.get('name')}.{service.get('namespace')}.svc:{port}/{path.lstrip('/')}", bundle


def _converted(asked: Asked, attributes: Attributes, obj: Obj) -> Obj:
    if asked.served is attributes.served:
        return obj
    return asked.served.from_stored(attributes.served.to_stored(obj))


def _review(uid: str, asked: Asked, attributes: Attributes) -> Obj:
    form, resource = asked.served.resource, attributes.served.resource
    obj, old = attributes.obj, attributes.old
    request: Obj = {
        "uid": uid,
        "kind": _kind(form),
        "resource": _plural(form),
        "requestKind": _kind(resource),
        "requestResource": _plural(resource),
        "name": attributes.name,
        "operation": attributes.operation,
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": None if obj is None else _converted(asked, attributes, obj),
        "oldObject": None if old is None else _converted(asked, attributes, old),
        "dryRun": attributes.dry_run,
        "options": {"kind": f"{attributes.operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _kind(resource: Resource) -> Obj:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _plural(resource: Resource) -> Obj:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _response(answer: bytes, uid: str) -> Obj:
    """The ``response`` of a review. Raises ``WebhookFailed`` for what is none."""
    try:
        review = codec.decode(answer, dict)
    except codec.DecodeError as error:
        raise WebhookFailed(f"the answer is no JSON: {error}") from error
    response = review.get("response")
    if review.get("kind") != "AdmissionReview" or not isinstance(response, dict):
        raise WebhookFailed("expected webhook response of kind AdmissionReview")
    if response.get("uid") != uid:
        raise WebhookFailed(f'expected response.uid="{uid}", got "{response.get("uid")}"')
    return response


def _refused(name: str, status: Mapping[str, Any]) -> Failure:
    message, reason = str(status.get("message") or ""), str(status.get("reason") or "")
    text = f'admission webhook "{name}" denied the request'
    text += f": {message or reason}" if message or reason else " without explanation"
    code = status.get("code")
    code = code if isinstance(code, int) and code >= 400 else 400
    details = status.get("details")
    return Failure(code, reason, text, details=dict(details) if isinstance(details, Mapping) else None)


class HttpsCaller:
    """Asks webhooks over HTTPS; connections are kept. ``close`` ends them."""

    def __init__(self) -> None:
        self._sessions: dict[bytes | None, aiohttp.ClientSession] = {}

    async def __call__(self, url: str, body: bytes, ca_bundle: bytes | None, timeout: float) -> bytes:
        """Raises ``WebhookFailed``."""
        try:
            session = self._session(ca_bundle)
            async with session.post(
                url,
                params={"timeout": f"{timeout:g}s"},
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,
            ) as answer:
                data = await answer.content.read(ANSWER_LIMIT)
                if answer.status != 200:
                    raise WebhookFailed(f"the server answered {answer.status}: {data[:200].decode(errors='replace')}")
                return data
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookFailed(f'Post "{url}": {error}') from error

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _session(self, ca_bundle: bytes | None) -> aiohttp.ClientSession:
        if ca_bundle not in self._sessions:
            context = ssl.create_default_context(cadata=ca_bundle.decode("ascii") if ca_bundle else None)
            self._sessions[ca_bundle] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
        return self._sessions[ca_bundle]
