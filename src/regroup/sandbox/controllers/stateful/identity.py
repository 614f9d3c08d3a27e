"""Who a pod of a StatefulSet is: name, ordinal, labels, host name and volumes. Pure."""

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from regroup.kube.meta import owner_reference
from regroup.sandbox.controllers.stateful.model import API_VERSION, KIND, StatefulSet
from regroup.sandbox.controllers.views import Pod

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
REVISION_LABEL = "controller-revision-hash"

_POD_NAME = re.compile(r"(.*)-([0-9]+)")
_LARGEST_ORDINAL = 2**31 - 1


def parent_and_ordinal(pod_name: str) -> tuple[str, int]:
    """The set's name and the ordinal that a pod name says: ``("", -1)`` when it says none, ordinal -1 when it is out of range."""
    match = _POD_NAME.fullmatch(pod_name)
    if match is None:
        return "", -1
    ordinal = int(match[2]) if len(match[2]) <= 10 else _LARGEST_ORDINAL + 1
    return match[1], ordinal if ordinal <= _LARGEST_ORDINAL else -1


def ordinal_of(pod: Pod) -> int:
    """The ordinal of a pod; -1 when its name has none."""
    return parent_and_ordinal(pod.metadata.name)[1]


def is_member(set_: StatefulSet, pod: Pod) -> bool:
    """Whether the pod's name makes it one of the set's."""
    return parent_and_ordinal(pod.metadata.name)[0] == set_.name


def pod_name(set_: StatefulSet, ordinal: int) -> str:
    return f"{set_.name}-{ordinal}"


def claim_name(set_: StatefulSet, template: Mapping[str, Any], ordinal: int) -> str:
    """The name of the claim that a claim template makes for one ordinal."""
    return f"{template['metadata']['name']}-{set_.name}-{ordinal}"


def revision_of(pod: Pod) -> str:
    """The name of the ControllerRevision that the pod was made from."""
    return pod.metadata.labels.get(REVISION_LABEL, "")


def identity_matches(set_: StatefulSet, pod: Pod) -> bool:
    """Whether the pod still carries the label that says its name. Host name and subdomain cannot change after creation."""
    parent, ordinal = parent_and_ordinal(pod.metadata.name)
    return (
        ordinal >= 0
        and parent == set_.name
        and pod.metadata.name == pod_name(set_, ordinal)
        and pod.metadata.labels.get(POD_NAME_LABEL) == pod.metadata.name
    )


def storage_matches(set_: StatefulSet, pod: Pod) -> bool:
    """Whether each claim template has its volume in the pod."""
    if not set_.claim_templates:
        return True
    claims = {
        volume.name: volume.persistent_volume_claim.claim_name
        for volume in pod.spec.raw_volumes or ()
        if volume.persistent_volume_claim is not None
    }
    ordinal = ordinal_of(pod)
    return all(
        claims.get(template["metadata"]["name"]) == claim_name(set_, template, ordinal) for template in set_.claim_templates
    )


def identity_labels(set_: StatefulSet, ordinal: int) -> dict[str, str]:
    return {POD_NAME_LABEL: pod_name(set_, ordinal), POD_INDEX_LABEL: str(ordinal)}


def with_claim_volumes(set_: StatefulSet, ordinal: int, volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pod's volumes: those of the claim templates first; they replace volumes of the same name."""
    claims = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(set_, template, ordinal)},
        }
        for template in set_.claim_templates
    ]
    taken = {volume["name"] for volume in claims}
    return claims + [volume for volume in volumes if volume.get("name") not in taken]


def build_pod(set_: StatefulSet, template: Mapping[str, Any], *, revision: str, ordinal: int) -> dict[str, Any]:
    """The pod of one ordinal, from the pod template of the revision named ``revision``."""
    name = pod_name(set_, ordinal)
    template_meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": f"{set_.name}-",
        "namespace": set_.namespace,
        "labels": {
            **(template_meta.get("labels") or {}),
            REVISION_LABEL: revision,
            **identity_labels(set_, ordinal),
        },
        "ownerReferences": [owner_reference(set_, api_version=API_VERSION, kind=KIND)],
    }
    for key in ("annotations", "finalizers"):
        if template_meta.get(key):
            metadata[key] = deepcopy(template_meta[key])
    spec: dict[str, Any] = deepcopy(dict(template.get("spec") or {}))
    spec["hostname"] = name
    if set_.spec.service_name:
        spec["subdomain"] = set_.spec.service_name
    if set_.claim_templates:
        spec["volumes"] = with_claim_volumes(set_, ordinal, spec.get("volumes") or [])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
