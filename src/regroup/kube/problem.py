"""One thing wrong with an object, worded as an API server words it: path, value, rule. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_VALUE_LIMIT = 200
"""Characters of a bad value that are shown."""

_HEADS = {
    "Invalid": "Invalid value",
    "Required": "Required value",
    "Forbidden": "Forbidden",
    "NotSupported": "Unsupported value",
    "TypeInvalid": "Invalid value",
}
_CAUSES = {
    "Invalid": "FieldValueInvalid",
    "Required": "FieldValueRequired",
    "Forbidden": "FieldValueForbidden",
    "NotSupported": "FieldValueNotSupported",
    "TypeInvalid": "FieldValueTypeInvalid",
}
_WITHOUT_VALUE = frozenset({"Required", "Forbidden"})


@dataclass(frozen=True, slots=True)
class Problem:
    """``rule`` is the sentence that the value breaks; ``kind`` one of the API's: Invalid, Required, Forbidden, NotSupported,
    TypeInvalid."""

    path: str
    value: Any
    rule: str
    kind: str = "Invalid"

    @property
    def message(self) -> str:
        """``spec.replicas: Invalid value: -1: must be ...``."""
        return f"{self.path}: {self.detail}"

    @property
    def detail(self) -> str:
        """The message without its path."""
        if self.kind in _WITHOUT_VALUE:
            return f"{_HEADS[self.kind]}: {self.rule}"
        return f"{_HEADS[self.kind]}: {_shown(self.value)}: {self.rule}"

    def cause(self) -> dict[str, str]:
        """The entry of ``status.details.causes``."""
        return {"reason": _CAUSES[self.kind], "message": self.detail, "field": self.path}


def not_supported(path: str, value: Any, supported: Sequence[str]) -> Problem:
    """A value outside of an enum."""
    return Problem(path, value, "supported values: " + ", ".join(f'"{item}"' for item in supported), kind="NotSupported")


def summary(problems: Sequence[Problem], *, kind: str, group: str, name: str) -> str:
    """All problems of one object in one sentence."""
    messages = [problem.message for problem in problems]
    joined = messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"
    return f'{kind}.{group} "{name}" is invalid: {joined}'


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 3] + "..."
