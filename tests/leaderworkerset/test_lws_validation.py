"""Rules beyond the schema, with the path and the words that a user sees (spec/leaderworkerset.md 2.2-2.7)."""

from typing import Any

import pytest
from tests.leaderworkerset.lws_api_builders import lws_dict, rolling

from regroup.kube.problem import Problem, summary
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.admission.validation import validate_create, validate_update
from regroup.leaderworkerset.api.defaults import default

T = "spec.leaderWorkerTemplate"
R = "spec.rolloutStrategy.rollingUpdateConfiguration"
HASH = {"groupIdentity": "Hash"}


def _create(**parts: Any) -> list[str]:
    """Messages for a new object, as it reaches validation: defaulted."""
    return [problem.message for problem in validate_create(default(lws_dict(**parts)))]


def _update(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return [problem.message for problem in validate_update(default(new), default(old))]


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"template": {"restartPolicy": "RecreateGroupAfterStart", "maxGroupRestarts": 0}},
        {"template": {"maxGroupRestarts": 3}},
        {"template": {"restartPolicy": "None"}},
        {"template": {"restartBackoff": {"baseSeconds": 20}}},
        {"template": {"restartBackoff": {"capSeconds": 60}}},
        {"spec": HASH, "template": {"maxGroupRestarts": 3}},
        {"spec": {**HASH, "groupReplacementPolicy": "Immediate"}},
        {"spec": {"replicas": 0, **rolling(maxUnavailable=0, maxSurge=0)}},
        {"spec": {"replicas": 0, **rolling(maxUnavailable="1%")}},
        {"spec": {"replicas": 3, **rolling(maxUnavailable=0, maxSurge="10%")}},
        {"spec": {"replicas": 1_000_000}},
        {"template": {"size": 5, "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}}},
        {"template": {"subGroupPolicy": {"subGroupSize": 2}}, "annotations": {keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: "rack"}},
        {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "topology.kubernetes.io/zone"}},
        {"spec": {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}},
    ],
)
def test_accepted(parts: dict[str, Any]) -> None:
    """Behaviours 5, 12, 17 and the allowed rows of 2.3, 2.4, C108 (valid percentages, also at replicas 0)."""
    assert _create(**parts) == []


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        # Behaviour 4: the budget needs a policy that recreates.
        (
            {"template": {"restartPolicy": "None", "maxGroupRestarts": 3}},
            (
                f"{T}.maxGroupRestarts: Invalid value: 3: may only be set when restartPolicy is RecreateGroupOnPodRestart or "
                "RecreateGroupAfterStart"
            ),
        ),
        # Behaviour 3 and 4: the deprecated alias is None.
        (
            {"template": {"restartPolicy": "Default", "maxGroupRestarts": 0}},
            f"{T}.maxGroupRestarts: Invalid value: 0: may only be set",
        ),
        # Behaviour 6.
        (
            {"template": {"maxGroupRestarts": -1}},
            f"{T}.maxGroupRestarts: Invalid value: -1: must be greater than or equal to 0",
        ),
        # Behaviour 7.
        (
            {"template": {"restartPolicy": "None", "restartBackoff": {}}},
            f'{T}.restartBackoff: Invalid value: {{"baseSeconds":10,"capSeconds":300}}: may only be set',
        ),
        # Behaviours 9-11: judged by effective values.
        (
            {"template": {"restartBackoff": {"capSeconds": 5}}},
            f"{T}.restartBackoff.baseSeconds: Invalid value: 10: must be less than or equal to capSeconds, which is 5",
        ),
        (
            {"template": {"restartBackoff": {"baseSeconds": 600}}},
            f"{T}.restartBackoff.baseSeconds: Invalid value: 600: must be less than or equal to capSeconds, which is 300",
        ),
        (
            {"template": {"restartBackoff": {"baseSeconds": 0}}},
            f"{T}.restartBackoff.baseSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            {"template": {"restartBackoff": {"capSeconds": -1}}},
            f"{T}.restartBackoff.capSeconds: Invalid value: -1: must be greater than 0",
        ),
        # Behaviour 14.
        (
            {"spec": {"groupReplacementPolicy": "Immediate"}},
            'spec.groupReplacementPolicy: Invalid value: "Immediate": Immediate may only be set when groupIdentity is Hash',
        ),
        # Behaviour 15.
        (
            {"spec": HASH, "template": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}},
            f"{T}.volumeClaimTemplates: Forbidden: may not be set when groupIdentity is Hash",
        ),
        ({"spec": {**HASH, **rolling(partition=1)}}, f"{R}.partition: Invalid value: 1: must be 0 when groupIdentity is Hash"),
        (
            {"spec": HASH, "template": {"leaderTemplate": {"spec": {"hostname": "h", "containers": []}}}},
            f'{T}.leaderTemplate.spec.hostname: Invalid value: "h": may not be set when groupIdentity is Hash',
        ),
        (
            {"spec": HASH, "template": {"workerTemplate": {"spec": {"hostname": "h"}}}},
            f'{T}.workerTemplate.spec.hostname: Invalid value: "h"',
        ),
        # Behaviour 17, C108.
        ({"spec": rolling(maxUnavailable=0, maxSurge=0)}, f"{R}.maxUnavailable: Invalid value: 0: must not be 0 of 2 replicas"),
        (
            {"spec": rolling(maxUnavailable="0%", maxSurge="0%")},
            f'{R}.maxUnavailable: Invalid value: "0%": must not be 0 of 2 replicas',
        ),
        (
            {"spec": {"replicas": 3, **rolling(maxUnavailable="10%")}},
            f'{R}.maxUnavailable: Invalid value: "10%": must not be 0 of 3 replicas',
        ),
        ({"spec": rolling(maxUnavailable="150%")}, f'{R}.maxUnavailable: Invalid value: "150%": must not be greater than 100%'),
        ({"spec": rolling(maxSurge="101%")}, f'{R}.maxSurge: Invalid value: "101%": must not be greater than 100%'),
        ({"spec": rolling(maxUnavailable="abc")}, f'{R}.maxUnavailable: Invalid value: "abc": a valid percent string must be'),
        ({"spec": rolling(maxUnavailable="1")}, f'{R}.maxUnavailable: Invalid value: "1": a valid percent string must be'),
        ({"spec": rolling(maxSurge=-1)}, f"{R}.maxSurge: Invalid value: -1: must be greater than or equal to 0"),
        ({"spec": rolling(partition=-1)}, f"{R}.partition: Invalid value: -1: must be greater than or equal to 0"),
        # Behaviour 19, 2.2, 2.3.
        ({"spec": {"replicas": 1_000_001}}, "spec.replicas: Invalid value: 1000001: must be less than or equal to 1000000"),
        ({"spec": {"replicas": -1}}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ({"template": {"size": 0}}, f"{T}.size: Invalid value: 0: must be greater than or equal to 1"),
        (
            {"spec": {"replicas": 1_000_000}, "template": {"size": 3000}},
            "spec.replicas: Invalid value: 1000000: the product of replicas and size must not exceed 2147483647",
        ),
        # 2.3: subgroups.
        (
            {"template": {"subGroupPolicy": {}}},
            f"{T}.subGroupPolicy.subGroupSize: Required value",
        ),
        ({"template": {"subGroupPolicy": {"subGroupSize": 0}}}, f"{T}.subGroupPolicy.subGroupSize: Invalid value: 0: must be"),
        (
            {"template": {"subGroupPolicy": {"subGroupSize": 5}}},
            f"{T}.subGroupPolicy.subGroupSize: Invalid value: 5: must not be greater than size, which is 4",
        ),
        (
            {"template": {"size": 6, "subGroupPolicy": {"subGroupSize": 4}}},
            f"{T}.subGroupPolicy.subGroupSize: Invalid value: 4: size or size - 1 must be divisible by it, size is 6",
        ),
        (
            {"template": {"subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}}},
            f"{T}.subGroupPolicy.subGroupSize: Invalid value: 2: size - 1, which is 3, must be divisible",
        ),
        # 2.7.
        (
            {"annotations": {keys.SUBGROUP_EXCLUSIVE_TOPOLOGY: "rack"}},
            f'metadata.annotations[{keys.SUBGROUP_EXCLUSIVE_TOPOLOGY}]: Invalid value: "rack": may only be set together with',
        ),
        (
            {"annotations": {keys.EXCLUSIVE_TOPOLOGY: "not a label"}},
            f'metadata.annotations[{keys.EXCLUSIVE_TOPOLOGY}]: Invalid value: "not a label": must be the key of a node label',
        ),
        ({"spec": {"networkConfig": {}}}, "spec.networkConfig.subdomainPolicy: Required value"),
        # Enums, also where no schema has looked yet.
        (
            {"template": {"restartPolicy": "Always"}},
            (
                f'{T}.restartPolicy: Unsupported value: "Always": supported values: "Default", "RecreateGroupOnPodRestart", '
                '"RecreateGroupAfterStart", "None"'
            ),
        ),
        ({"spec": {"groupIdentity": "Random"}}, 'spec.groupIdentity: Unsupported value: "Random"'),
        ({"spec": {"podTerminationPolicy": "parallel"}}, 'spec.podTerminationPolicy: Unsupported value: "parallel"'),
        ({"spec": {"replicas": "three"}}, 'spec.replicas: Invalid value: "three": Expected `int | null`, got `str`'),
    ],
)
def test_refused(parts: dict[str, Any], expected: str) -> None:
    """Behaviours 3, 4, 6, 7, 9-11, 14, 15, 17, 19 and C108: one problem, with the upstream's path, the value and the rule."""
    messages = _create(**parts)
    assert len(messages) == 1
    assert messages[0].startswith(expected)


def test_all_problems_are_told_at_once() -> None:
    """Design 9: nobody should have to try five times."""
    messages = _create(spec={"replicas": -1}, template={"size": 0, "maxGroupRestarts": -2})
    assert [message.split(":")[0] for message in messages] == ["spec.replicas", f"{T}.size", f"{T}.maxGroupRestarts"]


@pytest.mark.parametrize("name", ["a.b", "1abc", "UPPER", "-a", "a-", "", "a_b", "ä", "a\n"])
def test_names_that_are_no_dns_label(name: str) -> None:
    """C110, 2.7: the name becomes that of a Service."""
    (message,) = _create(name=name)
    assert message.startswith("metadata.name: Invalid value: ")
    assert "DNS-1035 label" in message


@pytest.mark.parametrize(
    ("spec", "size", "longest"),
    [
        ({**HASH}, 1, 54),
        ({**HASH}, 2, 43),
        ({"replicas": 2}, 1, 52),
        ({"replicas": 2}, 2, 50),
        ({"replicas": 10}, 2, 50),
        ({"replicas": 11}, 2, 49),
        ({"replicas": 1000}, 100, 48),
        ({"replicas": 10, **rolling(maxSurge=1)}, 2, 49),
        ({"replicas": 10, **rolling(maxSurge="1000%")}, 2, 49),
        ({"replicas": 0}, 2, 50),
    ],
)
def test_longest_name(spec: dict[str, Any], size: int, longest: int) -> None:
    """Behaviour 20, B16, C110: a name is refused where host names or labels of the pods would be longer than 63."""

    def about_name(length: int) -> list[str]:
        messages = _create(name="n" * length, spec=spec, template={"size": size})
        return [message for message in messages if message.startswith("metadata.name")]

    assert about_name(longest) == []
    (message,) = about_name(longest + 1)
    assert f"must be no more than {longest} characters" in message


def test_a_name_only_counts_when_an_update_makes_it_too_long() -> None:
    """C110: growing from 10 to 11 replicas adds a digit; an object that always was too long can still be edited."""
    name = "n" * 50
    (message,) = _update(lws_dict(name=name, spec={"replicas": 10}), lws_dict(name=name, spec={"replicas": 11}))
    assert message.startswith("metadata.name")
    assert _update(lws_dict(name="n" * 60), lws_dict(name="n" * 60, spec={"replicas": 3})) == []


SUBGROUPS = {"subGroupPolicy": {"subGroupSize": 2}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Behaviour 13.
        ({}, {"spec": HASH}, 'spec.groupIdentity: Invalid value: "Hash": field is immutable'),
        # Behaviour 16.
        (
            {},
            {"spec": {"podTerminationPolicy": "Parallel"}},
            'spec.podTerminationPolicy: Invalid value: "Parallel": field is immutable',
        ),
        # Behaviour 18.
        (
            {"template": {"subGroupPolicy": {"subGroupSize": 4}}},
            {"template": SUBGROUPS},
            f"{T}.subGroupPolicy.subGroupSize: Invalid value: 2: field is immutable",
        ),
        ({"template": SUBGROUPS}, {}, f"{T}.subGroupPolicy: Invalid value: null: cannot be removed after creation"),
        ({}, {"template": SUBGROUPS}, f"{T}.subGroupPolicy: Invalid value: {{"),
        ({"template": SUBGROUPS}, {"template": {"subGroupPolicy": {}}}, f"{T}.subGroupPolicy.subGroupSize: Required value"),
        # 6.6: the size of subgroups is judged against the new size.
        (
            {"template": SUBGROUPS},
            {"template": {"size": 1, **SUBGROUPS}},
            f"{T}.subGroupPolicy.subGroupSize: Invalid value: 2: must not be greater than size, which is 1",
        ),
        # 2.2.
        ({}, {"spec": {"scheduling": {}}}, "spec.scheduling: Invalid value: {}: cannot be added"),
        ({"spec": {"scheduling": {}}}, {}, "spec.scheduling: Invalid value: null: cannot be added"),
        (
            {"spec": {"scheduling": {"replica": {}}}},
            {"spec": {"scheduling": {"replica": {"leader": {}}}}},
            'spec.scheduling: Invalid value: {"replica":{"leader":{}}}: cannot be added',
        ),
        # Creation rules hold on updates as well.
        ({}, {"template": {"maxGroupRestarts": -1}}, f"{T}.maxGroupRestarts: Invalid value: -1"),
    ],
)
def test_updates_refused(old: dict[str, Any], new: dict[str, Any], expected: str) -> None:
    """Behaviours 13, 16, 18; 2.2, 2.3, 2.7."""
    messages = _update(lws_dict(**old), lws_dict(**new))
    assert len(messages) == 1
    assert messages[0].startswith(expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"spec": {"replicas": 0}}),
        ({}, {"template": {"size": 8, "restartPolicy": "None"}}),
        ({}, {"template": {"maxGroupRestarts": 3, "restartBackoff": {}}}),
        ({}, {"spec": {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}, "startupPolicy": "LeaderReady"}}),
        ({"spec": HASH}, {"spec": {**HASH, "groupReplacementPolicy": "Immediate"}}),
        ({"spec": {"scheduling": {"replica": {}}}}, {"spec": {"scheduling": {"replica": {"disruptionMode": "All"}}}}),
        # 2.7: an object from before the size was required.
        ({"template": {"subGroupPolicy": {}}}, {"template": SUBGROUPS}),
    ],
)
def test_updates_accepted(old: dict[str, Any], new: dict[str, Any]) -> None:
    """2.2, 4.6, 6.1, 6.6: what may change after creation."""
    assert _update(lws_dict(**old), lws_dict(**new)) == []


