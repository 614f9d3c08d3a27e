"""charts/regroup (design 2) without Helm: it is what the manifests make of it today, and its parts fit together."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from charts.chart import FOLDER, files, write
from charts.settings import defaults, schema
from charts.tree import ABSENT, Block, Choice, Text, choose, written
from tests.charts.cases import CASES

from regroup.cli import manifests as command
from regroup.wire import yamlish


def on_disk(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}


def test_the_chart_is_not_stale() -> None:
    """One source of truth: what is committed is what the manifests give. If this fails: make chart."""
    wanted, found = files(), on_disk(FOLDER)
    assert sorted(found) == sorted(wanted)
    assert [name for name in wanted if found[name] != wanted[name]] == []


def test_writing_takes_away_what_is_no_longer_of_it(tmp_path: Path) -> None:
    """A CRD that is gone from the code is gone from the chart."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "old.yaml").write_text("kind: Old\n")
    write(tmp_path)
    assert on_disk(tmp_path) == files()


def test_every_option_of_the_manifests_has_a_case() -> None:
    """A new option fails here until the chart takes it and the cases play it."""
    options = {one.opts[0] for one in command.command.params if isinstance(one, click.Option)}
    assert options == {word for arguments, _ in CASES.values() for word in arguments if word.startswith("--")}


def paths(values: Any, path: str = "") -> Iterator[str]:
    """Every name in ``values``, with those above it."""
    if isinstance(values, dict):
        for key, value in values.items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from paths(value, here)


def test_values_and_templates_know_each_other() -> None:
    """No template reads a value that is not there, and no value is read by no template."""
    there = set(paths(defaults()))
    used = {name for text in files().values() for name in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    used |= {f"image.{name}" for name in re.findall(r"\$image\.([a-z]+)", files()["templates/_helpers.tpl"])}
    assert used <= there
    leaves = {path for path in there if not any(other.startswith(f"{path}.") for other in there)}
    assert sorted(leaf for leaf in leaves if not any(leaf == one or leaf.startswith(f"{one}.") for one in used)) == []


def test_values_are_those_of_the_table_with_comments() -> None:
    """``values.yaml`` is read back as the defaults."""
    assert yamlish.load_documents(files()["values.yaml"]) == [defaults()]


def closed(found: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of an object whose names are known."""
    if found.get("properties"):
        yield path, found
        for key, inner in found["properties"].items():
            yield from closed(inner, f"{path}.{key}")


def test_the_schema_is_closed_and_complete() -> None:
    """A misspelt name is refused wherever names are known, and each value has an entry."""
    assert json.loads(files()["values.schema.json"]) == schema()
    objects = dict(closed(schema(), ""))
    assert [path for path, one in objects.items() if one.get("additionalProperties") is not False] == []
    assert set(paths(defaults())) <= {
        f"{path}.{key}".lstrip(".") for path, one in objects.items() for key in one["properties"]
    } | {f"config.deploy.replicas.defaultMaxReplicas.{key}" for key in ("engine", "decoder", "router")} | {
        f"resources.{part}.{name}" for part in ("requests", "limits") for name in ("cpu", "memory")
    }


def test_directives_are_balanced() -> None:
    """Every ``if``, ``range`` and ``define`` ends, in each file."""
    for name, text in files().items():
        if name.startswith("templates/"):
            begun = re.findall(r"\{\{-? *(if|range|define|with)\b", text)
            assert len(begun) == len(re.findall(r"\{\{-? *end\b", text)), name


# -- the tree


@pytest.mark.parametrize(
    ("yes", "no", "expected"),
    [
        ({"a": 1}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 2}, {"a": Choice("c", 1, 2)}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1, "b": Choice("c", 2, ABSENT)}),
        ({"a": {"x": 1}}, {"a": {"y": 1}}, {"a": {"x": Choice("c", 1, ABSENT), "y": Choice("c", ABSENT, 1)}}),
        ([1, 2, 3], [1, 3], [1, Choice("c", 2, ABSENT), 3]),
        ([1], [2, 1], [Choice("c", ABSENT, 2), 1]),
        (
            [{"name": "a", "x": 1}, {"name": "b"}],
            [{"name": "a", "x": 2}],
            [{"name": "a", "x": Choice("c", 1, 2)}, Choice("c", {"name": "b"}, ABSENT)],
        ),
        ([], {}, Choice("c", [], {})),
    ],
)
def test_choices_stand_only_where_two_objects_differ(yes: Any, no: Any, expected: Any) -> None:
    """What both have is written once; items of a list are matched by their names, else by what they are."""
    assert choose("c", yes, no) == expected


def test_how_a_tree_is_written() -> None:
    """Holes, neighbours that share a condition, choices in choices, and text that Helm would take for a hole."""
    tree = {
        "plain": {"text": "a {{ b }}", "list": ["1"]},
        "hole": Text("x"),
        "items": ["one", Choice("c", "two", "three"), Choice("c", {"name": Text("y"), "in": Choice("d", 1, ABSENT)}, ABSENT)],
        "block": {"deep": Block("z")},
        "left": Choice("c", ABSENT, {"a": Choice("d", 1, 2)}),
    }
    assert written(tree) == (
        "plain:\n"
        '  text: a {{ "{{" }} b }}\n'
        "  list:\n"
        '  - "1"\n'
        "hole: {{ x }}\n"
        "items:\n"
        "  - one\n"
        "  {{- if c }}\n"
        "  - two\n"
        "  - name: {{ y }}\n"
        "    {{- if d }}\n"
        "    in: 1\n"
        "    {{- end }}\n"
        "  {{- else }}\n"
        "  - three\n"
        "  {{- end }}\n"
        "block:\n"
        "  deep:\n"
        "    {{- toYaml (z) | nindent 4 }}\n"
        "{{- if not (c) }}\n"
        "left:\n"
        "  {{- if d }}\n"
        "  a: 1\n"
        "  {{- else }}\n"
        "  a: 2\n"
        "  {{- end }}\n"
        "{{- end }}\n"
    )
