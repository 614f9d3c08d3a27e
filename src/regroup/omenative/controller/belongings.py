"""Keeps one object of ours as its manifest says (design 9). Takes nothing over that others made, and leaves nothing behind of an
earlier manifest. Decides nothing else."""

from collections.abc import Mapping
from typing import Any

from regroup.kube.meta import HasMeta, ObjectView, OwnerReference
from regroup.omenative.keys import INFERENCE_REPLICAS
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, Conflict
from regroup.wire.patches import pointer
from regroup.wire.resource import Resource


class NameTaken(Exception):
    """An object that we need has a name under which there is one of somebody else: it is left as it is."""

    def __init__(self, resource: Resource, name: str, owner: OwnerReference | None, *, replica: HasMeta) -> None:
        whose = f"belongs to {owner.kind} {owner.name}" if owner is not None else "is not ours"
        super().__init__(f"{resource.kind} {name} exists and {whose}: it is left as it is")
        self.leftover = (
            owner is not None
            and owner.kind == INFERENCE_REPLICAS.kind
            and owner.name == replica.metadata.name
            and owner.uid != replica.metadata.uid
        )
        """It belonged to an earlier replica of that name: garbage collection has it."""


async def create(client: Client, resource: Resource, body: Mapping[str, Any], *, replica: HasMeta) -> ObjectView:
    """Create what our cache does not have. It may still be there, without our labels: an apply would take it over.

    Raises ``NameTaken``, ``Conflict`` where it is ours and the cache is behind, and ``WireError``.
    """
    namespace, name = replica.metadata.namespace, body["metadata"]["name"]
    try:
        return await client.create(resource, body, namespace=namespace, type=ObjectView)
    except AlreadyExists as error:
        found = await client.get(resource, name, namespace=namespace, type=ObjectView)
        if controlled(replica, found):
            raise Conflict(409, message=f"{resource.kind} {name} is there already") from error
        raise NameTaken(resource, name, found.metadata.controller, replica=replica) from error


async def change(client: Client, resource: Resource, body: Mapping[str, Any], *, there: HasMeta, replica: HasMeta) -> ObjectView:
    """Make ``there`` say what ``body`` says: each field of its spec as a whole, and only if it is still the same object.

    Raises ``NameTaken``, ``Conflict`` (look again) and ``WireError``.
    """
    meta, name = there.metadata, body["metadata"]["name"]
    if not controlled(replica, there):
        raise NameTaken(resource, name, meta.controller, replica=replica)
    # Another object of that name has another UID: a conflict, as with a merge patch.
    ops = [_set("/metadata/uid", meta.uid)]
    for field, have in (("labels", meta.labels), ("annotations", meta.annotations)):
        wanted = body["metadata"].get(field) or {}
        if not have:
            ops.append(_set(f"/metadata/{field}", wanted))
            continue
        ops += [_set(pointer("metadata", field, key), value) for key, value in wanted.items()]
    ops += [_set(f"/spec/{field}", value) for field, value in body["spec"].items()]
    return await client.json_patch(resource, name, ops, namespace=meta.namespace, type=ObjectView)


def controlled(owner: HasMeta, found: HasMeta) -> bool:
    """Whether ``found`` is controlled by ``owner``."""
    return found.metadata.controlled_by(owner.metadata.uid)


def _set(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
