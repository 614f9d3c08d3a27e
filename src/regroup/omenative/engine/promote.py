"""The promote bar: how the pods of an Instance enter rotation, when it is Ready, and when it no longer is (spec/omenative.md
3.5, T18). Pure.

The same for creates, restarts and updates. Pods of a gang enter rotation together.
"""

from collections.abc import Sequence

import msgspec

from regroup.omenative.api.row import PENDING, READY, Row
from regroup.omenative.engine.draft import Draft
from regroup.omenative.pods import gate
from regroup.omenative.pods.podcounts import ready_until
from regroup.omenative.view import InstancePod

RULE = "ome 3.5"


def reached(draft: Draft, row: Row, pods: Sequence[InstancePod]) -> bool:
    """Whether ``pods``, all that the Instance is to have, have served long enough. Puts them in rotation when they are ready."""
    ended = [pod for pod in pods if pod.terminal or pod.deleting]
    if ended:
        draft.explain(row, RULE, f"pod {ended[0].name} has ended or is on its way out")
        return False
    unready = [pod for pod in pods if not pod.containers_ready]
    if unready:
        draft.explain(row, RULE, f"{len(unready)} of {len(pods)} pods have containers that are not ready ({unready[0].name})")
        return False
    if draft.set_gates([gate.released(pod, index=row.index) for pod in pods]):
        draft.explain(row, RULE, f"all {len(pods)} pods are ready and enter rotation")
        return False
    held = [pod for pod in pods if not gate.in_rotation(pod)]
    if held:
        who = ", ".join(agent for agent, _ in gate.holders(held[0]))
        draft.explain(row, RULE, f"pod {held[0].name} is held out of rotation by {who}")
        return False
    until = ready_until(pods, min_ready=draft.plan.min_ready)
    if until is None:
        draft.explain(row, RULE, "the pods are in rotation; their Ready conditions are awaited")
        return False
    if draft.now < until:
        draft.wake_at(until)
        draft.explain(row, RULE, f"the pods must stay Ready for minReadySeconds {draft.plan.min_ready}, until {until:%H:%M:%S}Z")
        return False
    return True


def enter_ready(draft: Draft, row: Row, *, revision: str) -> Row:
    """The row in phase Ready at ``revision``, its operation closed. Every entry has a new ``readySince``."""
    draft.decided.add(row.index)
    return draft.put(
        msgspec.structs.replace(
            row,
            phase=READY,
            operation=None,
            ready_since=draft.stamp,
            running_revision=revision,
            target_revision=revision,
        )
    )


def demote(draft: Draft, row: Row, *, lost: str) -> Row:
    """A Ready row that has no pods left and may not have new ones yet is Pending (T18, 9.8)."""
    row = draft.put(msgspec.structs.replace(row, phase=PENDING))
    draft.tell(row, "InstanceDemoted", f"has no pods left and is Pending: {lost}")
    return row
