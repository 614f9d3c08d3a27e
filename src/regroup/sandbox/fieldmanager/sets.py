"""Sets of field paths in the form of ``managedFields`` (``FieldsV1``): a tree of steps; a member is a leaf or has a dot. Pure.

A step is ``f:name`` (a field), ``k:{...}`` (an element of a list, by its keys), ``v:...`` (an element of a set) or ``i:...``
(an index). Trees that come in are never changed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
Tree = dict[str, Any]

_MEMBER = "."


def step_text(value: Any) -> str:
    """JSON as it stands in steps: compact, with sorted keys."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def paths(tree: Mapping[str, Any] | None, prefix: Path = ()) -> Iterator[Path]:
    """The members of a set, each before those below it."""
    for step, child in (tree or {}).items():
        if step == _MEMBER:
            continue
        path = (*prefix, step)
        if not child or _MEMBER in child:
            yield path
        yield from paths(child, path)


def tree_of(members: Iterable[Path]) -> Tree:
    """The set of ``members``, with its steps in order."""
    root: Tree = {}
    listed = sorted(members)
    for path in listed:
        node = root
        for step in path:
            node = node.setdefault(step, {})
    # Sorted, so that a path comes before those below it: one that got children is told apart by a dot.
    for path in listed:
        node = _at(root, path) or {}
        if node and _MEMBER not in node:
            rest = dict(node)
            node.clear()
            node[_MEMBER] = {}
            node.update(rest)
    return root


def has(tree: Mapping[str, Any], path: Path) -> bool:
    node = _at(tree, path)
    return node is not None and (not node or _MEMBER in node)


def union(tree: Mapping[str, Any], members: Iterable[Path]) -> Tree:
    """``tree`` and ``members`` together."""
    return tree_of({*paths(tree), *members})


def without(tree: Tree, members: Iterable[Path]) -> Tree:
    """``tree`` less ``members``. The very same tree when it has none of them."""
    gone = [path for path in members if has(tree, path)]
    return tree_of(set(paths(tree)).difference(gone)) if gone else tree


def _at(tree: Mapping[str, Any], path: Path) -> Any:
    node: Any = tree
    for step in path:
        node = node.get(step)
        if node is None:
            return None
    return node


def show(path: Path) -> str:
    """A path as messages carry it: ``.spec.containers[name="a"].image``."""
    text = ""
    for step in path:
        kind, name = step[0], step[2:]
        match kind:
            case "f":
                text += f".{name}"
            case "k":
                pairs = ",".join(f"{key}={step_text(value)}" for key, value in json.loads(name).items())
                text += f"[{pairs}]"
            case "v":
                text += f"[={name}]"
            case _:
                text += f"[{name}]"
    return text
