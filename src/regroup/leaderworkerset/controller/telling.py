"""Events about a LeaderWorkerSet, in one place for all of its pass."""

from regroup.kube.meta import ObjectRef, object_ref
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.runtime.events import EventRecorder, EventType


class Teller:
    """Tells what happens to LeaderWorkerSets."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def tell(self, lws: LeaderWorkerSet, kind: EventType, reason: str, message: str) -> None:
        """Record one event. Repeats are joined by the recorder."""
        self._recorder.event(reference(lws), type=kind, reason=reason, message=message, action=reason)


def reference(lws: LeaderWorkerSet) -> ObjectRef:
    """The LeaderWorkerSet as events name it."""
    return object_ref(lws, api_version=LEADERWORKERSETS.api_version, kind=LEADERWORKERSETS.kind)