def test_empty_equals_the_default_when_comparing() -> None:
    """2.2, behaviour 22: an object stored before the field existed is not changed by its default."""
    old, new = lws_dict(), lws_dict(spec={"groupIdentity": "Ordinal", "podTerminationPolicy": "Default"})
    assert validate_update(new, old) == []
    assert validate_update(old, new) == []


def test_what_was_wrong_before_does_not_hold_up_other_changes() -> None:
    """Issue 5 point 3: an object that another operator let through can be labelled and scaled, but gets no worse."""
    wrong: dict[str, Any] = {
        "annotations": {keys.EXCLUSIVE_TOPOLOGY: "not a label"},
        "template": {"restartPolicy": "None", "maxGroupRestarts": 1},
    }
    assert _update(lws_dict(**wrong), lws_dict(**wrong, labels={"a": "b"}, spec={"replicas": 7})) == []
    worse = {**wrong, "template": {"restartPolicy": "None", "maxGroupRestarts": 2}}
    assert [message.split(":")[0] for message in _update(lws_dict(**wrong), lws_dict(**worse))] == [f"{T}.maxGroupRestarts"]


def test_an_old_object_that_cannot_be_read_does_not_break() -> None:
    """Bad input: then the new one is judged as it is."""
    assert [problem.path for problem in validate_update(lws_dict(spec={"replicas": -1}), {"spec": 3})] == ["spec.replicas"]
    assert validate_update(lws_dict(), {"spec": 3}) == []


