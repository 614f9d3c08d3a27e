"""What a person is told of a group, and the small value that its LeaderWorkerSet keeps of it."""

import msgspec
import pytest
from tests.leaderworkerset.lws_builders import NONE, NOW, node, pod, view

from regroup.kube.pod import ContainerState, ContainerStatus, Waiting
from regroup.leaderworkerset.keys import CLEANUP_FINALIZER, EXHAUSTED, RECREATE_PENDING
from regroup.leaderworkerset.status.facts import is_ready, summarize
from regroup.leaderworkerset.telling.explain import explain_group
from regroup.leaderworkerset.view import Backoff, GroupKey, GroupView, Policy, Rules

BUDGET = Rules(Policy.ON_POD_RESTART, size=3, max_restarts=3, backoff=Backoff())
RETAINED = pod(0, deleted=-5, annotations={EXHAUSTED: "true"}, finalizers=[CLEANUP_FINALIZER])


@pytest.mark.parametrize(
    ("given_view", "state", "decision"),
    [
        (view(), "Running", "Stay"),
        (view(leader=None), "NoLeader", "Stay"),
        (view(workers=(pod(1), pod(2, restarts=1))), "Recreating", "Recreate"),
        (view(leader=pod(0, age=3, annotations={RECREATE_PENDING: "1"}), rules=BUDGET), "Deferred", "Defer"),
        (view(leader=RETAINED, workers=(), rules=BUDGET), "Exhausted", "Wait"),
        (view(leader=pod(0, deleted=5)), "Terminating", "Wait"),
        (view(leader=pod(0, gated=True, phase="Pending", ready=False), workers=(), worker_set=None), "Gated", "Admit"),
        (view(workers=(pod(1), pod(2, phase="Pending", ready=False))), "Starting", "Stay"),
        (view(workers=(pod(1), pod(2, ready=False))), "NotReady", "Stay"),
    ],
)
def test_states(given_view: GroupView, state: str, decision: str) -> None:
    """Spec 5.10: the life cycle, and the very decision that the controller would take."""
    report = explain_group(given_view, now=NOW)
    assert (report.state, report.decision) == (state, decision)
    assert msgspec.json.decode(msgspec.json.encode(report.to_dict()))["group"] == "0"


def test_a_failure_with_its_evidence() -> None:
    """Issue 5: pod, container, exit code, budget used and left, next permitted time."""
    failing = (pod(1), pod(2, restarts=1, exit_code=137))
    report = explain_group(view(leader=pod(0, age=4), workers=failing, rules=BUDGET, count=0), now=NOW)
    assert report.decision == "Defer"
    assert report.last_failure is not None
    assert (report.last_failure["container"], report.last_failure["exitCode"]) == ("main", 137)
    assert (report.restarts_used, report.restarts_allowed) == (0, 3)
    assert report.next_permitted == "2026-08-01T12:00:06Z"


def test_members_and_remnants_are_named() -> None:
    report = explain_group(view(remnants=(pod(1, uid="old", deleted=-3),)), now=NOW)
    assert [(member.pod, member.remnant) for member in report.members] == [
        ("demo-0", False),
        ("demo-0-1", False),
        ("demo-0-2", False),
        ("demo-0-1", True),
    ]
    assert report.members[-1].state == "Terminating"


@pytest.mark.parametrize(
    ("given_view", "ready"),
    [
        (view(), True),
        (view(workers=(pod(1), pod(2, phase="Failed"))), False),
        (view(workers=(pod(1), pod(2, deleted=5))), False),
        (view(workers=(pod(1), pod(2, revision="r0"))), False),
        (view(workers=(pod(1),)), False),
        (view(worker_set=None), False),
        (view(leader=pod(0, deleted=5)), False),
        (view(leader=pod(0, ready=False)), False),
        (view(rules=Rules(size=1), workers=(), worker_set=None), True),
    ],
)
def test_ready(given_view: GroupView, ready: bool) -> None:
    """Spec 7.3, case C16: a stale Ready condition of a failed or leaving pod counts for nothing."""
    assert is_ready(given_view) is ready


class TestSummary:
    """What status and rollout rest on."""

    def test_only_a_ready_group_is_remembered(self) -> None:
        """Own extension B27."""
        complete = summarize(view(), now=NOW)
        assert complete is not None
        assert complete.entry is not None
        assert complete.entry.leader == complete.incarnation
        coming = summarize(view(workers=(pod(1), pod(2, ready=False))), now=NOW)
        assert coming is not None
        assert (coming.entry, coming.incarnation) == (None, complete.incarnation)

    def test_none_and_groups_of_one_are_not(self) -> None:
        for rules in (NONE, Rules(size=1)):
            summary = summarize(view(rules=rules), now=NOW)
            assert summary is not None
            assert (summary.entry, summary.incarnation) == (None, "")

    def test_updated_needs_leader_and_set(self) -> None:
        """Spec 6.2."""
        summary = summarize(view(leader=pod(0, revision="r2"), workers=()), now=NOW)
        assert summary is not None
        assert not summary.facts(revision="r2").state.updated
        assert not summary.facts(revision="r1").state.updated

    def test_nothing_left(self) -> None:
        assert summarize(view(leader=None, workers=(), worker_set=None), now=NOW) is None
        assert summarize(view(key=GroupKey("t", "demo", "abc")), now=NOW) is None

    def test_blocked(self) -> None:
        """Q29: what Progressing says."""
        lost = {"n1": node(ready="Unknown", since=-600)}
        summary = summarize(view(leader=pod(0, deleted=-600, claim=True), nodes=lost), now=NOW)
        assert summary is not None
        assert "PersistentVolumeClaim" in summary.blocked


def test_what_a_group_still_lacks_is_named() -> None:
    """A group that needs nothing of the operator and is not ready: the reason names the pods that are late and why, not all of a
    large group."""
    report = explain_group(view(workers=(pod(1), pod(2, phase="Pending", ready=False))), now=NOW)
    assert report.why.startswith("the group has all that it needs; not ready yet: demo-0-2 (Pending: ")
    workers = tuple(pod(index, ready=False) for index in range(1, 9))
    large = view(workers=workers, rules=Rules(Policy.ON_POD_RESTART, size=9))
    assert explain_group(large, now=NOW).why.endswith("demo-0-3 (Running, not ready) and 5 more")
    assert explain_group(view(), now=NOW).why == "the group has all that it needs"


@pytest.mark.parametrize(
    ("phase", "reason", "state"),
    [
        ("Pending", "ImagePullBackOff", "Pending: ImagePullBackOff"),
        ("Pending", "ContainerCreating", "Pending: it is placed and starting"),
        ("Running", "CrashLoopBackOff", "Running, not ready: CrashLoopBackOff"),
    ],
)
def test_what_holds_a_container_up_is_named(phase: str, reason: str, state: str) -> None:
    """As kubectl shows it: a wrong image or a crash loop is seen at a glance."""
    held = pod(2, phase=phase, ready=False)
    waiting = ContainerStatus(name="main", state=ContainerState(waiting=Waiting(reason=reason)))
    late = msgspec.structs.replace(held, raw_status=msgspec.structs.replace(held.status, raw_container_statuses=(waiting,)))
    report = explain_group(view(workers=(pod(1), late)), now=NOW)
    assert report.members[2].state == state
    assert f"demo-0-2 ({state})" in report.why
