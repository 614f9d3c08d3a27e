"""Objects of built-in kinds as the server makes them of what clients send."""

from typing import Any

from regroup.kube.resources import PODS
from regroup.sandbox.kinds.builtin import BUILTINS
from regroup.sandbox.kinds.definition import KindDefinition

Obj = dict[str, Any]
KINDS: dict[str, KindDefinition] = {f"{kind.resource.group}/{kind.resource.kind}": kind for kind in BUILTINS}
CONTAINER: Obj = {"name": "c", "image": "i"}


def kind(name: str) -> KindDefinition:
    """``Pod``, ``apps/StatefulSet``, ..."""
    return KINDS[name if "/" in name else f"/{name}"]


def made(name: str, body: Obj, old: Obj | None = None) -> Obj:
    """What the server makes of ``body``: decoded, defaulted, prepared."""
    definition = kind(name)
    meta = {"name": "x", "namespace": "default", "uid": "u"} | body.get("metadata", {})
    obj, _ = definition.decode(
        {"apiVersion": definition.resource.api_version, "kind": definition.resource.kind, **body, "metadata": meta}
    )
    definition.default(obj)
    definition.prepare(obj, old)
    definition.default(obj)
    return obj


def refusals(name: str, body: Obj, old: Obj | None = None) -> list[str]:
    """What the server says against ``body``."""
    return [error.message() for error in kind(name).validate(made(name, body, old), old)]


def pod(**spec: Any) -> Obj:
    return {"spec": {"containers": [dict(CONTAINER)]} | spec}


def template(labels: Obj | None = None, **spec: Any) -> Obj:
    return {"metadata": {"labels": {"a": "b"} if labels is None else labels}, **pod(**spec)}


def workload(**spec: Any) -> Obj:
    """The spec of a StatefulSet, Deployment or ReplicaSet."""
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template()} | spec}


POD_DEFINITION = kind(PODS.kind)
