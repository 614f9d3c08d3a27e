"""Admission: built-in mutations of the cluster, then mutating webhooks, then validating ones, as the configurations say."""

import base64
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from regroup.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from regroup.sandbox.apiserver.failures import Failure
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.storage import Storage
from regroup.wire import codec
from regroup.wire.patches import PatchError, apply_json_patch
from regroup.wire.resource import Resource
from regroup.wire.selectors import from_object

Obj = dict[str, Any]

WebhookCaller = Callable[[str, bytes, bytes | None, float], Awaitable[bytes]]
"""``(url, body, ca bundle in PEM, time limit in seconds)`` to the answer's body; raises ``WebhookFailed``."""

ROUNDS = 2
"""A webhook with ``reinvocationPolicy: IfNeeded`` is asked once more when a later one changed the object."""
EXEMPT_GROUP = "admissionregistration.k8s.io"


class WebhookFailed(Exception):
    """A webhook gave no answer that can be used."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is admitted."""

    served: Served
    operation: str
    namespace: str
    name: str
    subresource: str
    obj: Obj | None
    old: Obj | None
    dry_run: bool
    warnings: list[str] = field(default_factory=list)


class Admission:
    """Asks whoever is registered in the storage. ``mutations`` are built in, by resource."""

    def __init__(self, storage: Storage, *, caller: WebhookCaller | None, new_uid: Callable[[], str]) -> None:
        self._storage = storage
        self._caller = caller or call_https
        self._new_uid = new_uid
        self.mutations: list[Callable[[Resource, str, Obj], None]] = []
        """``(resource, operation, object)``: change the object in place, as built-in admission plugins do."""

    async def mutate(self, attributes: Attributes) -> Obj:
        """The object after all mutations. Raises ``Failure``."""
        obj = attributes.obj
        if obj is None:
            raise ValueError("there is nothing to mutate")
        if not attributes.subresource:
            for mutation in self.mutations:
                mutation(attributes.served.resource, attributes.operation, obj)
        asked: set[str] = set()
        for round_number in range(ROUNDS):
            changed_by = ""
            for name, webhook in self._matching(MUTATING_WEBHOOKS, replace(attributes, obj=obj)):
                again = name in asked
                if round_number and (webhook.get("reinvocationPolicy") != "IfNeeded" or not again):
                    continue
                asked.add(name)
                answer = await self._ask(webhook, replace(attributes, obj=obj))
                patched = self._patched(webhook, answer, obj)
                if patched is not obj and patched != obj:
                    changed_by = name
                    obj = patched
            if not changed_by:
                break
        return obj

    async def validate(self, attributes: Attributes) -> None:
        """Ask the validating webhooks. Raises ``Failure`` for the first that refuses."""
        for _, webhook in self._matching(VALIDATING_WEBHOOKS, attributes):
            await self._ask(webhook, attributes)

    def _matching(self, resource: Resource, attributes: Attributes) -> Iterator[tuple[str, Obj]]:
        if attributes.served.resource.group == EXEMPT_GROUP or attributes.subresource == "scale":
            return  # Scale is a kind of its own, which webhooks are not asked about here.
        for stored in self._storage.items(resource):
            for webhook in stored.obj.get("webhooks") or []:
                if _rules_match(webhook, attributes) and self._selectors_match(webhook, attributes):
                    yield f"{stored.obj['metadata']['name']}/{webhook.get('name')}", webhook

    def _selectors_match(self, webhook: Obj, attributes: Attributes) -> bool:
        labels_of_object = [((obj or {}).get("metadata") or {}).get("labels") for obj in (attributes.obj, attributes.old) if obj]
        selector = from_object(webhook.get("objectSelector"))
        if selector and not any(selector.matches(labels) for labels in labels_of_object):
            return False
        selector = from_object(webhook.get("namespaceSelector"))
        if not selector:
            return True
        name = attributes.namespace or (attributes.name if attributes.served.resource.plural == "namespaces" else "")
        if not name:
            return True
        namespace = self._storage.get(NAMESPACES, ("", name))
        labels = dict((namespace.obj["metadata"].get("labels") if namespace else None) or {})
        labels.setdefault("kubernetes.io/metadata.name", name)
        return selector.matches(labels)

    async def _ask(self, webhook: Obj, attributes: Attributes) -> Obj:
        """The ``response`` of a webhook that allows, empty when it failed and may be ignored. Raises ``Failure``."""
        name = webhook.get("name", "")
        uid = self._new_uid()
        seconds = float(webhook.get("timeoutSeconds") or 10)
        config = webhook.get("clientConfig") or {}
        bundle = base64.b64decode(config["caBundle"]) if config.get("caBundle") else None
        try:
            body = await self._caller(_url(config), codec.encode(_review(uid, attributes)), bundle, seconds)
            response = codec.decode(body, dict).get("response") or {}
            _check_uid(response, uid)
        except (WebhookFailed, codec.DecodeError, TimeoutError) as error:
            if webhook.get("failurePolicy", "Fail") == "Ignore":
                return {}
            text = str(error) or f"context deadline exceeded after {seconds:g}s"
            raise Failure(
                500, "InternalError", f'Internal error occurred: failed calling webhook "{name}": failed to call webhook: {text}'
            ) from error
        attributes.warnings.extend(str(warning) for warning in response.get("warnings") or [])
        if not response.get("allowed"):
            raise _refused(name, response.get("status") or {})
        return dict(response)

    def _patched(self, webhook: Obj, answer: Obj, obj: Obj) -> Obj:
        if not answer.get("patch"):
            return obj
        try:
            operations = codec.decode(base64.b64decode(answer["patch"]), list)
            result = apply_json_patch(obj, operations)
        except (PatchError, codec.DecodeError, ValueError) as error:
            raise Failure(
                500,
                "InternalError",
                f'Internal error occurred: the patch of webhook "{webhook.get("name")}" cannot be applied: {error}',
            ) from error
        if not isinstance(result, dict):
            raise Failure(
                500, "InternalError", f'Internal error occurred: webhook "{webhook.get("name")}" replaced the object by a value'
            )
        return result


