"""A pass in the making: rows as they will be written, and what is to follow. Pure; lives in one call of ``passes.run`` only.

The steps of a pass (3.3) read and change it one after the other. A row that a step puts is what the next steps see; effects are
kept in order, and none is carried out before all rows are written.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from regroup.omenative.api.replica import RetryBlock
from regroup.omenative.api.row import Operation, Row
from regroup.omenative.engine import announced
from regroup.omenative.engine.plan import Plan
from regroup.omenative.names import instance_name
from regroup.omenative.outcome import NORMAL, WARNING, Action, DeletePod, Reason, SetGate, Told
from regroup.omenative.pods.last_failure import stamp
from regroup.omenative.pods.members import Members, Shapes
from regroup.omenative.view import InstancePod, ReplicaView

_MESSAGE = 1024


class Draft:
    """What the pass has come to so far."""

    def __init__(self, view: ReplicaView, plan: Plan) -> None:
        self.view = view
        self.plan = plan
        self.now = view.now
        self.shapes = Shapes(view.replica, view.revisions)
        self.rows: dict[int, Row] = {row.index: row for row in view.replica.status.rows}
        self.blocks: dict[str, RetryBlock] = {block.target_revision: block for block in view.replica.status.retry_blocks}
        self.before: Mapping[int, Row] = dict(self.rows)
        self.actions: list[Action] = []
        self.events: list[Told] = []
        self.reasons: dict[int, Reason] = {}
        self.problems: list[str] = list(plan.problems)
        self.wake: float | None = None
        self.decided: set[int] = set()
        """Instances of which this pass has decided something that must be written before more is done."""
        self.gone: set[int] = set()
        """Indices whose row this pass drops."""
        self._pods: dict[int, list[InstancePod]] = defaultdict(list)
        for pod in view.pods:
            if pod.index is not None:
                self._pods[pod.index].append(pod)
        self._members: dict[int, tuple[Row, Members]] = {}
        self._expected: dict[int, tuple[Row, tuple[InstancePod, ...]]] = {}
        self.version = 0
        """Grows with every change of a row: what was worked out from all rows holds as long as it stays."""
        self.staged: tuple[int, frozenset[int]] | None = None
        """``updates.pacing``'s own: the version, and the indices that the partition keeps back."""
        self.alike: dict[tuple[str, str], bool] = {}
        """``updates.pacing``'s own: pairs of revisions, and whether only images differ."""

    @property
    def stamp(self) -> datetime:
        """``now`` as it is written: whole seconds."""
        return stamp(self.now)

    @property
    def indices_with_pods(self) -> Sequence[int]:
        """Indices that any pod bears, in order."""
        return sorted(self._pods)

    def pods(self, index: int) -> Sequence[InstancePod]:
        """All pods with the Instance's index."""
        return self._pods.get(index, ())

    def members(self, row: Row) -> Members:
        """The Instance's pods, sorted."""
        known = self._members.get(row.index)
        if known is None or known[0] is not row:
            self._members[row.index] = (row, self.shapes.members(row, self.pods(row.index)))
        return self._members[row.index][1]

    def expected(self, row: Row) -> tuple[InstancePod, ...]:
        """Members that bear the names that the Instance is to have, of its incarnation or of none."""
        known = self._expected.get(row.index)
        if known is None or known[0] is not row:
            wanted = {slot.name for slot in self.shapes.expected(row)}
            found = tuple(
                pod for pod in self.members(row).own if pod.name in wanted and pod.incarnation in {row.incarnation, None}
            )
            self._expected[row.index] = known = (row, found)
        return known[1]

    def desired_pods(self, row: Row) -> int:
        """How many pods the Instance is to have."""
        return sum(self.shapes.sizes(row.running_revision or row.target_revision).values())

    def ordered(self) -> Sequence[Row]:
        """The rows by index, as they stand now. Safe to change rows while going through them."""
        return [self.rows[index] for index in sorted(self.rows)]

    def put(self, row: Row) -> Row:
        """Make ``row`` what will be written."""
        self.rows[row.index] = row
        self.version += 1
        return row

    def drop(self, index: int) -> None:
        """Forget the Instance: its pods are gone."""
        self.rows.pop(index, None)
        self.version += 1
        self.gone.add(index)

    def act(self, *actions: Action | None) -> None:
        """To be carried out after the rows are written, in this order."""
        self.actions += [action for action in actions if action is not None]

    def set_gates(self, gates: Sequence[SetGate | None]) -> bool:
        """Write serving conditions; whether there was anything to write."""
        wanted = [gate for gate in gates if gate is not None]
        self.actions += wanted
        return bool(wanted)

    def delete(self, index: int, pods: Sequence[InstancePod]) -> None:
        """Delete pods with their own grace; those on their way out are left alone."""
        self.actions += [DeletePod(index=index, name=pod.name, uid=pod.uid) for pod in pods if not pod.deleting]

    def tell(self, row: Row, reason: str, message: str, *, warning: bool = False, pod: str = "") -> None:
        """An event on one Instance."""
        text = f"OMENative component={self.plan.component} instance={row.index} {message}"
        kind = WARNING if warning else NORMAL
        self.events.append(Told(type=kind, reason=reason, message=text[:_MESSAGE], index=row.index, pod=pod))

    def tell_replica(self, reason: str, message: str, *, warning: bool = False, colon: bool = True) -> None:
        """An event on the whole component. ``colon``: not where the component is the sentence's subject."""
        replica = self.view.replica
        who = f"InferenceReplica {replica.namespace}/{replica.name} component={self.plan.component}"
        text = f"{who}: {message}" if colon else f"{who} {message}"
        self.events.append(Told(type=WARNING if warning else NORMAL, reason=reason, message=text[:_MESSAGE]))

    def tell_once(
        self,
        row: Row,
        reason: str,
        message: str,
        *,
        warning: bool = True,
        of: str = "",
        pod: str = "",
        standing: bool = False,
    ) -> Row:
        """An event that is told once an episode; the row then has the mark (4.10)."""
        marked = announced.announce(row, reason, of=of, standing=standing)
        if marked is None:
            return row
        self.tell(marked, reason, message, warning=warning, pod=pod)
        return self.put(marked)

    def each(self, rows: Iterable[Row], step: Callable[["Draft", Row], object]) -> None:
        """``step`` for each row. What goes wrong with one is undone and becomes a problem; the others go on (C64)."""
        for row in rows:
            actions, events, before = len(self.actions), len(self.events), self.rows.get(row.index)
            try:
                step(self, row)
            except (ValueError, LookupError, TypeError, ArithmeticError) as error:
                del self.actions[actions:], self.events[events:]
                if before is not None:
                    self.put(before)
                self.decided.add(row.index)
                self.problems.append(f"instance {row.index}: {type(error).__name__}: {error}"[:_MESSAGE])
                self.wake_operation()

    def explain(self, row: Row, rule: str, why: str) -> None:
        """Why the pass does what it does with the Instance: the last word counts."""
        self.reasons[row.index] = Reason(index=row.index, rule=rule, why=why[:_MESSAGE])

    def explain_why(self, row: Row, cause: str) -> None:
        """Put ``cause`` in front of what was explained of the Instance."""
        known = self.reasons.get(row.index)
        if known is not None:
            self.explain(row, known.rule, f"{cause}; {known.why}")

    def wake_in(self, seconds: float) -> None:
        """Look again in ``seconds`` at the latest."""
        wanted = max(0.0, seconds)
        self.wake = wanted if self.wake is None else min(self.wake, wanted)

    def wake_at(self, time: datetime | None) -> None:
        """Look again at ``time`` at the latest."""
        if time is not None:
            self.wake_in((time - self.now).total_seconds())

    def wake_operation(self) -> None:
        """Look again soon: something is under way."""
        self.wake_in(self.view.settings.live.requeue_operation)

    def wake_gate(self) -> None:
        """Look again soon: something waits for its turn."""
        self.wake_in(self.view.settings.live.requeue_gate)

    def deadline(self) -> datetime | None:
        """A full window from now; None where no timeout is set."""
        timeout = self.plan.timeout
        return None if timeout is None else self.stamp + timedelta(seconds=timeout)

    def operation(
        self, row: Row, *, type: str, step: str, reason: str, target: str, strategy: str = "", retry_count: int = 0
    ) -> Operation:
        """A new operation on the row, starting now."""
        return Operation(
            id=f"{type.lower()}-{row.index}-{int(self.stamp.timestamp())}",
            type=type,
            step=step,
            reason=reason[:_MESSAGE],
            started_at=self.stamp,
            last_progress_at=self.stamp,
            deadline=None if self.plan.paused else self.deadline(),
            waiting="Paused" if self.plan.paused else "",
            target_revision=target,
            strategy=strategy,
            retry_count=retry_count,
        )

    def put_operation(self, row: Row, operation: Operation | None) -> Row:
        """Put the row with that operation; the same row when nothing changes."""
        return row if operation == row.operation else self.put(msgspec.structs.replace(row, operation=operation))

    def group_name(self, index: int) -> str:
        """Name of the Instance's PodGroup."""
        return instance_name(self.view.replica.name, index)
