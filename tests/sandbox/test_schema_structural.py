"""Custom resources are pruned, defaulted and judged by their schema; messages were seen on Kubernetes 1.36.3."""

from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from tests.sandbox.schema_samples import NOW, crd, string, widget

from regroup.sandbox.schema import structural
from regroup.sandbox.schema.columns import age, custom_columns, json_path
from regroup.sandbox.schema.custom import definitions
from regroup.sandbox.schema.decoding import DecodeFailure
from regroup.sandbox.schema.structure_rules import check
from regroup.sandbox.schema.values import validate

TYPES = '"array", "boolean", "integer", "number", "object", "string"'
QUADRATIC = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"


def messages(spec: dict[str, Any], *, applied: bool = False) -> list[str]:
    """The way of an object that is created, or of what an apply comes to."""
    kind = definitions(crd())[0]
    obj, _ = kind.decode(widget(spec))
    if not applied:
        obj = kind.without_nulls(obj)
    kind.default(obj)
    return [error.message() for error in kind.validate(obj, None)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"str": "a"}, ['spec.str: Invalid value: "a": spec.str in body should be at least 2 chars long']),
        ({"str": "abcde"}, ["spec.str: Too long: may not be more than 4 bytes"]),
        ({"str": "AB"}, ["spec.str: Invalid value: \"AB\": spec.str in body should match '^[a-z]*$'"]),
        ({"enum": "c"}, ['spec.enum: Unsupported value: "c": supported values: "a", "b"']),
        ({"int": 0}, ["spec.int: Invalid value: 0: spec.int in body should be greater than or equal to 1"]),
        ({"int": 6}, ["spec.int: Invalid value: 6: spec.int in body should be less than or equal to 5"]),
        (
            {"int": "1"},
            [
                'spec.int: Invalid value: "string": spec.int in body must be of type integer: "string"',
                ".spec.int: Invalid value: 0: .spec.int accessor error: 1 is of the type string, expected int64",
            ],
        ),
        ({"ios": True}, ['spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean"']),
        ({"ios": "5%"}, []),
        ({"arr": []}, ["spec.arr: Invalid value: 0: spec.arr in body should have at least 1 items"]),
        ({"arr": ["a", "b", "c", "d"]}, ["spec.arr: Too many: 4: must have at most 3 items"]),
        ({"arr": [1]}, ['spec.arr[0]: Invalid value: "integer": spec.arr[0] in body must be of type string: "integer"']),
        ({"set": ["a", "b", "a"]}, ['spec.set[2]: Duplicate value: "a"']),
        ({"lmap": [{"k": "a"}, {"k": "a"}]}, ['spec.lmap[1]: Duplicate value: {"k":"a","p":"TCP"}']),
        ({"lmap": [{"k": "a"}, {"k": "a", "p": "UDP"}]}, []),
        ({"lmap": [{"v": "a"}]}, ["spec.lmap[0].k: Required value"]),
        ({"map": {}}, ["spec.map: Invalid value: 0: spec.map in body should have at least 1 properties"]),
        ({"map": {"a": 1, "b": 2, "c": 3}}, ["spec.map: Too many: 3: must have at most 2 items"]),
        ({"emb": {}}, ["spec.emb.apiVersion: Required value", "spec.emb.kind: Required value"]),
        ({"time": "x"}, ['spec.time: Invalid value: "x": spec.time in body must be of type date-time: "x"']),
        ({"ip": "x"}, ['spec.ip: Invalid value: "x": spec.ip in body must be of type ipv4: "x"']),
        (
            {"one": {"a": "1", "b": "2"}},
            ['<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
        ),
        ({"free": {"anything": [1, {"a": None}]}}, []),
    ],
)
def test_values_are_judged_in_the_servers_words(spec: dict[str, Any], expected: list[str]) -> None:
    assert messages({"req": "a", **spec}) == expected


def test_required_and_null() -> None:
    """A null of a field that is not nullable counts as absent; where it was applied it is refused."""
    assert messages({}) == ["spec.req: Required value"]
    assert messages({"req": None}) == ["spec.req: Required value"]
    assert messages({"req": "a", "str": None}) == []
    refused = 'spec.str: Invalid value: "null": spec.str in body must be of type string: "null"'
    assert messages({"req": "a", "str": None}, applied=True) == [refused]


def test_pruning_names_what_goes_and_keeps_what_is_preserved() -> None:
    kind = definitions(crd())[0]
    obj = widget({"req": "a", "unk": 1, "obj": {"q": 1}, "free": {"a": {"b": 1}}, "lmap": [{"k": "a", "zz": 1}]})
    obj["metadata"]["foo"] = "bar"
    obj["top"] = 1
    before = deepcopy(obj)
    kept, unknown = kind.decode(obj)
    assert sorted(unknown) == ["metadata.foo", "spec.lmap[0].zz", "spec.obj.q", "spec.unk", "top"]
    assert kept["spec"] == {"req": "a", "obj": {}, "free": {"a": {"b": 1}}, "lmap": [{"k": "a"}]}
    assert obj == before


