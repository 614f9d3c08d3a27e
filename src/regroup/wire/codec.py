"""The one place where bytes become values and values become bytes: JSON by msgspec, and Kubernetes quantities.

Decoders are kept for each type, because making one costs more than using it.
"""

import functools
import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from typing import Any, TypeVar

import msgspec

from regroup.wire.errors import WireError

T = TypeVar("T")

_encoder = msgspec.json.Encoder()

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}


_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]{1,200}\.?[0-9]{0,200}|\.[0-9]{1,200}))(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]{1,4}))", re.ASCII
)
_QUANTITY_LIMIT = Decimal(2**63 - 1)


class DecodeError(WireError):
    """Bytes that are not JSON, or JSON that does not fit the type; the message carries the path."""


decoder: Callable[[Any], msgspec.json.Decoder[Any]] = functools.cache(msgspec.json.Decoder)
"""The decoder of a type, made once."""


def encode(value: Any) -> bytes:
    """JSON in UTF-8. Structs, dicts, lists, datetimes."""
    return _encoder.encode(value)


def decode(data: bytes, type: type[T]) -> T:
    """``data`` as ``type``. Raises ``DecodeError``."""
    try:
        value: T = decoder(type).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        # UnicodeDecodeError comes wrapped in msgspec.DecodeError.
        raise DecodeError(f"cannot decode the answer: {error}"[:500]) from error
    except UnicodeDecodeError as error:
        raise DecodeError(f"the answer is not UTF-8: {error}"[:500]) from error
    return value


def parse_quantity(text: str | int | float) -> Decimal:
    """A Kubernetes quantity as a number: ``"500m"`` is 0.5, ``"1Gi"`` is 2**30, ``"1e3"`` is 1000. Raises ``ValueError``.

    As in Kubernetes, amounts beyond 2**63 - 1 are that limit, and what is finer than a billionth rounds away from zero.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{str(text)[:60]!r} is not a quantity: write a number with an optional suffix such as m, k, Ki, Mi, Gi")
    number, suffix, exponent = match.groups()
    scale = _BINARY.get(suffix) or _DECIMAL.get(suffix) or Decimal(f"1e{exponent}")
    value = max(min(Decimal(number) * scale, _QUANTITY_LIMIT), -_QUANTITY_LIMIT)
    return value if value == value.quantize(_DECIMAL["n"], ROUND_DOWN) else value.quantize(_DECIMAL["n"], ROUND_UP)


def format_quantity(value: Decimal) -> str:
    """The shortest decimal form without loss, as ``parse_quantity`` reads it: 0.5 is ``"500m"``, 1000 is ``"1k"``."""
    if value == 0:
        return "0"
    for suffix in ("E", "P", "T", "G", "M", "k", "", "m", "u", "n"):
        scaled = value / _DECIMAL[suffix]
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    return f"{(value / _DECIMAL['n']).to_integral_value(rounding='ROUND_CEILING'):f}n"
