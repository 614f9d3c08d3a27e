"""Admission: mutating webhooks in order, then validating ones together, as the stored configurations say."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from regroup.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS
from regroup.sandbox.apiserver.registry import Registry, Served
from regroup.sandbox.apiserver.storage import Storage
from regroup.sandbox.apiserver.traits import is_namespace
from regroup.sandbox.apiserver.webhooks import (
    Asked,
    Attributes,
    HttpsCaller,
    WebhookCaller,
    ask,
    labels_match,
    patched,
    wanted_form,
)
from regroup.wire.resource import Resource

Obj = dict[str, Any]

Mutation = Callable[[Resource, str, Obj], None]
"""``(resource, operation, object)``: changes the object in place, before webhooks, as built-in admission plugins do."""
EXEMPT_GROUP = "admissionregistration.k8s.io"
"""Webhooks are not asked about webhooks: they could lock everybody out."""


class Admission:
    """Asks whoever is registered in the storage."""

    def __init__(self, storage: Storage, registry: Registry, *, caller: WebhookCaller | None, new_uid: Callable[[], str]) -> None:
        self._storage = storage
        self._registry = registry
        self._https = HttpsCaller() if caller is None else None
        self._caller = caller or self._https or HttpsCaller()
        self._new_uid = new_uid
        self.mutations: list[Mutation] = []

    async def close(self) -> None:
        """End the connections to webhooks."""
        if self._https is not None:
            await self._https.close()

    async def mutate(self, attributes: Attributes) -> Obj:
        """The object after all mutations. Raises ``Failure``.

        A webhook with ``reinvocationPolicy: IfNeeded`` is asked once more when a later one changed the object.
        """
        if attributes.obj is not None and not attributes.subresource:
            for mutation in self.mutations:
                mutation(attributes.served.resource, attributes.operation, attributes.obj)
        hooks = self._hooks(MUTATING_WEBHOOKS, attributes)
        again: list[tuple[str, Obj]] = []
        seen: list[tuple[str, Obj]] = []
        for name, webhook in hooks:
            changed = await self._mutate_with(webhook, attributes)
            if changed is not None:
                attributes = replace(attributes, obj=changed)
                again += [entry for entry in seen if entry not in again and entry[1].get("reinvocationPolicy") == "IfNeeded"]
            seen.append((name, webhook))
        for _, webhook in again:
            changed = await self._mutate_with(webhook, attributes)
            if changed is not None:
                attributes = replace(attributes, obj=changed)
        return attributes.obj or {}

    async def validate(self, attributes: Attributes) -> None:
        """Ask the validating webhooks, all at once. Raises ``Failure`` for the first that refuses, in their order."""
        questions = []
        for _, webhook in self._hooks(VALIDATING_WEBHOOKS, attributes):
            asked = self._asked(webhook, attributes)
            if asked is not None:
                questions.append(ask(webhook, asked, attributes, uid=self._new_uid(), caller=self._caller))
        if not questions:
            return
        for answer in await asyncio.gather(*questions, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _mutate_with(self, webhook: Obj, attributes: Attributes) -> Obj | None:
        """The object as one webhook changed it, None when it did not."""
        asked = self._asked(webhook, attributes)
        if asked is None:
            return None
        response = await ask(webhook, asked, attributes, uid=self._new_uid(), caller=self._caller)
        result = patched(webhook, response, asked, attributes)
        if attributes.obj is None:
            return None
        return result if result != attributes.obj else None

    def _asked(self, webhook: Obj, attributes: Attributes) -> Asked | None:
        """The form in which a webhook wants to be asked, None when it does not want to."""
        asked = wanted_form(webhook, attributes, self._versions(attributes.served))
        if asked is None or not labels_match(webhook, attributes, self._namespace_labels(attributes)):
            return None
        return asked

    def _hooks(self, resource: Resource, attributes: Attributes) -> Sequence[tuple[str, Obj]]:
        """All webhooks, in the order of their configurations' names."""
        if attributes.served.resource.group == EXEMPT_GROUP or attributes.subresource == "scale":
            return ()  # Scale is a kind of its own, which webhooks are not asked about here.
        return [
            (f"{stored.obj['metadata']['name']}/{webhook.get('name')}", webhook)
            for stored in self._storage.items(resource)
            for webhook in stored.obj.get("webhooks") or []
        ]

    def _versions(self, served: Served) -> Sequence[Served]:
        return [other for other in self._registry if other.stored_as == served.stored_as]

    def _namespace_labels(self, attributes: Attributes) -> dict[str, str] | None:
        """The labels of the object's namespace, or its own when it is one; None for what is in none."""
        if is_namespace(attributes.served.resource):
            obj = attributes.obj or attributes.old or {}
            return dict((obj.get("metadata") or {}).get("labels") or {})
        if not attributes.namespace:
            return None
        stored = self._storage.get(NAMESPACES, ("", attributes.namespace))
        return dict(stored.obj["metadata"].get("labels") or {}) if stored else {}
