"""Counts and percentages of Instances (spec/omenative.md 1.1.2)."""

import pytest

from regroup.omenative.api.counts import is_zero, resolve_count


@pytest.mark.parametrize(
    ("value", "of", "count"), [("25%", 5, 2), ("25%", 4, 1), (3, 2, 3), ("0%", 9, 0), ("100%", 9, 9), (0, 9, 0)]
)
def test_percentages_are_rounded_up(value: int | str, of: int, count: int) -> None:
    """1.1.2 and behaviour 65: ceil(instances x pct / 100)."""
    assert resolve_count(value, of) == count


@pytest.mark.parametrize("value", ["25", "x%", "-1%", "1.5%", "", "٣%"])
def test_other_texts_are_refused(value: str) -> None:
    """1.1.2."""
    with pytest.raises(ValueError, match="neither a number nor a percentage"):
        resolve_count(value, 4)


def test_explicit_zero() -> None:
    """1.1.2: ``0`` or ``0%``."""
    assert [is_zero(value) for value in (0, "0%", "00%", None, 1, "1%")] == [True, True, True, False, False, False]
