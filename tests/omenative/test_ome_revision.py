"""Revisions: what makes a new one and what does not (spec/omenative.md 2.6, 5.1)."""

from typing import Any

import pytest
from tests.omenative.ome_api_builders import gang, single, template

from regroup.kube.meta import ObjectMeta
from regroup.kube.workloads import ControllerRevision
from regroup.omenative.objects import revision
from regroup.omenative.view import Revision


def _hash(of: Any) -> str:
    return revision.revision_hash(revision.revision_data(of), excluded=revision.excluded_annotations(of))


def test_the_hash_has_eight_hexadecimal_digits_and_is_stable() -> None:
    """2.1: hash = 8 hex chars."""
    digest = _hash(single())
    assert len(digest) == 8
    assert int(digest, 16) >= 0
    assert digest == _hash(single())


@pytest.mark.parametrize(
    "change",
    [
        {"lifecycle": {"restartPolicy": "RecreateInstanceOnPodRestart"}},
        {"lifecycle": {"instanceReadyTimeout": "45m"}},
        {"replicas": 7},
        {"minReadySeconds": 30},
        {"topologySpread": "Required", "topologySpreadKey": "zone"},
        {"pacing": {"partition": 1}},
        {"paused": True, "pauseMode": "Freeze"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_lifecycle_replicas_pacing_and_spread_make_no_revision(change: dict[str, Any]) -> None:
    """2.6, behaviour 11: changing ``restartPolicy`` never makes a revision."""
    assert _hash(single(**change)) == _hash(single())


def test_templates_sizes_and_pairing_make_one() -> None:
    """2.6: the pod templates of all runners, and pairingProtocol."""
    assert _hash(single(pod=template("server:2"))) != _hash(single())
    assert _hash(single(pairingProtocol="v2")) != _hash(single())
    assert _hash(gang(workers=4)) != _hash(gang())


def test_what_means_the_same_is_the_same() -> None:
    """5.1: canonicalise, then hash: Go's empty fields and other spellings of quantities are no change."""
    plain = template()
    written: dict[str, Any] = {
        "metadata": {"creationTimestamp": None},
        "spec": {"containers": [{**plain["spec"]["containers"][0]}]},
    }
    written["spec"]["containers"][0]["resources"] = {}
    assert _hash(single(pod=written)) == _hash(single(pod=plain))


def test_excluded_annotations_do_not_influence_the_hash() -> None:
    """5.1: annotations listed in ``ome.io/revision-excluded-annotation-keys``."""
    marked = {"annotations": {"ome.io/revision-excluded-annotation-keys": "team,cost"}}
    one = {**template(), "metadata": {"annotations": {"team": "a", "kept": "x"}}}
    two = {**template(), "metadata": {"annotations": {"team": "b", "kept": "x"}}}
    three = {**template(), "metadata": {"annotations": {"team": "a", "kept": "y"}}}
    assert _hash(single(pod=one, metadata=marked)) == _hash(single(pod=two, metadata=marked))
    assert _hash(single(pod=one, metadata=marked)) != _hash(single(pod=three, metadata=marked))
    assert _hash(single(pod=one)) != _hash(single(pod=two))


def test_a_stored_revision_is_found_again_and_a_collision_is_salted() -> None:
    """5.1: find or create; 2.6: collision, bump ``collisionCount`` and salt."""
    wanted = single()
    data = revision.revision_data(wanted)
    made, count = revision.new_revision(wanted, stored=())
    assert (made.name, made.number, count) == (f"qwen3-0-6b-engine-{made.hash}", 1, 0)
    assert revision.find([made], data) is made
    foreign = Revision(name=made.name, hash=made.hash, number=5, data={"runners": []})
    assert revision.find([foreign], data) is None
    other, count = revision.new_revision(wanted, stored=[foreign])
    assert other.name != made.name
    assert (other.number, count) == (6, 1)


def test_a_stored_revision_reads_back_with_its_runners() -> None:
    """2.6: data = the templates of all runners."""
    made, _ = revision.new_revision(gang(), stored=())
    back = revision.decode(
        ControllerRevision(
            metadata=ObjectMeta(name=made.name, raw_labels={"ome.io/revision-hash": made.hash}),
            revision=made.number,
            data=dict(made.data),
        )
    )
    assert back == made
    assert [(one.name, one.size) for one in revision.runners(back)] == [("leader", 1), ("worker", 3)]
    assert revision.runner(back, "worker") == revision.runners(back)[1]


@pytest.mark.parametrize("data", [None, [], {}, {"runners": {}}, {"runners": [1]}, {"runners": [{"size": "x"}]}])
def test_a_damaged_revision_is_told(data: Any) -> None:
    """Bad input: a ControllerRevision that somebody wrote over stops nothing but itself."""
    with pytest.raises(revision.RevisionDamaged):
        revision.decode(ControllerRevision(data=data))
