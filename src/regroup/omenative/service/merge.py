"""A component of an InferenceService over its runtime's, field by field (spec/omenative.md 1.3). Pure; changes nothing in place.

Maps merge by key. Lists with a key merge by it, all other lists and all scalars replace. ``null`` says nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

_LIST_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
}
_WHOLE_ITEMS = frozenset({"env", "volumes"})
"""Items of which only one source may be set: the service's replaces the runtime's as a whole."""
_HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc", "sleep"})
_ONE_HANDLER = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"})
_EXCLUSIVE = (("minAvailable", "maxUnavailable"), ("maxUnavailable", "minAvailable"))
DEPTH_LIMIT = 64
"""Levels that are looked into; what is deeper replaces."""


def merge_component(runtime: Mapping[str, Any], service: Mapping[str, Any]) -> Object:
    """``service`` over ``runtime``: two components of one kind."""
    base = dict(runtime)
    for own, other in _EXCLUSIVE:
        if service.get(own) is not None and service.get(other) is None:
            base.pop(other, None)  # the two exclude each other, so whoever sets one has decided about both
    return merge(base, service)


def merge(base: Mapping[str, Any], over: Mapping[str, Any], *, depth: int = 0) -> Object:
    """``over`` on top of ``base``."""
    result = {key: value for key, value in base.items() if value is not None}
    for key, value in over.items():
        if value is None:
            continue
        old = result.get(key)
        if depth >= DEPTH_LIMIT or old is None:
            result[key] = value
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            kept = _without_handlers(old) if key in _ONE_HANDLER and _HANDLERS & value.keys() else old
            result[key] = merge(kept, value, depth=depth + 1)
        elif key in _LIST_KEYS and isinstance(value, list | tuple) and isinstance(old, list | tuple):
            result[key] = _merge_lists(old, value, name=key, depth=depth + 1)
        else:
            result[key] = value
    return result


def _merge_lists(base: Sequence[Any], over: Sequence[Any], *, name: str, depth: int) -> list[Any]:
    """Items of ``base`` in their order, changed where ``over`` has one of the same key, then what only ``over`` has."""
    key = _LIST_KEYS[name]
    changes: dict[Any, Any] = {}
    loose = []
    for item in over:
        value = item.get(key) if isinstance(item, Mapping) else None
        if isinstance(value, str | int):
            changes[value] = item
        else:
            loose.append(item)
    result = []
    for item in base:
        value = item.get(key) if isinstance(item, Mapping) else None
        change = changes.pop(value, None) if isinstance(value, str | int) else None
        if change is None:
            result.append(item)
        else:
            result.append(change if name in _WHOLE_ITEMS else merge(item, change, depth=depth))
    return [*result, *changes.values(), *loose]


def _without_handlers(probe: Mapping[str, Any]) -> Object:
    return {key: value for key, value in probe.items() if key not in _HANDLERS}
