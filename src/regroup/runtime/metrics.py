"""Prometheus metrics, under controller-runtime's names where one exists so that existing dashboards work, ``regroup_*`` else.

One registry an operator, made by whoever starts it; label children are cached because looking them up costs more than counting.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class _ControllerChildren:
    success: Counter
    error: Counter
    requeue: Counter
    requeue_after: Counter
    errors: Counter
    terminal: Counter
    seconds: Histogram


class Metrics:
    """The metrics of one operator. Give it to controllers; ``render`` is the page ``/metrics``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._results = Counter("controller_runtime_reconcile", "Passes by result", ("controller", "result"), registry=registry)
        self._errors = Counter("controller_runtime_reconcile_errors", "Passes that failed", ("controller",), registry=registry)
        self._terminal = Counter(
            "controller_runtime_terminal_reconcile_errors", "Passes that failed for good", ("controller",), registry=registry
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds", "Length of a pass", ("controller",), buckets=SECONDS, registry=registry
        )
        self._workers = Gauge("controller_runtime_max_concurrent_reconciles", "Workers", ("controller",), registry=registry)
        self._leader = Gauge("leader_election_master_status", "1 while this process leads", ("name",), registry=registry)
        self._children: dict[str, _ControllerChildren] = {}
        self._readers: list[_Reader] = []

    def controller(self, name: str, *, workers: int) -> None:
        """Announce a controller, so that its series exist before its first pass."""
        self._workers.labels(name).set(workers)
        self._of(name)

    def observe_pass(self, controller: str, *, result: str, seconds: float) -> None:
        """Count one pass. ``result`` is ``success``, ``requeue``, ``requeue_after``, ``error`` or ``terminal``."""
        children = self._of(controller)
        children.seconds.observe(seconds)
        match result:
            case "success":
                children.success.inc()
            case "requeue":
                children.requeue.inc()
            case "requeue_after":
                children.requeue_after.inc()
            case "error":
                children.error.inc()
                children.errors.inc()
            case "terminal":
                children.error.inc()
                children.errors.inc()
                children.terminal.inc()
            case _:
                raise ValueError(f"unknown result of a pass: {result!r}")

    def leading(self, name: str, *, leads: bool) -> None:
        self._leader.labels(name).set(1 if leads else 0)

    def gauges(
        self, name: str, documentation: str, labels: tuple[str, ...], read: Callable[[], Iterable[tuple[tuple[str, ...], float]]]
    ) -> None:
        """A gauge that is read when the page is asked for: ``read`` gives label values and the number, from ``.statistics()``."""
        reader = _Reader(name, documentation, labels, read)
        self._readers.append(reader)
        self.registry.register(reader)

    def counter(self, name: str, documentation: str, labels: tuple[str, ...]) -> Counter:
        """A counter of our own, ``regroup_*`` or ``lws_*``."""
        return Counter(name, documentation, labels, registry=self.registry)

    def histogram(
        self, name: str, documentation: str, labels: tuple[str, ...], *, buckets: tuple[float, ...] = SECONDS
    ) -> Histogram:
        """A histogram of our own."""
        return Histogram(name, documentation, labels, buckets=buckets, registry=self.registry)

    def refresh(self) -> None:
        """Read the gauges now. For the event loop's thread, which owns what they read; before each ``render``."""
        for reader in self._readers:
            reader.refresh()

    def render(self) -> bytes:
        """The page, in Prometheus' text format. Takes milliseconds: call it in a thread."""
        return generate_latest(self.registry)

    def _of(self, name: str) -> _ControllerChildren:
        children = self._children.get(name)
        if children is None:
            children = self._children[name] = _ControllerChildren(
                success=self._results.labels(name, "success"),
                error=self._results.labels(name, "error"),
                requeue=self._results.labels(name, "requeue"),
                requeue_after=self._results.labels(name, "requeue_after"),
                errors=self._errors.labels(name),
                terminal=self._terminal.labels(name),
                seconds=self._seconds.labels(name),
            )
        return children


class _Reader(Collector):
    def __init__(
        self, name: str, documentation: str, labels: tuple[str, ...], read: Callable[[], Iterable[tuple[tuple[str, ...], float]]]
    ) -> None:
        self._name, self._documentation, self._labels, self._read = name, documentation, labels, read
        self._values: list[tuple[tuple[str, ...], float]] = []

    def refresh(self) -> None:
        self._values = list(self._read())

    def describe(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(self._name, self._documentation, labels=self._labels)

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, value in self._values:
            family.add_metric(labels, value)
        yield family
