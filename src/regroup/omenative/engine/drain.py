"""Taking pods out of rotation before they are deleted, and the evidence that nothing routes to them any more (2.5, 4.6). Pure.

Nothing is deleted before all pods that go together are drained.
"""

from collections.abc import Sequence

from regroup.omenative.api.row import Row
from regroup.omenative.engine.draft import Draft
from regroup.omenative.pods import gate
from regroup.omenative.pods.gate import Hold
from regroup.omenative.pods.members import is_worker
from regroup.omenative.view import InstancePod, ReplicaView


def drained(pod: InstancePod, view: ReplicaView) -> bool:
    """No Service routes to the pod any more.

    The routed Service of the pod's revision tells. Without any slice the pod counts as drained only if there is no such Service.
    A pod of no revision, and a worker, is in none (9.17). ``view.stable_ready`` tells of the Service that clients use.
    """
    if pod.uid in view.stable_ready:
        return False
    routing = view.routing.get(pod.revision_hash)
    if not pod.revision_hash or is_worker(pod) or routing is None:
        return True
    if not routing.slices:
        return not routing.service_exists
    return pod.uid not in routing.ready_pods and pod.name not in routing.ready_pods


def take_out(draft: Draft, row: Row, pods: Sequence[InstancePod], *, hold: Hold, force: bool = False) -> str:
    """Hold ``pods`` out of rotation and delete them together once all are drained. Says what it waits for; empty: no pod is left.

    ``force``: do not wait for the drain.
    """
    if not pods:
        return ""
    leaving = [pod for pod in pods if pod.deleting]
    if len(leaving) == len(pods):
        return f"{_named(leaving)} to be gone"
    routed = [pod for pod in pods if gate.serves(pod) and (not is_worker(pod) or pod.uid in draft.view.stable_ready)]
    if routed and draft.set_gates([gate.held(pod, hold, index=row.index) for pod in routed]) and not force:
        return f"{_named(routed)} to leave rotation"
    waiting = [] if force else [pod for pod in pods if not drained(pod, draft.view)]
    if waiting:
        return f"the Service to stop routing to {_named(waiting)}"
    draft.delete(row.index, pods)
    return f"{_named(pods)} to be gone"


def _named(pods: Sequence[InstancePod]) -> str:
    names = ", ".join(pod.name for pod in pods[:3])
    return f"{len(pods)} pod(s) ({names}{', ...' if len(pods) > 3 else ''})"
