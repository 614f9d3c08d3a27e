"""The tables of all built-in types, read once. Pure data: nothing here changes."""

from importlib.resources import files

from regroup.sandbox.schema.typetable import TypeTable

TABLE = TypeTable(
    entry.read_text(encoding="utf-8")
    for entry in sorted(files("regroup.sandbox.kinds").joinpath("types").iterdir(), key=lambda entry: entry.name)
    if entry.name.endswith(".types")
)
