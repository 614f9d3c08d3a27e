"""How long simulated containers take, and what annotations of a pod change about it. Pure.

All durations are seconds of the cluster's time. A value may be given for one container: ``worker=30s,sidecar=2m``; a value
without a name holds for the pod's regular containers. What cannot be read is reported by ``problems`` and otherwise ignored,
because an annotation must not be able to stop a kubelet.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regroup.sandbox.kubelet.views import PREFIX, Container, KubeletPod

START_DELAY = PREFIX + "start-delay"
READY_DELAY = PREFIX + "ready-delay"
STOP_DELAY = PREFIX + "stop-delay"
EXIT_AFTER = PREFIX + "exit-after"
EXIT_CODE = PREFIX + "exit-code"
FAULT = PREFIX + "fault"
TEXT_LIMIT = 256
"""Characters of a reason, message or id that are taken over from an annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """Durations in seconds. The defaults are those of a quick cluster, not of large images."""

    pull_time: float = 1.0
    init_time: float = 0.5
    """How long an init container works before it exits with 0."""
    start_delay: float = 0.5
    ready_delay: float = 0.5
    stop_delay: float = 1.0
    probe_delays: bool = True
    """Whether a readiness probe's ``initialDelaySeconds`` is waited for."""
    stop_exit_code: int = 143
    """Exit code of a container that SIGTERM ends in time; past the grace period it is 137."""
    crash_loop_backoff: float = 10.0
    crash_loop_backoff_max: float = 300.0
    image_backoff: float = 10.0
    image_backoff_max: float = 300.0
    lease_interval: float = 10.0
    lease_duration: int = 40
    status_interval: float = 300.0
    """A node's status is written this often even if nothing has changed."""
    events: bool = True
    workers: int = 32

    def __post_init__(self) -> None:
        if min(self.crash_loop_backoff, self.image_backoff, self.lease_interval) <= 0:
            raise ValueError("back-offs and the lease interval must be positive")


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """How one container of a pod behaves."""

    name: str
    image: str
    init: bool
    sidecar: bool
    start_delay: float
    ready_delay: float
    run_for: float | None
    exit_code: int
    restarts_after: Callable[[int], bool]
    """Whether an exit with this code is followed by a restart."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the ``fault`` annotation asks for, once for each ``id``."""

    id: str
    action: str
    """``crash``, ``fail`` or ``unready``."""
    container: str = ""
    code: int = 1
    reason: str = ""
    message: str = ""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PodPlan:
    """How a pod behaves: its containers, init containers first, and how long each takes to stop."""

    containers: tuple[ContainerPlan, ...]
    stop_delay: float
    fault: Fault | None
    problems: tuple[str, ...]


def plan(pod: KubeletPod, options: KubeletOptions) -> PodPlan:
    """Read the plan for ``pod``: its spec, its annotations, and ``options`` for the rest."""
    annotations = pod.metadata.annotations
    problems: list[str] = []

    def read(name: str) -> dict[str, float]:
        return _durations(annotations, name, problems)

    starts, readies, exits, codes = read(START_DELAY), read(READY_DELAY), read(EXIT_AFTER), _codes(annotations, problems)
    containers = []
    for init, entries in ((True, pod.spec.init_containers or ()), (False, pod.spec.containers)):
        for entry in entries:
            sidecar = init and entry.restart_policy == "Always"
            works = init and not sidecar
            common = "" if not init else None
            probe = float(entry.readiness_probe.initial_delay_seconds) if entry.readiness_probe else 0.0
            ready = _pick(readies, entry.name, common)
            if ready is None:
                ready = max(options.ready_delay, probe if options.probe_delays else 0.0)
            run_for = _pick(exits, entry.name, common)
            start = _pick(starts, entry.name, common)
            containers.append(
                ContainerPlan(
                    name=entry.name,
                    image=entry.image,
                    init=init,
                    sidecar=sidecar,
                    start_delay=options.start_delay if start is None else start,
                    ready_delay=ready,
                    run_for=options.init_time if run_for is None and works else run_for,
                    exit_code=int(_pick(codes, entry.name, common) or 0),
                    restarts_after=_restarts(entry, pod.spec.restart_policy, init=init),
                )
            )
    stop = read(STOP_DELAY)
    return PodPlan(tuple(containers), stop.get("", options.stop_delay), _fault(annotations, problems), tuple(problems))


