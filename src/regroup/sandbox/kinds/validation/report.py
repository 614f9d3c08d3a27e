"""Collects errors on fields. Pure."""

from collections.abc import Iterable
from typing import Any

from regroup.sandbox.schema.errors import FieldError, show


class Report:
    """The errors found so far, in the order in which they were found."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def required(self, path: str, detail: str = "") -> None:
        self.errors.append(FieldError(path, "Required", "", detail))

    def invalid(self, path: str, value: Any, detail: str) -> None:
        self.errors.append(FieldError(path, "Invalid", value, detail))

    def all_invalid(self, path: str, value: Any, details: Iterable[str]) -> None:
        for detail in details:
            self.invalid(path, value, detail)

    def forbidden(self, path: str, detail: str) -> None:
        self.errors.append(FieldError(path, "Forbidden", None, detail))

    def duplicate(self, path: str, value: Any, detail: str = "") -> None:
        self.errors.append(FieldError(path, "Duplicate", value, detail))

    def not_found(self, path: str, value: Any) -> None:
        self.errors.append(FieldError(path, "NotFound", value))

    def too_long(self, path: str, limit: int) -> None:
        self.errors.append(FieldError(path, "TooLong", None, f"may not be more than {limit} bytes"))

    def one_of(self, path: str, value: Any, allowed: Iterable[str], *, needed: bool = False) -> None:
        """``value`` is one of ``allowed``; with ``needed`` an empty one is a missing one."""
        allowed = list(allowed)
        if needed and not value:
            self.required(path)
        elif value not in allowed:
            detail = f"supported values: {', '.join(show(each) for each in allowed)}"
            self.errors.append(FieldError(path, "NotSupported", value, detail))

    def not_negative(self, path: str, value: int | None) -> None:
        if value is not None and value < 0:
            self.invalid(path, value, "must be greater than or equal to 0")

    def between(self, path: str, value: int, low: int, high: int) -> None:
        if not low <= value <= high:
            self.invalid(path, value, f"must be between {low} and {high}, inclusive")
