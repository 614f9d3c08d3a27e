"""The StatefulSet plan played against a small cluster: whatever happens in between, the promises hold and the end is right."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sandbox.controllers_fixtures import NOW, set_pod, stateful_set

from regroup.sandbox.controllers.stateful.model import StatefulSet
from regroup.sandbox.controllers.stateful.plan import Create, Delete, Observed, Repair, completed, plan
from regroup.sandbox.controllers.views import Pod


@dataclass
class Member:
    """A pod of the played cluster."""

    ordinal: int
    revision: str
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False

    def view(self) -> Pod:
        return set_pod(self.ordinal, phase=self.phase, ready=self.ready, revision=self.revision, deleting=self.deleting)


@dataclass
class Play:
    """A set, its pods, and what the kubelets do to them."""

    parallel: bool
    replicas: int = 3
    start: int = 0
    partition: int = 0
    update: str = "r0"
    status: dict[str, Any] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)

    def spec(self) -> StatefulSet:
        return stateful_set(
            replicas=self.replicas,
            status=self.status,
            ordinals={"start": self.start},
            podManagementPolicy="Parallel" if self.parallel else "OrderedReady",
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": self.partition}},
        )

    def sync(self) -> bool:
        """One pass of the controller, with its promises checked. Whether it did nothing."""
        set_ = self.spec()
        pods = tuple(self.members[ordinal].view() for ordinal in sorted(self.members))
        current = self.status.get("currentRevision") or self.update
        made = plan(Observed(set_, pods, {}, current, self.update, 0, NOW))
        assert self.parallel or len(made.replicas) + len(made.condemned) + len(made.update) <= 1, "one step at a time"
        for row in (*made.replicas, *made.condemned, made.update):
            for action in row:
                self.apply(set_, action)
        body = completed(set_, made.status).body()
        unchanged = body == self.status
        self.status = body
        return made.idle and unchanged

    def apply(self, set_: StatefulSet, action: object) -> None:
        match action:
            case Create(ordinal, revision):
                assert ordinal not in self.members, "never two pods of one name"
                assert set_.owns_ordinal(ordinal)
                if not self.parallel:
                    assert all(self.healthy(lower) for lower in range(self.start, ordinal)), "lower ordinals first"
                self.members[ordinal] = Member(ordinal, revision)
            case Delete(pod, reason):
                ordinal = int(pod.metadata.name.rpartition("-")[2])
                member = self.members[ordinal]
                assert not member.deleting, "never twice"
                if reason == "scale-down":
                    assert not set_.owns_ordinal(ordinal)
                if reason == "update":
                    assert member.revision != self.update
                    assert ordinal >= self.start + self.partition, "nothing below the partition is replaced"
                member.deleting = True
                member.ready = False
            case Repair():
                raise AssertionError("no pod loses its labels in this play")

    def healthy(self, ordinal: int) -> bool:
        member = self.members.get(ordinal)
        return member is not None and member.ready and not member.deleting

    def happen(self, what: str, number: int) -> None:
        """Something that is not the controller's doing."""
        member = self.members.get(number)
        match what:
            case "replicas":
                self.replicas = number
            case "start":
                self.start = number % 3
            case "partition":
                self.partition = number
            case "revision":
                self.update = f"r{number}"
            case "ready" if member is not None and not member.deleting and member.phase in {"Pending", "Running"}:
                member.phase, member.ready = "Running", True
            case "unready" if member is not None:
                member.ready = False
            case "fail" if member is not None:
                member.phase, member.ready = "Failed", False
            case "delete" if member is not None:
                member.deleting, member.ready = True, False
            case "gone" if member is not None and member.deleting:
                del self.members[number]

    def settle(self) -> None:
        """Kubelets do their work until the controller has nothing more to do."""
        for _ in range(200):
            quiet = self.sync()
            moved = False
            for number in list(self.members):
                if self.members[number].deleting:
                    self.happen("gone", number)
                    moved = True
                elif not self.members[number].ready and self.members[number].phase != "Failed":
                    self.happen("ready", number)
                    moved = True
            if quiet and not moved:
                return
        raise AssertionError("the set never came to rest")


EVENTS = st.sampled_from(
    ["sync", "sync", "sync", "ready", "ready", "unready", "fail", "delete", "gone", "replicas", "start", "partition", "revision"]
)


@settings(max_examples=300)
@given(parallel=st.booleans(), steps=st.lists(st.tuples(EVENTS, st.integers(0, 5)), max_size=40))
def test_a_set_keeps_its_promises_and_comes_to_rest(parallel: bool, steps: list[tuple[str, int]]) -> None:
    """No double pod, order and partition respected, nothing deleted twice; in the end exactly the wanted pods, all ready."""
    play = Play(parallel)
    for what, number in steps:
        if what == "sync":
            play.sync()
        else:
            play.happen(what, number)
    play.settle()
    wanted = set(range(play.start, play.start + play.replicas))
    assert set(play.members) == wanted
    assert all(play.healthy(ordinal) for ordinal in wanted)
    assert all(play.members[ordinal].revision == play.update for ordinal in wanted if ordinal >= play.start + play.partition)
    assert play.status["readyReplicas"] == play.status["replicas"] == play.replicas
    if play.partition == 0 and play.replicas > 0:
        assert play.status["currentRevision"] == play.update