def _check_uid(response: Mapping[str, Any], uid: str) -> None:
    if response.get("uid") != uid:
        raise WebhookFailed(f"expected response.uid {uid!r}, got {response.get('uid')!r}")


def _rules_match(webhook: Obj, attributes: Attributes) -> bool:
    resource = attributes.served.resource
    full = f"{resource.plural}/{attributes.subresource}" if attributes.subresource else resource.plural
    for rule in webhook.get("rules") or []:
        scope = rule.get("scope") or "*"
        if (
            _has(rule.get("operations"), attributes.operation)
            and _has(rule.get("apiGroups"), resource.group)
            and _has(rule.get("apiVersions"), resource.version)
            and _resource_matches(rule.get("resources") or [], full, resource.plural, attributes.subresource)
            and (scope == "*" or (scope == "Namespaced") is resource.namespaced)
        ):
            return True
    return False


def _has(values: Sequence[str] | None, value: str) -> bool:
    return bool(values) and ("*" in (values or ()) or value in (values or ()))


def _resource_matches(patterns: Sequence[str], full: str, plural: str, subresource: str) -> bool:
    wanted = {full, "*/*"}
    if subresource:
        wanted |= {f"{plural}/*", f"*/{subresource}"}
    else:
        wanted |= {"*"}
    return any(pattern in wanted for pattern in patterns)


def _url(config: Mapping[str, Any]) -> str:
    if config.get("url"):
        return str(config["url"])
    service = config.get("service") or {}
    path = service.get("path") or "/"
    return f"https://{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}{path}"


def _review(uid: str, attributes: Attributes) -> Obj:
    resource = attributes.served.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: Obj = {
        "uid": uid,
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "name": attributes.name,
        "operation": attributes.operation,
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": attributes.obj,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": None,
    }
    if attributes.namespace:
        request["namespace"] = attributes.namespace
    if attributes.subresource:
        request["subResource"] = request["requestSubResource"] = attributes.subresource
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _refused(name: str, status: Mapping[str, Any]) -> Failure:
    message, reason = status.get("message") or "", status.get("reason") or ""
    text = f'admission webhook "{name}" denied the request'
    if message:
        text += f": {message}"
    elif reason:
        text += f": {reason}"
    else:
        text += " without explanation"
    code = status.get("code") or 0
    code = code if isinstance(code, int) and code >= 400 else 403
    return Failure(code, str(reason) or "Forbidden", text, details=dict(status.get("details") or {}) or None)


async def call_https(url: str, body: bytes, ca_bundle: bytes | None, timeout: float) -> bytes:
    """Ask a webhook over HTTPS. Raises ``WebhookFailed``."""
    context = ssl.create_default_context(cadata=ca_bundle.decode() if ca_bundle else None)
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, force_close=True)) as session,
            session.post(
                url, data=body, headers={"Content-Type": "application/json"}, timeout=aiohttp.ClientTimeout(total=timeout)
            ) as answer,
        ):
            data = await answer.read()
            if answer.status != 200:
                raise WebhookFailed(f"the server answered {answer.status}: {data[:200].decode(errors='replace')}")
            return data
    except (aiohttp.ClientError, OSError) as error:
        raise WebhookFailed(f"Post {url!r}: {error}") from error
