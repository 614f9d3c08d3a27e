"""Values of options that several commands read the same way."""

import click


def name_list(value: str | None) -> list[str]:
    """``"a, b"`` as ``["a", "b"]``; None and empty parts give nothing."""
    return [part.strip() for part in (value or "").split(",") if part.strip()]


def kind_and_name(value: str, *, kinds: dict[str, str]) -> tuple[str, str]:
    """``lws/NAME`` as its kind and name. ``kinds`` maps every spelling to the kind. Raises ``click.BadParameter``."""
    kind, slash, name = value.partition("/")
    if not slash or not name or kind not in kinds:
        raise click.BadParameter(f"{value!r}: write KIND/NAME with KIND one of {', '.join(dict.fromkeys(kinds))}")
    return kinds[kind], name
