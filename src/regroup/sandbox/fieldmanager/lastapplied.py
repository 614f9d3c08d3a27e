"""The way from kubectl's older apply, which keeps its configuration in an annotation, to server-side apply. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from regroup.sandbox.fieldmanager.sets import Path
from regroup.sandbox.fieldmanager.typed import TypedError, compare, field_set

Obj = dict[str, Any]

MANAGER = "kubectl"
"""The manager for which this is done; others who do not want it have another name."""
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def unclaimed(live: Obj, schema: Mapping[str, Any]) -> set[Path]:
    """Fields that the older apply set and nobody changed since: kubectl may take them without a conflict."""
    text = _annotation(live)
    try:
        config = json.loads(text) if text else None
        if not isinstance(config, dict) or config.get("apiVersion") != live.get("apiVersion"):
            return set()
        difference = compare(config, live, schema)
        return set(field_set(config, schema)) - difference.modified - difference.added - difference.removed
    except (ValueError, TypedError):
        return set()


def followed(obj: Obj, config: Obj) -> Obj:
    """``obj`` with its annotation, when it has one, brought up to the configuration that was applied."""
    if not _annotation(obj):
        return obj
    meta = dict(config.get("metadata") or {})
    if "annotations" in meta:
        meta["annotations"] = {key: value for key, value in (meta["annotations"] or {}).items() if key != ANNOTATION}
    text = json.dumps({**config, "metadata": meta}, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    annotations = {**obj["metadata"]["annotations"], ANNOTATION: text}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


def _annotation(obj: Obj) -> str:
    return str(((obj.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION) or "")
