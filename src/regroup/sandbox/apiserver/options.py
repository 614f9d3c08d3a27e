"""The options of requests, checked as an API server checks them: list, create, update, patch, delete. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regroup.sandbox.apiserver.failures import Failure, bad_request, internal, invalid
from regroup.sandbox.apiserver.media import APPLY_PATCH, SCHEME, media_type, why_not_json
from regroup.sandbox.apiserver.routing import flag, query_of
from regroup.sandbox.schema.errors import FieldError
from regroup.wire import codec
from regroup.wire.resource import Resource
from regroup.wire.transport import Request

Obj = dict[str, Any]
OptionsKind = Literal["CreateOptions", "UpdateOptions", "PatchOptions"]

MANAGER_LIMIT = 128
POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What writes have in common. An empty ``validation`` is ``Warn``."""

    dry_run: bool
    manager: str
    validation: str
    force: bool


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What lists and watches ask for, beside their selectors. ``version`` is None when none was named."""

    version: int | None
    limit: int
    token: str
    timeout: float | None
    bookmarks: bool
    initial_events: bool | None
    """Whether a watch begins with all that is there; None leaves it to the version asked for."""
    exact: bool


def write_options(request: Request, kind: OptionsKind) -> WriteOptions:
    """Options of a create, an update or a patch. Raises ``Failure`` (422)."""
    query = query_of(request)
    errors: list[FieldError] = []
    apply = kind == "PatchOptions" and media_type(request) == APPLY_PATCH
    if kind == "PatchOptions" and not apply and "force" in query:
        errors.append(FieldError("force", "Forbidden", detail="may not be specified for non-apply patch"))
    manager = query.get("fieldManager", "")
    if apply and not manager:
        errors.append(FieldError("fieldManager", "Required", detail="is required for apply patch"))
    if len(manager.encode()) > MANAGER_LIMIT:
        errors.append(FieldError("fieldManager", "TooLong", detail=f"may not be more than {MANAGER_LIMIT} bytes"))
    if not manager.isprintable():
        errors.append(FieldError("fieldManager", "Invalid", manager, "should only contain printable characters"))
    dry_run = [value for name, value in request.query if name == "dryRun"]
    errors += _dry_run_errors(dry_run)
    validation = query.get("fieldValidation", "")
    if validation not in {"", "Ignore", "Strict", "Warn"}:
        detail = 'supported values: "", "Ignore", "Strict", "Warn"'
        errors.append(FieldError("fieldValidation", "NotSupported", validation, detail))
    if errors:
        raise _refused(kind, errors)
    if not manager:
        manager = request.headers.get("user-agent", "").partition("/")[0] or "unknown"
    return WriteOptions(bool(dry_run), manager[:MANAGER_LIMIT], validation or "Warn", flag(query, "force"))


def list_options(query: Mapping[str, str], *, watch: bool) -> ListOptions:
    """Options of a list or a watch. Raises ``Failure``."""
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    token = query.get("continue", "")
    initial = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    errors = _watch_errors(match, token, initial=initial) if watch else _list_errors(match, version, token, initial=initial)
    if errors:
        raise _refused("ListOptions", errors)
    if token and version not in {"", "0"}:
        raise bad_request("specifying resource version is not allowed when using continue")
    timeout = _number(query, "timeoutSeconds")
    return ListOptions(
        version=_version(version, watch=watch),
        limit=_number(query, "limit") or 0,
        token=token,
        timeout=float(timeout) if timeout else None,
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=initial,
        exact=match == "Exact",
    )


def delete_options(request: Request) -> Obj:
    """``DeleteOptions`` from the body, else from the query. Raises ``Failure``."""
    options: Obj = {}
    query = query_of(request)
    if request.body and request.body.strip():
        try:
            options = dict(codec.decode(request.body, dict))
        except codec.DecodeError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {why_not_json(error)}") from error
        grace = options.get("gracePeriodSeconds")
        if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
            found = "string" if isinstance(grace, str) else "number" if isinstance(grace, float) else type(grace).__name__
            where = "Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            raise bad_request(f"json: cannot unmarshal {found} into {where}")
        kind = options.get("kind") or "DeleteOptions"
        if kind != "DeleteOptions":
            version = options.get("apiVersion") or "meta.k8s.io/v1"
            raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "{SCHEME}"')
    else:
        options = {name: query[name] for name in ("propagationPolicy", "gracePeriodSeconds") if query.get(name)}
        if "gracePeriodSeconds" in options:
            options["gracePeriodSeconds"] = _number(query, "gracePeriodSeconds")
        if query.get("orphanDependents"):
            options["orphanDependents"] = flag(query, "orphanDependents")
    if not options.get("dryRun"):
        options["dryRun"] = [value for name, value in request.query if name == "dryRun"]
    errors = _dry_run_errors(options["dryRun"])
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(FieldError("propagationPolicy", "Invalid", policy, detail))
    elif policy is not None and policy not in POLICIES:
        shown = ", ".join(f'"{name}"' for name in (*POLICIES, "nil"))
        errors.append(FieldError("propagationPolicy", "NotSupported", policy, f"supported values: {shown}"))
    if errors:
        raise _refused("DeleteOptions", errors)
    return options


def _dry_run_errors(values: Sequence[Any]) -> list[FieldError]:
    if all(value == "All" for value in values):
        return []
    return [FieldError("dryRun", "NotSupported", list(values), 'supported values: "All"')]


def _list_errors(match: str, version: str, token: str, *, initial: bool | None) -> list[FieldError]:
    errors = []
    if match and token:
        errors.append(_forbidden_match("resourceVersionMatch is forbidden when continue is provided"))
    if match and not version:
        errors.append(_forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match not in {"", "Exact", "NotOlderThan"}:
        shown = 'supported values: "Exact", "NotOlderThan", ""'
        errors.append(FieldError("resourceVersionMatch", "NotSupported", match, shown))
    if match == "Exact" and version == "0":
        errors.append(_forbidden_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if initial is not None:
        errors.append(FieldError("sendInitialEvents", "Forbidden", detail="sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(match: str, token: str, *, initial: bool | None) -> list[FieldError]:
    errors = []
    if initial is not None and match != "NotOlderThan":
        errors.append(_forbidden_match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match and initial is None:
        errors.append(_forbidden_match("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
    if match and initial is None and match != "NotOlderThan":
        errors.append(FieldError("resourceVersionMatch", "NotSupported", match, 'supported values: "NotOlderThan"'))
    if token:
        errors.append(_forbidden_match("resourceVersionMatch is forbidden when continue is provided"))
    return errors


def _forbidden_match(detail: str) -> FieldError:
    return FieldError("resourceVersionMatch", "Forbidden", detail=detail)


def _refused(kind: str, errors: Sequence[FieldError]) -> Failure:
    return invalid(Resource("meta.k8s.io", "v1", "", kind), "", errors)


def check_version(query: Mapping[str, str]) -> None:
    """The version at which one object is asked for: any will do, but it has to be one. Raises ``Failure`` (500)."""
    _version(query.get("resourceVersion", ""), watch=True)


def _version(text: str, *, watch: bool) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
    raise internal(why) if watch else bad_request(f"invalid resource version: {why}")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
