"""Fills in the defaults of built-in types, in place, wherever a value of the type is found. Pure otherwise."""

from collections.abc import Callable, Mapping
from typing import Any

from regroup.sandbox.schema.typetable import Field, Message

Obj = dict[str, Any]
Rules = Mapping[str, Callable[[Obj], None]]
"""By the name of a type: what is filled into a value of it, before the values that it holds."""


def fill(message: Message, value: Obj, rules: Rules) -> None:
    """Apply ``rules`` to ``value`` and everything in it."""
    rule = rules.get(message.name)
    if rule is not None:
        rule(value)
    for name, entry in message.fields.items():
        if name in value:
            _fill_field(message, entry, value[name], rules)
        elif entry.default and entry.card == "one":
            value[name] = int(entry.default) if entry.type.startswith("int") else entry.default


def _fill_field(owner: Message, entry: Field, value: Any, rules: Rules) -> None:
    held = owner.held(entry)
    if held is None or value is None:
        return
    values = value if entry.card == "list" else list(value.values()) if entry.card == "map" else [value]
    for each in values:
        if isinstance(each, dict):
            fill(held, each, rules)