def test_an_object_that_is_being_deleted_is_never_held_up() -> None:
    """2.7: removing a finalizer is an update."""
    new = lws_dict(spec={"replicas": -1, **HASH})
    new["metadata"]["deletionTimestamp"] = "2026-08-01T12:00:00Z"
    assert validate_update(new, lws_dict()) == []


def test_summary_reads_like_an_api_server() -> None:
    """Design 9: one problem plain, several in brackets."""
    one, two = Problem("spec.a", 1, "must be 2"), Problem("spec.b", None, "say it", kind="Required")
    head = 'LeaderWorkerSet.leaderworkerset.x-k8s.io "demo" is invalid: '
    kind, group = "LeaderWorkerSet", "leaderworkerset.x-k8s.io"
    assert summary([one], kind=kind, group=group, name="demo") == head + "spec.a: Invalid value: 1: must be 2"
    both = head + "[spec.a: Invalid value: 1: must be 2, spec.b: Required value: say it]"
    assert summary([one, two], kind=kind, group=group, name="demo") == both


def test_long_values_are_cut() -> None:
    """COMMON: text from outside is bounded."""
    assert len(Problem("spec.a", "x" * 10_000, "is too long").message) < 300


def test_causes() -> None:
    """What kubectl prints from: field, reason and message without the field."""
    assert Problem("spec.a", 1, "must be 2").cause() == {
        "field": "spec.a",
        "reason": "FieldValueInvalid",
        "message": "Invalid value: 1: must be 2",
    }
