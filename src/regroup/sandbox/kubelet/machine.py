"""The machine that a simulated pod is: containers that pull, start, run, exit, back off and stop as time goes by. Pure.

``advance`` brings a pod to a moment, one event after the other in the order of their times, so that a kubelet that looks late
(its node was cut off, its process was stopped) finds the same history. Moments are seconds since the epoch.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto

from regroup.sandbox.kubelet.options import ContainerPlan, Fault, KubeletOptions, PodPlan

KILLED = 137
BACKOFF_RESET = 600.0
"""A container that ran this long starts its back-off anew, in seconds (twice the longest back-off)."""
IMAGE_ERROR_SHOWN = 1.0
"""How long ``ErrImagePull`` is shown before ``ImagePullBackOff``, in seconds."""
TICK = 0.001
"""An event this close is due: clocks and timers do not agree to the microsecond."""
NEVER = float("inf")


class Stage(Enum):
    """Where a container stands."""

    BLOCKED = auto()
    """Its turn has not come."""
    PULLING = auto()
    PULL_FAILED = auto()
    PULL_BACKOFF = auto()
    STARTING = auto()
    RUNNING = auto()
    EXITED = auto()
    """Ended, and about to be restarted without a back-off."""
    CRASH_BACKOFF = auto()
    DONE = auto()
    """Ended for good."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a container ended."""

    code: int
    reason: str
    started: float
    finished: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One container."""

    name: str
    stage: Stage = Stage.BLOCKED
    since: float = 0.0
    due: float = NEVER
    """When it goes on by itself."""
    ready_at: float = NEVER
    unready_until: float = 0.0
    restarts: int = 0
    crashes: int = 0
    """Exits in a row that count for the back-off."""
    pull_failures: int = 0
    exits_with: int = 0
    """The code of the exit at ``due``, while running."""
    ended: Ended | None = None
    """The end that its state shows (EXITED, DONE)."""
    last: Ended | None = None
    """The end before (``lastState``)."""
    image: str = ""
    """What it was begun with; empty before that."""

    def ready(self, now: float) -> bool:
        """Whether its readiness probe passes."""
        return self.stage is Stage.RUNNING and self.ready_at <= now + TICK and self.unready_until <= now + TICK


@dataclass(frozen=True, slots=True)
class PodRun:
    """One pod on its node."""

    uid: str
    started: float
    at: float
    """The moment that it was last brought to."""
    ip: str
    containers: tuple[ContainerRun, ...]
    """Init containers first, as in its plan."""
    kill_at: float = NEVER
    """When its grace period ends; set once it is being deleted."""
    phase: str = ""
    """``Failed`` or ``Succeeded`` once it has ended."""
    reason: str = ""
    message: str = ""
    fault: str = ""
    """The id of the fault that was carried out last."""

    @property
    def stopping(self) -> bool:
        return self.kill_at < NEVER

    @property
    def over(self) -> bool:
        """Nothing of it runs any more."""
        return bool(self.phase)

    def next_due(self, now: float) -> float:
        """When something about it changes by itself: an event, or a readiness that comes."""
        moments = [entry.due for entry in self.containers]
        for entry in self.containers:
            if entry.stage is Stage.RUNNING:
                moments += [at for at in (entry.ready_at, entry.unready_until) if at > now + TICK]
        return min(moments, default=NEVER)


@dataclass(frozen=True, slots=True)
class Images:
    """What the node has pulled, and what it is refused (prefixes)."""

    present: Collection[str] = ()
    refused: tuple[str, ...] = ()

    def refuses(self, image: str) -> bool:
        return image.startswith(self.refused) if self.refused else False


def new_run(uid: str, plan: PodPlan, *, now: float, ip: str) -> PodRun:
    """A pod that its node has just taken in."""
    return PodRun(uid=uid, started=now, at=now, ip=ip, containers=tuple(ContainerRun(entry.name) for entry in plan.containers))


def advance(run: PodRun, plan: PodPlan, options: KubeletOptions, *, now: float, images: Images) -> PodRun:
    """``run`` as it stands at ``now``."""
    moment = run.at
    while True:
        run = _settle(run, plan, options, moment, images)
        if run.over:
            return run
        due = min((entry.due for entry in run.containers), default=NEVER)
        if due > now + TICK:
            settled = replace(_settle(run, plan, options, now, images), at=now)
            changed = _take_up_images(settled, plan, options, now, images)
            if changed is settled:
                return settled
            run, moment = changed, now
            continue
        moment = max(moment, due)
        containers = tuple(
            _event(entry, spec, options, stopping=run.stopping, images=images) if entry.due == due else entry
            for entry, spec in zip(run.containers, plan.containers, strict=True)
        )
        run = replace(run, containers=containers)


def _take_up_images(run: PodRun, plan: PodPlan, options: KubeletOptions, now: float, images: Images) -> PodRun:
    """Containers whose image was changed in the spec begin anew with it: the one that ran is stopped and counts as a restart."""
    if run.over or run.stopping:
        return run
    containers = tuple(
        entry
        if not entry.image or entry.image == spec.image or entry.stage is Stage.DONE
        else _begin(_stopped(entry, options, now), spec, options, now, images)
        for entry, spec in zip(run.containers, plan.containers, strict=True)
    )
    return run if containers == run.containers else replace(run, containers=containers)


def _stopped(entry: ContainerRun, options: KubeletOptions, now: float) -> ContainerRun:
    """The container of the old image is gone."""
    last = entry.ended or entry.last
    if entry.stage is Stage.RUNNING:
        code = options.stop_exit_code
        last = Ended(code, "Completed" if code == 0 else "Error", entry.since, now)
    again = entry.stage in {Stage.RUNNING, Stage.EXITED, Stage.CRASH_BACKOFF}
    return replace(
        entry,
        restarts=entry.restarts + again,
        crashes=0,
        pull_failures=0,
        ended=None,
        last=last,
        unready_until=0.0,
        ready_at=NEVER,
    )


def _event(entry: ContainerRun, plan: ContainerPlan, options: KubeletOptions, *, stopping: bool, images: Images) -> ContainerRun:
    """What happens to a container at its due time."""
    at = entry.due
    match entry.stage:
        case Stage.PULLING if images.refuses(plan.image):
            shown = min(IMAGE_ERROR_SHOWN, options.image_backoff / 2)
            return replace(entry, stage=Stage.PULL_FAILED, since=at, due=at + shown, pull_failures=entry.pull_failures + 1)
        case Stage.PULLING:
            return replace(entry, stage=Stage.STARTING, since=at, due=at + plan.start_delay, pull_failures=0)
        case Stage.PULL_FAILED:
            wait = _backoff(options.image_backoff, options.image_backoff_max, entry.pull_failures)
            return replace(entry, stage=Stage.PULL_BACKOFF, since=at, due=entry.since + wait)
        case Stage.PULL_BACKOFF:
            return replace(entry, stage=Stage.PULLING, since=at, due=at + options.pull_time)
        case Stage.STARTING:
            return _started(entry, plan, at)
        case Stage.RUNNING:
            return exited(entry, plan, options, at=at, code=entry.exits_with, stopping=stopping)
        case Stage.EXITED | Stage.CRASH_BACKOFF:
            back = replace(entry, restarts=entry.restarts + 1, last=entry.ended or entry.last, ended=None)
            return _started(back, plan, at)
        case Stage.BLOCKED | Stage.DONE:
            return replace(entry, due=NEVER)


def _started(entry: ContainerRun, plan: ContainerPlan, at: float) -> ContainerRun:
    return replace(
        entry,
        stage=Stage.RUNNING,
        since=at,
        due=NEVER if plan.run_for is None else at + plan.run_for,
        exits_with=plan.exit_code,
        ready_at=at + plan.ready_delay,
        unready_until=0.0,
        ended=None,
    )


def exited(
    entry: ContainerRun,
    plan: ContainerPlan,
    options: KubeletOptions,
    *,
    at: float,
    code: int,
    stopping: bool,
    reason: str = "",
    message: str = "",
) -> ContainerRun:
    """The container ends at ``at``. A first exit is followed by a restart at once, later ones by the back-off."""
    ended = Ended(code, reason or ("Completed" if code == 0 else "Error"), entry.since, at, message)
    if stopping or not plan.restarts_after(code):
        return replace(entry, stage=Stage.DONE, since=at, due=NEVER, ended=ended)
    crashes = 1 if at - entry.since >= BACKOFF_RESET else entry.crashes + 1
    if crashes == 1:
        return replace(entry, stage=Stage.EXITED, since=at, due=at + plan.start_delay, crashes=crashes, ended=ended)
    wait = _backoff(options.crash_loop_backoff, options.crash_loop_backoff_max, crashes - 1)
    return replace(entry, stage=Stage.CRASH_BACKOFF, since=at, due=at + wait, crashes=crashes, ended=None, last=ended)


def _backoff(first: float, longest: float, failures: int) -> float:
    return min(longest, first * 2.0 ** min(failures - 1, 30))


def crash_backoff(entry: ContainerRun, options: KubeletOptions) -> float:
    """The back-off in seconds that the container is in."""
    return _backoff(options.crash_loop_backoff, options.crash_loop_backoff_max, max(1, entry.crashes - 1))


def _settle(run: PodRun, plan: PodPlan, options: KubeletOptions, now: float, images: Images) -> PodRun:
    """What follows at once from where the containers stand: whose turn it is, and whether the pod has ended."""
    if run.over:
        return run
    if run.stopping:
        return _ended(run, plan) if all(entry.stage is Stage.DONE for entry in run.containers) else run
    containers = list(run.containers)
    for index, (entry, spec) in enumerate(zip(run.containers, plan.containers, strict=True)):
        if entry.stage is Stage.BLOCKED:
            containers[index] = _begin(entry, spec, options, now, images)
        if not spec.init or (spec.sidecar and _has_started(entry)):
            continue
        if entry.stage is not Stage.DONE:
            break
        if entry.ended is not None and entry.ended.code != 0:
            return replace(run, phase="Failed", containers=_all_down(run, now, only_running=True))
    run = replace(run, containers=tuple(containers))
    regular = [entry for entry, spec in zip(run.containers, plan.containers, strict=True) if not spec.init]
    if regular and all(entry.stage is Stage.DONE for entry in regular):
        return _ended(replace(run, containers=_all_down(run, now)), plan)
    return run


def _has_started(entry: ContainerRun) -> bool:
    """Whether a container has run at least once."""
    return entry.stage is Stage.RUNNING or entry.crashes > 0 or entry.restarts > 0


def _all_down(run: PodRun, now: float, *, only_running: bool = False) -> tuple[ContainerRun, ...]:
    """The containers of a pod that has ended: sidecars end in peace; what never ran stays as it is if ``only_running``."""
    kept = {Stage.DONE} if not only_running else set(Stage) - {Stage.RUNNING}
    return tuple(entry if entry.stage in kept else _put_down(entry, now, 0) for entry in run.containers)


def _begin(entry: ContainerRun, plan: ContainerPlan, options: KubeletOptions, now: float, images: Images) -> ContainerRun:
    """A container's turn: its image is there, or has to be pulled first."""
    if plan.image in images.present and not images.refuses(plan.image):
        return replace(entry, stage=Stage.STARTING, since=now, due=now + plan.start_delay, image=plan.image)
    return replace(entry, stage=Stage.PULLING, since=now, due=now + options.pull_time, image=plan.image)


