"""Status in Hash mode: spec/leaderworkerset.md 7.4 and the pictures of 7.5."""

from typing import Any

import pytest
from tests.leaderworkerset.lws_builders import NOW

from regroup.kube.meta import Condition
from regroup.leaderworkerset.objects.rollout import GroupState
from regroup.leaderworkerset.status.hashed import Report, WantedHash, tally_hash
from regroup.leaderworkerset.status.ordinal import GroupFacts, Tally

READY = GroupState(ready=True, updated=True)


def group(*, ready: bool = True, current: bool = True, **more: Any) -> GroupFacts:
    state = GroupState(ready=ready, updated=current)
    return GroupFacts(-1, name="k", exists=True, state=state, at_revision=current, leader_ready=ready, **more)


EXHAUSTED = group(ready=False, exhausted=True, leaving=True)
GATED = group(ready=False)


def computed(
    *groups: GroupFacts,
    replicas: int = 2,
    rolling: bool = False,
    report: Report | None = None,
    old: tuple[Condition, ...] = (),
    **more: Any,
) -> Tally:
    living = [one for one in groups if not one.leaving]
    values: dict[str, Any] = {
        "revision": "r1",
        "observed": True,
        "replicas": len(living),
        "updated": sum(one.at_revision for one in living),
        "ready": sum(one.leader_ready for one in living),
        **more,
    }
    return tally_hash(
        WantedHash(replicas, 3, revision="r1", rolling=rolling), groups, report or Report(**values), old=old, now=NOW
    )


def states(tally: Tally) -> dict[str, str]:
    return {one.type: f"{one.status} {one.reason}" for one in tally.conditions}


def test_all_ready() -> None:
    result = computed(group(), group())
    assert (result.ready, result.updated, result.update_done) == (2, 2, True)
    assert states(result) == {
        "Available": "True AllGroupsReady",
        "Progressing": "False GroupsProgressing",
        "UpdateInProgress": "False GroupsUpdating",
        "Degraded": "False AsExpected",
    }
    assert {one.observed_generation for one in result.conditions} == {3}


def test_first_creation_is_no_update() -> None:
    """Behaviour 149: neither before there is a Deployment nor while its leaders come."""
    nothing = tally_hash(WantedHash(2, 1, revision="r1", rolling=False), [], None, old=(), now=NOW)
    for result in (nothing, computed(group(ready=False)), computed(observed=False)):
        assert states(result)["UpdateInProgress"] == "False GroupsProgressing"
        assert states(result)["Progressing"] == "True GroupsProgressing"
        assert not result.update_done


@pytest.mark.parametrize(
    "more",
    [{"observed": False}, {"revision": "r0"}, {"ready": 1}, {"updated": 1}, {"replicas": 3}],
    ids=["not observed", "another revision", "ready lags", "updated lags", "one too many"],
)
def test_the_deployments_old_figures_do_not_make_it_available(more: dict[str, Any]) -> None:
    """Behaviour 153, B13: nor is anything cleaned up on them."""
    result = computed(group(), group(), rolling=True, **more)
    assert states(result)["Available"].startswith("False")
    assert not result.update_done


def test_while_it_rolls() -> None:
    result = computed(group(), group(current=False), rolling=True)
    assert states(result) == {
        "Available": "False GroupsUpdating",
        "Progressing": "True GroupsProgressing",
        "UpdateInProgress": "True GroupsUpdating",
        "Degraded": "False AsExpected",
    }


def test_all_updated_and_one_unready() -> None:
    """Behaviour 148."""
    result = computed(group(), group(ready=False), rolling=True)
    assert (states(result)["UpdateInProgress"], states(result)["Progressing"]) == (
        "False GroupsProgressing",
        "True GroupsProgressing",
    )


def test_scaling_is_no_update() -> None:
    """Spec 7.1: only a template rollout is."""
    result = computed(group(), group(), replicas=3, observed=False)
    assert states(result)["UpdateInProgress"].startswith("False")


def test_one_exhausted_and_the_rest_ready() -> None:
    """Behaviour 90."""
    result = computed(EXHAUSTED, GATED, group())
    assert (result.ready, result.updated) == (1, 2)
    assert states(result) == {
        "Available": "False ReplicaRestartBudgetExceeded",
        "Progressing": "False ReplicaRestartBudgetExceeded",
        "UpdateInProgress": "False ReplicaRestartBudgetExceeded",
        "Degraded": "True ReplicaRestartBudgetExceeded",
    }


def test_one_exhausted_and_another_coming() -> None:
    """Behaviour 91."""
    result = computed(EXHAUSTED, GATED, group(ready=False))
    assert states(result)["Progressing"] == "True GroupsProgressing"
    assert states(result)["Degraded"] == "True ReplicaRestartBudgetExceeded"


def test_ready_but_marked() -> None:
    """Spec 7.4: marked and not yet deleted, it is not counted."""
    result = computed(group(exhausted=True), group())
    assert result.ready == 1


def test_leaders_without_a_place() -> None:
    """Behaviour 61."""
    result = computed(group(ready=False, unschedulable=True), group(ready=False, unschedulable=True))
    progressing = next(one for one in result.conditions if one.type == "Progressing")
    assert (progressing.reason, progressing.message.split(":")[0]) == ("GroupUnschedulable", "2 replicas cannot be scheduled")


def test_what_breaks_is_known_before_the_deployment_says_so() -> None:
    """Case C16: the lower of both figures counts."""
    assert computed(group(ready=False), group(), ready=2).ready == 1
    assert computed(group(), group(), ready=1).ready == 1


def test_nothing_wanted() -> None:
    """Behaviour 155."""
    assert states(computed(replicas=0))["Available"] == "True AllGroupsReady"
