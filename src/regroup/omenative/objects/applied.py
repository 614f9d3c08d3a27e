"""A mark on what we apply, by which it is seen that it stands already (design 8: a settled service costs no write). Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from regroup.kube.meta import HasMeta
from regroup.omenative.keys import OWN_PREFIX

Object = dict[str, Any]

APPLIED = OWN_PREFIX + "applied"
"""Annotation: a digest of the manifest that was applied."""
_DIGEST = 16


def marked(manifest: Mapping[str, Any]) -> Object:
    """``manifest`` with the mark of what it says."""
    digest = hashlib.sha256(msgspec.json.encode(manifest, order="sorted")).hexdigest()[:_DIGEST]
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def stands(there: HasMeta, body: Mapping[str, Any]) -> bool:
    """Whether ``body``, which is ``marked``, was what was applied last."""
    return bool(there.metadata.annotations.get(APPLIED) == body["metadata"]["annotations"][APPLIED])