def _ended(run: PodRun, plan: PodPlan) -> PodRun:
    """All containers have ended: the pod succeeded if the regular ones did."""
    regular = [entry for entry, spec in zip(run.containers, plan.containers, strict=True) if not spec.init]
    good = all(entry.ended is not None and entry.ended.code == 0 for entry in regular)
    return replace(run, phase="Succeeded" if good else "Failed")


def _put_down(entry: ContainerRun, at: float, code: int) -> ContainerRun:
    """End a container for good, whatever it was at."""
    if entry.stage is Stage.RUNNING:
        ended = Ended(code, "Completed" if code == 0 else "Error", entry.since, at)
    elif entry.stage in {Stage.EXITED, Stage.CRASH_BACKOFF}:
        ended = entry.ended or entry.last or Ended(KILLED, "Error", entry.since, at)
    else:
        text = "The container could not be located when the pod was terminated"
        ended = Ended(KILLED, "ContainerStatusUnknown", at, at, text)
    last = None if entry.last is ended else entry.last
    return replace(entry, stage=Stage.DONE, since=at, due=NEVER, ended=ended, last=last)


def stop(run: PodRun, plan: PodPlan, options: KubeletOptions, *, now: float, grace: float) -> PodRun:
    """The pod is being deleted: SIGTERM to what runs, SIGKILL when ``grace`` seconds are over. A second call may only shorten."""
    if run.over:
        return run
    kill_at = min(run.kill_at, now + grace)
    if kill_at == run.kill_at:
        return run
    containers = []
    for entry in run.containers:
        if entry.stage is not Stage.RUNNING:
            containers.append(entry if entry.stage is Stage.DONE else _put_down(entry, now, KILLED))
            continue
        asked = entry.due if run.stopping else now + plan.stop_delay
        code = entry.exits_with if run.stopping else options.stop_exit_code
        late = asked > kill_at
        containers.append(replace(entry, due=kill_at if late else asked, exits_with=KILLED if late else code))
    return replace(run, kill_at=kill_at, containers=tuple(containers))


