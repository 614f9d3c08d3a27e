"""What a person sees of the demo: lines that tell the story, and groups as small tables that live on a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from regroup.kube.pod import Pod
from regroup.leaderworkerset.keys import GROUP_INDEX
from regroup.omenative.keys import COMPONENT, INCARNATION, INSTANCE_INDEX


class Shown(Protocol):
    """A pod to draw."""

    @property
    def pod(self) -> Pod: ...


Update = Callable[[Sequence[Shown], datetime], None]


class Screen:
    """Writes to one console. Tables move only on a terminal; elsewhere each is printed once, when it has come to rest."""

    def __init__(self, console: Console, *, started: datetime) -> None:
        self._console = console
        self._started = started
        self._known: dict[str, str] = {}
        """Pod name to the UID that was shown last, to mark what is new."""

    def title(self, text: str) -> None:
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left", characters="-")

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def command(self, text: str) -> None:
        self._console.print(Text(f"  $ {text}", style="cyan"), soft_wrap=True)

    def event(self, kind: str, reason: str, note: str) -> None:
        self._console.print(
            Text(f"  event {kind} {reason}: {note}", style="yellow" if kind == "Warning" else "blue"), soft_wrap=True
        )

    def check(self, text: str, *, held: bool) -> None:
        mark, style = ("ok  ", "green") if held else ("FAIL", "bold red")
        self._console.print(Text.assemble("  ", (mark, style), " ", text), soft_wrap=True)

    def show(self, members: Sequence[Shown], *, now: datetime) -> None:
        """Draw the groups as they are."""
        self._console.print(self._table(members, now))
        self._remember(members)

    @contextmanager
    def live(self, what: str) -> Iterator[Update]:
        """Draw the groups again and again while something is waited for; the last picture stays."""
        latest: list[RenderableType] = []
        shown: list[Sequence[Shown]] = []
        with Live(console=self._console, auto_refresh=False, transient=True) as live:

            def update(members: Sequence[Shown], now: datetime) -> None:
                table = self._table(members, now)
                latest[:], shown[:] = [table], [members]
                if self._console.is_terminal:
                    live.update(_under(table, f"  ... {what}"), refresh=True)

            yield update
        if latest:
            self._console.print(latest[0])
            self._remember(shown[0])

    def _remember(self, members: Sequence[Shown]) -> None:
        self._known = {member.pod.metadata.name: member.pod.metadata.uid for member in members}

    def _table(self, members: Sequence[Shown], now: datetime) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
        table.add_column(f"  {(now - self._started).total_seconds():>6.0f}s", style="dim", no_wrap=True)
        for name in ("POD", "STATE", "RESTARTS", "NODE", "UID"):
            table.add_column(name, no_wrap=True)
        group = ""
        for member in members:
            pod = member.pod
            index = _group(pod)
            old = self._known.get(pod.metadata.name)
            uid = pod.metadata.uid[:8]
            fresh = bool(self._known) and old != pod.metadata.uid
            state, style = _state(pod)
            table.add_row(
                Text(f"  {index}" if index != group else ""),
                pod.metadata.name,
                Text(state, style=style),
                Text(str(pod.restarts), style="red" if pod.restarts else "dim"),
                pod.spec.node_name or "-",
                Text(f"{uid} new" if fresh else uid, style="bold" if fresh else "dim"),
            )
            group = index
        return table


def _group(pod: Pod) -> str:
    """What the pod is a part of: a group of a LeaderWorkerSet, or an Instance of a component with its incarnation."""
    labels = pod.metadata.labels
    if INSTANCE_INDEX in labels:
        return f"{labels.get(COMPONENT, '?')} {labels[INSTANCE_INDEX]}/{labels.get(INCARNATION, '?')}"
    return f"group {labels.get(GROUP_INDEX, '?')}"


def _state(pod: Pod) -> tuple[str, str]:
    if pod.deleting:
        return "Terminating", "magenta"
    if pod.running_and_ready:
        return "Ready", "green"
    if pod.phase == "Running":
        return "Running", "yellow"
    return pod.phase or "Pending", "red" if pod.phase == "Failed" else "yellow"


def _under(table: Table, text: str) -> RenderableType:
    grid = Table.grid()
    grid.add_row(table)
    grid.add_row(Text(text, style="dim"))
    return grid
