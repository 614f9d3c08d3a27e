"""Which pods an Instance is to have, and which of those with its labels are members of it (spec/omenative.md 2.1, 9.32). Pure.

Knows names and labels only; how a pod fares is for others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regroup.omenative.api.replica import InferenceReplica, Runner
from regroup.omenative.api.row import Row
from regroup.omenative.keys import DEFAULT_RUNNER, WORKER
from regroup.omenative.names import pod_name
from regroup.omenative.objects import revision as revisions
from regroup.omenative.view import InstancePod, Revision

_DEFAULT_ORDINALS = 2
"""A single-pod Instance changes between ordinal 0 and 1 at each surge."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One pod that an Instance is to have."""

    runner: str
    ordinal: int
    name: str


@dataclass(frozen=True, slots=True)
class Members:
    """The pods with one Instance's labels."""

    own: tuple[InstancePod, ...] = ()
    """Pods that bear a name of this Instance, with or without an incarnation."""
    orphans: tuple[InstancePod, ...] = ()
    """All pods without a readable incarnation, members or not: they hold up a restart (4.6)."""
    strangers: tuple[InstancePod, ...] = ()
    """Pods that no operation of this Instance made: neither judged nor touched (9.32)."""

    def at(self, incarnation: int) -> tuple[InstancePod, ...]:
        """Members of that incarnation."""
        return tuple(pod for pod in self.own if pod.incarnation == incarnation)

    def before(self, incarnation: int) -> tuple[InstancePod, ...]:
        """Members of any other incarnation that can be read."""
        return tuple(pod for pod in self.own if pod.incarnation is not None and pod.incarnation != incarnation)


NOBODY = Members()


class Shapes:
    """How many pods of which runner an Instance of each revision has. Reads each revision once."""

    def __init__(self, replica: InferenceReplica, found: Iterable[Revision]) -> None:
        self._replica = replica
        self._by_name = {one.name: one for one in found}
        self._by_hash = {one.hash: one for one in self._by_name.values()}
        self._read: dict[str, Mapping[str, int]] = {}
        self._spec = _sizes(replica.spec.runners)

    def stored(self, name: str) -> Revision | None:
        """The revision of that name, if it is stored and can be read: one that cannot is as good as gone."""
        self.sizes(name)
        return self._by_name.get(name)

    def named(self, revision_hash: str) -> str:
        """Name of the revision with that hash, empty when none is stored."""
        found = self._by_hash.get(revision_hash)
        return found.name if found is not None else ""

    def hash_of(self, name: str) -> str:
        """Hash of the revision of that name, empty when it is not stored."""
        found = self._by_name.get(name)
        return found.hash if found is not None else ""

    def sizes(self, name: str) -> Mapping[str, int]:
        """Runner to number of pods; as the spec has it now where the revision is not stored."""
        found = self._by_name.get(name)
        if found is None:
            return self._spec
        if name not in self._read:
            try:
                self._read[name] = _sizes(revisions.runners(found))
            except ValueError:
                del self._by_name[name]
                return self._spec
        return self._read[name]

    def slots(self, row: Row, revision: str, *, ordinal: int | None = None) -> tuple[Slot, ...]:
        """The pods that the Instance has at ``revision``; a single pod at ``ordinal``, else at the row's active one."""
        first = row.active_ordinal if ordinal is None else ordinal
        slots = []
        for runner, size in self.sizes(revision).items():
            start = first if runner == DEFAULT_RUNNER else 0
            slots += [self._slot(row.index, runner, start + number) for number in range(size)]
        return tuple(slots)

    def expected(self, row: Row) -> tuple[Slot, ...]:
        """The pods that the Instance is to have at the revision it runs, or is being made at."""
        return self.slots(row, row.running_revision or row.target_revision)

    def members(self, row: Row, pods: Sequence[InstancePod]) -> Members:
        """``pods`` of the row's index, sorted into members, orphans and strangers."""
        names = {row.running_revision, row.target_revision, row.operation.target_revision if row.operation else ""} - {""}
        known = [self.sizes(name) for name in names if name in self._by_name] or [self._spec]
        # A revision that is gone had a size that nobody knows any more: then the labels are believed.
        unknown = any(name not in self._by_name for name in names)
        own, orphans, strangers = [], [], []
        for pod in sorted(pods, key=_order):
            member = self._is_member(pod, row.index, known, unknown=unknown)
            if pod.incarnation is None:
                orphans.append(pod)
            if member:
                own.append(pod)
            elif pod.incarnation is not None:
                strangers.append(pod)
        return Members(tuple(own), tuple(orphans), tuple(strangers))

    def _is_member(self, pod: InstancePod, index: int, known: Sequence[Mapping[str, int]], *, unknown: bool) -> bool:
        runner, ordinal = pod.runner, pod.ordinal
        if ordinal is None or pod.name != pod_name(self._replica.name, index, runner=runner, ordinal=ordinal):
            return False
        if runner == DEFAULT_RUNNER:
            return ordinal < _DEFAULT_ORDINALS and (unknown or any(runner in sizes for sizes in known))
        return unknown or any(ordinal < sizes.get(runner, 0) for sizes in known)

    def _slot(self, index: int, runner: str, ordinal: int) -> Slot:
        return Slot(runner, ordinal, pod_name(self._replica.name, index, runner=runner, ordinal=ordinal))


def is_worker(pod: InstancePod) -> bool:
    """A pod that no request is routed to: whether it serves says nothing of the Instance's service (4.4.2)."""
    return pod.runner == WORKER


def _sizes(found: Iterable[Runner]) -> Mapping[str, int]:
    return {one.name: max(1, one.size) for one in found}


def _order(pod: InstancePod) -> tuple[bool, int, str]:
    """The leader first, then workers by number."""
    return (is_worker(pod), pod.ordinal or 0, pod.name)
