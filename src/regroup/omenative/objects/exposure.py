"""What stands in front of a component's pods: its Services and its disruption budget (spec/omenative.md 2.5, 2.6). Pure.

The InferenceService's controller writes the stable Service and the budget, the InferenceReplica's controller the headless Service
and those of the revisions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.kube.meta import owner_reference
from regroup.omenative import keys, names
from regroup.omenative.api.counts import resolve_count
from regroup.omenative.api.lifecycle import IntOrPercent
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.keys import DEFAULT_RUNNER, INFERENCE_REPLICAS, LEADER
from regroup.omenative.objects.instances import component_labels
from regroup.omenative.objects.revision import runner
from regroup.omenative.objects.templates import service_ports
from regroup.omenative.view import Revision

Object = dict[str, Any]


def stable_service(replica: InferenceReplica, *, leaders_only: bool) -> Object:
    """The Service that clients use. ``leaders_only``: the InferenceService itself declares ``worker`` (2.5)."""
    selector = component_labels(replica)
    if leaders_only:
        selector[keys.RUNNER] = LEADER
    routed = replica.spec.runner(LEADER) or replica.spec.runner(DEFAULT_RUNNER)
    ports = service_ports(routed.template if routed is not None else {})
    return _service(replica, names.stable_service(replica.name), selector=selector, ports=ports)


def headless_service(replica: InferenceReplica) -> Object:
    """The headless Service of all pods, ready or not: their names, and the base of "available" (3.4)."""
    return _headless(replica, names.headless_service(replica.name), selector=component_labels(replica))


def revision_services(replica: InferenceReplica, revision: Revision) -> tuple[Object, Object]:
    """The routed and the headless Service of one revision."""
    selector = {**component_labels(replica), keys.REVISION_HASH: revision.hash}
    leader = runner(revision, LEADER)
    routed = leader or runner(revision, DEFAULT_RUNNER)
    first = _service(
        replica,
        names.revision_service(replica.name, revision.hash),
        selector={**selector, keys.RUNNER: LEADER} if leader is not None else selector,
        ports=service_ports(routed.template if routed is not None else {}),
        revision_hash=revision.hash,
    )
    second = _headless(
        replica,
        names.revision_headless_service(replica.name, revision.hash),
        selector=selector,
        revision_hash=revision.hash,
    )
    return first, second


def disruption_budget(
    replica: InferenceReplica,
    *,
    min_available: IntOrPercent | None = None,
    max_unavailable: IntOrPercent | None = None,
    default_max_unavailable: IntOrPercent | None = None,
) -> Object | None:
    """The PodDisruptionBudget, counted in pods; None where neither the component nor the cluster asks for one.

    The limits are in Instances or percentages of them, rounded up; ``default_max_unavailable`` is the cluster's.
    """
    desired, pods = replica.spec.replicas, replica.spec.pods_per_instance
    if min_available is not None:
        kept = min(resolve_count(min_available, desired), desired)
    else:
        allowed = max_unavailable if max_unavailable is not None else default_max_unavailable
        if allowed is None:
            return None
        kept = max(desired - resolve_count(allowed, desired), 0)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(replica, names.stable_service(replica.name)),
        "spec": {"minAvailable": kept * pods, "selector": {"matchLabels": component_labels(replica)}},
    }


def _service(
    replica: InferenceReplica, name: str, *, selector: Mapping[str, str], ports: Sequence[Object], revision_hash: str = ""
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(replica, name, revision_hash=revision_hash),
        "spec": {"selector": dict(selector), "ports": list(ports)},
    }


def _headless(replica: InferenceReplica, name: str, *, selector: Mapping[str, str], revision_hash: str = "") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(replica, name, revision_hash=revision_hash),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)},
    }


def _metadata(replica: InferenceReplica, name: str, *, revision_hash: str = "") -> Object:
    labels = component_labels(replica)
    if revision_hash:
        labels[keys.REVISION_HASH] = revision_hash
    return {
        "name": name,
        "namespace": replica.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(replica, api_version=INFERENCE_REPLICAS.api_version, kind=INFERENCE_REPLICAS.kind)],
    }
