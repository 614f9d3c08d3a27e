"""What of ``spec.scheduling`` an operator with a given scheduler provider refuses (spec/leaderworkerset.md 2.6). Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from regroup.kube.problem import Problem
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api import types
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.objects import gang
from regroup.leaderworkerset.objects.gang import Level, Provider

_PATH = "spec.scheduling"
_TEMPLATE = "spec.leaderWorkerTemplate"
_FLAG = "--scheduler-provider"


def scheduling_problems(obj: Mapping[str, Any], old: Mapping[str, Any] | None = None, *, provider: Provider) -> list[Problem]:
    """Everything that is wrong with ``spec.scheduling`` of ``obj``, which has passed ``validation``.

    On an update only what is new counts, so that an object from an operator with another provider can still be edited.
    """
    found = list(_problems(types.decode(obj), provider))
    before = _before(old)
    if before is None:
        return found
    known = list(_problems(before, provider))
    return [problem for problem in found if problem not in known]


def _before(old: Mapping[str, Any] | None) -> LeaderWorkerSet | None:
    try:
        return None if old is None else types.decode(old)
    except msgspec.ValidationError:
        return None


def _problems(lws: LeaderWorkerSet, provider: Provider) -> Iterator[Problem]:
    scheduling = lws.spec.scheduling
    for key in gang.DELEGATIONS:
        if key in lws.metadata.annotations:
            rule = "groups that are placed by the Workload of a parent are not supported: take it off, and use spec.scheduling"
            yield Problem(f"metadata.annotations[{key}]", lws.metadata.annotations[key], rule, kind="Forbidden")
    if scheduling is None:
        return
    if provider is Provider.NONE:
        rule = f"needs an operator that is started with {_FLAG} {Provider.KUBERNETES} or {Provider.VOLCANO}"
        yield Problem(_PATH, scheduling, rule, kind="Forbidden")
        return
    try:
        at = gang.level(scheduling)
    except gang.SeveralLevels as error:
        yield Problem(_PATH, scheduling, str(error))
        return
    parts = gang.parts(scheduling)
    gangs = [name for name, part in parts.items() if gang.is_gang(part, template=name)]
    if provider is Provider.VOLCANO and not _plain(at, parts, gangs):
        rule = (
            f"{_FLAG} {Provider.VOLCANO} only schedules each replica as one gang: replica with schedulingPolicy gang, or nothing"
        )
        yield Problem(_PATH, scheduling, rule, kind="Forbidden")
        return
    for name, part in parts.items():
        yield from _policy(part, template=name, size=lws.template.size)
    if at is Level.ALL and (count := ((scheduling.get("schedulingPolicy") or {}).get("gang") or {}).get("minCount")) is not None:
        rule = "follows replicas and size by itself, so that scaling goes on: leave it out"
        yield Problem(f"{_PATH}.schedulingPolicy.gang.minCount", count, rule, kind="Forbidden")
    yield from _roles(lws, at, parts)
    yield from _company(lws, at, parts, gangs)


def _plain(at: Level, parts: Mapping[str, Mapping[str, Any]], gangs: list[str]) -> bool:
    part = parts.get(Level.REPLICA, {})
    return at is Level.REPLICA and bool(gangs) and not part.get("schedulingConstraints") and not part.get("disruptionMode")


def _policy(part: Mapping[str, Any], *, template: str, size: int) -> Iterator[Problem]:
    policy, where = part.get("schedulingPolicy") or {}, _where(template)
    path = f"{where}.schedulingPolicy"
    if policy.get("basic") is not None and policy.get("gang") is not None:
        yield Problem(path, policy, "exactly one of basic and gang may be set")
    asked = policy.get("gang") or {}
    if asked.get("minGroupCount") is not None:
        yield Problem(f"{path}.gang.minGroupCount", asked["minGroupCount"], "minGroupCount is not supported", kind="Forbidden")
    whole = gang.members(template, size=size)
    if template != Level.ALL and asked.get("minCount") is not None and asked["minCount"] != whole:
        yield Problem(f"{path}.gang.minCount", asked["minCount"], f"must be all {whole} pods of it")
    mode = part.get("disruptionMode") or {}
    if len([name for name in ("single", "all") if mode.get(name) is not None]) > 1:
        yield Problem(f"{where}.disruptionMode", mode, "exactly one of single and all may be set")


def _roles(lws: LeaderWorkerSet, at: Level, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    if at is not Level.ROLE:
        return
    template = lws.template
    if template.size < 2:
        yield Problem(f"{_TEMPLATE}.size", template.size, "must be at least 2 to schedule leader and workers apart")
    sources = {keys.LEADER: template.effective_leader_template, keys.WORKER: template.worker_template}
    for role, part in parts.items():
        known = {_claim(claim) for claim in (sources[role].get("spec") or {}).get("resourceClaims") or ()}
        for place, claim in enumerate(part.get("resourceClaims") or ()):
            if _claim(claim) not in known:
                rule = "must stand in the same words in the pod template"
                yield Problem(f"{_where(role)}.resourceClaims[{place}]", claim.get("name"), rule)


def _company(lws: LeaderWorkerSet, at: Level, parts: Mapping[str, Mapping[str, Any]], gangs: list[str]) -> Iterator[Problem]:
    """What gangs do not go together with."""
    if at is not Level.ROLE and gangs and lws.spec.startup_policy == types.LEADER_READY:
        rule = "a gang of leader and workers would wait for ever with startupPolicy LeaderReady"
        yield Problem(_PATH, lws.spec.scheduling, rule, kind="Forbidden")
    placed = gangs or any((part.get("schedulingConstraints") or {}).get("topology") for part in parts.values())
    if placed and lws.metadata.annotations.get(keys.EXCLUSIVE_TOPOLOGY):
        rule = f"gangs and topology constraints cannot be combined with the annotation {keys.EXCLUSIVE_TOPOLOGY}"
        yield Problem(_PATH, lws.spec.scheduling, rule, kind="Forbidden")
    leader, worker = (
        template.get("spec") or {} for template in (lws.template.effective_leader_template, lws.template.worker_template)
    )
    if leader.get("priorityClassName") != worker.get("priorityClassName"):
        rule = "leader and worker templates must have the same priorityClassName"
        yield Problem(_PATH, leader.get("priorityClassName"), rule)
    if leader.get("schedulingGroup") is not None or worker.get("schedulingGroup") is not None:
        yield Problem(_PATH, None, "pod templates must not set spec.schedulingGroup", kind="Forbidden")


def _where(template: str) -> str:
    whole = {str(Level.ALL): _PATH, str(Level.REPLICA): f"{_PATH}.replica"}
    return whole.get(template, f"{_PATH}.replica.{template}")


def _claim(claim: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(claim.get(name) for name in ("name", "resourceClaimName", "resourceClaimTemplateName"))
