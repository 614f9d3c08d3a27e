"""Which Instances an update takes, and how many at once (spec/omenative.md 4.3, 5.3). Pure."""

from regroup.omenative.draft import Draft
from regroup.omenative.row import Row


def off_target(draft: Draft, row: Row) -> bool:
    """The Instance runs another revision than the wanted one."""
    return bool(row.running_revision) and bool(draft.plan.target) and row.running_revision != draft.plan.target


def takes(draft: Draft, row: Row) -> bool:  # noqa: ARG001 - rollouts come with the update strategies
    """Whether the update pass will rebuild the Instance at the wanted revision: then its repair yields (4.3)."""
    return False


def supersedes(draft: Draft, row: Row, revision: str) -> bool:  # noqa: ARG001 - rollouts come with the update strategies
    """Whether an Instance that is being made at ``revision`` is to be made at the wanted one instead."""
    return False


def staged(draft: Draft, row: Row) -> bool:  # noqa: ARG001 - rollouts come with the update strategies
    """The partition keeps the Instance on the old revision."""
    return False
