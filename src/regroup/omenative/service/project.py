"""From a resolved component to its InferenceReplica, and what has to change in the live one (spec/omenative.md 1.2). Pure.

Only what the projection owns is ever patched, and only when it means something else: the replica's generation moves for real
changes alone. Annotations that others set on the replica, its mailboxes, stay.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from regroup.kube.canonical import canonical
from regroup.kube.meta import owner_reference
from regroup.omenative import keys
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.replica import decode as decode_replica
from regroup.omenative.api.types import InferenceService
from regroup.omenative.keys import INFERENCE_REPLICAS, INFERENCE_SERVICES
from regroup.omenative.names import replica_name
from regroup.omenative.service.resolve import Resolved

Object = dict[str, Any]

_NOT_INHERITED = (keys.PREFIX, keys.OWN_PREFIX, "kubectl.kubernetes.io/", "kopf.zalando.org/", "kopf.dev/", "argocd.argoproj.io/")
_OWN_LABELS = frozenset({keys.SERVICE, keys.COMPONENT, keys.MANAGED_BY})
_HASH_LENGTH = 16
_FIELDS = (
    "parentRef",
    "component",
    "replicas",
    "runners",
    "lifecycle",
    "minReadySeconds",
    "topologyKey",
    "topologySpread",
    "topologySpreadKey",
    "pairingProtocol",
    "paused",
    "pauseMode",
    "revisionHistoryLimit",
)
"""What the projection owns in ``spec``."""


def manifest(service: InferenceService, resolved: Resolved) -> Object:
    """The InferenceReplica as it is created."""
    labels = {key: value for key, value in _inherited(service.metadata.labels).items() if key not in _OWN_LABELS}
    inherited = _inherited(service.metadata.annotations)
    spec = _spec(service, resolved)
    annotations = {
        **inherited,
        keys.CONTROLLER_WRITE: "true",
        keys.PARENT_GENERATION: str(service.metadata.generation),
        keys.PROJECTED: spec_hash({"spec": spec}),
    }
    if inherited:
        annotations[keys.EXCLUDED_ANNOTATIONS] = ",".join(sorted(inherited))
    if labels:
        annotations[keys.INHERITED_LABELS] = ",".join(sorted(labels))
    return {
        "apiVersion": INFERENCE_REPLICAS.api_version,
        "kind": INFERENCE_REPLICAS.kind,
        "metadata": {
            "name": replica_name(service.name, resolved.component),
            "namespace": service.namespace,
            "labels": {
                **labels,
                keys.SERVICE: service.name,
                keys.COMPONENT: resolved.component,
                keys.MANAGED_BY: keys.OMENATIVE,
            },
            "annotations": annotations,
            "finalizers": [keys.TEARDOWN_FINALIZER],
            "ownerReferences": [
                owner_reference(service, api_version=INFERENCE_SERVICES.api_version, kind=INFERENCE_SERVICES.kind)
            ],
        },
        "spec": spec,
    }


def patch(live: InferenceReplica, wanted: Mapping[str, Any]) -> Object | None:
    """The smallest merge patch that makes ``live`` say what ``wanted`` (a ``manifest``) says; None when it does already."""
    metadata = _metadata_patch(live, wanted["metadata"])
    spec = _spec_patch(live, wanted)
    changes: Object = {}
    if metadata:
        changes["metadata"] = metadata
    if spec:
        changes["spec"] = spec
    return changes or None


def differences(old: Any, new: Any) -> Object:
    """The merge patch from ``old`` to ``new``, both plain maps, in which null and absent are the same."""
    changes: Object = {}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            below = differences(before, after)
            if below:
                changes[key] = below
        else:
            changes[key] = after
    return changes


def spec_hash(obj: Mapping[str, Any]) -> str:
    """A hash of an InferenceReplica's ``spec``, the same for all that mean the same. Raises ``msgspec.ValidationError``."""
    return hashlib.sha256(msgspec.json.encode(_plain(decode_replica(obj)), order="sorted")).hexdigest()[:_HASH_LENGTH]


def _inherited(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if not key.startswith(_NOT_INHERITED)}


def _spec(service: InferenceService, resolved: Resolved) -> Object:
    spec: Object = {
        "parentRef": {"name": service.name},
        "component": resolved.component,
        "replicas": resolved.replicas,
        "runners": [dict(runner) for runner in resolved.runners],
        "lifecycle": resolved.lifecycle,
        "minReadySeconds": resolved.min_ready_seconds,
        "paused": service.paused,
        "pauseMode": service.pause_mode,
        "topologyKey": resolved.topology_key,
        "topologySpread": resolved.topology_spread,
        "topologySpreadKey": resolved.topology_spread_key,
        "pairingProtocol": service.spec.pairing_protocol,
        "revisionHistoryLimit": history_limit(service),
    }
    return {key: value for key, value in spec.items() if value not in ("", None, False, {}, 0)}


def history_limit(service: InferenceService) -> int | None:
    """``ome.io/revision-history-limit`` of the service: a positive whole number; anything else is no limit."""
    text = service.metadata.annotations.get(keys.REVISION_HISTORY_LIMIT, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) > 0 else None


def _metadata_patch(live: InferenceReplica, wanted: Mapping[str, Any]) -> Object:
    changes: Object = {}
    labels = _map_patch(live.metadata.labels, wanted["labels"], inherited=_listed(live, keys.INHERITED_LABELS))
    annotations = _map_patch(
        live.metadata.annotations,
        wanted["annotations"],
        inherited=_listed(live, keys.EXCLUDED_ANNOTATIONS) | {keys.EXCLUDED_ANNOTATIONS, keys.INHERITED_LABELS},
    )
    if labels:
        changes["labels"] = labels
    if annotations:
        changes["annotations"] = annotations
    [owner] = wanted["ownerReferences"]
    mine = live.metadata.controller
    if mine is None:
        others = [msgspec.to_builtins(one) for one in live.metadata.owner_references]
        changes["ownerReferences"] = [*({k: v for k, v in one.items() if v is not None} for one in others), owner]
    missing = [name for name in wanted["finalizers"] if name not in live.metadata.finalizers]
    if missing and not live.metadata.deleting:
        # Without it the pods would not be drained when the replica goes.
        changes["finalizers"] = [*live.metadata.finalizers, *missing]
    return changes


def _map_patch(live: Mapping[str, str], wanted: Mapping[str, str], *, inherited: frozenset[str] | set[str]) -> Object:
    """Wanted entries that differ, and copies of what the service no longer has."""
    changes: Object = {key: value for key, value in wanted.items() if live.get(key) != value}
    return changes | {key: None for key in sorted(inherited) if key in live and key not in wanted}


def _spec_patch(live: InferenceReplica, wanted: Mapping[str, Any]) -> Object:
    have = _plain(live)
    want = _plain(decode_replica(wanted))
    changes = differences(have, want)
    if "runners" in changes:
        changes["runners"] = wanted["spec"]["runners"]
    return {key: value for key, value in changes.items() if key in _FIELDS}


def _plain(replica: InferenceReplica) -> Object:
    """``spec`` in one form for what means the same."""
    spec: Object = canonical(msgspec.to_builtins(replica.spec))
    spec["replicas"] = replica.spec.replicas
    spec["runners"] = [canonical({"name": one.name, "size": one.size, "template": one.template}) for one in replica.spec.runners]
    return {key: value for key, value in spec.items() if value not in ("", False, {}, 0)}


def _listed(live: InferenceReplica, key: str) -> frozenset[str]:
    return frozenset(name for name in live.metadata.annotations.get(key, "").split(",") if name)
