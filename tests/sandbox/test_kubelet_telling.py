"""Events, log lines and addresses of the simulated kubelet."""

from tests.sandbox.kubelet_fixtures import Pod, make_pod

from regroup.sandbox.kubelet.addresses import AddressPool
from regroup.sandbox.kubelet.logs import LogStore
from regroup.sandbox.kubelet.machine import Images, PodRun
from regroup.sandbox.kubelet.options import Fault
from regroup.sandbox.kubelet.telling import lines, notes


class Told:
    """Everything that is told about a pod that is looked at now and then."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.logs = LogStore()
        self.events: list[str] = []
        self.before: PodRun | None = None

    def look(self, seconds: float, *, fault: Fault | None = None) -> None:
        before = self.before
        run = self.pod.strike(seconds, fault) if fault else self.pod.at(seconds)
        self.events += [note.reason for note in notes(before, run, self.pod.plan)]
        for line in lines(before, run, self.pod.plan):
            self.logs.append("u1", line)
        self.before = run


def test_events_of_a_start_and_of_a_crash_loop() -> None:
    """Pulling, Pulled, Started; then Started again after a crash, and BackOff at the second."""
    told = Told(Pod(make_pod()))
    for seconds in (0, 2, 3, 7):
        told.look(seconds)
    assert told.events == ["Pulling", "Pulled", "Started"]
    told.look(10, fault=Fault(id="a", action="crash"))
    told.look(11)
    told.look(12, fault=Fault(id="b", action="crash"))
    assert told.events[3:] == ["Started", "BackOff"]
    told.look(12.5)
    assert len(told.events) == 5


def test_events_of_a_refused_image() -> None:
    """Failed once for each try, BackOff in between."""
    told = Told(Pod(make_pod(), images=Images(refused=("img/",))))
    for seconds in (0, 2, 3, 12, 14, 15):
        told.look(seconds)
    assert told.events == ["Pulling", "Failed", "BackOff", "Pulling", "Failed", "BackOff"]


def test_a_stop_says_killing_once() -> None:
    """Killing for each container that runs, at the first look after the deletion."""
    pod = Pod(make_pod(containers=("a", "b")))
    before = pod.at(10)
    stopping = pod.stop(11, 30)
    assert [note.message for note in notes(before, stopping, pod.plan)] == ["Stopping container a", "Stopping container b"]
    assert list(notes(stopping, pod.at(12), pod.plan)) == []


def test_logs_are_kept_by_run() -> None:
    """`kubectl logs` shows the present run, `--previous` the one before; each with its start and its end."""
    told = Told(Pod(make_pod()))
    told.look(5)
    told.look(10, fault=Fault(id="a", action="crash", code=3, message="boom"))
    assert told.logs.read("u1", "main") == [
        "container main started from image img/main",
        "container main exited with code 3 (Error): boom",
    ]
    assert told.logs.read("u1", "main", previous=True) is None
    told.look(11)
    assert told.logs.read("u1", "main") == ["container main started from image img/main, restart 1"]
    previous = told.logs.read("u1", "main", previous=True)
    assert previous is not None
    assert previous[-1] == "container main exited with code 3 (Error): boom"
    stamped = told.logs.read("u1", "main", timestamps=True)
    assert stamped is not None
    assert stamped[0].startswith("1970-01-12T13:46:51.000000000Z container main")


def test_logs_of_a_look_that_comes_late() -> None:
    """An exit and the restart after it, seen in one look, are both in the logs of their runs."""
    told = Told(Pod(make_pod()))
    told.look(10, fault=None)
    told.pod.strike(11, Fault(id="a", action="crash", code=3))
    told.look(20)
    previous = told.logs.read("u1", "main", previous=True)
    assert previous is not None
    assert previous[-1] == "container main exited with code 3 (Error)"
    assert told.logs.read("u1", "main") == ["container main started from image img/main, restart 1"]


def test_logs_go_with_the_pod() -> None:
    """A pod that is gone leaves no log behind, and one that never ran has none."""
    told = Told(Pod(make_pod()))
    told.look(0)
    assert told.logs.read("u1", "main") is None
    told.look(5)
    told.logs.forget("u1", ("main",))
    assert told.logs.read("u1", "main") is None


def test_addresses_are_unique_while_held() -> None:
    """No two pods at once have an address; a pod keeps its own; one given back is used again only after the others."""
    pool = AddressPool()
    first, second = pool.take("a"), pool.take("b")
    assert first != second
    assert pool.take("a") == first
    pool.give_back("a")
    assert pool.take("c") not in {first, second}
    assert pool.take("d", wanted=first) == first
    assert pool.take("e", wanted=first) != first
