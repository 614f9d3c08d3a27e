"""What the API has and this version of Regroup does not do yet: refused at admission, never silently ignored. Pure.

One entry a feature. Who builds the feature deletes its entry; the code beneath needs no other change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from regroup.kube.problem import Problem
from regroup.leaderworkerset import types
from regroup.leaderworkerset.types import LeaderWorkerSet


@dataclass(frozen=True, slots=True)
class Missing:
    """``value`` is what the object asks for, None when it does not ask for the feature."""

    path: str
    value: Callable[[LeaderWorkerSet], Any]


def _unless(value: Any, usual: Any) -> Any:
    return None if value == usual else value


MISSING: tuple[Missing, ...] = (
    Missing("spec.groupIdentity", lambda lws: _unless(lws.spec.group_identity, types.ORDINAL)),
    Missing("spec.groupReplacementPolicy", lambda lws: _unless(lws.spec.group_replacement_policy, types.POST_TERMINATION)),
)


def unsupported(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Problem]:
    """Refusals for everything that ``obj`` asks for and this version lacks.

    On an update only what is new is refused, so that an object made elsewhere can still be edited, relabelled or repaired. The
    new object has passed ``validation``.
    """
    lws, before = types.decode(obj), _before(old)
    problems = []
    for missing in MISSING:
        value = missing.value(lws)
        if value is None or (before is not None and missing.value(before) == value):
            continue
        shown = value if isinstance(value, str | int) else "it"
        rule = f"{shown} is not supported by this version of regroup yet"
        problems.append(Problem(missing.path, value, rule, kind="Forbidden"))
    return problems


def _before(old: Mapping[str, Any] | None) -> LeaderWorkerSet | None:
    try:
        return None if old is None else types.decode(old)
    except msgspec.ValidationError:
        return None
