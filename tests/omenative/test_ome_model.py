"""Any story of one InferenceReplica, in any order (issue: stateful model; spec/omenative.md 3.2, 3.3, 4).

Whatever happens - crashes, evictions, edits, pauses, resets, lost nodes, refusals, an operator that dies between its status write
and its actions, a cache that is behind - an Instance is never taken down twice for one failure, its incarnation grows by one a
restart, repairs never exceed the budget, evidence is kept, a Failed Instance stays until a reset or a new revision, nothing is
deleted that is still routed to, and in the end everything is as it was asked for.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.omenative.ome_simulator import CHART, SimPod, World

from regroup.omenative.api.row import FAILED, READY, RESTARTING, UPDATING, Row
from regroup.omenative.configuration.settings import Settings, UpdateRetry
from regroup.omenative.engine.repair import out_of_service
from regroup.omenative.outcome import CreatePod, DeletePod, Outcome
from regroup.omenative.view import NodeFacts, ReplicaView

R = "RecreateInstanceOnPodRestart"
RETRY = UpdateRetry(max_attempts=3, initial_delay=10.0, max_delay=60.0)
REASONS = ("CrashLoopBackOff", "ImagePullBackOff", "Unschedulable", "ContainerCreating")
KINDS = ("SurgeThenDrain", "RecreatePod", "InPlaceIfPossible")


class Story(RuleBasedStateMachine):
    """One world, and what is known of it besides the operator's own word."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.harm: Counter[tuple[int, int]] = Counter()
        """Failures by Instance and incarnation."""
        self.budget: int | None = None
        self.blocked = ""
        self.image = 1
        self.old_view: ReplicaView | None = None
        self.ordered: set[int] = set()
        """Instances of which a reset was asked for."""

    @initialize(
        replicas=st.integers(1, 3),
        workers=st.sampled_from([0, 0, 1, 2]),
        policy=st.sampled_from(["None", R]),
        kind=st.sampled_from(KINDS),
        budget=st.sampled_from([None, 1, 2]),
        surge=st.sampled_from([None, 1]),
        batch=st.sampled_from([None, 1]),
        timeout=st.sampled_from([60.0, 600.0]),
        min_ready=st.sampled_from([0, 0, 7]),
    )
    def begin(self, **given: Any) -> None:
        live = replace(
            CHART.live,
            instance_ready_timeout=given["timeout"],
            stuck_pod_grace=20.0,
            unschedulable_grace=30.0,
            update_retry=RETRY,
        )
        start = replace(CHART.start, repair_batch_size=given["batch"])
        rolling = {"maxUnavailable": given["budget"], "maxSurge": given["surge"]}
        self.budget = given["budget"]
        self.world = World(
            replicas=given["replicas"],
            workers=given["workers"],
            policy=given["policy"],
            lifecycle={"updateStrategy": {"type": given["kind"], "rollingUpdate": rolling}},
            settings=Settings(live=live, start=start),
            min_ready=given["min_ready"],
        )
        self.world.on_create = self._on_create
        self.world.settle()

    # What fails.

    def _on_create(self, pod: SimPod) -> None:
        pod.blocked = self.blocked

    def _pick(self, data: st.DataObject) -> SimPod:
        names = sorted(self.world.pods)
        assume(names)
        return self.world.pods[data.draw(st.sampled_from(names))]

    def _harm(self, pod: SimPod) -> None:
        label = pod.labels.get("ome.io/instance-incarnation", "0")
        self.harm[int(pod.labels["ome.io/instance-index"]), int(label)] += 1

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        pod = self._pick(data)
        assume(pod.phase == "Running")
        self._harm(pod)
        self.world.crash(pod)

    @rule(data=st.data(), reason=st.sampled_from(["CrashLoopBackOff", "ImagePullBackOff", "PodInitializing"]))
    def wedge(self, data: st.DataObject, reason: str) -> None:
        pod = self._pick(data)
        assume(pod.phase == "Running")
        self._harm(pod)
        self.world.wedge(pod, reason)

    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        pod = self._pick(data)
        pod.blocked, pod.probe_fails = "", False
        for container in pod.containers:
            if pod.phase == "Running" and container.running_since is None:
                container.running_since = self.world.now

    @rule(data=st.data(), evicted=st.booleans())
    def fail_pod(self, data: st.DataObject, evicted: bool) -> None:
        pod = self._pick(data)
        assume(pod.phase != "Failed")
        self._harm(pod)
        self.world.fail(pod, reason="Evicted" if evicted else "", code=None if evicted else 1)

    @rule(data=st.data(), at_once=st.booleans())
    def delete(self, data: st.DataObject, at_once: bool) -> None:
        pod = self._pick(data)
        self._harm(pod)
        if at_once:
            self.world.vanish(pod)
        else:
            self.world.kubectl_delete(pod)

    @rule(data=st.data())
    def unready(self, data: st.DataObject) -> None:
        self._pick(data).probe_fails = True

    @rule(reason=st.sampled_from(["", "", *REASONS]))
    def block(self, reason: str) -> None:
        """New pods do not start."""
        self.blocked = reason

    @rule(kind=st.sampled_from([None, None, "Quota", "Webhook"]))
    def refuse(self, kind: str | None) -> None:
        self.world.refuse = lambda _: kind

    @rule(known=st.booleans())
    def node(self, known: bool) -> None:
        self.world.nodes = {"n1": NodeFacts(known=known)}

    # What people want.

    @rule(policy=st.sampled_from(["None", R]))
    def edit_policy(self, policy: str) -> None:
        self.world.edit_lifecycle(restartPolicy=policy)

    @rule(image=st.integers(1, 4))
    def edit_template(self, image: int) -> None:
        self.world.roll(f"img:{image}")

    @rule(mode=st.sampled_from(["", "Freeze", None, None]))
    def pause(self, mode: str | None) -> None:
        if mode is None:
            self.world.resume()
        else:
            self.world.pause(mode)

    @rule(value=st.sampled_from(["all", "0", "1", "0,2"]))
    def reset(self, value: str) -> None:
        self.world.annotations["ome.io/reset-instances"] = value

    @rule(replicas=st.integers(1, 4))
    def scale(self, replicas: int) -> None:
        self.world.edit(replicas=replicas)

    # The operator, and time.

    @rule()
    def remember(self) -> None:
        """What a cache shows for a while."""
        self.old_view = self.world.view()

    @precondition(lambda self: self.old_view is not None)
    @rule(which=st.sampled_from(["pods", "status"]))
    def pass_on_an_old_view(self, which: str) -> None:
        """A cache that is behind, in its pods or in the status: what it leads to is undone or harmless."""
        old = self.old_view
        assert old is not None
        truth = self.world.view()
        if which == "pods":
            # The controller waits until it sees what it made itself; what others did it may not know yet.
            assume(not {pod.uid for pod in truth.pods} - {pod.uid for pod in old.pods})
            self._pass(view=replace(truth, pods=old.pods, routing=truth.routing), stale=True)
        else:
            self._pass(view=replace(truth, replica=old.replica), stale=True)
        self.old_view = None

    @rule(
        die=st.sampled_from(["", "", "status", "actions:0", "actions:1", "actions:2"]),
        seconds=st.sampled_from([0, 1, 1, 2, 6]),
    )
    def look(self, die: str, seconds: int) -> None:
        self._pass(die=die)
        if seconds:
            self.world.tick(seconds)

    @rule(seconds=st.sampled_from([5, 12, 40]))
    def run_on(self, seconds: int) -> None:
        for _ in range(seconds):
            self._pass()
            self.world.tick()

    def _pass(self, *, die: str = "", view: ReplicaView | None = None, stale: bool = False) -> None:
        world = self.world
        before = {row.index: row for row in world.status.rows}
        serving = {index: self._serves(index) for index in before}
        listed = {pod.uid for pod in world.pods.values() if pod.listed_ready}
        incarnations = {pod.uid: pod.labels["ome.io/instance-incarnation"] for pod in world.pods.values()}
        seen = view or world.view()
        outcome = world.operate(view=view, die=die)
        assert not outcome.problems, outcome.problems
        # A pass that asks for the next one at once must have done something.
        assert outcome.wake is None or outcome.wake > 0 or outcome.actions or outcome.status != seen.replica.status, outcome
        after = {row.index: row for row in world.status.rows}
        self._judge_rows(before, after, outcome, seen)
        if not stale:
            self._judge_actions(before, outcome, listed, incarnations)
            self._judge_budget(before, after, outcome, serving)

    def _serves(self, index: int) -> bool:
        return any(pod.serves for pod in self.world.instance(index) if pod.labels["ome.io/runner"] != "worker")

    def _judge_rows(self, before: dict[int, Row], after: dict[int, Row], outcome: Outcome, seen: ReplicaView) -> None:
        for index, row in after.items():
            old = before.get(index)
            if old is None:
                continue
            assert row.incarnation - old.incarnation in {0, 1}, (old, row)
            assert old.last_failure is None or row.last_failure is not None, (old, row)
            if row.incarnation > old.incarnation:
                assert row.phase in {RESTARTING, UPDATING}, (old, row)
                # An operation under way is never ended by another restart.
                assert old.phase not in {RESTARTING, "Deleting", "Migrating"}, (old, row)
            if row.phase == RESTARTING and old.phase != RESTARTING:
                assert row.incarnation == old.incarnation + 1
                assert old.phase != FAILED, "a Failed Instance was restarted"
                assert self.harm[index, old.incarnation], f"a restart without a failure of its own: {outcome.events}"
                assert not seen.replica.spec.frozen_pause
            if row.phase == RESTARTING == old.phase:
                assert row.operation is not None
                assert old.operation is not None
                assert row.operation.reason == old.operation.reason
            if old.phase == FAILED and old.operation is not None and old.operation.type == "Restart":
                self._judge_kept(old, row, outcome, seen)

    def _judge_kept(self, old: Row, row: Row, outcome: Outcome, seen: ReplicaView) -> None:
        """A failed restart stays as it is, unless one of what the spec lists has happened."""
        reset = "ome.io/reset-instances" in seen.replica.metadata.annotations
        new_revision = seen.update_revision != old.running_revision
        pods = [pod for pod in seen.pods if pod.index == old.index]
        recovered = row.phase == READY and all(pod.containers_ready for pod in pods)
        deleted = [one for one in outcome.actions if isinstance(one, DeletePod) and one.index == old.index]
        leaving = row.phase == "Deleting"
        if reset or new_revision or not pods or recovered or leaving:
            return
        assert row.phase == FAILED, (old, row)
        assert row.operation == old.operation, (old, row)
        assert not deleted, "pods of a failed restart were deleted"

    def _judge_actions(self, before: dict[int, Row], outcome: Outcome, listed: set[str], incarnations: dict[str, str]) -> None:
        rows = {row.index: row for row in outcome.status.rows}
        for action in outcome.actions:
            row = rows.get(action.index)
            if isinstance(action, CreatePod):
                assert row is not None
                assert row.incarnation == action.incarnation
            if row is None or row.phase != RESTARTING:
                continue
            if isinstance(action, DeletePod) and incarnations.get(action.uid) != str(row.incarnation):
                old = [
                    pod
                    for pod in self.world.instance(action.index)
                    if pod.labels["ome.io/instance-incarnation"] != str(row.incarnation)
                ]
                assert not listed & {pod.uid for pod in old if pod.labels["ome.io/runner"] != "worker"}, "deleted while routed to"

    def _judge_budget(self, before: dict[int, Row], after: dict[int, Row], outcome: Outcome, serving: dict[int, bool]) -> None:
        repairs = [
            event.index
            for event in outcome.events
            if event.reason == "RestartTriggered" and "wedged in" in event.message and event.index is not None
        ]
        batch = self.world.settings.start.repair_batch_size
        if batch is not None:
            assert len(repairs) <= batch
        if self.budget is not None and any(serving.get(index) for index in repairs):
            out = out_of_service(outcome.status.rows)
            assert out <= self.budget, (repairs, out, self.budget)

    @invariant()
    def counts_are_those_of_the_rows(self) -> None:
        status = self.world.status
        assert status.replicas == len(status.rows)
        assert status.serving_replicas <= status.replicas
        assert [row.index for row in status.rows] == sorted(row.index for row in status.rows)

    @invariant()
    def no_two_incarnations_serve(self) -> None:
        for row in self.world.status.rows:
            at = {pod.labels["ome.io/instance-incarnation"] for pod in self.world.instance(row.index) if pod.serves}
            assert len(at) <= 1, (row, at)

    def teardown(self) -> None:
        """All faults end, and a person does what only a person can do: then all is as it was asked for."""
        world = self.world
        self.blocked = ""
        world.refuse = lambda _: None
        world.nodes = {}
        world.resume()
        for pod in world.pods.values():
            pod.probe_fails, pod.blocked = False, ""
        for round_ in range(60):
            for _ in range(20):
                self._pass()
                world.tick()
            if self._finished():
                break
            failed = [row.index for row in world.status.rows if row.phase == FAILED]
            if failed and round_ % 5 == 4:
                world.annotations["ome.io/reset-instances"] = "all"
            if round_ % 10 == 9 and any(row.phase == FAILED and row.operation for row in world.status.rows):
                # A failed update of a whole gang is kept until a new revision reaches it (5.4).
                world.roll(f"img:{10 + round_}")
            for block in world.status.retry_blocks:
                if block.state == "Held":
                    world.annotations["ome.io/release-held-revision"] = block.target_revision
            for pod in list(world.pods.values()):
                self._heal(pod)
        assert self._finished(), (world.status.rows, world.outcome and world.outcome.reasons, list(world.pods))
        # What the last second brought is counted, and then there is nothing left to do.
        self._pass()
        writes = world.status_writes
        self._pass()
        assert world.outcome is not None
        assert not world.outcome.actions
        assert world.status_writes == writes

    def _heal(self, pod: SimPod) -> None:
        """Containers that hang get going, as they do when an image appears."""
        for container in pod.containers:
            if pod.phase == "Running" and container.running_since is None:
                container.running_since = self.world.now

    def _finished(self) -> bool:
        world = self.world
        rows: Sequence[Row] = world.status.rows
        pods = 1 + world.workers
        return (
            len(rows) == world.spec["replicas"]
            and all(row.phase == READY and row.running_revision == world.update_revision for row in rows)
            and all(len([one for one in world.instance(row.index) if one.serves]) == pods for row in rows)
            and len(world.pods) == pods * len(rows)
        )


TestStory = Story.TestCase
TestStory.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
