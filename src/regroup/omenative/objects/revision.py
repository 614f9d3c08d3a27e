"""Revisions of a component: what belongs to one, its hash, equality, and reading one back (spec/omenative.md 2.6, 5.1). Pure.

The data are the runners (name, size and pod template of each) and the pairing protocol. Lifecycle, replicas, pacing and spread
are not part of it: changing them never makes a revision, and never rolls a pod.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from regroup.kube.canonical import canonical
from regroup.kube.workloads import ControllerRevision
from regroup.omenative.api.replica import InferenceReplica, Runner
from regroup.omenative.keys import EXCLUDED_ANNOTATIONS, REVISION_HASH
from regroup.omenative.names import revision_name
from regroup.omenative.view import Revision

Data = dict[str, Any]

_HASH_LENGTH = 8


class RevisionDamaged(ValueError):
    """A ControllerRevision whose data cannot be read."""


def revision_data(replica: InferenceReplica) -> Data:
    """What a revision of ``replica`` as it stands now stores."""
    runners = [{"name": runner.name, "size": runner.size, "template": runner.template} for runner in replica.spec.runners]
    data: Data = {"runners": runners}
    if replica.spec.pairing_protocol:
        data["pairingProtocol"] = replica.spec.pairing_protocol
    return data


def excluded_annotations(replica: InferenceReplica) -> frozenset[str]:
    """Annotations of the templates that make no difference between revisions."""
    listed = replica.metadata.annotations.get(EXCLUDED_ANNOTATIONS, "")
    return frozenset(key.strip() for key in listed.split(",") if key.strip())


def revision_hash(data: Mapping[str, Any], *, collision_count: int = 0, excluded: Iterable[str] = ()) -> str:
    """Eight hexadecimal digits; data that mean the same have the same hash, in every process. ``collision_count`` salts it."""
    digest = hashlib.sha256(_canonical_bytes(data, frozenset(excluded)))
    if collision_count:
        digest.update(f"/{collision_count}".encode())
    return digest.hexdigest()[:_HASH_LENGTH]


def find(stored: Iterable[Revision], data: Mapping[str, Any], *, excluded: Iterable[str] = ()) -> Revision | None:
    """The newest stored revision that says the same as ``data``."""
    left_out = frozenset(excluded)
    wanted = _canonical_bytes(data, left_out)
    same = [revision for revision in stored if _canonical_bytes(revision.data, left_out) == wanted]
    return max(same, key=lambda revision: revision.number, default=None)


def new_revision(
    replica: InferenceReplica, *, stored: Sequence[Revision], collision_count: int = 0, excluded: Iterable[str] = ()
) -> tuple[Revision, int]:
    """The revision to store for ``replica``, which none of ``stored`` is, and the collision count that goes to its status.

    The count grows until the name is free of other data (5.1, "Hash collision").
    """
    data = revision_data(replica)
    taken = {revision.name for revision in stored}
    count = collision_count
    while True:
        digest = revision_hash(data, collision_count=count, excluded=excluded)
        name = revision_name(replica.name, digest)
        if name not in taken:
            break
        count += 1
    number = max((revision.number for revision in stored), default=0) + 1
    return Revision(name=name, hash=digest, number=number, data=data), count


def decode(stored: ControllerRevision) -> Revision:
    """A ControllerRevision as a ``Revision``. Raises ``RevisionDamaged``."""
    meta = stored.metadata
    data = stored.data
    if not isinstance(data, Mapping) or not isinstance(data.get("runners"), list):
        raise RevisionDamaged(f"ControllerRevision {meta.key} has no runners")
    digest = meta.labels.get(REVISION_HASH) or meta.name.rpartition("-")[2]
    revision = Revision(name=meta.name, hash=digest, number=stored.revision, data=data)
    try:
        runners(revision)
    except msgspec.ValidationError as error:
        raise RevisionDamaged(f"ControllerRevision {meta.key} cannot be read: {error}") from error
    return revision


def runners(revision: Revision) -> tuple[Runner, ...]:
    """The runners that the revision stores: how many pods its Instances have, and their templates."""
    return msgspec.convert(revision.data.get("runners") or (), tuple[Runner, ...])


def runner(revision: Revision, name: str) -> Runner | None:
    """The runner of that name."""
    return next((one for one in runners(revision) if one.name == name), None)


def pairing_protocol(revision: Revision) -> str:
    """The pairing protocol that the revision stores, empty where there is none."""
    return str(revision.data.get("pairingProtocol") or "")


def _canonical_bytes(data: Mapping[str, Any], excluded: frozenset[str]) -> bytes:
    plain = canonical(data)
    if excluded:
        for one in plain.get("runners") or ():
            metadata = (one.get("template") or {}).get("metadata") or {}
            kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in excluded}
            if "annotations" in metadata:
                metadata["annotations"] = kept
    return msgspec.json.encode(canonical(plain), order="sorted")
