"""Values of options that several commands read the same way."""

import re
from urllib.parse import urlsplit

import click

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def name_list(value: str | None) -> list[str]:
    """``"a, b"`` as ``["a", "b"]``; None and empty parts give nothing."""
    return [part.strip() for part in (value or "").split(",") if part.strip()]


def kind_and_name(value: str, *, kinds: dict[str, str]) -> tuple[str, str]:
    """``lws/NAME`` as its kind and name. ``kinds`` maps every spelling to the kind. Raises ``click.BadParameter``."""
    kind, slash, name = value.partition("/")
    if not slash or not name or kind not in kinds:
        raise click.BadParameter(f"{value!r}: write KIND/NAME with KIND one of {', '.join(dict.fromkeys(kinds))}")
    return kinds[kind], name


def namespace(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Callback of an option that names a namespace. Raises ``click.BadParameter``."""
    if value is not None and not _LABEL.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no name of a namespace: lower case letters, digits and '-', at most 63")
    return value


def namespaces(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str]:
    """Callback of an option that names several namespaces, each once. Raises ``click.BadParameter``."""
    names = list(dict.fromkeys(name_list(value)))
    if value is not None and not names:
        raise click.BadParameter("names no namespace")
    for name in names:
        namespace(context, parameter, name)
    return names


def https_url(_: click.Context, __: click.Parameter, value: str) -> str:
    """Callback of an option with a base URL for webhooks; empty is none. Raises ``click.BadParameter``."""
    try:
        parts = urlsplit(value)
        good = not value or (parts.scheme == "https" and bool(parts.hostname) and not parts.query and not parts.fragment)
    except ValueError:
        good = False
    if not good or not value.isascii():
        raise click.BadParameter(f"{value!r} is no https URL with a host, such as https://127.0.0.1:9443")
    return value
