"""Selectors, patches, quantities and YAML: texts that other programs write, read as Kubernetes reads them."""

import json
from copy import deepcopy
from decimal import Decimal
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.wire.codec import format_quantity, parse_quantity
from regroup.wire.patches import PatchError, apply_json_patch, apply_merge_patch, json_patch, pointer
from regroup.wire.selectors import SelectorError, from_object, parse_field_selector, parse_label_selector
from regroup.wire.yamlish import YamlError, dump, load_documents

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab~/é", max_size=3)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=8,
)

maps = st.dictionaries(st.text("ab~/", max_size=2), documents, max_size=3)


@given(documents, documents)
def test_json_patches_agree_with_a_library(old: Any, new: Any) -> None:
    """RFC 6902: what another implementation computes as the difference leads to the same document here."""
    operations = list(jsonpatch.make_patch(old, new))

    assert apply_json_patch(old, operations) == new


@given(maps, maps)
def test_a_difference_leads_from_one_object_to_the_other(old: Any, new: Any) -> None:
    """RFC 6902: what admission answers with makes the new object of the old one, here and in another implementation."""
    operations = json_patch(old, new)

    made = apply_json_patch(old, operations)
    assert same(made, new), "also where Python takes 1 for True"
    assert same(jsonpatch.apply_patch(old, operations), new)
    assert not json_patch(old, deepcopy(old))


