"""What this version refuses because it cannot do it yet (issue 3 point 5)."""

from typing import Any

import pytest
from tests.leaderworkerset.lws_api_builders import lws_dict, rolling

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.defaults import default
from regroup.leaderworkerset.unsupported import MISSING, unsupported
from regroup.leaderworkerset.validation import validate_create

T = "spec.leaderWorkerTemplate"
R = "spec.rolloutStrategy.rollingUpdateConfiguration"
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("spec.groupIdentity", {"spec": {"groupIdentity": "Hash"}}),
    ("spec.groupReplacementPolicy", {"spec": {"groupReplacementPolicy": "Immediate"}}),
    ("spec.podTerminationPolicy", {"spec": {"podTerminationPolicy": "Parallel"}}),
    ("spec.scheduling", {"spec": {"scheduling": {}}}),
    (f"{T}.restartPolicy", {"template": {"restartPolicy": "RecreateGroupAfterStart"}}),
    (f"metadata.annotations[{keys.AFTER_START_EXPERIMENT}]", {"annotations": {keys.AFTER_START_EXPERIMENT: ""}}),
    (f"{T}.maxGroupRestarts", {"template": {"maxGroupRestarts": 0}}),
    (f"{T}.restartBackoff", {"template": {"restartBackoff": {}}}),
    (f"{T}.subGroupPolicy", {"template": {"subGroupPolicy": {"subGroupSize": 2}}}),
    (f"{R}.partition", {"spec": rolling(partition=1)}),
    (f"{R}.maxUnavailable", {"spec": rolling(maxUnavailable="50%")}),
    (f"{R}.maxSurge", {"spec": rolling(maxSurge=1)}),
]
PRESENT = {missing.path for missing in MISSING}


@pytest.mark.parametrize(("path", "parts"), [row for row in ROWS if row[0] in PRESENT])
def test_refused_with_path_and_sentence(path: str, parts: dict[str, Any]) -> None:
    """Issue 3 point 5: never silently ignored."""
    (problem,) = unsupported(default(lws_dict(**parts)))
    assert problem.message.startswith(f"{path}: Forbidden: ")
    assert problem.message.endswith("is not supported by this version of regroup yet")


def test_every_entry_has_a_row_here() -> None:
    """An entry that is deleted leaves a row that is passed over; a new one needs a row."""
    assert {row[0] for row in ROWS} >= PRESENT


def test_what_the_defaults_say_is_supported() -> None:
    """The seed's plain manifests pass, before and after defaulting, for both policies of the first slice."""
    for policy in (None, "RecreateGroupOnPodRestart", "None", "Default"):
        obj = lws_dict(template={"restartPolicy": policy})
        assert unsupported(obj) == []
        assert unsupported(default(obj)) == []
        assert validate_create(default(obj)) == []


@pytest.mark.parametrize(("path", "parts"), [row for row in ROWS if row[0] in PRESENT])
def test_what_was_there_before_does_not_block_an_update(path: str, parts: dict[str, Any]) -> None:
    """Adoption: an object made by another operator can still be labelled, scaled and cleaned of the field."""
    old = default(lws_dict(**parts))
    assert unsupported(default(lws_dict(**parts, labels={"a": "b"})), old) == []
    assert unsupported(default(lws_dict()), old) == []
    assert [problem.path for problem in unsupported(old, default(lws_dict()))] == [path]


@pytest.mark.parametrize(("path", "parts"), [row for row in ROWS if row[0] in PRESENT])
def test_an_old_object_that_cannot_be_read(path: str, parts: dict[str, Any]) -> None:
    """Bad input: then all that the new one asks for counts as new."""
    assert [problem.path for problem in unsupported(lws_dict(**parts), {"spec": "x"})] == [path]
