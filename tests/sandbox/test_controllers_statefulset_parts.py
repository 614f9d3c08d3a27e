"""Identity, revisions and claims of a StatefulSet's pods."""

from typing import Any

import msgspec
import pytest
from tests.sandbox.controllers_fixtures import claim, revision, set_pod, stateful_set

from regroup.sandbox.controllers.stateful.claims import corrected_owners, deleting_claims, missing_claims
from regroup.sandbox.controllers.stateful.identity import build_pod, parent_and_ordinal, storage_matches
from regroup.sandbox.controllers.stateful.revisions import (
    canonical,
    ordered,
    outdated,
    revise,
    revision_data,
    revision_hash,
    revision_object,
    revision_template,
    template_of,
)

DATA = {"metadata": {"name": "data", "labels": {"own": "label"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("web-0", ("web", 0)),
        ("web-a-12", ("web-a", 12)),
        ("web", ("", -1)),
        ("web-", ("", -1)),
        ("web-x", ("", -1)),
        ("web-2147483647", ("web", 2147483647)),
        ("web-2147483648", ("web", -1)),
        ("web-" + "9" * 40, ("web", -1)),
        ("web--1", ("web-", 1)),
    ],
)
def test_a_pod_name_says_its_set_and_its_ordinal(name: str, wanted: tuple[str, int]) -> None:
    """Names are <set>-<ordinal>; an ordinal has 32 bits."""
    assert parent_and_ordinal(name) == wanted


def test_a_pod_gets_its_whole_identity() -> None:
    """Labels, host name, subdomain, owner, volumes of claims before others of the same name."""
    template: dict[str, Any] = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "x", "emptyDir": {}}]},
    }
    pod = build_pod(stateful_set(volumeClaimTemplates=[DATA]), template, revision="web-abc", ordinal=4)
    assert pod["metadata"] == {
        "name": "web-4",
        "generateName": "web-",
        "namespace": "default",
        "annotations": {"a": "b"},
        "labels": {
            "app": "web",
            "controller-revision-hash": "web-abc",
            "statefulset.kubernetes.io/pod-name": "web-4",
            "apps.kubernetes.io/pod-index": "4",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": "web",
                "uid": "set-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"]["hostname"] == "web-4"
    assert pod["spec"]["subdomain"] == "web"
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-4"}},
        {"name": "x", "emptyDir": {}},
    ]
    assert "hostname" not in template["spec"], "the template is shared and must not change"


def test_storage_matches_only_the_claims_of_the_ordinal() -> None:
    """A pod whose volume names another claim is not what the set asks for."""
    set_ = stateful_set(volumeClaimTemplates=[DATA])
    right = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}]
    assert storage_matches(set_, set_pod(1, volumes=right))
    assert not storage_matches(set_, set_pod(2, volumes=right))
    assert not storage_matches(set_, set_pod(1))


