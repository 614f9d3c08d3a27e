"""Exclusive placement terms (spec/leaderworkerset.md 3.8 c)."""

import copy
from typing import Any

from regroup.leaderworkerset.objects.affinity import add_exclusive_affinity

RACK = "example.com/rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _applied(spec: dict[str, Any]) -> dict[str, Any]:
    add_exclusive_affinity(spec, topology_key=RACK, label="group-key", value="k")
    affinity: dict[str, Any] = spec["affinity"]
    return affinity


def test_own_group_near_and_others_away() -> None:
    """3.8 c, behaviour 30: the group's key near; any pod with another key away; pods without a key do not matter."""
    affinity = _applied({})
    (near,) = affinity["podAffinity"][REQUIRED]
    (away,) = affinity["podAntiAffinity"][REQUIRED]
    assert near == {
        "labelSelector": {"matchExpressions": [{"key": "group-key", "operator": "In", "values": ["k"]}]},
        "topologyKey": RACK,
    }
    assert away["topologyKey"] == RACK
    assert away["labelSelector"]["matchExpressions"] == [
        {"key": "group-key", "operator": "Exists"},
        {"key": "group-key", "operator": "NotIn", "values": ["k"]},
    ]


def test_what_the_user_wrote_stays() -> None:
    """3.8 c: terms on other topology keys, preferences and node affinity are kept."""
    zone = {"topologyKey": "zone", "labelSelector": {}}
    preferred = [{"weight": 1, "podAffinityTerm": zone}]
    before = {
        "nodeAffinity": {"x": 1},
        "podAffinity": {REQUIRED: [zone], "preferredDuringSchedulingIgnoredDuringExecution": preferred},
    }
    affinity = _applied({"affinity": copy.deepcopy(before)})
    assert affinity["nodeAffinity"] == before["nodeAffinity"]
    assert affinity["podAffinity"][REQUIRED][0] == zone
    assert len(affinity["podAffinity"][REQUIRED]) == 2
    assert affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred


def test_a_second_time_changes_nothing() -> None:
    """3.8 c, behaviour 31: terms of that topology key are there already."""
    spec: dict[str, Any] = {}
    _applied(spec)
    once = copy.deepcopy(spec)
    _applied(spec)
    assert spec == once


def test_half_a_pair_does_not_make_it_exclusive() -> None:
    """3.8 c: the user's own affinity on that key does not keep strangers away, so the pair is still added."""
    term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"a": "b"}}}
    affinity = _applied({"affinity": {"podAffinity": {REQUIRED: [term]}, "podAntiAffinity": None}})
    assert len(affinity["podAffinity"][REQUIRED]) == 2
    assert len(affinity["podAntiAffinity"][REQUIRED]) == 1
