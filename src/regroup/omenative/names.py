"""Names of the objects of a component (spec/omenative.md 2.1). Pure.

All begin with the name of the InferenceReplica, ``<isvc>-<component>``. Names that become DNS labels (Services, pods' host names,
label values) have at most 63 characters: a longer beginning is cut and gets a hash of the whole, the end always stays readable.
"""

import hashlib

LABEL_LIMIT = 63
OBJECT_LIMIT = 253
_HASH = 8


def replica_name(service: str, component: str) -> str:
    """The InferenceReplica of a component of the InferenceService ``service``."""
    return f"{service}-{component}"


def stable_service(replica: str) -> str:
    """The Service that clients use; also the PodDisruptionBudget's name."""
    return _fit(replica, "")


def headless_service(replica: str) -> str:
    """The headless Service of all pods: the subdomain of each of them."""
    return _fit(replica, "-headless")


def revision_service(replica: str, revision_hash: str) -> str:
    """The routed Service of one revision: the evidence that its pods are drained (2.5)."""
    return _fit(replica, f"-rev-{revision_hash}")


def revision_headless_service(replica: str, revision_hash: str) -> str:
    """The headless Service of one revision."""
    return _fit(replica, f"-rev-{revision_hash}-headless")


def revision_name(replica: str, revision_hash: str) -> str:
    """The ControllerRevision that stores a revision."""
    return _fit(replica, f"-{revision_hash}", limit=OBJECT_LIMIT)


def instance_name(replica: str, index: int) -> str:
    """An Instance: its PodGroup, and ``OME_INSTANCE_SUBDOMAIN``."""
    return _fit(replica, f"-{index}")


def pod_name(replica: str, index: int, *, runner: str, ordinal: int) -> str:
    """A pod of an Instance: ``<isvc>-<component>-<index>-<runner>-<ordinal>``."""
    return _fit(replica, f"-{index}-{runner}-{ordinal}")


def _fit(beginning: str, end: str, *, limit: int = LABEL_LIMIT) -> str:
    if len(beginning) + len(end) <= limit:
        return beginning + end
    digest = hashlib.sha256(beginning.encode()).hexdigest()[:_HASH]
    kept = beginning[: limit - len(end) - _HASH - 1].rstrip("-.")
    return f"{kept}-{digest}{end}"