def test_revision_names_are_those_of_a_real_controller_manager() -> None:
    """Vector: a set named test, recorded from Kubernetes 1.34, whose revision is test-776999688b."""
    template: dict[str, Any] = {
        "metadata": {"annotations": {"test": "value"}, "labels": {"app": "foo"}},
        "spec": {
            "containers": [
                {
                    "image": "test",
                    "imagePullPolicy": "Always",
                    "name": "test",
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    }
    data = revision_data(stateful_set(template=template))
    assert revision_hash(canonical(data), 0) == "776999688b"
    made = revision_object(stateful_set(template=template), data, number=2, collision_count=0)
    assert made["metadata"]["name"] == "web-776999688b"
    assert made["metadata"]["labels"] == {"app": "foo", "controller.kubernetes.io/hash": "776999688b"}
    assert made["revision"] == 2
    assert revision_hash(canonical(data), 1) != "776999688b", "a collision gives another name"


def test_revision_text_escapes_as_go_does() -> None:
    """The hash is over Go's JSON: sorted keys and escaped angle brackets."""
    assert canonical({"b": "<&>", "a": "é"}) == '{"a":"é","b":"\\u003c\\u0026\\u003e"}'.encode()


def test_a_revision_gives_its_template_back() -> None:
    """What was stored is what pods are made from."""
    set_ = stateful_set()
    stored = revision("web-1", 1, revision_data(set_))
    wanted = template_of(set_)
    wanted["spec"]["containers"][0]["resources"] = {}
    assert revision_template(stored) == wanted


def test_an_unchanged_set_keeps_its_newest_revision() -> None:
    """Equal data, in whatever key order it is stored, is no new revision."""
    data = revision_data(stateful_set())
    shuffled = {"spec": {"template": dict(reversed(list(data["spec"]["template"].items())))}}
    newest = revision("web-2", 2, shuffled)
    found = revise(stateful_set(status={"currentRevision": "web-1"}), [revision("web-1", 1, {}), newest], canonical(data))
    assert found.update is newest
    assert found.bump is None
    assert found.current is not None
    assert found.current.metadata.name == "web-1"


def test_going_back_numbers_an_old_revision_anew() -> None:
    """A rollback reuses the equal revision and gives it the next number."""
    data = revision_data(stateful_set())
    first = revision("web-1", 1, data)
    found = revise(stateful_set(), [first, revision("web-2", 2, {})], canonical(data))
    assert found.update is None
    assert found.bump is first
    assert found.next_number == 3


def test_a_changed_set_needs_a_new_revision() -> None:
    """No equal data: a new number, one above the newest."""
    found = revise(stateful_set(), [revision("web-9", 9, {})], canonical(revision_data(stateful_set())))
    assert (found.update, found.bump, found.next_number) == (None, None, 10)
    assert revise(stateful_set(), [], b"{}").next_number == 1


def test_only_unused_revisions_beyond_the_limit_go_oldest_first() -> None:
    """revisionHistoryLimit counts revisions that nothing uses."""
    revisions = ordered([revision(f"web-{number}", number, {}) for number in (3, 1, 2, 4)])
    names = [entry.metadata.name for entry in outdated(revisions, live=["web-1", "web-4"], limit=1)]
    assert names == ["web-2"]
    assert outdated(revisions, live=["web-4"], limit=3) == ()
    assert [entry.metadata.name for entry in outdated(revisions, live=["web-4"], limit=0)] == ["web-1", "web-2", "web-3"]
    assert outdated(revisions, live=[], limit=-1) == ()


def test_missing_claims_are_made_with_the_set_labels() -> None:
    """A claim is named <template>-<set>-<ordinal>; the selector's labels are added."""
    set_ = stateful_set(volumeClaimTemplates=[{**DATA, "status": {"phase": "Pending"}}])
    (made,) = missing_claims(set_, 2, {})
    assert made == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-2", "namespace": "default", "labels": {"own": "label", "app": "web"}},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    assert missing_claims(set_, 2, {"data-web-2": claim("data-web-2")}) == ()
    assert deleting_claims(set_, 2, {"data-web-2": claim("data-web-2", deleting=True)}) == ("data-web-2",)


SET_OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set-uid", "controller": True}
POD_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": "web-0-uid", "controller": True}
OTHER = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t-uid"}


@pytest.mark.parametrize(
    ("deleted", "scaled", "replicas", "owners", "wanted"),
    [
        ("Retain", "Retain", 1, [], None),
        ("Retain", "Retain", 1, [SET_OWNER, OTHER], ["t-uid"]),
        ("Delete", "Retain", 1, [OTHER], ["t-uid", "set-uid"]),
        ("Delete", "Retain", 0, [SET_OWNER], None),
        ("Retain", "Delete", 1, [], None),
        ("Retain", "Delete", 1, [POD_OWNER], []),
        ("Retain", "Delete", 0, [], ["web-0-uid"]),
        ("Delete", "Delete", 1, [], ["set-uid"]),
        ("Delete", "Delete", 0, [SET_OWNER], ["web-0-uid"]),
        ("Delete", "Delete", 0, [{**OTHER, "controller": True}], None),
    ],
)
def test_claim_owners_follow_the_retention_policy(
    deleted: str, scaled: str, replicas: int, owners: list[dict[str, Any]], wanted: list[str] | None
) -> None:
    """persistentVolumeClaimRetentionPolicy, carried out through owner references; another controller's claim is left alone."""
    set_ = stateful_set(replicas=replicas, persistentVolumeClaimRetentionPolicy={"whenDeleted": deleted, "whenScaled": scaled})
    refs = corrected_owners(set_, set_pod(0), claim("data-web-0", owners=owners))
    assert (None if refs is None else [entry["uid"] for entry in refs]) == wanted
    assert refs is None or msgspec.json.encode(refs)
