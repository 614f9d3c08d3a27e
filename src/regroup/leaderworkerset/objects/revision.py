"""Revisions: what belongs to one, its key, equality, and going back to it (spec/leaderworkerset.md 3.5). Pure.

The data is a patch that puts ``spec.leaderWorkerTemplate`` and ``spec.networkConfig`` back, the shape that the Go controller
writes, so that revisions of either are read by the other. Live knobs (maxGroupRestarts, restartBackoff) are never part of it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from regroup.kube.canonical import canonical
from regroup.kube.workloads import ControllerRevision
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import (
    SHARED,
    LeaderWorkerSet,
    LeaderWorkerTemplate,
    NetworkConfig,
    SubGroupPolicy,
)

Data = dict[str, Any]

_PATCH = "$patch"
_REPLACE = "replace"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Kubernetes' alphabet for generated names: no vowels, no look-alikes."""
_HASH_LENGTH = 10
_NAME_LENGTH = 220


class RevisionDamaged(ValueError):
    """A ControllerRevision whose data cannot be read."""


def revision_data(lws: LeaderWorkerSet) -> Data:
    """What a revision of ``lws`` stores."""
    template, network = _template_data(lws.template), {"subdomainPolicy": lws.spec.subdomain_policy}
    return {"spec": {"leaderWorkerTemplate": {**template, _PATCH: _REPLACE}, "networkConfig": {**network, _PATCH: _REPLACE}}}


def revision_hash(data: Data) -> str:
    """Short and stable: data that mean the same have the same hash, in every process."""
    number = int.from_bytes(hashlib.sha256(_canonical_bytes(data)).digest()[:16], "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


def revision_key(revision: ControllerRevision) -> str:
    """The key that pods and workloads of it carry; empty when it has none."""
    return revision.metadata.labels.get(keys.REVISION, "")


def revision_name(lws_name: str, *, key: str, number: int) -> str:
    """Name of the ControllerRevision object."""
    return f"{lws_name[:_NAME_LENGTH]}-{key}-{number}"


def same_revision(lws: LeaderWorkerSet, revision: ControllerRevision) -> bool:
    """Whether ``lws`` is at ``revision``, after both went through today's defaults: an operator upgrade rolls nothing.
    Damaged data equals nothing."""
    try:
        stored = revision_data(restore(lws, revision))
    except RevisionDamaged:
        return False
    return _canonical_bytes(stored) == _canonical_bytes(revision_data(lws))


def find_revision(lws: LeaderWorkerSet, revisions: Iterable[ControllerRevision]) -> ControllerRevision | None:
    """The newest of ``revisions`` that ``lws`` is at; None when it needs a new one."""
    equal = [revision for revision in revisions if revision_key(revision) and same_revision(lws, revision)]
    return max(equal, key=lambda revision: (revision.revision, revision.metadata.name), default=None)


def next_number(revisions: Iterable[ControllerRevision]) -> int:
    """One more than the highest."""
    return max((revision.revision for revision in revisions), default=0) + 1


def restore(lws: LeaderWorkerSet, revision: ControllerRevision) -> LeaderWorkerSet:
    """``lws`` as ``revision`` says; whatever is no part of a revision stays live. Raises ``RevisionDamaged``."""
    spec = revision.data.get("spec") if isinstance(revision.data, Mapping) else None
    if not isinstance(spec, Mapping):
        raise RevisionDamaged(f"ControllerRevision {revision.metadata.name}: data has no spec")
    template = _stored(revision, spec, "leaderWorkerTemplate", LeaderWorkerTemplate)
    if template is None or not template.worker_template:
        raise RevisionDamaged(f"ControllerRevision {revision.metadata.name}: data has no spec.leaderWorkerTemplate")
    template = msgspec.structs.replace(
        template, max_group_restarts=lws.template.max_group_restarts, restart_backoff=lws.template.restart_backoff
    )
    network = _stored(revision, spec, "networkConfig", NetworkConfig) or NetworkConfig(subdomain_policy=SHARED)
    spec_then = msgspec.structs.replace(lws.spec, leader_worker_template=template, network_config=network)
    return msgspec.structs.replace(lws, spec=spec_then)


def _stored(revision: ControllerRevision, spec: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = spec.get(name)
    if value is None:
        return None
    try:
        return msgspec.convert({key: item for key, item in value.items() if key != _PATCH}, kind)
    except (msgspec.ValidationError, AttributeError, TypeError) as error:
        raise RevisionDamaged(f"ControllerRevision {revision.metadata.name}: spec.{name}: {error}"[:512]) from error


def _template_data(template: LeaderWorkerTemplate) -> Data:
    """The template with its defaults, without the live knobs."""
    data: Data = {
        "workerTemplate": template.worker_template,
        "size": template.size,
        "restartPolicy": template.restart_policy,
    }
    if template.leader_template is not None:
        data["leaderTemplate"] = template.leader_template
    if template.sub_group_policy is not None:
        data["subGroupPolicy"] = _subgroup_data(template.sub_group_policy)
    if template.volume_claim_templates:
        data["volumeClaimTemplates"] = list(template.volume_claim_templates)
    if template.persistent_volume_claim_retention_policy:
        data["persistentVolumeClaimRetentionPolicy"] = template.persistent_volume_claim_retention_policy
    return data


def _subgroup_data(policy: SubGroupPolicy) -> Data:
    data: Data = {"subGroupPolicyType": policy.type}
    if policy.size is not None:
        data["subGroupSize"] = policy.size
    return data


def _canonical_bytes(data: Data) -> bytes:
    return msgspec.json.encode(canonical(data), order="deterministic")
