"""``regroup explain isvc/NAME``: the tables that a person reads. Asks nothing itself."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from regroup.omenative.api.row import CREATING, DELETING, FAILED, PENDING, READY, RESTARTING, UPDATING
from regroup.omenative.controller.explain_query import ServiceExplanation
from regroup.omenative.engine.explain import ComponentReport, InstanceReport

_COLOURS = {READY: "green", RESTARTING: "red", FAILED: "red"} | dict.fromkeys((CREATING, PENDING, UPDATING, DELETING), "yellow")


def show_service(explanation: ServiceExplanation, console: Console, *, details: bool) -> None:
    """A line an Instance, and with ``details`` its pods and what the next pass does."""
    console.print(f"[bold]{escape(explanation.namespace)}/{escape(explanation.name)}[/]")
    for kind, text in explanation.conditions.items():
        console.print(f"{escape(kind)}: {escape(text)}")
    for component in explanation.components:
        console.print()
        _show_component(component, console, details=details)
    for note in explanation.notes:
        console.print(f"note: {escape(note)}")


def _show_component(component: ComponentReport, console: Console, *, details: bool) -> None:
    paused = f", paused ({component.paused})" if component.paused else ""
    console.print(
        f"[bold]{escape(component.component)}[/]  {component.desired} {_instances(component)} wanted, restart policy "
        f"{escape(component.restart_policy)} (from {escape(component.restart_policy_from)}){paused}"
    )
    console.print(escape("; ".join(_limits(component))))
    table = _table(("INSTANCE", "PHASE", "NEXT", "PODS", "RULE", "WHY", "LAST FAILURE"))
    for one in component.instances:
        serving = sum(1 for pod in one.pods if pod.ready and not pod.deleting)
        cells = (f"{serving}/{len(one.pods)}", one.rule, one.why, one.last_failure or "-")
        table.add_row(f"{one.index}/{one.incarnation}", _coloured(one.phase), _coloured(one.next_phase), *map(escape, cells))
    console.print(table)
    for one in component.instances if details else ():
        _show_instance(one, console)
    for problem in component.problems:
        console.print(f"problem: {escape(problem)}")


def _instances(component: ComponentReport) -> str:
    return "Instance" if component.desired == 1 else "Instances"


def _limits(component: ComponentReport) -> Sequence[str]:
    limit = "unset: repairs wait for nothing"
    if component.max_unavailable is not None:
        limit = f"{component.max_unavailable}, {component.out_of_service} out of service"
    return (
        f"maxUnavailable {limit}",
        f"crash-loop repair {_seconds(component.stuck_pod_grace, 'off')}, {component.repair_batch or 'any number'} a pass",
        f"readiness deadline {_seconds(component.ready_timeout, 'none')}",
        f"update strategy {component.update_strategy}",
    )


def _show_instance(one: InstanceReport, console: Console) -> None:
    table = _table(("POD", "RUNNER", "PHASE", "READY", "RESTARTS", "NODE", "UID"))
    for pod in one.pods:
        phase = f"{pod.phase or '-'} (deleting)" if pod.deleting else pod.phase or "-"
        row = (pod.name, pod.runner or "-", phase, "yes" if pod.ready else "no", str(pod.restarts), pod.node or "-", pod.uid)
        table.add_row(*map(escape, row))
    console.print(f"\n[bold]Instance {one.index}[/]")
    console.print(table)
    for title, text in (("operation", one.operation), ("deadline", one.deadline), ("ready since", one.ready_since)):
        if text:
            console.print(f"{title}: {escape(text)}")
    for title, lines in (("would do", one.actions), ("would tell", one.events)):
        for line in lines:
            console.print(f"{title}: {escape(line)}")


def _coloured(phase: str) -> str:
    return f"[{_COLOURS.get(phase, 'default')}]{escape(phase or '-')}[/]"


def _seconds(value: float | None, absent: str) -> str:
    return absent if value is None else f"{value:g} s"


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column not in {"WHY", "LAST FAILURE"})
    return table
