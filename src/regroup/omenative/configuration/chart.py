"""The ConfigMap ``inferenceservice-config`` with the chart's defaults (spec/omenative.md 6.4). Pure.

Here they are values of an installation, not of the code: an entry that is taken out is off.
"""

import json
from typing import Any

from regroup.omenative.api.lifecycle import SURGE_THEN_DRAIN
from regroup.omenative.configuration.config import CONFIG_MAP, DEPLOY, DISRUPTION, LIFECYCLE
from regroup.omenative.keys import COMPONENTS

Object = dict[str, Any]

_LIFECYCLE: Object = {
    "instanceReadyTimeout": "30m",
    "stuckPodGracePeriod": "60s",
    "repairBatchSize": 10,
    "unschedulableGracePeriod": "15m",
    "updateRetry": {"maxAttempts": 3, "initialDelay": "1m", "maxDelay": "30m", "multiplier": 2.0},
    "requeue": {"operation": "5s", "gate": "3s"},
    "scaleUpPodBatchSize": 100,
    "scaleDownPodBatchSize": 100,
    "scaleDownRequeueInterval": "5s",
    "revisionHistoryLimit": 10,
    "teardown": {"deadline": "30m"},
    "gangScheduleTimeout": {"min": "60s", "max": "600s"},
}
_STRATEGY: Object = {"type": SURGE_THEN_DRAIN, "maxSurge": "25%", "maxUnavailable": "25%"}
_DEPLOY: Object = {
    "defaultDeploymentMode": "RawDeployment",
    "replicas": {"defaultMinReplicas": 1, "defaultMaxReplicas": {"engine": 3, "decoder": 3, "router": 2}},
    "terminationGracePeriodSeconds": 600,
    "updateStrategy": dict.fromkeys(COMPONENTS, _STRATEGY),
}
_DISRUPTION: Object = {"omeNative": {"maxUnavailable": 1}}


def config_data() -> dict[str, str]:
    """``data`` of the ConfigMap."""
    parts = {LIFECYCLE: _LIFECYCLE, DEPLOY: _DEPLOY, DISRUPTION: _DISRUPTION}
    return {key: json.dumps(value, indent=2) for key, value in parts.items()}


def config_map(*, namespace: str, labels: dict[str, str]) -> Object:
    """The object to apply."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": labels},
        "data": config_data(),
    }
