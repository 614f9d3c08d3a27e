"""Watch streams: cut anywhere, and with anything in them."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.kube.pod import Pod
from regroup.wire import events
from regroup.wire.errors import ConnectionFailed, Gone, ServerError, WireError
from regroup.wire.events import WatchEvent, read_events


async def pieces_of(data: bytes, cuts: list[int]) -> AsyncIterator[bytes]:
    start = 0
    for cut in sorted(cuts):
        yield data[start:cut]
        start = max(start, cut)
    yield data[start:]


async def read(data: bytes, *cuts: int, kind: Any = dict) -> list[WatchEvent[Any]]:
    stream: AsyncIterator[WatchEvent[Any]] = read_events(pieces_of(data, list(cuts)), kind)
    return [event async for event in stream]


def line(name: str, version: int) -> bytes:
    return msgspec.json.encode({"type": "ADDED", "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}) + b"\n"


@given(st.lists(st.text(max_size=20), max_size=5), st.lists(st.integers(0, 400), max_size=8))
async def test_events_do_not_depend_on_where_the_stream_is_cut(names: list[str], cuts: list[int]) -> None:
    """Whatever pieces TCP makes of it: the same events in the same order, as a dict or as a view."""
    data = b"\n".join(line(name, number) for number, name in enumerate(names))

    plain, views = await read(data, *cuts), await read(data, *cuts, kind=Pod)

    assert [event.object for event in plain] == [
        {"metadata": {"name": name, "resourceVersion": str(number)}} for number, name in enumerate(names)
    ]
    assert [event.object and event.object.metadata.name for event in views] == names
    assert [event.resource_version for event in views] == [event.resource_version for event in plain]


@given(st.integers(1, 60))
async def test_a_stream_that_ends_within_a_line_was_cut(length: int) -> None:
    """C114: half an event is a lost connection; what was whole before it was delivered."""
    data = line("a", 1)
    stream = read_events(pieces_of(data + data[:length], [5]), dict)

    assert (await anext(stream)).resource_version == "1"
    with pytest.raises(ConnectionFailed, match="within an event"):
        await anext(stream)


async def test_an_event_may_be_long_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line without an end does not fill the memory: the watch ends with an error once the limit is passed."""
    monkeypatch.setattr(events, "LINE_LIMIT", 1000)
    assert len(await read(line("a" * 800, 1), 100, 200, 700)) == 1
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 100
            yield b"a" * 100

    with pytest.raises(WireError, match="longer than 1000 bytes"):
        await anext(read_events(endless(), dict))

    assert taken <= 1200


FIELDS = ("kind", "code", "metadata", "annotations", "resourceVersion", "details", "k8s.io/initial-events-end", "x")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=10,
)


@given(st.sampled_from(("ADDED", "DELETED", "BOOKMARK", "ERROR", "OTHER", "")) | JSON, JSON, st.sampled_from((dict, Pod)))
async def test_no_line_ends_the_watch_with_anything_but_a_wire_error(kind: Any, content: Any, view: type) -> None:
    """C116: a malformed line restarts the watch; it never kills the process with a TypeError from somewhere inside."""
    data = msgspec.json.encode({"type": kind, "object": content}) + b"\n"
    try:
        seen = await read(data, kind=view)
    except WireError:
        return

    assert [event.type for event in seen] == [kind]
    assert isinstance(seen[0].resource_version, str)


@given(st.binary(max_size=60))
async def test_no_bytes_do_either(data: bytes) -> None:
    try:
        seen = await read(data)
    except WireError:
        return

    assert seen == []


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ({"code": 410, "reason": "Expired"}, Gone),
        ({"code": 410, "reason": "Gone"}, Gone),
        ({"code": 504}, ServerError),
        ({"code": 200}, ServerError),
        ({}, ServerError),
        ({"code": "410"}, ServerError),
    ],
)
async def test_errors_in_the_stream_are_typed(status: dict[str, Any], error: type[Exception]) -> None:
    """C114: 410 is what makes a reflector list again; an error without a sensible code is the server's failure."""
    with pytest.raises(error):
        await read(msgspec.json.encode({"type": "ERROR", "object": {"kind": "Status", **status}}) + b"\n")


async def test_blank_lines_are_nothing() -> None:
    """Keep-alives of some proxies."""
    assert await read(b"\n\n \n" + line("a", 1) + b"\n") == await read(line("a", 1))
