"""The PersistentVolumeClaims of a StatefulSet's pods: which there must be and who owns them. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from regroup.kube.meta import owner_reference
from regroup.sandbox.controllers.stateful.identity import claim_name, ordinal_of
from regroup.sandbox.controllers.stateful.model import API_VERSION, KIND, StatefulSet
from regroup.sandbox.controllers.views import POD_KIND, Claim, Pod, owner_refs

Claims = Mapping[str, Claim]
"""The claims of the set's namespace, by name."""


@dataclass(frozen=True, slots=True)
class ClaimOwners:
    """Whether the set and the pod are to own the claims of a pod, so that the garbage collector deletes them with it."""

    by_set: bool
    by_pod: bool


def claim_names(set_: StatefulSet, ordinal: int) -> tuple[str, ...]:
    return tuple(claim_name(set_, template, ordinal) for template in set_.claim_templates)


def missing_claims(set_: StatefulSet, ordinal: int, claims: Claims) -> tuple[dict[str, Any], ...]:
    """The claims of one ordinal that do not exist, as they are to be created."""
    owners = [owner_reference(set_, api_version=API_VERSION, kind=KIND)] if set_.retention.when_deleted == "Delete" else []
    objects: list[dict[str, Any]] = []
    for template in set_.claim_templates:
        name = claim_name(set_, template, ordinal)
        if name in claims:
            continue
        claim = deepcopy(dict(template))
        claim.pop("status", None)
        labels = {**(template["metadata"].get("labels") or {}), **set_.match_labels}
        claim["metadata"] = {**template["metadata"], "name": name, "namespace": set_.namespace, "labels": labels}
        if owners:
            claim["metadata"]["ownerReferences"] = owners
        objects.append({**claim, "apiVersion": "v1", "kind": "PersistentVolumeClaim"})
    return tuple(objects)


def deleting_claims(set_: StatefulSet, ordinal: int, claims: Claims) -> tuple[str, ...]:
    """The claims of one ordinal that are being deleted: no pod may be made on them."""
    return tuple(name for name in claim_names(set_, ordinal) if name in claims and claims[name].metadata.deleting)


def has_stale_claim(set_: StatefulSet, ordinal: int, claims: Claims) -> bool:
    """Whether a claim still belongs to an earlier pod of that name, with which it is going to be deleted."""
    if set_.retention.when_scaled != "Delete":
        return False
    pod = f"{set_.name}-{ordinal}"
    return any(
        owner.kind == POD_KIND and owner.name == pod
        for name in claim_names(set_, ordinal)
        if name in claims
        for owner in claims[name].metadata.owner_references
    )


def wanted_owners(set_: StatefulSet, ordinal: int) -> ClaimOwners:
    """What the retention policy says for the claims of an ordinal."""
    retention = set_.retention
    scaled_down = not set_.owns_ordinal(ordinal)
    by_pod = retention.when_scaled == "Delete" and scaled_down
    return ClaimOwners(by_set=retention.when_deleted == "Delete" and not by_pod, by_pod=by_pod)


def corrected_owners(set_: StatefulSet, pod: Pod, claim: Claim) -> list[dict[str, Any]] | None:
    """The claim's owner references as the policy wants them; None when they are so, or when another controller owns it."""
    wanted = wanted_owners(set_, ordinal_of(pod))
    present = claim.metadata.owner_references
    ours = {set_.metadata.uid, pod.metadata.uid}
    if (wanted.by_set or wanted.by_pod) and any(owner.controller and owner.uid not in ours for owner in present):
        return None
    uids = {owner.uid for owner in present}
    if wanted == ClaimOwners(by_set=set_.metadata.uid in uids, by_pod=pod.metadata.uid in uids):
        return None
    kept = owner_refs(owner for owner in present if owner.uid not in ours)
    if wanted.by_set:
        kept.append(owner_reference(set_, api_version=API_VERSION, kind=KIND))
    if wanted.by_pod:
        kept.append(owner_reference(pod, api_version="v1", kind=POD_KIND))
    return kept


def misowned_claims(set_: StatefulSet, pod: Pod, claims: Claims) -> tuple[tuple[Claim, list[dict[str, Any]]], ...]:
    """The pod's existing claims whose owners are not what the policy wants, with the references to write."""
    found: list[tuple[Claim, list[dict[str, Any]]]] = []
    for name in claim_names(set_, ordinal_of(pod)):
        claim = claims.get(name)
        owners = corrected_owners(set_, pod, claim) if claim is not None else None
        if claim is not None and owners is not None:
            found.append((claim, owners))
    return tuple(found)
