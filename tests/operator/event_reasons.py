"""Every event reason that the API packages can tell, read from their source.

Where a reason is handed on (a parameter, ``told.reason``), the functions and classes that take it are known here by name; one
that is not is an error, so that no way of telling an event can be added past this file.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import regroup.leaderworkerset
import regroup.omenative


@dataclass(frozen=True)
class Taker:
    """A function or class that is given a reason: at ``position`` (without self), or as ``keyword``."""

    name: str
    keyword: str
    position: int | None = None


TAKERS: dict[ModuleType, Sequence[Taker]] = {
    regroup.leaderworkerset: (
        Taker("event", "reason"),
        Taker("tell", "reason", 2),
        Taker("_tell", "reason", 2),
        Taker("_event", "reason", 1),
        Taker("Wait", "event"),
        Taker("replace", "event"),
    ),
    regroup.omenative: (
        Taker("event", "reason"),
        Taker("tell", "reason", 1),
        Taker("tell_once", "reason", 1),
        Taker("tell_replica", "reason", 0),
        Taker("_tell", "reason", 1),
        Taker("fail", "event"),
        Taker("Told", "reason"),
        Taker("Trouble", "reason", 0),
    ),
}
NO_TELLING = {
    "omenative/controller/replicas.py: self._tell",
    "omenative/controller/service_statuses.py: self._tell",
    "omenative/engine/restart.py: repair.tell",
    "omenative/engine/teardown.py: _tell",
    "leaderworkerset/controller/endings.py: self._tell",
    "leaderworkerset/controller/statuses.py: self._tell",
    "leaderworkerset/controller/workloads.py: self._tell",
}
"""Functions of such a name that take no reason of an event: what they tell has its own, or it is no event."""
HANDED_ON = {"told.reason", "trouble.reason", "decision.event"}
"""What a ``Told``, a ``Trouble`` and a ``Wait`` were made with: those are takers themselves."""


def event_reasons() -> frozenset[str]:
    """All of them. Raises ``AssertionError`` for a call whose reason cannot be told."""
    return frozenset(reason for package, takers in TAKERS.items() for reason in _of_package(package, takers))


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """The package and all modules below it."""
    yield package
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def tree_of(module: ModuleType) -> ast.Module:
    """The module's source, parsed."""
    assert module.__file__ is not None
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


def value_of(node: ast.expr, module: ModuleType) -> Any:
    """The value of a constant, of a name or an attribute of ``module``, or of a sum of such; None for anything else."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return vars(module).get(name)
        case ast.Attribute(value=owner, attr=name):
            return getattr(value_of(owner, module), name, None)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = value_of(left, module), value_of(right, module)
            return parts[0] + parts[1] if all(isinstance(part, str) for part in parts) else None
    return None


def _of_package(package: ModuleType, takers: Sequence[Taker]) -> Iterator[str]:
    by_name = {taker.name: taker for taker in takers}
    for module in modules(package):
        tree = tree_of(module)
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            yield from _defaults(function, by_name, module)
            for call in ast.walk(function):
                taker = by_name.get(_called(call)) if isinstance(call, ast.Call) else None
                if taker is not None and isinstance(call, ast.Call):
                    yield from _of_call(call, taker, function, module, by_name)


def _called(call: ast.AST) -> str:
    function = call.func if isinstance(call, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _of_call(
    call: ast.Call, taker: Taker, function: ast.FunctionDef | ast.AsyncFunctionDef, module: ModuleType, by_name: dict[str, Taker]
) -> Iterator[str]:
    file = f"{module.__name__.removeprefix('regroup.').replace('.', '/')}.py"
    if f"{file}: {ast.unparse(call.func)}" in NO_TELLING:
        return
    where = f"{file}: {ast.unparse(call)}"
    given = next((one.value for one in call.keywords if one.arg == taker.keyword), None)
    if given is None and taker.position is not None and len(call.args) > taker.position:
        given = call.args[taker.position]
    if given is None:
        assert taker.position is None, f"{where}: gives no reason"
        return  # the default: nothing is told, or `_defaults` has it
    for one in _alternatives(given, function):
        value = value_of(one, module)
        if isinstance(value, str):
            if value:
                yield value
            continue
        enclosing = by_name.get(function.name)
        handed_on = enclosing is not None and ast.unparse(one) == enclosing.keyword
        assert handed_on or ast.unparse(one) in HANDED_ON, f"{where}: what is {ast.unparse(one)}?"


def _alternatives(node: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """Both sides of a condition; of a local name what it was set to."""
    if isinstance(node, ast.IfExp):
        yield from _alternatives(node.body, function)
        yield from _alternatives(node.orelse, function)
        return
    if isinstance(node, ast.Name):
        set_to = [
            step.value
            for step in ast.walk(function)
            if isinstance(step, ast.Assign) and any(isinstance(one, ast.Name) and one.id == node.id for one in step.targets)
        ]
        if set_to:
            for one in set_to:
                yield from _alternatives(one, function)
            return
    yield node


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef, by_name: dict[str, Taker], module: ModuleType) -> Iterator[str]:
    """What a taker tells that is given nothing."""
    taker = by_name.get(function.name)
    for name, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if taker is not None and name.arg == taker.keyword and default is not None:
            value = value_of(default, module)
            assert isinstance(value, str), f"{function.name}: what is the default of {name.arg}?"
            if value:
                yield value
