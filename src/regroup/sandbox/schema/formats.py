"""Formats of strings that schemas may ask for. Pure. Formats that are not known here are no rule, as on a real server."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import urlsplit

_HOST = re.compile(r"(?=.{1,255}$)([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")
_UUID = r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?%s[0-9a-fA-F]{3}-?%s[0-9a-fA-F]{3}-?[0-9a-fA-F]{12}"
_DURATION = re.compile(r"([0-9]+(\.[0-9]+)?\s*(ns|us|µs|μs|ms|s|m|h|d|w)[a-z]*\s*)+")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(value: str) -> bool:
        try:
            parse(value)
        except (ValueError, binascii.Error):
            return False
        return True

    return holds


def _moment(value: str) -> None:
    if not _TIME.fullmatch(value):
        raise ValueError(value)
    datetime.fromisoformat(value.upper())


def _day(value: str) -> None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise ValueError(value)
    date.fromisoformat(value)


def _network(value: str) -> None:
    if "/" not in value:
        raise ValueError(value)
    ip_network(value, strict=False)


def _uri(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return bool(parts.scheme) or value.startswith("/")


def _whole(pattern: str | re.Pattern[str]) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _parses(_moment),
    "datetime": _parses(_moment),
    "date": _parses(_day),
    "ipv4": _parses(IPv4Address),
    "ipv6": _parses(IPv6Address),
    "cidr": _parses(_network),
    "uri": _uri,
    "email": _whole(r"[^@\s]+@[^@\s]+"),
    "hostname": _whole(_HOST),
    "mac": _whole(r"([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}"),
    "byte": _parses(lambda value: base64.b64decode(value, validate=True)),
    "duration": lambda value: value == "0" or _DURATION.fullmatch(value) is not None,
    "uuid": _whole(_UUID % ("[0-9a-fA-F]", "[0-9a-fA-F]")),
    "uuid3": _whole(_UUID % ("3", "[0-9a-fA-F]")),
    "uuid4": _whole(_UUID % ("4", "[89abAB]")),
    "uuid5": _whole(_UUID % ("5", "[89abAB]")),
}
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "lower": "a-z",
    "upper": "A-Z",
    "space": r"\s",
    "xdigit": "0-9a-fA-F",
}
_CLASSES |= {"word": r"\w", "punct": r"!-/:-@\[-`{-~", "blank": r" \t"}


def holds(name: str, value: str) -> bool:
    """Whether ``value`` is of the format ``name``."""
    rule = _FORMATS.get(name)
    return rule is None or rule(value)


def go_pattern(pattern: str) -> re.Pattern[str]:
    """A regular expression in Go's form, ready to search with. Raises ``re.error``."""
    text = re.sub(r"\[:([a-z]+):\]", lambda found: _CLASSES.get(found[1], found[0]), pattern)
    return re.compile(text.replace(r"\z", r"\Z"), re.ASCII)
