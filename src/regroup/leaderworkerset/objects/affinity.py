"""Exclusive placement: one group, or subgroup, to a topology domain (spec/leaderworkerset.md 3.8 c, 6.9). Pure."""

from typing import Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def add_exclusive_affinity(spec: dict[str, Any], *, topology_key: str, label: str, value: str) -> None:
    """Add to a pod's ``spec`` that it wants its own kind near and every other kind away.

    Changes ``spec`` in place. Nothing is added when both lists already have a term of that topology key: the pod was here
    before, or its author decided.
    """
    affinity = spec.get("affinity") or {}
    near = _terms(affinity, "podAffinity")
    away = _terms(affinity, "podAntiAffinity")
    if _has(near, topology_key) and _has(away, topology_key):
        return
    own: dict[str, Any] = {"key": label, "operator": "In", "values": [value]}
    others: list[dict[str, Any]] = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [value]}]
    spec["affinity"] = affinity
    _set_terms(affinity, "podAffinity", [*near, _term(topology_key, [own])])
    _set_terms(affinity, "podAntiAffinity", [*away, _term(topology_key, others)])


def _terms(affinity: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return list((affinity.get(kind) or {}).get(_REQUIRED) or [])


def _set_terms(affinity: dict[str, Any], kind: str, terms: list[dict[str, Any]]) -> None:
    affinity[kind] = {**(affinity.get(kind) or {}), _REQUIRED: terms}


def _has(terms: list[dict[str, Any]], topology_key: str) -> bool:
    return any(term.get("topologyKey") == topology_key for term in terms)


def _term(topology_key: str, expressions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology_key}
