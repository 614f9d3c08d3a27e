"""One pass over one InferenceReplica: observe, run the pure pass, write the rows, then act, then tell (spec/omenative.md 3.3).

What must survive is in the rows before anything that it announces is done: a process that is killed between the two goes on from
the rows.
"""

from collections.abc import Callable, Sequence

import structlog

from regroup.kube.meta import ObjectRef, object_ref
from regroup.kube.resources import ENDPOINT_SLICES
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.controller.act import Actor, Report
from regroup.omenative.controller.belongings import NameTaken
from regroup.omenative.controller.observe import Observer
from regroup.omenative.controller.pace import Pace
from regroup.omenative.controller.slices import EndpointSlice
from regroup.omenative.controller.statuses import Statuses
from regroup.omenative.controller.stores import ReplicaKey, Stores
from regroup.omenative.controller.surroundings import Surroundings
from regroup.omenative.engine import passes
from regroup.omenative.keys import COMPONENT, INFERENCE_REPLICAS, SERVICE
from regroup.omenative.outcome import WARNING, DeletePod, Outcome, Told
from regroup.omenative.view import ReplicaView
from regroup.runtime.clock import Clock
from regroup.runtime.controller import Result
from regroup.runtime.events import EventRecorder
from regroup.runtime.expectations import Expectations
from regroup.wire.client import Client
from regroup.wire.errors import Conflict, NotFound

_BEHIND = 0.5
"""Seconds until another look where our own last writes do not show in the cache yet; their events come sooner."""
_SOON = 1.0
_AGAIN = 10.0
"""Seconds until another look while something stands in the way whose end we may not see."""
FAILED_CREATE = "FailedCreate"


class ReplicaPasses:
    """The replica controller's pass. A key is never in two hands, so nothing of one replica runs beside itself."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        stores: Stores,
        observer: Observer,
        surroundings: Surroundings,
        statuses: Statuses,
        actor: Actor,
        recorder: EventRecorder,
        expectations: Expectations[ReplicaKey],
        on_pass: Callable[[InferenceReplica, Outcome], None],
    ) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores
        self._observer = observer
        self._surroundings = surroundings
        self._statuses = statuses
        self._actor = actor
        self._recorder = recorder
        self._expectations = expectations
        self._on_pass = on_pass
        self._pace = Pace()
        self._log = structlog.get_logger("omenative.replica")

    async def look(self, key: ReplicaKey) -> Result:
        """One pass. Raises ``WireError`` for what must be tried again with back-off."""
        replica = self._stores.replicas.get(*key)
        if replica is None:
            self._expectations.forget(key)
            self._statuses.forget(key)
            self._pace.forget(key)
            return Result()
        if not self._expectations.satisfied(key):
            return Result(requeue_after=_BEHIND)
        if replica.status.unreadable and not replica.metadata.deleting:
            return await self._unreadable(replica)
        rest = self._pace.wait(key, rows=len(replica.status.rows), now=self._clock.monotonic())
        if rest > 0:
            return Result(requeue_after=rest)
        try:
            around = await self._surroundings.keep(
                replica, pods=self._observer.pods(replica), known=self._observer.revisions(replica)
            )
        except NameTaken as taken:
            if not taken.leftover:
                self._event(replica, Told(type=WARNING, reason=FAILED_CREATE, message=str(taken)))
            return Result(requeue_after=_AGAIN)
        view = self._observer.view(replica, revisions=around.revisions, update_revision=around.update_revision)
        outcome = passes.run(view)
        if any(isinstance(action, DeletePod) for action in outcome.actions):
            # Pods are ended on the word of EndpointSlices: a cache that is behind could miss one that was just put in rotation.
            slices = await self._read_slices(replica)
            view = self._observer.view(replica, revisions=around.revisions, update_revision=around.update_revision, slices=slices)
            outcome = passes.run(view)
        if not outcome.actions and not outcome.events:
            wait = self._statuses.wait(replica, outcome.status, now=self._clock.monotonic())
            if wait > 0:
                return Result(requeue_after=wait if outcome.wake is None else min(wait, max(0.01, outcome.wake)))
        try:
            report = await self._carry_out(view, outcome)
        except (Conflict, NotFound):
            # Somebody wrote the replica since our cache was filled: nothing was done. Its event brings us back.
            return Result(requeue_after=_SOON)
        self._on_pass(replica, outcome)
        if report.errors:
            raise report.errors[0]
        if report.overtaken:
            return Result(requeue_after=_SOON)
        return Result(requeue_after=None if outcome.wake is None else max(0.01, outcome.wake))

    async def _unreadable(self, replica: InferenceReplica) -> Result:
        """Nothing around it is kept up either: what the rows name could be taken for unused. Its next event brings us back."""
        known = self._observer.revisions(replica)
        view = self._observer.view(replica, revisions=known, update_revision=replica.status.update_revision)
        self._tell(replica, passes.run(view))
        return Result()

    async def _carry_out(self, view: ReplicaView, outcome: Outcome) -> Report:
        replica = view.replica
        written = await self._statuses.write(replica, outcome.status)
        self._tell(replica, outcome)
        if not outcome.actions:
            return Report()
        report = await self._actor.carry_out(outcome.actions, view)
        if report.refusals:
            after = passes.refused(view, outcome.status, report.refusals)
            await self._statuses.write(written, after.status)
            self._tell(replica, after)
            more = await self._actor.carry_out(after.actions, view)
            report.errors += more.errors
            report.overtaken |= more.overtaken
        return report

    async def _read_slices(self, replica: InferenceReplica) -> Sequence[EndpointSlice]:
        selector = f"{SERVICE}={replica.service_name},{COMPONENT}={replica.spec.component}"
        page = await self._client.list_all(
            ENDPOINT_SLICES, namespace=replica.namespace, label_selector=selector, type=EndpointSlice
        )
        return page.items

    def _tell(self, replica: InferenceReplica, outcome: Outcome) -> None:
        for reason in outcome.reasons:
            self._log.info("decision", replica=replica.metadata.key, instance=reason.index, rule=reason.rule, why=reason.why)
        for problem in outcome.problems:
            self._log.warning("an Instance could not be worked on", replica=replica.metadata.key, problem=problem)
        for told in outcome.events:
            self._event(replica, told)

    def _event(self, replica: InferenceReplica, told: Told) -> None:
        pod = ObjectRef(api_version="v1", kind="Pod", namespace=replica.namespace, name=told.pod) if told.pod else None
        self._recorder.event(
            regarding(replica),
            type="Warning" if told.type == WARNING else "Normal",
            reason=told.reason,
            message=told.message,
            action=told.reason,
            related=pod,
        )


def regarding(replica: InferenceReplica) -> ObjectRef:
    """What events are about: the InferenceService, or a standalone replica itself (seed: "on the InferenceService")."""
    owner = replica.metadata.controller
    if replica.spec.parent_ref is None or owner is None:
        return object_ref(replica, api_version=INFERENCE_REPLICAS.api_version, kind=INFERENCE_REPLICAS.kind)
    return ObjectRef(api_version=owner.api_version, kind=owner.kind, namespace=replica.namespace, name=owner.name, uid=owner.uid)
