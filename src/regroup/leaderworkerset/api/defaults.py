"""What a LeaderWorkerSet means where it says nothing (spec/leaderworkerset.md 2.2-2.5). Pure; inputs are never changed.

Admission runs this before the API server has checked any type, so that whatever has the wrong type is left for that check.
"""

from collections.abc import Mapping
from typing import Any

from regroup.leaderworkerset.api import types

Object = dict[str, Any]


def default(obj: Object) -> Object:
    """The object with its defaults filled in."""
    spec = obj.get("spec")
    return {**obj, "spec": default_spec(spec)} if isinstance(spec, dict) else obj


def default_spec(spec: Object) -> Object:
    """``spec`` with its defaults filled in. Idempotent."""
    spec = _filled(
        spec,
        {
            "replicas": 1,
            "startupPolicy": types.LEADER_CREATED,
            "groupIdentity": types.ORDINAL,
            "groupReplacementPolicy": types.POST_TERMINATION,
            "podTerminationPolicy": types.DEFAULT_TERMINATION,
            "networkConfig": {"subdomainPolicy": types.SHARED},
            "rolloutStrategy": {},
        },
    )
    if isinstance(spec["rolloutStrategy"], dict):
        spec["rolloutStrategy"] = _rollout(spec["rolloutStrategy"])
    template = spec.get("leaderWorkerTemplate")
    if isinstance(template, dict):
        spec["leaderWorkerTemplate"] = _template(template)
    return spec


def _template(template: Object) -> Object:
    template = _filled(template, {"size": 1, "restartPolicy": types.ON_POD_RESTART})
    if template["restartPolicy"] == types.DEPRECATED_DEFAULT:
        template["restartPolicy"] = types.NONE
    if isinstance(template.get("restartBackoff"), dict):
        template["restartBackoff"] = _filled(
            template["restartBackoff"], {"baseSeconds": types.BACKOFF_BASE, "capSeconds": types.BACKOFF_CAP}
        )
    if isinstance(template.get("subGroupPolicy"), dict):
        template["subGroupPolicy"] = _filled(template["subGroupPolicy"], {"subGroupPolicyType": types.LEADER_WORKER})
    return template


def _rollout(strategy: Object) -> Object:
    strategy = _filled(strategy, {"type": types.ROLLING_UPDATE})
    if strategy["type"] != types.ROLLING_UPDATE:
        return strategy
    strategy = _filled(strategy, {"rollingUpdateConfiguration": {}})
    config = strategy["rollingUpdateConfiguration"]
    if isinstance(config, dict):
        strategy["rollingUpdateConfiguration"] = _filled(config, {"maxUnavailable": 1, "maxSurge": 0, "partition": 0})
    return strategy


def _filled(obj: Object, values: Mapping[str, Any]) -> Object:
    """``obj`` with each of ``values`` that it lacks; null and the empty string of an enum are lacking."""
    result = dict(obj)
    for key, value in values.items():
        if result.get(key) in (None, ""):
            result[key] = value
    return result