def finish(run: PodRun, *, now: float, phase: str, reason: str, message: str) -> PodRun:
    """The pod has ended by a word from outside: whatever runs is killed."""
    containers = tuple(entry if entry.stage is Stage.DONE else _put_down(entry, now, KILLED) for entry in run.containers)
    return replace(run, containers=containers, phase=phase, reason=reason, message=message)


def strike(run: PodRun, plan: PodPlan, options: KubeletOptions, fault: Fault, *, now: float) -> PodRun:
    """Carry out ``fault`` if its time has come (a crash needs a running container), and remember its id."""
    if fault.id == run.fault or run.over or run.stopping:
        return run
    if fault.action == "fail":
        reason, message = fault.reason or "Evicted", fault.message or "The pod was failed by a fault."
        return replace(finish(run, now=now, phase="Failed", reason=reason, message=message), fault=fault.id)
    containers = list(run.containers)
    for index, (entry, spec) in enumerate(zip(run.containers, plan.containers, strict=True)):
        if fault.container != entry.name if fault.container else spec.init:
            continue
        if entry.stage is Stage.DONE:
            return replace(run, fault=fault.id)
        if entry.stage is not Stage.RUNNING:
            return run
        if fault.action == "unready":
            until = NEVER if fault.seconds is None else now + fault.seconds
            containers[index] = replace(entry, unready_until=until)
        else:
            containers[index] = exited(
                entry, spec, options, at=now, code=fault.code, stopping=False, reason=fault.reason, message=fault.message
            )
        return replace(run, containers=tuple(containers), fault=fault.id)
    return replace(run, fault=fault.id)
