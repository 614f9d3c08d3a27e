"""Errors that a call to an API server can end with. Each keeps the ``Status`` that the server sent.

Callers catch by meaning (``NotFound``, ``Conflict``), never by number.
"""

from typing import Any

TEXT_LIMIT = 8192
"""Characters of a server's message that are kept."""


class WireError(Exception):
    """Anything that went wrong between us and an API server."""


class ConnectionFailed(WireError):
    """No answer: refused, reset, timed out or cut off. ``maybe_done`` is True when the request may have reached the server."""

    def __init__(self, message: str, *, maybe_done: bool = False) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class ApiError(WireError):
    """The server answered with a failure ``Status``."""

    def __init__(
        self,
        code: int,
        *,
        reason: str = "",
        message: str = "",
        status: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP {code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.status = status or {}
        self.retry_after = retry_after
        """Seconds that the server asked us to wait, from ``Retry-After`` or ``details.retryAfterSeconds``."""

    @property
    def causes(self) -> list[dict[str, str]]:
        """``details.causes``: one entry a bad field, with ``field``, ``reason`` and ``message``."""
        causes = _details(self.status).get("causes")
        return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


class BadRequest(ApiError):
    """400."""


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403: RBAC, quota or an admission plugin."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: a precondition or resourceVersion did not hold, or server-side apply met another manager's field."""


class AlreadyExists(Conflict):
    """409 with reason ``AlreadyExists``: a create of a name that is taken."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object is not valid; ``causes`` names the fields."""


class TooManyRequests(ApiError):
    """429."""


class ServerError(ApiError):
    """5xx."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def api_error(
    code: int, *, status: dict[str, Any] | None = None, fallback: str = "", retry_after: float | None = None
) -> ApiError:
    """The typed error for an HTTP status code and the ``Status`` body (None when the body was not one)."""
    status = status or {}
    reason = str(status.get("reason") or "")[:TEXT_LIMIT]
    message = str(status.get("message") or fallback)[:TEXT_LIMIT]
    if retry_after is None:
        seconds = _details(status).get("retryAfterSeconds")
        retry_after = float(seconds) if isinstance(seconds, int) and seconds > 0 else None
    cls = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if code == 409 and reason == "AlreadyExists":
        cls = AlreadyExists
    return cls(code, reason=reason, message=message, status=status, retry_after=retry_after)


def is_namespace_terminating(error: Exception) -> bool:
    """Whether a write was refused because its namespace is being deleted: no try again will fare better."""
    return isinstance(error, Forbidden) and any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)


def _details(status: dict[str, Any]) -> dict[str, Any]:
    details = status.get("details")
    return details if isinstance(details, dict) else {}
