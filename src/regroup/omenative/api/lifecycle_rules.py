"""What is wrong with a ``lifecycle`` block (spec/omenative.md 1.1.2). Pure.

The same rules serve admission and the merged value: a runtime's block is only seen whole when a service uses it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regroup.kube.problem import Problem, not_supported
from regroup.omenative.api import durations
from regroup.omenative.api.counts import COUNT_LIMIT, is_zero, percent
from regroup.omenative.api.lifecycle import RESTART_POLICIES, UPDATE_STRATEGIES

READY_POLICIES = ("AllPodReady", "None")
MIGRATION_MODES = ("Auto", "Surge", "Never")


def lifecycle_problems(value: Any, path: str, *, multi_pod: bool = False, explicit: bool = True) -> list[Problem]:
    """Problems of the block at ``path``. ``multi_pod``: the component has a leader and workers. ``explicit``: it is as one author
    wrote it; two zero budgets that only meet in a merge are no error."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [Problem(path, value, "must be an object", kind="TypeInvalid")]
    problems = [
        *_one_of(value, "restartPolicy", path, RESTART_POLICIES),
        *_one_of(value, "readyPolicy", path, READY_POLICIES),
        *_timeout(value, path),
        *_min_ready_seconds(value, path),
    ]
    if multi_pod and value.get("readyPolicy") == "None":
        problems.append(Problem(f"{path}.readyPolicy", "None", "None is not allowed for a component with a leader and workers"))
    strategy, at = value.get("updateStrategy"), f"{path}.updateStrategy"
    if isinstance(strategy, Mapping):
        problems += _one_of(strategy, "type", at, UPDATE_STRATEGIES)
        problems += _rolling_update(strategy.get("rollingUpdate"), f"{at}.rollingUpdate", explicit=explicit)
        problems += _in_place(strategy.get("inPlaceUpdateStrategy"), f"{at}.inPlaceUpdateStrategy")
    elif strategy is not None:
        problems.append(Problem(at, strategy, "must be an object", kind="TypeInvalid"))
    migration = value.get("migrationPolicy")
    if isinstance(migration, Mapping):
        problems += _one_of(migration, "mode", f"{path}.migrationPolicy", MIGRATION_MODES)
    elif migration is not None:
        problems.append(Problem(f"{path}.migrationPolicy", migration, "must be an object", kind="TypeInvalid"))
    return problems


def budget_problem(value: Any, path: str) -> Problem | None:
    """What is wrong with a number of Instances or a percentage of them."""
    if isinstance(value, str):
        share = percent(value)
        if share is None or share > 100:
            return Problem(path, value, "must be 0% to 100% (InvalidRollingUpdatePercent)")
        return None
    if not _is_count(value):
        return Problem(path, value, "must be a whole number >= 0, or 0% to 100% (InvalidRollingUpdateInteger)")
    return None


def _one_of(value: Mapping[str, Any], name: str, path: str, allowed: Sequence[str]) -> list[Problem]:
    found = value.get(name)
    return [] if found is None or found in allowed else [not_supported(f"{path}.{name}", found, allowed)]


def _timeout(value: Mapping[str, Any], path: str) -> list[Problem]:
    found, at = value.get("instanceReadyTimeout"), f"{path}.instanceReadyTimeout"
    if found is None:
        return []
    if not isinstance(found, str):
        return [Problem(at, found, "must be a duration with a unit, such as 45m", kind="TypeInvalid")]
    try:
        seconds = durations.parse(found)
    except ValueError as error:
        return [Problem(at, found, str(error))]
    return [Problem(at, found, "must not be negative")] if seconds < 0 else []


def _min_ready_seconds(value: Mapping[str, Any], path: str) -> list[Problem]:
    found, at = value.get("minReadySeconds"), f"{path}.minReadySeconds"
    if found is None:
        return []
    if isinstance(found, bool) or not isinstance(found, int):
        return [Problem(at, found, "must be a whole number of seconds", kind="TypeInvalid")]
    if found < 0:
        return [Problem(at, found, f"{at} must be >= 0, got {found} (InvalidMinReadySeconds)")]
    return [] if found <= COUNT_LIMIT else [Problem(at, found, f"must be at most {COUNT_LIMIT}")]


def _rolling_update(value: Any, path: str, *, explicit: bool) -> list[Problem]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [Problem(path, value, "must be an object", kind="TypeInvalid")]
    problems = []
    budgets = {name: value.get(name) for name in ("maxSurge", "maxUnavailable")}
    for name, budget in budgets.items():
        problem = budget_problem(budget, f"{path}.{name}") if budget is not None else None
        if problem is not None:
            problems.append(problem)
    if explicit and not problems and all(is_zero(budget) for budget in budgets.values()):
        why = "RollingUpdateZeroBudget: maxSurge and maxUnavailable must not both be 0, no update could ever start"
        problems.append(Problem(path, budgets, why))
    partition = value.get("partition")
    if partition is not None and not _is_count(partition):
        problems.append(Problem(f"{path}.partition", partition, "must be a whole number >= 0"))
    return problems


def _in_place(value: Any, path: str) -> list[Problem]:
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [Problem(path, value, "must be an object", kind="TypeInvalid")]
    grace, mark = value.get("gracePeriodSeconds"), value.get("markNotReadyDuringLifecycle")
    problems = []
    if grace is not None and not _is_count(grace):
        problems.append(Problem(f"{path}.gracePeriodSeconds", grace, "must be a whole number of seconds >= 0"))
    if mark is not None and not isinstance(mark, bool):
        problems.append(Problem(f"{path}.markNotReadyDuringLifecycle", mark, "must be true or false", kind="TypeInvalid"))
    return problems


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_LIMIT
