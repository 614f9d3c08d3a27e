"""Errors on fields, worded as an API server words them. Pure."""

import json
from dataclasses import dataclass
from typing import Any, Literal

ErrorKind = Literal[
    "Required", "Invalid", "NotSupported", "Forbidden", "Duplicate", "TooLong", "TooMany", "TypeInvalid", "NotFound", "Internal"
]

_REASONS: dict[ErrorKind, str] = {
    "Required": "FieldValueRequired",
    "Invalid": "FieldValueInvalid",
    "NotSupported": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Duplicate": "FieldValueDuplicate",
    "TooLong": "FieldValueTooLong",
    "TooMany": "FieldValueTooMany",
    "TypeInvalid": "FieldValueTypeInvalid",
    "NotFound": "FieldValueNotFound",
    "Internal": "InternalError",
}
_TITLES: dict[ErrorKind, str] = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "NotSupported": "Unsupported value",
    "Forbidden": "Forbidden",
    "Duplicate": "Duplicate value",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "TypeInvalid": "Invalid value",
    "NotFound": "Not found",
    "Internal": "Internal error",
}
_WITHOUT_VALUE = {"Required", "Forbidden", "TooLong", "Internal"}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is wrong: its path, the kind of the error, the value, and the rule in words."""

    path: str
    kind: ErrorKind
    value: Any = None
    detail: str = ""

    def body(self) -> str:
        """The message without the path."""
        text = _TITLES[self.kind]
        if self.kind not in _WITHOUT_VALUE:
            text += f": {show(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def message(self) -> str:
        return f"{self.path}: {self.body()}"

    def cause(self) -> dict[str, str]:
        """The entry of ``details.causes``."""
        return {"reason": _REASONS[self.kind], "message": self.body(), "field": self.path}


def show(value: Any) -> str:
    """A value as messages carry it: strings quoted, the rest as JSON."""
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
