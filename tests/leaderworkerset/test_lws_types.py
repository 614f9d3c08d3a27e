"""Effective values of the LeaderWorkerSet views (spec/leaderworkerset.md 2)."""

from importlib import resources
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
import yaml
from tests.leaderworkerset.lws_api_builders import lws, lws_dict

from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LeaderWorkerSet, decode


def test_what_is_unset_has_its_default() -> None:
    """Spec 2.2-2.5: behaviours 1 and 2, without any admission."""
    empty = decode({"metadata": {"name": "demo"}, "spec": {"leaderWorkerTemplate": {"workerTemplate": {}}}})
    spec, template = empty.spec, empty.template
    assert (spec.replicas, template.size, template.restart_policy) == (1, 1, "RecreateGroupOnPodRestart")
    assert (spec.startup_policy, spec.subdomain_policy) == ("LeaderCreated", "Shared")
    assert (spec.group_identity, spec.group_replacement_policy) == ("Ordinal", "PostTermination")
    assert spec.pod_termination_policy == "Default"
    rolling = spec.rollout_strategy.rolling_update
    assert (spec.rollout_strategy.type, rolling.partition, rolling.max_unavailable, rolling.max_surge) == (
        "RollingUpdate",
        0,
        1,
        0,
    )
    assert template.max_group_restarts is None
    assert template.restart_backoff is None
    assert not empty.hash_mode
    assert not empty.parallel


def test_nulls_are_absence() -> None:
    """Spec 2: a field that is null means what an absent one means, everywhere."""
    spec: dict[str, Any] = {
        "replicas": None,
        "rolloutStrategy": None,
        "networkConfig": None,
        "groupIdentity": None,
        "leaderWorkerTemplate": {"workerTemplate": {}, "size": None, "leaderTemplate": None, "volumeClaimTemplates": None},
    }
    view = decode({"metadata": {"name": "demo", "labels": None, "annotations": None}, "spec": spec, "status": None})
    assert (view.spec.replicas, view.template.size, view.spec.subdomain_policy) == (1, 1, "Shared")
    assert view.template.volume_claim_templates == ()
    assert view.status.ready_replicas == 0


@pytest.mark.parametrize(
    ("backoff", "expected"), [({}, (10, 300)), ({"baseSeconds": 20}, (20, 300)), ({"capSeconds": 60}, (10, 60))]
)
def test_backoff_defaults(backoff: dict[str, int], expected: tuple[int, int]) -> None:
    """Spec 2.3, behaviour 8: each bound has its own default."""
    found = lws(template={"restartBackoff": backoff}).template.restart_backoff
    assert found is not None
    assert (found.base, found.cap) == expected


@pytest.mark.parametrize(
    ("policy", "effective", "recreates"),
    [
        (None, "RecreateGroupOnPodRestart", True),
        ("", "RecreateGroupOnPodRestart", True),
        ("RecreateGroupAfterStart", "RecreateGroupAfterStart", True),
        ("None", "None", False),
        ("Default", "None", False),
    ],
)
def test_restart_policy(policy: str | None, effective: str, recreates: bool) -> None:
    """Spec 5.8: a stored ``Default`` is None; unset is the default policy."""
    template = lws(template={"restartPolicy": policy}).template
    assert (template.restart_policy, template.recreates) == (effective, recreates)


@pytest.mark.parametrize(
    ("policy", "annotated", "guards"),
    [
        ("RecreateGroupAfterStart", False, True),
        ("RecreateGroupOnPodRestart", False, False),
        ("RecreateGroupOnPodRestart", True, True),
        ("None", True, False),
    ],
)
def test_start_guard(policy: str, annotated: bool, guards: bool) -> None:
    """Spec 5.8, Q8: the presence of the deprecated annotation guards the start, whatever its value, but not under None."""
    annotations = {keys.AFTER_START_EXPERIMENT: ""} if annotated else {}
    assert lws(template={"restartPolicy": policy}, annotations=annotations).guards_start is guards


def test_leader_template_falls_back_to_the_worker_template() -> None:
    """Spec 2.3."""
    own = {"spec": {"containers": [{"name": "leader"}]}}
    assert lws().template.effective_leader_template == lws().template.worker_template
    assert lws(template={"leaderTemplate": own}).template.effective_leader_template == own


def test_bytes_decode_straight_into_views() -> None:
    """Design 3: what the reflector does. Fields that we do not know are passed over."""
    body = lws_dict(spec={"rolloutStrategy": {"rollingUpdateConfiguration": {"maxSurge": "25%"}}, "somethingNew": 1})
    body["metadata"]["creationTimestamp"] = "2026-08-01T12:00:00Z"
    view = msgspec.json.decode(msgspec.json.encode(body), type=LeaderWorkerSet)
    assert view.spec.rollout_strategy.rolling_update.max_surge == "25%"
    assert view.metadata.creation_timestamp is not None


EXAMPLES = sorted(
    (entry.name, entry.read_text())
    for entry in (resources.files("regroup.leaderworkerset") / "examples").iterdir()
    if PurePosixPath(entry.name).suffix == ".yaml"
)


def test_every_manifest_of_the_seed_is_there() -> None:
    """The seed has five YAML blocks."""
    names = [name.removesuffix(".yaml") for name, _ in EXAMPLES]
    assert names == [
        "max-group-restarts",
        "none",
        "recreate-group-after-start",
        "recreate-group-on-pod-restart",
        "restart-backoff",
    ]


@pytest.mark.parametrize(("name", "text"), EXAMPLES)
def test_manifests_of_the_seed_decode(name: str, text: str) -> None:
    """Seed: the manifests as they stand; ``None`` is the name of a policy, not a null."""
    view = decode(yaml.safe_load(text))
    expected = {"none": "None", "recreate-group-after-start": "RecreateGroupAfterStart"}.get(name.removesuffix(".yaml"))
    assert view.template.restart_policy == (expected or "RecreateGroupOnPodRestart")
