"""Whose an object is, and what is done about a name that somebody else has. Decides nothing else."""

from regroup.kube.meta import HasMeta
from regroup.leaderworkerset.api.types import LeaderWorkerSet


class Taken(Exception):
    """A name that we need belongs to somebody else, whose object is never touched (cases C98, C112)."""


def is_owned(found: HasMeta, lws: LeaderWorkerSet) -> bool:
    """Whether this very LeaderWorkerSet controls ``found``."""
    return found.metadata.controlled_by(lws.metadata.uid)


def refuse_stranger(found: HasMeta, lws: LeaderWorkerSet, *, kind: str) -> None:
    """Raises ``Taken`` when ``found`` is not controlled by ``lws``."""
    if is_owned(found, lws):
        return
    owner = found.metadata.controller
    whose = f"{owner.kind} {owner.name}" if owner is not None else "nobody"
    raise Taken(f"{kind} {found.metadata.name} exists and belongs to {whose}")
