"""The one form in which an API server gives back a quantity. Pure."""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_PATTERN = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")
_NUMBER = re.compile(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_LIMIT = Decimal(2**63 - 1)
PATTERN_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_RULE = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """Text that is no quantity; the message is the API server's."""


def canonical(text: str | int | float) -> str:
    """``"1024Mi"`` is ``"1Gi"``, ``"0.5"`` is ``"500m"``, ``"1000"`` is ``"1k"``. Raises ``QuantityError``."""
    if isinstance(text, int | float):
        text = format(Decimal(str(text)), "f")
    number, suffix = _split(text.strip())
    if suffix in _BINARY:
        return _binary(number * 1024 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return _decimal(number.scaleb(_DECIMAL[suffix]), exponent_form=False)
    return _decimal(number.scaleb(int(suffix[1:])), exponent_form=True)


def _split(text: str) -> tuple[Decimal, str]:
    found = _PATTERN.match(text)
    if not text or not found or not _NUMBER.match(found[1]):
        raise QuantityError(PATTERN_RULE)
    suffix = found[2]
    if suffix not in _BINARY and suffix not in _DECIMAL and not re.fullmatch(r"[eE][+-]?[0-9]{1,4}", suffix):
        raise QuantityError(SUFFIX_RULE)
    return Decimal(found[1]), suffix


def _rounded(value: Decimal) -> Decimal:
    """At most three decimal places, rounded away from zero."""
    return value.scaleb(3).to_integral_value(rounding=ROUND_CEILING if value > 0 else ROUND_FLOOR).scaleb(-3)


def _binary(value: Decimal) -> str:
    value = max(min(_rounded(value), _LIMIT), -_LIMIT)
    if -1024 < value < 1024 or value != value.to_integral_value():
        return _decimal(value, exponent_form=False)
    count, power = int(value), 0
    while power < 6 and count % 1024 == 0:
        count, power = count // 1024, power + 1
    suffix = next((name for name, known in _BINARY.items() if known == power), "")
    return f"{count}{suffix}"


def _decimal(value: Decimal, *, exponent_form: bool) -> str:
    value = _rounded(value)
    if value == 0:
        return "0"
    exponent = -3
    mantissa = int(value.scaleb(3))
    while mantissa % 1000 == 0 and (exponent_form or exponent < 18):
        mantissa, exponent = mantissa // 1000, exponent + 3
    if exponent_form:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_SUFFIXES[exponent]}"
