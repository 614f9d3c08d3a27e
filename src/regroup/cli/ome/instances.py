"""``kubectl ome instance list`` as values: a row an Instance, and how far each component's report can be trusted (7.1). Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regroup.cli.ome.reading import Service
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.api.row import Row
from regroup.omenative.keys import PARENT_GENERATION

API_VERSION = "cli.ome.io/v1alpha1"
_SHORT = 11
"""Characters of a revision's name that fit a column: longer ones lose their middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLine:
    """One line. ``index`` is None for a component without rows."""

    component: str
    index: int | None = None
    incarnation: int = 0
    phase: str = ""
    serving: int = 0
    available: int = 0
    total: int = 0
    running_revision: str = ""
    target_revision: str = ""
    admitted: bool = False
    operation: bool = False
    failure: bool = False
    evidence: str = ""

    def cells(self) -> Sequence[str]:
        """The line as the table shows it."""
        if self.index is None:
            return (self.component, "-", "-", "-", "-", "-", self.evidence)
        return (
            self.component,
            f"{self.index}/{self.incarnation}",
            self.phase or "-",
            f"{self.serving}/{self.available}/{self.total}",
            self._revisions(),
            "".join(("A" if self.admitted else "-", "O" if self.operation else "-", "F" if self.failure else "-")),
            self.evidence,
        )

    def _revisions(self) -> str:
        running = shortened(self.running_revision) or "-"
        moving = self.target_revision and self.target_revision != self.running_revision
        return f"{running}>{shortened(self.target_revision)}" if moving else running


COLUMNS = ("COMP", "IDX/INC", "PHASE", "PODS", "REVS", "AOF", "EVIDENCE")


def instance_lines(service: Service) -> Sequence[InstanceLine]:
    """Engine, decoder, router, and in each the Instances by index."""
    lines: list[InstanceLine] = []
    for component, replica in service.replicas.items():
        evidence = evidence_of(service, replica)
        rows = sorted(replica.status.rows, key=lambda row: row.index) if replica is not None else []
        lines += [_line(component, row, evidence) for row in rows] or [InstanceLine(component=component, evidence=evidence)]
    return lines


def list_report(service: Service, lines: Sequence[InstanceLine]) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "apiVersion": API_VERSION,
        "kind": "InstanceListReport",
        "metadata": {"namespace": service.namespace, "name": service.name},
        "items": [{_camel(name): value for name, value in asdict(line).items()} for line in lines],
    }


def evidence_of(service: Service, replica: InferenceReplica | None) -> str:
    """How far the rows can be trusted: ``OK``, or what is wrong with them."""
    if replica is None:
        return "UNAVAILABLE"
    status = replica.status
    generation = replica.metadata.generation
    if replica.raw_status is None or not status.observed_generation:
        return "NOT-OBSERVED"
    if status.observed_generation < generation:
        return f"STALE:{status.observed_generation}/{generation}"
    parent = replica.metadata.annotations.get(PARENT_GENERATION, "")
    if parent.isdecimal() and int(parent) < service.service.metadata.generation:
        return "STALE:PARENT"
    if status.unreadable:
        return "BAD:ROWS"
    indices = sorted(row.index for row in status.rows)
    if not indices:
        return "EMPTY"
    return "OK" if indices == list(range(len(indices))) else "SPARSE"


def shortened(revision: str) -> str:
    """A revision's name with its middle left out where it is long."""
    return revision if len(revision) <= _SHORT else f"{revision[:4]}...{revision[-4:]}"


def _line(component: str, row: Row, evidence: str) -> InstanceLine:
    return InstanceLine(
        component=component,
        index=row.index,
        incarnation=row.incarnation,
        phase=row.phase,
        serving=row.serving_pod_count,
        available=row.available_pod_count,
        total=row.pod_count,
        running_revision=row.running_revision,
        target_revision=row.target_revision,
        admitted=row.admitted,
        operation=row.operation is not None,
        failure=row.last_failure is not None,
        evidence=evidence,
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
