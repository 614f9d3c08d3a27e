"""JSON in and out: errors name the place, whatever comes in."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.kube.meta import ObjectView
from regroup.kube.pod import Pod
from regroup.wire.codec import DecodeError, decode, decoder, encode


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (b'{"metadata":{"labels":{"a":5}}}', Pod, r"\$\.metadata\.labels\[\.\.\.\]"),
        (b'{"metadata":{"ownerReferences":[{"uid":"a"},{"uid":1}]}}', Pod, r"\$\.metadata\.ownerReferences\[1\]\.uid"),
        (b'{"metadata":{"creationTimestamp":"yesterday"}}', Pod, r"\$\.metadata\.creationTimestamp"),
        (b"[]", Pod, "Expected `object`, got `array`"),
        (b'{"a":', dict, "truncated"),
        (b"", dict, "truncated"),
        (b'{"a":"\xff"}', dict, "cannot decode|not UTF-8"),
        (b"[" * 100_000, list, "cannot decode"),
    ],
)
def test_what_cannot_be_decoded_says_where(data: bytes, kind: Any, message: str) -> None:
    """The message carries the path of the field, and is bounded."""
    with pytest.raises(DecodeError, match=message) as raised:
        decode(data, kind)

    assert len(str(raised.value)) <= 500


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_decode_error(data: bytes) -> None:
    """No other exception leaves the codec; what it takes is what the standard library takes."""
    try:
        value = decode(data, object)
    except DecodeError:
        return

    assert value == json.loads(data)


@pytest.mark.parametrize("text", ["2026-08-01T12:00:00Z", "2026-08-01T12:00:00.000000Z", "2026-08-01T14:00:00+02:00"])
def test_kubernetes_times_are_moments(text: str) -> None:
    """metav1.Time, MicroTime, and an offset as Go programs may write it; null is no time."""
    view = decode(b'{"metadata":{"creationTimestamp":"' + text.encode() + b'","deletionTimestamp":null}}', ObjectView)

    assert view.metadata.creation_timestamp == datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
    assert view.metadata.deletion_timestamp is None


def test_moments_are_written_as_rfc_3339() -> None:
    """With the zone they are in."""
    assert encode({"at": datetime(2026, 8, 1, 12, 0, tzinfo=UTC)}) == b'{"at":"2026-08-01T12:00:00Z"}'
    assert encode(datetime(2026, 8, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))) == b'"2026-08-01T14:00:00+02:00"'


def test_the_decoder_of_a_type_is_made_once() -> None:
    """Making one costs more than using it."""
    assert decoder(Pod) is decoder(Pod)
    assert decoder(Pod) is not decoder(dict)
