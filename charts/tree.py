"""Objects with holes and choices in them, written as a Helm template. Pure.

A tree is a JSON value in which a value may be a ``Text`` or a ``Block`` (a hole that Helm fills) or a ``Choice`` (two trees and
the condition between them). ``choose`` finds by itself where two objects differ, so nobody has to say where an option matters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from regroup.wire import yamlish

Tree = Any


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""A branch of a ``Choice`` without anything: the key or the item is left out."""


@dataclass(frozen=True)
class Text:
    """A scalar that Helm writes; ``expression`` gives text that is YAML already."""

    expression: str


@dataclass(frozen=True)
class Block:
    """An object or a list that Helm writes from ``expression``."""

    expression: str


@dataclass(frozen=True)
class Choice:
    """``yes`` where ``condition`` holds, else ``no``; either may be ``ABSENT``, a list's branch is the items from here on."""

    condition: str
    yes: Tree
    no: Tree


def choose(condition: str, yes: Tree, no: Tree) -> Tree:
    """One tree that is ``yes`` where ``condition`` holds and ``no`` elsewhere, with choices only where the two differ."""
    if yes == no:
        return yes
    if isinstance(yes, dict) and isinstance(no, dict):
        return {key: choose(condition, yes.get(key, ABSENT), no.get(key, ABSENT)) for key in _order(list(yes), list(no))}
    if isinstance(yes, list) and isinstance(no, list):
        return _choose_items(condition, yes, no)
    return Choice(condition, yes, no)


def mapped(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """``tree`` with ``change`` made to every value in it, from the outside in; what it gives is looked into in turn."""
    found = change(tree)
    if isinstance(found, dict):
        return {key: mapped(value, change) for key, value in found.items()}
    if isinstance(found, list):
        return [mapped(value, change) for value in found]
    if isinstance(found, Choice):
        return Choice(found.condition, mapped(found.yes, change), mapped(found.no, change))
    return found


def written(tree: Tree) -> str:
    """``tree``, an object or a list, as a template that Helm renders to YAML."""
    return "\n".join(_lines(tree)) + "\n"


def _choose_items(condition: str, yes: list[Tree], no: list[Tree]) -> list[Tree]:
    return [choose(condition, left, right) for left, right in _aligned(yes, no)]


def _aligned(yes: Sequence[Tree], no: Sequence[Tree]) -> list[tuple[Tree, Tree]]:
    """The items of two lists in pairs, ``ABSENT`` where one list has no such item: the longest common sequence of them."""
    common = [[0] * (len(no) + 1) for _ in range(len(yes) + 1)]
    for i in reversed(range(len(yes))):
        for j in reversed(range(len(no))):
            same = _is_same(yes[i], no[j])
            common[i][j] = common[i + 1][j + 1] + 1 if same else max(common[i + 1][j], common[i][j + 1])
    pairs: list[tuple[Tree, Tree]] = []
    i = j = 0
    while i < len(yes) and j < len(no):
        if _is_same(yes[i], no[j]):
            pairs.append((yes[i], no[j]))
            i, j = i + 1, j + 1
        elif common[i + 1][j] >= common[i][j + 1]:
            pairs.append((yes[i], ABSENT))
            i += 1
        else:
            pairs.append((ABSENT, no[j]))
            j += 1
    return [*pairs, *((one, ABSENT) for one in yes[i:]), *((ABSENT, one) for one in no[j:])]


def _is_same(left: Tree, right: Tree) -> bool:
    """Whether two items stand for one: equal, or objects of one name."""
    if isinstance(left, dict) and isinstance(right, dict) and (name := _name(left)) is not None:
        return bool(name == _name(right))
    return bool(left == right)


def _name(item: dict[str, Tree]) -> Tree:
    meta = item.get("metadata")
    if isinstance(meta, dict):
        return (item.get("kind"), meta.get("namespace"), meta.get("name"))
    return item.get("name")


def _order(yes: list[str], no: list[str]) -> list[str]:
    """The keys of both, each once, in an order that keeps the order of either where it can."""
    return list(dict.fromkeys(left if left is not ABSENT else right for left, right in _aligned(yes, no)))


def _is_plain(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return all(_is_plain(value) for value in tree.values())
    if isinstance(tree, list):
        return all(_is_plain(value) for value in tree)
    return not isinstance(tree, Text | Block | Choice)


def _plain_lines(tree: Tree) -> list[str]:
    """YAML without holes; what Helm would take for one is written so that it gives back the same."""
    text = yamlish.dump(tree).removesuffix("...\n").rstrip("\n")
    return text.replace("{{", '{{ "{{" }}').split("\n")


def _lines(tree: Tree) -> list[str]:
    if _is_plain(tree):
        return _plain_lines(tree)
    if isinstance(tree, dict):
        return _written_parts([(key, value) for key, value in tree.items()])
    if isinstance(tree, list):
        return _written_parts([(None, value) for value in tree])
    raise TypeError(f"neither an object nor a list: {tree!r}")


Part = tuple[str | None, Tree]
"""A key with its value, or an item of a list."""


def _written_parts(parts: Sequence[Part]) -> list[str]:
    """Neighbours that hang on one condition share its directive."""
    lines: list[str] = []
    for condition, run in groupby(parts, key=lambda one: one[1].condition if isinstance(one[1], Choice) else None):
        if condition is None:
            lines += [line for key, value in run for line in (_item(value) if key is None else _entry(key, value))]
        else:
            choices = list(run)
            yes = _written_parts([(key, one.yes) for key, one in choices if one.yes is not ABSENT])
            no = _written_parts([(key, one.no) for key, one in choices if one.no is not ABSENT])
            lines += _branches(condition, yes, no)
    return lines


def _branches(condition: str, yes: list[str], no: list[str]) -> list[str]:
    if not yes:
        return [f"{{{{- if not ({condition}) }}}}", *no, "{{- end }}"]
    return [f"{{{{- if {condition} }}}}", *yes, *(["{{- else }}", *no] if no else []), "{{- end }}"]


def _entry(key: str, value: Tree) -> list[str]:
    (name,) = _plain_lines(key)
    if isinstance(value, Text):
        return [f"{name}: {{{{ {value.expression} }}}}"]
    if isinstance(value, Block):
        return [f"{name}:", f"  {{{{- toYaml ({value.expression}) | nindent 2 }}}}"]
    if _is_plain(value):
        return _plain_lines({key: value})
    return [f"{name}:", *(_indented(line) for line in _lines(value))]


def _item(value: Tree) -> list[str]:
    if isinstance(value, Text):
        return [f"- {{{{ {value.expression} }}}}"]
    if _is_plain(value):
        return _plain_lines([value])
    if not isinstance(value, dict):
        raise TypeError(f"a list in a list, or a block among items: {value!r}")
    # A directive may not share the line of the dash: an object begins with a key that is always there.
    head, *rest = _written_parts(sorted(value.items(), key=lambda one: isinstance(one[1], Choice)))
    return [f"- {head}", *(_indented(line) for line in rest)]


def _indented(line: str) -> str:
    """Two columns more; a block is told how deep it is."""
    head, found, depth = line.partition(" | nindent ")
    if found and head.lstrip().startswith("{{- toYaml"):
        return f"  {head}{found}{int(depth.removesuffix(' }}')) + 2} }}}}"
    return f"  {line}" if line else line
