"""Events that are told once per episode: the marks that a row keeps of them (spec/omenative.md 4.10). Pure.

The mark is written with the row before the event is told, so that a crash tells it at most once.
"""

import msgspec

from regroup.omenative.api.row import Row

_LIMIT = 32
"""Marks that one row keeps at most; the oldest go first."""


def episode(row: Row) -> str:
    """The operation at work, else the incarnation."""
    return row.operation.id if row.operation is not None and row.operation.id else f"#{row.incarnation}"


def announce(row: Row, reason: str, *, of: str = "", standing: bool = False) -> Row | None:
    """The row with the mark, or None when this was told already in this episode.

    ``of`` tells apart what has several subjects in one episode, a pod for example. ``standing``: true of the Instance whatever
    is done with it, so the incarnation is its episode.
    """
    at = f"#{row.incarnation}" if standing else episode(row)
    mark = f"{reason}@{at}/{of}" if of else f"{reason}@{at}"
    if mark in row.announced:
        return None
    return msgspec.structs.replace(row, raw_announced=(*row.announced, mark)[-_LIMIT:])


def pruned(row: Row) -> Row:
    """The row without the marks of episodes that are over."""
    alive = {f"#{row.incarnation}", episode(row)}
    kept = tuple(mark for mark in row.announced if mark.partition("@")[2].partition("/")[0] in alive)
    return row if kept == tuple(row.announced) else msgspec.structs.replace(row, raw_announced=kept or None)
