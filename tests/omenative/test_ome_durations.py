"""Go durations (spec/omenative.md 1: a bare number is invalid where a duration is expected)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.omenative.api.durations import PATTERN, format_seconds, parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45m", 2700.0),
        ("1h30m", 5400.0),
        ("60s", 60.0),
        ("0s", 0.0),
        ("0", 0.0),
        ("1.5s", 1.5),
        (".5m", 30.0),
        ("500ms", 0.5),
        ("1h1m1s1ms", 3661.001),
        ("-2m", -120.0),
        ("+2m", 120.0),
    ],
)
def test_reads_what_go_reads(text: str, seconds: float) -> None:
    """1: Go-style strings."""
    assert parse(text) == seconds
    assert re.search(PATTERN, text)


@pytest.mark.parametrize("text", ["60", "1.5", "-3"])
def test_a_bare_number_is_refused_with_its_value(text: str) -> None:
    """1: a bare number is invalid where a duration is expected."""
    with pytest.raises(ValueError, match=f'missing unit in duration "{re.escape(text)}"'):
        parse(text)
    assert not re.search(PATTERN, text)


@pytest.mark.parametrize("text", ["", "m", "45 m", "1d", "1h30", "--1s", "s45", "1e3s", "٣s", "1h" * 50, "9" * 30 + "s"])
def test_what_go_does_not_read_is_refused(text: str) -> None:
    """1: anything else is no duration, and a hostile text costs nothing."""
    with pytest.raises(ValueError, match="duration"):
        parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2700, "45m0s"),
        (5400, "1h30m0s"),
        (60, "1m0s"),
        (1.5, "1.5s"),
        (0.5, "500ms"),
        (0, "0s"),
        (-90, "-1m30s"),
        (0.000002, "2µs"),
        (100, "1m40s"),
        (7200, "2h0m0s"),
    ],
)
def test_prints_as_go_prints(seconds: float, text: str) -> None:
    """6.2: ``Instance readiness deadline is 45m0s``."""
    assert format_seconds(seconds) == text


@given(st.integers(min_value=-(10**9), max_value=10**9))
def test_what_is_printed_reads_back(seconds: int) -> None:
    """Formatting loses nothing of whole seconds."""
    assert parse(format_seconds(seconds)) == seconds
