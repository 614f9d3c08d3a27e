"""What is remembered of the groups, and what is said of their limits (issue 5 point 4)."""

from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.leaderworkerset.lws_builders import NOW, at, pod, view

from regroup.cli.history_plot import draw
from regroup.leaderworkerset.groups.decide import decide
from regroup.leaderworkerset.keys import EVIDENCE
from regroup.leaderworkerset.telling.explain import explain_group
from regroup.leaderworkerset.telling.history import Event, evidence, history, plotted
from regroup.leaderworkerset.view import Backoff, GroupView, Policy, Rules

BUDGET = Rules(Policy.ON_POD_RESTART, size=3, max_restarts=3)
BACKOFF = Rules(Policy.ON_POD_RESTART, size=3, backoff=Backoff())


def event(reason: str = "RecreateGroup", *, note: str = "Recreating group 0", seconds: float = 0, **more: Any) -> Event:
    meta = {"name": "e", "namespace": "t", "annotations": more.pop("annotations", None)}
    body = {"metadata": meta, "reason": reason, "note": note, "type": "Normal", "eventTime": at(seconds), **more}
    return msgspec.convert(body, Event)


def told(given_view: GroupView) -> Event:
    """The event of what would be decided now."""
    return event(annotations={EVIDENCE: evidence(decide(given_view, NOW), given_view)})


def test_the_evidence_survives_the_way_through_an_event() -> None:
    """Issue 5 point 4: cause, pod, container, exit code, time, budget."""
    failing = view(workers=(pod(1), pod(2, restarts=1, exit_code=137)), rules=BUDGET, count=1)
    (entry,) = history([told(failing)], [])
    assert (entry.what, entry.group, entry.pod, entry.container, entry.exit_code) == ("recreated", "0", "demo-0-2", "main", 137)
    assert (entry.restarts, entry.allowed, entry.revision) == (2, 3, "r1")
    assert entry.failed_at is not None
    assert entry.to_dict()["failedAt"] == "2026-08-01T11:59:59Z"


@pytest.mark.parametrize(
    ("found", "what", "group", "name"),
    [
        (
            event("RecreateGroupOnPodRestart", note="Worker pod x restarted, deleted leader pod demo-1 to recreate group 1"),
            "recreated",
            "1",
            "",
        ),
        (event("GroupRestartBackoff", note="Group 2 is recreated in 3 s"), "deferred", "2", ""),
        (event("GroupUnschedulable", note="odd", related={"kind": "Pod", "name": "demo-3-1"}), "skipped", "", "demo-3-1"),
        (event("ReplicaRestartBudgetExceeded", note="Group 7 used up", type="Warning"), "exhausted", "7", ""),
        (event("ForcedPodDeletion", note="Removed pod of group 4", annotations={EVIDENCE: "{]"}), "forced", "4", ""),
        (event(annotations={EVIDENCE: '{"exitCode": "seven"}'}), "recreated", "0", ""),
        (event(annotations={EVIDENCE: "x" * 10_000}), "recreated", "0", ""),
    ],
)
def test_events_of_others_and_damaged_ones(found: Event, what: str, group: str, name: str) -> None:
    """Events of the Go controller have only their sentence; evidence that cannot be read is as good as none."""
    (entry,) = history([found], [])
    assert (entry.what, entry.group, entry.pod) == (what, group, name)


def test_what_is_no_restart_is_left_out() -> None:
    """Also the Normal event that tells of the condition: the Warning says the same with its cause."""
    others = [event("GroupsProgressing"), event("ReplicaRestartBudgetExceeded"), event("AllGroupsReady")]
    assert history(others, []) == ()


def test_a_series_is_one_entry() -> None:
    """7.6: repetitions are a count on the first event; core/v1 events of old clients have theirs elsewhere."""
    series = event(series={"count": 4, "lastObservedTime": at(30)})
    old = event(eventTime=None, deprecatedCount=3, deprecatedLastTimestamp=at(60))
    entries = history([series, old], [])
    assert [(entry.times, entry.last is not None) for entry in entries] == [(4, True), (3, True)]


def test_restarts_that_the_kubelet_did_alone() -> None:
    """Policy None: nothing is told, but the pod shows it. A restart that was told is not shown twice."""
    restarted = pod(1, restarts=2, exit_code=9)
    (entry,) = history([], [pod(0), restarted])
    assert (entry.what, entry.pod, entry.exit_code, entry.times, entry.source) == ("container restarted", "demo-0-1", 9, 2, "pod")
    failing = view(workers=(restarted, pod(2)))
    assert [entry.what for entry in history([told(failing)], [restarted])] == ["recreated"]


def test_one_group_only() -> None:
    entries = history([event(), event(note="Recreating group 1", seconds=5)], [], group="1")
    assert [entry.group for entry in entries] == ["1"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["0", "1", "10", "", "abc", '<&>"']), st.integers(0, 10**7), st.text(max_size=40), st.integers(1, 5)
        ),
        max_size=20,
    )
)
def test_the_picture_is_always_xml(rows: list[tuple[str, int, str, int]]) -> None:
    """Bad input: whatever pods and groups are called, and however far apart, the file can be read."""
    made = [
        event(
            note=note,
            seconds=seconds,
            series={"count": times},
            annotations={EVIDENCE: msgspec.json.encode({"group": group}).decode()},
        )
        for group, seconds, note, times in rows
    ]
    entries = history(made, [])
    root = ET.fromstring(draw(entries, title="t/<demo>"))
    marks = [
        one
        for one in root.iter("{http://www.w3.org/2000/svg}circle")
        if one.find("{http://www.w3.org/2000/svg}title") is not None
    ]
    assert len(marks) == len(entries)
    assert list(plotted(entries)) == sorted(
        plotted(entries), key=lambda name: (not name.isdecimal(), int(name or 0) if name.isdecimal() else 0, name)
    )


@pytest.mark.parametrize(
    ("given_view", "left", "permitted", "waits"),
    [
        (view(rules=BUDGET, count=1), 2, "2026-08-01T12:00:00Z", False),
        (view(rules=BUDGET, count=3), 0, None, False),
        (view(leader=pod(0, age=4), rules=BACKOFF, count=2), None, "2026-08-01T12:00:36Z", False),
        (view(leader=pod(0, age=400), rules=BACKOFF, count=6), None, "2026-08-01T12:00:00Z", False),
        (view(rules=Rules(Policy.NONE, size=3)), None, None, False),
        (view(leader=None), None, None, False),
        (view(leader=pod(0, deleted=5)), None, None, True),
    ],
)
def test_limits_of_a_group(given_view: GroupView, left: int | None, permitted: str | None, waits: bool) -> None:
    """Issue 5 point 4: budget left, next permitted recreation, what it waits for (5.5, 5.7)."""
    report = explain_group(given_view, now=NOW)
    assert (report.restarts_left, report.recreation_permitted_from) == (left, permitted)
    assert (report.waits_for is not None) is waits


def test_the_last_failure_of_a_group_that_went_on() -> None:
    """Issue 5 point 4: under None the kubelet has dealt with it, and the pod still shows what it was."""
    report = explain_group(view(workers=(pod(1), pod(2, restarts=1, exit_code=3)), rules=Rules(Policy.NONE, size=3)), now=NOW)
    assert report.last_failure is not None
    assert (report.last_failure["pod"], report.last_failure["exitCode"]) == ("demo-0-2", 3)
