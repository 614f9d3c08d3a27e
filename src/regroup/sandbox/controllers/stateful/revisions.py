"""The history of a StatefulSet's pod template as ControllerRevisions: data, name, and which one to use. Pure.

Names are computed as a real controller manager does it, so that a set that moves between the two keeps its revisions.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from regroup.kube.meta import owner_reference
from regroup.sandbox.controllers.stateful.model import API_VERSION, KIND, StatefulSet
from regroup.sandbox.controllers.views import ControllerRevision

HASH_LABEL = "controller.kubernetes.io/hash"

_SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_PREFIX_LIMIT = 223
_GO_ESCAPES = (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))


@dataclass(frozen=True, slots=True)
class Revise:
    """What is to be done to have a revision that says what the set says now."""

    current: ControllerRevision | None
    """The revision that ``status.currentRevision`` names; None when there is none: the update revision stands in."""
    update: ControllerRevision | None
    """The newest revision when it says what the set says."""
    bump: ControllerRevision | None
    """An older revision that says the same: a rollback, it gets the number ``next_number``."""
    next_number: int
    """The number of a revision that is new or rolled back to."""


def template_of(set_: StatefulSet) -> dict[str, Any]:
    """The set's pod template."""
    raw = bytes(set_.spec.template)
    return dict(msgspec.json.decode(raw)) if raw else {}


def revision_data(set_: StatefulSet) -> dict[str, Any]:
    """The patch that brings a set back to its present template."""
    template = template_of(set_)
    template.setdefault("metadata", {})
    _with_written_defaults(template)
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def revision_template(revision: ControllerRevision) -> dict[str, Any]:
    """The pod template that a revision keeps."""
    data = msgspec.json.decode(bytes(revision.data) or b"null") or {}
    template = dict((data.get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return template


def canonical(data: Any) -> bytes:
    """The JSON text that Go's encoder makes of ``data``: sorted keys, no spaces, its escapes."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _GO_ESCAPES:
        text = text.replace(character, escape)
    return text.encode()


def revision_hash(data: bytes, collision_count: int) -> str:
    """FNV-1 of the data and the collision count, in letters that spell nothing."""
    value = _FNV_OFFSET
    for byte in data + str(collision_count).encode():
        value = ((value * _FNV_PRIME) & 0xFFFFFFFF) ^ byte
    return "".join(_SAFE_ALPHABET[ord(digit) % len(_SAFE_ALPHABET)] for digit in str(value))


def revision_object(set_: StatefulSet, data: Mapping[str, Any], *, number: int, collision_count: int) -> dict[str, Any]:
    """A new ControllerRevision of the set."""
    digest = revision_hash(canonical(data), collision_count)
    template_meta = data["spec"]["template"].get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": f"{set_.name[:_PREFIX_LIMIT]}-{digest}",
        "namespace": set_.namespace,
        "labels": {**(template_meta.get("labels") or {}), HASH_LABEL: digest},
        "ownerReferences": [owner_reference(set_, api_version=API_VERSION, kind=KIND)],
    }
    if set_.metadata.annotations:
        metadata["annotations"] = dict(set_.metadata.annotations)
    return {"apiVersion": API_VERSION, "kind": "ControllerRevision", "metadata": metadata, "data": data, "revision": number}


def ordered(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Oldest first: by number, then age, then name."""

    def key(revision: ControllerRevision) -> tuple[int, float, str]:
        created = revision.metadata.creation_timestamp
        return revision.revision, created.timestamp() if created else 0.0, revision.metadata.name

    return sorted(revisions, key=key)


def same_data(revision: ControllerRevision, data: bytes) -> bool:
    """Whether a stored revision keeps exactly ``data`` (canonical JSON)."""
    stored = bytes(revision.data)
    return stored == data or canonical(msgspec.json.decode(stored or b"null")) == data


def revise(set_: StatefulSet, revisions: Sequence[ControllerRevision], data: bytes) -> Revise:
    """Which revisions are current and wanted. ``revisions`` in the order of ``ordered``."""
    current = next((revision for revision in revisions if revision.metadata.name == set_.status.current_revision), None)
    next_number = revisions[-1].revision + 1 if revisions else 1
    equal = [revision for revision in revisions if same_data(revision, data)]
    if not equal:
        return Revise(current=current, update=None, bump=None, next_number=next_number)
    if same_data(revisions[-1], data):
        return Revise(current=current, update=revisions[-1], bump=None, next_number=next_number)
    return Revise(current=current, update=None, bump=equal[-1], next_number=next_number)


def outdated(revisions: Sequence[ControllerRevision], *, live: Iterable[str], limit: int) -> tuple[ControllerRevision, ...]:
    """The oldest revisions beyond ``limit`` that nothing uses. ``revisions`` in the order of ``ordered``."""
    used = frozenset(live)
    unused = [revision for revision in revisions if revision.metadata.name not in used]
    return tuple(unused[: len(unused) - limit]) if 0 <= limit < len(unused) else ()


def _with_written_defaults(template: dict[str, Any]) -> None:
    """Fields that a Go encoder writes even when they are empty."""
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or ():
            container.setdefault("resources", {})
