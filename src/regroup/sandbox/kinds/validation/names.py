"""Forms that names, keys and values of objects must have. A rule gives the sentences that say what is wrong with a text. Pure."""

import re
from collections.abc import Callable
from ipaddress import ip_address, ip_network

Rule = Callable[[str], list[str]]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = r"[-._a-zA-Z0-9]+"

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    f"alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    f"with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
    f"an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '({_NAME})?')"
)
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    f"'key-name', regex used for validation is '{_KEY}')"
)


def _longest(value: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if len(value) > limit else []


def dns_label(value: str) -> list[str]:
    if not value:
        return [LABEL_RULE]
    found = _longest(value, 63)
    if not re.fullmatch(_LABEL, value):
        found.append("must not contain dots" if re.fullmatch(_SUBDOMAIN, value) else LABEL_RULE)
    return found


def dns_subdomain(value: str) -> list[str]:
    found = _longest(value, 253)
    if not re.fullmatch(_SUBDOMAIN, value):
        found.append(SUBDOMAIN_RULE)
    return found


def prefixed(rule: Rule) -> Rule:
    """The rule for a prefix of names: a dash at its end gets something to follow."""
    return lambda value: rule(f"{value[:-1]}a" if value.endswith("-") else value)


def qualified_name(value: str) -> list[str]:
    """A key of labels and annotations: a name, with a subdomain before a slash or without."""
    prefix, slash, name = value.partition("/")
    if "/" in name:
        return [f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if not slash:
        name = prefix
    found = []
    if slash:
        found += ["prefix part must be non-empty"] if not prefix else [f"prefix part {each}" for each in dns_subdomain(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name):
        found.append(f"name part {_NAME_RULE}")
    return found


def label_value(value: str) -> list[str]:
    found = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if value and not re.fullmatch(_NAME, value):
        found.append(_VALUE_RULE)
    return found


def port_name(value: str) -> list[str]:
    found = _longest(value, 15)
    if not re.fullmatch(r"[-a-z0-9]+", value):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        found.append("must contain at least one letter (a-z)")
    if "--" in value:
        found.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def config_key(value: str) -> list[str]:
    found = _longest(value, 253)
    if not re.fullmatch(_KEY, value):
        found.append(_KEY_RULE)
    if value in {".", ".."}:
        found.append(f"must not be '{value}'")
    elif value.startswith(".."):
        found.append("must not start with '..'")
    return found


def variable_name(value: str) -> list[str]:
    if all(" " <= letter <= "~" and letter != "=" for letter in value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def path_segment(value: str) -> list[str]:
    """A name that is only part of a path (RBAC)."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{letter}'" for letter in ("/", "%") if letter in value]


def address(value: str) -> list[str]:
    try:
        ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def network(value: str) -> list[str]:
    try:
        ip_network(value, strict=False)
    except ValueError:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    return [] if "/" in value else ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


def percent(value: str) -> list[str]:
    if re.fullmatch(r"[0-9]+%", value):
        return []
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [f"{rule} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"]