def _pick(values: Mapping[str, float], name: str, common: str | None) -> float | None:
    if name in values:
        return values[name]
    return values.get(common) if common is not None else None


def _restarts(container: Container, pod_policy: str, *, init: bool) -> Callable[[int], bool]:
    """The pod's policy, or the container's own, and its rules on exit codes before both."""
    policy = container.restart_policy or pod_policy
    if init and container.restart_policy != "Always" and policy == "Always":
        policy = "OnFailure"
    rules = container.restart_policy_rules or ()

    def restarts(code: int) -> bool:
        for rule in rules:
            listed = code in (rule.exit_codes.values or ()) if rule.exit_codes else False
            if rule.action == "Restart" and rule.exit_codes and listed == (rule.exit_codes.operator == "In"):
                return True
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    return restarts


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0, "": 1.0}


def parse_duration(text: str) -> float:
    """Seconds of ``30s``, ``1m30s``, ``250ms`` or a bare number. Raises ``ValueError``."""
    text = text.strip()
    if not text or not re.fullmatch(rf"(?:{_DURATION.pattern})+", text):
        raise ValueError(f"{text[:TEXT_LIMIT]!r} is not a duration such as 30s or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def _durations(annotations: Mapping[str, str], name: str, problems: list[str]) -> dict[str, float]:
    return _values(annotations, name, parse_duration, problems)


def _codes(annotations: Mapping[str, str], problems: list[str]) -> dict[str, float]:
    return _values(annotations, EXIT_CODE, lambda text: float(_code(text)), problems)


def _code(text: str) -> int:
    code = int(text)
    if not 0 <= code <= 255:
        raise ValueError(f"exit code {code} is not between 0 and 255")
    return code


def _values(annotations: Mapping[str, str], name: str, parse: Callable[[str], float], problems: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in annotations.get(name, "").split(","):
        if not part.strip():
            continue
        container, given, value = part.rpartition("=")
        try:
            found[container.strip() if given else ""] = parse(value)
        except ValueError as error:
            problems.append(f"annotation {name}: {error}")
    return found


def _fault(annotations: Mapping[str, str], problems: list[str]) -> Fault | None:
    text = annotations.get(FAULT, "").strip()
    if not text:
        return None
    try:
        return parse_fault(text)
    except ValueError as error:
        problems.append(f"annotation {FAULT}: {error}")
        return None


def parse_fault(text: str) -> Fault:
    """A fault written as JSON (``{"action": "crash", "container": "worker", "code": 3, "id": "a"}``) or as words
    (``crash container=worker code=3 id=a``). Without an ``id`` the text itself is the id. Raises ``ValueError``."""
    if text.startswith("{"):
        loaded: dict[str, Any] = json.loads(text)
        fields = {str(key): str(value) for key, value in loaded.items()}
    else:
        words = shlex.split(text)
        fields = {"action": words[0]}
        for word in words[1:]:
            key, given, value = word.partition("=")
            if not given:
                raise ValueError(f"{word[:TEXT_LIMIT]!r} is not key=value")
            fields[key] = value
    unknown = set(fields) - {"action", "container", "code", "reason", "message", "for", "id"}
    if unknown:
        raise ValueError(f"unknown field {min(unknown)[:TEXT_LIMIT]!r}")
    action = fields.get("action", "")
    if action not in {"crash", "fail", "unready"}:
        raise ValueError(f"action {action[:TEXT_LIMIT]!r} is not crash, fail or unready")
    reason = fields.get("reason", "")[:TEXT_LIMIT]
    return Fault(
        id=fields.get("id", text)[:TEXT_LIMIT],
        action=action,
        container=fields.get("container", "")[:TEXT_LIMIT],
        code=_code(fields["code"]) if "code" in fields else (137 if reason == "OOMKilled" else 1),
        reason=reason,
        message=fields.get("message", "")[:TEXT_LIMIT],
        seconds=parse_duration(fields["for"]) if "for" in fields else None,
    )