def same(left: Any, right: Any) -> bool:
    """Equal as JSON, whatever the order of keys."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def test_keys_of_any_text_have_a_pointer() -> None:
    """RFC 6901 3: ``~`` and ``/`` in a key are escaped, in this order."""
    assert pointer("metadata", "labels", "ome.io/a~1") == "/metadata/labels/ome.io~1a~01"
    assert pointer() == ""


def test_a_failing_patch_changes_nothing() -> None:
    """RFC 6902 5: all operations or none; a failed test is told apart from a patch that does not fit."""
    document = {"a": [1, 2]}

    with pytest.raises(PatchError) as raised:
        apply_json_patch(document, [{"op": "remove", "path": "/a/0"}, {"op": "test", "path": "/a/0", "value": 3}])

    assert raised.value.test_failed
    assert document == {"a": [1, 2]}
    with pytest.raises(PatchError) as raised:
        apply_json_patch(document, [{"op": "replace", "path": "/b", "value": 1}])
    assert not raised.value.test_failed


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "add", "path": "/list/4", "value": 1}, "index 4 is out of bounds"),
        ({"op": "add", "path": "/list/01", "value": 1}, "'01' is not an index"),
        ({"op": "add", "path": "/list/\u0661", "value": 1}, "is not an index"),
        ({"op": "add", "path": "/list/x", "value": 1}, "'x' is not an index"),
        ({"op": "add", "path": "/text/x", "value": 1}, "plain value"),
        ({"op": "add", "path": "/gone/x", "value": 1}, "key 'gone' is missing"),
        ({"op": "add", "path": "no-slash", "value": 1}, "does not start with a slash"),
        ({"op": "add", "path": "/a"}, "operation 0 is malformed"),
        ({"op": "add", "path": 5, "value": 1}, "operation 0 is malformed"),
        ({"op": "add", "value": 1}, "operation 0 is malformed"),
        ({"path": "/a"}, "operation 0 is malformed"),
        ("add", "operation 0 is malformed"),
        ({"op": "remove", "path": ""}, "whole document"),
        ({"op": "remove", "path": "/list/-"}, "'-' is not an index"),
        ({"op": "replace", "path": "/gone", "value": 1}, "key 'gone' is missing"),
        ({"op": "move", "from": "/map", "path": "/map/below"}, "into itself"),
        ({"op": "copy", "from": "/gone", "path": "/x"}, "key 'gone' is missing"),
        ({"op": "test", "path": "/list/0", "value": True}, "failed"),
        ({"op": "grow", "path": "/a"}, "unexpected kind: grow"),
    ],
)
def test_json_patches_that_do_not_fit_say_why(operation: Any, message: str) -> None:
    """RFC 6902: whatever is wrong with an operation is a PatchError with its words, and changes nothing."""
    document = {"list": [1, 2, 3], "text": "x", "map": {}}

    with pytest.raises(PatchError, match=message):
        apply_json_patch(document, [operation])

    assert document == {"list": [1, 2, 3], "text": "x", "map": {}}


def test_patches_made_to_do_harm_are_refused() -> None:
    """A few copies double a document over and over; too many operations; nesting without an end."""
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(60)]
    with pytest.raises(PatchError, match="copies of the patch exceed"):
        apply_json_patch({"a": ["x" * 100]}, doubling)
    with pytest.raises(PatchError, match="at most 10000"):
        apply_json_patch({}, [{"op": "test", "path": "/a", "value": None}] * 10_001)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(PatchError, match="too deeply"):
        apply_json_patch({}, [{"op": "add", "path": "/a", "value": deep}])
    nested: Any = {}
    for _ in range(100_000):
        nested = {"a": nested}
    with pytest.raises(PatchError, match="too deeply"):
        apply_merge_patch({}, nested)
    while nested:
        nested = nested.pop("a")
    while deep:  # so that nobody must free it by recursion
        deep = deep.pop()


@given(documents, documents)
def test_merge_patches_leave_what_came_in_alone(target: Any, patch: Any) -> None:
    """RFC 7386: applying twice is applying once, null removes, and neither side is changed."""
    before = deepcopy((target, patch))

    result = apply_merge_patch(target, patch)

    assert apply_merge_patch(result, patch) == result
    assert (target, patch) == before
    if isinstance(patch, dict):
        assert all(key not in result for key, value in patch.items() if value is None)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        (["a"], {"a": "b"}, {"a": "b"}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_standards_table(target: Any, patch: Any, result: Any) -> None:
    """RFC 7386, appendix A."""
    assert apply_merge_patch(target, patch) == result


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("a=b,c!=d", {"a": "b"}, True),
        ("a=b,c!=d", {"a": "b", "c": "d"}, False),
        ("e in (f, g),h", {"e": "g", "h": ""}, True),
        ("e notin (f)", {}, True),
        ("!i", {"i": "1"}, False),
        ("example.com/role==x", {"example.com/role": "x"}, True),
        ("n>3", {"n": "4"}, True),
        ("", {"any": "thing"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    """The forms that kubectl and clients send."""
    assert parse_label_selector(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["a in b", "=x", "a b", "a=b c"])
def test_label_selectors_that_make_no_sense_are_refused(text: str) -> None:
    """The message names the part."""
    with pytest.raises(SelectorError, match="unable to parse"):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, "operator 'Gt' of 'a'"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "In of 'a' takes at least one value"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["1"]}]}, "Exists of 'a' takes no values"),
        ({"matchExpressions": [{"operator": "Exists"}]}, "needs matchLabels as a map"),
        ({"matchExpressions": ["a"]}, "needs matchLabels as a map"),
        ({"matchLabels": ["a"]}, "needs matchLabels as a map"),
    ],
)
def test_selectors_of_objects_that_make_no_sense_are_refused(selector: dict[str, Any], message: str) -> None:
    """An unknown operator must not silently match nothing or everything."""
    with pytest.raises(SelectorError, match=message):
        from_object(selector)


@given(st.text("ab=\\\\,! é", max_size=8))
def test_any_value_can_be_written_in_a_field_selector(value: str) -> None:
    """Backslash, comma and equals sign stand behind a backslash."""
    escaped = "".join(f"\\{character}" if character in "\\,=" else character for character in value)

    found = parse_field_selector(f"spec.x={escaped},spec.y!=z")

    assert [(entry.path, entry.value, entry.equal) for entry in found] == [("spec.x", value, True), ("spec.y", "z", False)]


@pytest.mark.parametrize("text", ["a", "=b", "a=b=c", r"a=b\x", "a=b\\", "a=b,c"])
def test_field_selectors_that_make_no_sense_are_refused(text: str) -> None:
    """The message names the part."""
    with pytest.raises(SelectorError, match="can't understand '"):
        parse_field_selector(text)


def test_selectors_of_objects_and_fields() -> None:
    """matchLabels with matchExpressions; field selectors with escapes."""
    selector = from_object({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]})

    assert selector.matches({"a": "b"})
    assert not selector.matches({"a": "b", "c": ""})
    found = parse_field_selector(r"metadata.name=x\,y,status.phase!=Running")
    assert [(entry.path, entry.value, entry.equal) for entry in found] == [
        ("metadata.name", "x,y", True),
        ("status.phase", "Running", False),
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("500m", "0.5"),
        ("1Gi", str(2**30)),
        ("1e3", "1000"),
        ("2", "2"),
        ("1.5k", "1500"),
        (4, "4"),
        ("0", "0"),
        ("1E", str(10**18)),
    ],
)
def test_quantities(text: str | int, number: str) -> None:
    """Binary and decimal suffixes, exponents, plain numbers."""
    assert parse_quantity(text) == Decimal(number)


@given(st.integers(0, 10**18), st.integers(0, 9))
def test_quantities_survive_their_own_text(value: int, places: int) -> None:
    """What is written reads back as the same number."""
    number = Decimal(value).scaleb(-places)

    assert parse_quantity(format_quantity(number)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10E", 2**63 - 1),
        ("-10E", -(2**63) + 1),
        ("1e9999", 2**63 - 1),
        (1e300, 2**63 - 1),
        ("1e-9999", "1e-9"),
        ("-0.1n", "-1e-9"),
    ],
)
def test_quantities_have_bounds(text: str | float, number: int | str) -> None:
    """Nine digits behind the point and 64 bits before it, as in Kubernetes: no short text means a huge number."""
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1Zi", "1 Gi", "--1", "+-1", " 1", "1\n", "1e", "e5", "1_0", ".", "1.2.3", "\u0663", "1e99999", float("nan"), True],
)
def test_what_is_no_quantity(text: str | float) -> None:
    """Neither do blanks, other digits or half an exponent make a number."""
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", False), ("on", True), ("y", True), ("N", False), ("010", 8), ("0o10", 8), ("0x10", 16), ("1e3", 1000),
        ("1.5", 1.5), ("2020-01-01", "2020-01-01"), ("12:30:00", "12:30:00"), ("'no'", "no"), ("~", None), ("1_000", 1000),
    ],
)  # fmt: skip
def test_scalars_by_kubectls_rules(text: str, value: Any) -> None:
    """What kubectl makes of these, and not what YAML 1.2 or PyYAML do."""
    assert load_documents(f"a: {text}") == [{"a": value}]


def test_documents_and_errors_have_lines() -> None:
    """Many documents, empty ones left out; a key set twice is an error with its line."""
    assert load_documents("a: 1\n---\n---\n- 2\n") == [{"a": 1}, [2]]
    with pytest.raises(YamlError, match=r"line 2: key 'a' is set twice"):
        load_documents("a: 1\na: 2\n")
    with pytest.raises(YamlError, match="line 2"):
        load_documents("a: [1\nb: }")


@given(documents)
def test_what_is_dumped_reads_back(value: Any) -> None:
    """Strings that look like numbers or booleans are quoted."""
    assert load_documents(dump({"value": value})) == [{"value": value}]


@pytest.mark.parametrize("text", ["no", "1", "1e3", "null", "", "0x1", "line\nline", "010"])
def test_strings_stay_strings(text: str) -> None:
    assert load_documents(dump({"a": text})) == [{"a": text}]
