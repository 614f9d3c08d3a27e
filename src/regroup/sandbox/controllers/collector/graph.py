"""Who owns whom in the whole cluster, by UID, and which objects an observation makes worth a look. No I/O, no clock.

The graph only says *where to look*. Whether something is deleted is decided on live objects (see ``decide``), so a graph that
lags behind costs a look, never an object.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from regroup.kube.meta import ObjectMeta, OwnerReference
from regroup.wire.resource import Resource

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
ABSENT_LIMIT = 5000
"""How many UIDs of objects that are gone are remembered, to spare looking them up for each dependent."""


@dataclass(slots=True)
class Node:
    """An object as it was last observed."""

    resource: Resource
    meta: ObjectMeta
    dependents: set[str] = field(default_factory=set)
    """UIDs of the objects that name this one as an owner."""

    @property
    def uid(self) -> str:
        return self.meta.uid

    @property
    def deleting_dependents(self) -> bool:
        """Being deleted in the foreground: it waits for its dependents."""
        return self.meta.deleting and FOREGROUND_FINALIZER in self.meta.finalizers

    @property
    def orphaning(self) -> bool:
        """Being deleted, and its dependents are to lose their references first."""
        return self.meta.deleting and ORPHAN_FINALIZER in self.meta.finalizers

    def blocks(self, owner_uid: str) -> bool:
        """Whether the owner's foreground deletion waits for this object."""
        return any(owner.uid == owner_uid and owner.block_owner_deletion for owner in self.meta.owner_references)


class Graph:
    """All observed objects and their owners. Every method returns the UIDs that deserve a look, in a stable order."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._waiting: dict[str, set[str]] = {}
        """Dependents of owners that have not been observed, by the owner's UID."""
        self._absent: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def known_absent(self, uid: str) -> bool:
        """Whether the object was seen to go. UIDs are never used again."""
        return uid in self._absent

    def _note_absent(self, uid: str) -> None:
        # Only what was seen to go: that a name is not found proves nothing for other references to the UID.
        self._absent[uid] = None
        self._absent.move_to_end(uid)
        while len(self._absent) > ABSENT_LIMIT:
            self._absent.popitem(last=False)

    def dependents(self, uid: str) -> tuple[Node, ...]:
        """The observed objects that name ``uid`` as an owner, in the order of their names."""
        node = self._nodes.get(uid)
        found = node.dependents if node is not None else self._waiting.get(uid, set())
        return tuple(sorted((self._nodes[entry] for entry in found), key=lambda entry: (entry.meta.key, entry.uid)))

    def blocking_dependents(self, uid: str) -> tuple[Node, ...]:
        """The dependents that the owner's foreground deletion waits for."""
        return tuple(node for node in self.dependents(uid) if node.blocks(uid))

    def observe(self, resource: Resource, meta: ObjectMeta) -> list[str]:
        """An object was added or changed."""
        looks: list[str] = []
        node = self._nodes.get(meta.uid)
        if node is None:
            node = Node(resource, meta, self._waiting.pop(meta.uid, set()))
            self._nodes[meta.uid] = node
            before: ObjectMeta | None = None
        else:
            before, node.meta = node.meta, meta
        looks += self._relink(node, before)
        changed = before is None or before.finalizers != meta.finalizers or not before.deleting
        if changed and (node.orphaning or node.deleting_dependents):
            looks.append(meta.uid)
            if node.deleting_dependents:
                looks += [dependent.uid for dependent in self.dependents(meta.uid)]
        return looks

    def forget(self, uid: str) -> list[str]:
        """An object is gone: its dependents may have lost their last owner, and an owner that waits for it may go on."""
        node = self._nodes.get(uid)
        if node is None:
            return []
        for owner in node.meta.owner_references:
            self._unlink(owner.uid, uid)
        looks = [dependent.uid for dependent in self.dependents(uid)]
        del self._nodes[uid]
        if node.dependents:
            self._waiting[uid] = node.dependents
        self._note_absent(uid)
        for owner in node.meta.owner_references:
            looks += self._if_waiting(owner.uid)
        return looks

    def _relink(self, node: Node, before: ObjectMeta | None) -> list[str]:
        old = {owner.uid: owner for owner in (before.owner_references if before is not None else ())}
        new = {owner.uid: owner for owner in node.meta.owner_references}
        looks: list[str] = []
        for uid in new:
            if uid not in old:
                looks += self._link(node.uid, uid)
        for uid, owner in old.items():
            if uid not in new:
                self._unlink(uid, node.uid)
                looks += self._if_waiting(uid)
            elif _unblocked(owner, new[uid]):
                looks += self._if_waiting(uid)
        return looks

    def _link(self, uid: str, owner_uid: str) -> list[str]:
        owner = self._nodes.get(owner_uid)
        if owner is None:
            self._waiting.setdefault(owner_uid, set()).add(uid)
            # The owner may be on its way in another watch, or gone for good: only a live look can tell.
            return [uid]
        owner.dependents.add(uid)
        return [uid] if owner.deleting_dependents else []

    def _unlink(self, owner_uid: str, uid: str) -> None:
        owner = self._nodes.get(owner_uid)
        if owner is not None:
            owner.dependents.discard(uid)
            return
        waiting = self._waiting.get(owner_uid)
        if waiting is not None:
            waiting.discard(uid)
            if not waiting:
                del self._waiting[owner_uid]

    def _if_waiting(self, uid: str) -> Iterable[str]:
        owner = self._nodes.get(uid)
        return (uid,) if owner is not None and owner.deleting_dependents else ()


def _unblocked(before: OwnerReference, after: OwnerReference) -> bool:
    return bool(before.block_owner_deletion) and not after.block_owner_deletion