def test_defaults_are_filled_in_at_every_depth() -> None:
    """A default of an object brings the defaults of its fields; null gives way to a default unless it is allowed."""
    kind = definitions(crd())[0]
    obj = widget({"req": "a", "obj": {"x": None}, "lmap": [{"k": "a"}], "nul": None})
    kind.default(obj)
    assert obj["spec"]["obj"] == {"x": "dx", "y": {"z": 1, "w": "W"}}
    assert obj["spec"]["lmap"] == [{"k": "a", "p": "TCP"}]
    assert obj["spec"]["nul"] is None


def test_defaulting_touches_nothing_that_is_shared() -> None:
    kind = definitions(crd())[0]
    shared = {"x": None}
    kind.default(widget({"req": "a", "obj": shared}))
    assert shared == {"x": None}


def test_whole_numbers_are_integers() -> None:
    kept, _ = definitions(crd())[0].decode(widget({"req": "a", "int": 2.0, "free": {"n": [1.0, 1.5]}}))
    assert kept["spec"]["int"] == 2
    assert isinstance(kept["spec"]["int"], int)
    assert kept["spec"]["free"]["n"] == [1, 1.5]


def test_metadata_is_read_as_the_servers_own() -> None:
    obj = widget({"req": "a"})
    obj["metadata"]["labels"] = {"a": 1}
    with pytest.raises(
        DecodeFailure, match=r"^json: cannot unmarshal number into Go struct field ObjectMeta\.labels of type string$"
    ):
        definitions(crd())[0].decode(obj)


def test_what_was_wrong_before_may_stay() -> None:
    """An update is judged by what it makes worse: an old object stays changeable when its schema became stricter."""
    kind = definitions(crd())[0]
    old = widget({"req": "a", "int": 9})
    new = widget({"req": "b", "int": 9})
    assert kind.validate(new, old) == []
    worse = kind.validate(widget({"req": "b", "int": 9, "enum": "c"}), old)
    assert [error.path for error in worse] == ["spec.enum"]


def test_cel_rules_are_named_and_not_evaluated() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]}}}
    assert structural.unevaluated(schema) == [".a"]
    assert validate({"a": ""}, schema) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "S.type: Required value: must not be empty at the root"),
        ({"a": {}}, "S.properties[a].type: Required value: must not be empty for specified object fields"),
        ({"a": {"type": "array"}}, "S.properties[a].items: Required value: must be specified"),
        ({"a": {"$ref": "x"}}, "S.properties[a].$ref: Forbidden: $ref is not supported"),
        (
            {"a": {"type": "object", "properties": {"b": string()}, "additionalProperties": string()}},
            "S.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"a": string(default=5)},
            'S.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            {"a": {"type": "foo"}},
            f'S.properties[a].type: Unsupported value: "foo": supported values: {TYPES}',
        ),
        (
            {"a": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}},
            "S.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            {"a": {"type": "array", "uniqueItems": True, "items": string()}},
            f"S.properties[a].uniqueItems: Forbidden: {QUADRATIC}",
        ),
        (
            {"a": {"type": "string", "anyOf": [{"type": "string"}]}},
            "S.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
    ],
)
def test_schemas_must_be_structural(schema: dict[str, Any], expected: str) -> None:
    whole = {"type": "object", "properties": schema} if schema else {}
    assert [error.message() for error in check(whole, "S")] == [expected]


def test_our_own_definition_is_structural() -> None:
    assert list(check(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "S")) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".spec.str", "abc"),
        (".spec.lmap[*].k", "a"),
        (".spec.lmap[1].k", "b"),
        ('.status.conditions[?(@.type=="Ready")].status', "True"),
        (".spec.nothing.here", None),
        (".metadata.labels['a.b/c']", "x"),
    ],
)
def test_json_paths(path: str, value: Any) -> None:
    obj = {
        "metadata": {"labels": {"a.b/c": "x"}},
        "spec": {"str": "abc", "lmap": [{"k": "a"}, {"k": "b"}]},
        "status": {"conditions": [{"type": "X", "status": "?"}, {"type": "Ready", "status": "True"}]},
    }
    assert json_path(path, obj) == value


def test_cells_are_of_their_columns_type() -> None:
    """A value of another type gives an empty cell; lists and maps are shown as JSON; dates as ages."""
    specs = [
        {"name": name, "type": kind, "jsonPath": f".spec.{name.lower()}"}
        for name, kind in (
            ("Arr", "string"),
            ("Obj", "string"),
            ("Str", "integer"),
            ("Num", "integer"),
            ("Time", "date"),
            ("Int", "string"),
        )
    ]
    spec = {"arr": ["p", "q"], "obj": {"y": 1, "x": None}, "str": "s", "num": 1.5, "time": "2026-01-01T00:00:00Z", "int": 3}
    columns = custom_columns(specs)
    assert [column.name for column in columns] == ["Name", "Arr", "Obj", "Str", "Num", "Time", "Int"]
    assert [column.cell(widget(spec), NOW) for column in columns] == ["w", '["p","q"]', '{"x":null,"y":1}', None, 1, "100m", "3"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (12000, "3h20m"),
        (86400, "24h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (691200, "8d"),
        (63072000, "2y"),
        (64000000, "2y10d"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    assert age((NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ"), NOW) == text
