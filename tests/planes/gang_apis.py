"""The APIs that gangs are placed by, as CRDs: no plane has Volcano, and few API servers serve ``scheduling.k8s.io`` groups."""

from collections.abc import Mapping
from typing import Any

from regroup.leaderworkerset.objects.gang import VOLCANO_POD_GROUPS, native

POD_GROUPS = native("podgroups", "PodGroup", "v1beta1")
WORKLOADS = native("workloads", "Workload", "v1beta1")
VOLCANO = VOLCANO_POD_GROUPS


def volcano_crd() -> dict[str, Any]:
    """PodGroups of Volcano."""
    spec = {
        "minMember": {"type": "integer", "format": "int32"},
        "queue": {"type": "string"},
        "minResources": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
    }
    return _crd("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", spec)


def native_crds(version: str = "v1beta1") -> list[dict[str, Any]]:
    """Workloads and PodGroups of ``scheduling.k8s.io``; the objects' own fields are open."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    mode = {"type": "string"} if version == "v1alpha2" else anything
    policy = {"schedulingPolicy": anything, "schedulingConstraints": anything, "disruptionMode": mode}
    templates = {"type": "array", "items": anything, "x-kubernetes-list-type": "atomic"}
    group = {**policy, "workloadRef": anything, "podGroupTemplateRef": anything, "priorityClassName": {"type": "string"}}
    return [
        _crd("scheduling.k8s.io", version, "podgroups", "PodGroup", group),
        _crd("scheduling.k8s.io", version, "workloads", "Workload", {"controllerRef": anything, "podGroupTemplates": templates}),
    ]


def scheduler_plugins_crd() -> dict[str, Any]:
    """PodGroups of the scheduler plugins, which OMENative makes."""
    spec = {
        "minMember": {"type": "integer", "format": "int32"},
        "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
    }
    return _crd("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", spec)


def _crd(group: str, version: str, plural: str, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": dict(spec)}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Groups under k8s.io are protected: a definition has to say who approved it.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
