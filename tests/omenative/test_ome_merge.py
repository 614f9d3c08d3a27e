"""A component over its runtime's (spec/omenative.md 1.3)."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.omenative.service.merge import merge_component

Object = dict[str, Any]


@pytest.mark.parametrize(
    ("runtime", "service", "merged"),
    [
        # Maps merge by key.
        ({"labels": {"a": "1", "b": "1"}}, {"labels": {"b": "2"}}, {"labels": {"a": "1", "b": "2"}}),
        # env by name; the whole variable is the service's.
        (
            {"runner": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]}},
            {"runner": {"env": [{"name": "B", "valueFrom": {"fieldRef": {}}}, {"name": "C"}]}},
            {"runner": {"env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {}}}, {"name": "C"}]}},
        ),
        # volumes by name: never two sources in one.
        (
            {"volumes": [{"name": "shm", "emptyDir": {}}]},
            {"volumes": [{"name": "shm", "hostPath": {"path": "/x"}}]},
            {"volumes": [{"name": "shm", "hostPath": {"path": "/x"}}]},
        ),
        # ports by containerPort, mounts by mountPath.
        (
            {"runner": {"ports": [{"containerPort": 80, "name": "http"}], "volumeMounts": [{"mountPath": "/m", "name": "a"}]}},
            {"runner": {"ports": [{"containerPort": 80, "protocol": "TCP"}], "volumeMounts": [{"mountPath": "/m", "name": "b"}]}},
            {
                "runner": {
                    "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
                    "volumeMounts": [{"mountPath": "/m", "name": "b"}],
                }
            },
        ),
        # containers by name, field by field.
        (
            {"containers": [{"name": "side", "image": "a", "args": ["1"]}]},
            {"containers": [{"name": "side", "image": "b"}, {"name": "new"}]},
            {"containers": [{"name": "side", "image": "b", "args": ["1"]}, {"name": "new"}]},
        ),
        # args, command, tolerations and scalars replace.
        (
            {"runner": {"args": ["a", "b"], "command": ["c"]}, "tolerations": [{"key": "x"}], "minReplicas": 2},
            {"runner": {"args": ["z"]}, "tolerations": [], "minReplicas": 1},
            {"runner": {"args": ["z"], "command": ["c"]}, "tolerations": [], "minReplicas": 1},
        ),
        # lifecycle field by field (behaviour 8).
        (
            {"lifecycle": {"instanceReadyTimeout": "45m", "updateStrategy": {"rollingUpdate": {"maxSurge": 1}}}},
            {"lifecycle": {"restartPolicy": "None", "updateStrategy": {"type": "RecreatePod"}}},
            {
                "lifecycle": {
                    "instanceReadyTimeout": "45m",
                    "restartPolicy": "None",
                    "updateStrategy": {"rollingUpdate": {"maxSurge": 1}, "type": "RecreatePod"},
                }
            },
        ),
        # An empty leader or worker keeps the runtime's.
        (
            {"leader": {"runner": {"image": "l"}}, "worker": {"size": 3}},
            {"leader": {}, "worker": {}},
            {"leader": {"runner": {"image": "l"}}, "worker": {"size": 3}},
        ),
        # null says nothing.
        ({"minReplicas": 2}, {"minReplicas": None}, {"minReplicas": 2}),
        # A probe has one handler.
        (
            {"runner": {"livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 9}}},
            {"runner": {"livenessProbe": {"exec": {"command": ["x"]}}}},
            {"runner": {"livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 9}}},
        ),
        # minAvailable and maxUnavailable exclude each other: who sets one decides about both.
        ({"minAvailable": 1}, {"maxUnavailable": 2}, {"maxUnavailable": 2}),
    ],
)
def test_each_rule(runtime: Object, service: Object, merged: Object) -> None:
    """1.3, one row a rule."""
    before = copy.deepcopy((runtime, service))
    assert merge_component(runtime, service) == merged
    assert (runtime, service) == before, "nothing is changed in place"


_NAMES = st.sampled_from(["env", "name", "ports", "x", "runner"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=3), _json, max_size=4), st.dictionaries(st.text(max_size=3), _json, max_size=4))
def test_odd_shapes_never_stop_it_and_what_the_service_sets_is_there(runtime: Object, service: Object) -> None:
    """Bad input: whatever the shapes, each field that the service sets is in the result."""
    merged = merge_component(runtime, service)
    assert {key for key, value in service.items() if value is not None} <= merged.keys()
    assert merge_component({}, service).keys() == {key for key, value in service.items() if value is not None}
