"""Rules of a LeaderWorkerSet beyond its schema (spec/leaderworkerset.md 2.2-2.7). Pure.

Objects are plain dicts after defaulting, or not.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from regroup.kube.problem import Problem, not_supported
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api import types
from regroup.leaderworkerset.api.types import LeaderWorkerSet, LeaderWorkerTemplate
from regroup.leaderworkerset.objects.rollout import scaled

_MAX_REPLICAS = 1_000_000
_MAX_INT32 = 2**31 - 1
_LABEL = 63
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name', or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_PERCENT = re.compile(r"[0-9]+%\Z")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_KEY_SUFFIX = 9
"""``-`` and the eight characters of a Hash group's host name."""
_REVISION_SUFFIX = 11
"""What the label controller-revision-hash adds to a StatefulSet's name: ``-`` and up to ten characters."""

_TEMPLATE = "spec.leaderWorkerTemplate"
_ROLLING = "spec.rolloutStrategy.rollingUpdateConfiguration"
_BAD_TYPE = re.compile(r"(.*) - at `\$\.?(.*)`\Z", re.DOTALL)


def validate_create(obj: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong with a new object; empty when it is fine."""
    lws = _decoded(obj)
    if isinstance(lws, Problem):
        return [lws]
    return [*_name(lws), *_values(lws)]


def validate_update(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong with ``new`` in the place of ``old``.

    An object that is being deleted is never held up. What was wrong before in the very same way does not count: objects from
    before a rule can still be labelled, scaled and, by ourselves, annotated.
    """
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return []
    lws, before = _decoded(new), _decoded(old)
    if isinstance(lws, Problem):
        return [lws]
    if isinstance(before, Problem):
        return _values(lws)
    known = _values(before)
    # A name cannot be changed, so that it only counts when this very update made it too long.
    grown = [] if _name(before) else _name(lws)
    return [*grown, *(problem for problem in _values(lws) if problem not in known), *_immutable(lws, before)]


def _decoded(obj: Mapping[str, Any]) -> LeaderWorkerSet | Problem:
    try:
        return types.decode(obj)
    except msgspec.ValidationError as error:
        match = _BAD_TYPE.match(str(error))
        path, rule = (match[2], match[1]) if match else ("spec", str(error))
        return Problem(path or "spec", _at(obj, path), rule, kind="TypeInvalid")


def _at(obj: Any, path: str) -> Any:
    for step in path.split("."):
        obj = obj.get(step) if isinstance(obj, Mapping) else None
    return obj


def _name(lws: LeaderWorkerSet) -> list[Problem]:
    """The name becomes a Service, host names and labels of the pods; what cannot become those is refused here (C110)."""
    if not _DNS_1035.match(lws.name):
        return [Problem("metadata.name", lws.name, _DNS_1035_RULE)]
    limit, why = _longest_name(lws)
    if len(lws.name) > limit:
        return [Problem("metadata.name", lws.name, f"must be no more than {limit} characters, because {why}")]
    return []


def _longest_name(lws: LeaderWorkerSet) -> tuple[int, str]:
    sets_of_workers = lws.template.size > 1
    if lws.hash_mode:
        label = _REVISION_SUFFIX if sets_of_workers else 0
        return _LABEL - _KEY_SUFFIX - label, "host names and labels of its pods add to it and must fit in 63"
    config, replicas = lws.spec.rollout_strategy.rolling_update, lws.spec.replicas
    surge = min(scaled(config.max_surge, replicas, up=True), replicas)
    number = 1 + len(str(max(0, replicas + surge - 1)))
    if sets_of_workers:
        return _LABEL - number - _REVISION_SUFFIX, "group index and revision hash are added to it in labels of its pods"
    return _LABEL - max(number, _REVISION_SUFFIX), "group index or revision hash are added to it in labels of its pods"


def _values(lws: LeaderWorkerSet) -> list[Problem]:
    return [
        *_counts(lws),
        *_enums(lws),
        *_restarts(lws.template),
        *_rollout(lws),
        *_subgroups(lws),
        *_identity(lws),
        *_network(lws),
        *_topology(lws),
    ]


def _counts(lws: LeaderWorkerSet) -> Iterator[Problem]:
    replicas, size = lws.spec.replicas, lws.template.size
    if replicas < 0:
        yield Problem("spec.replicas", replicas, "must be greater than or equal to 0")
    if replicas > _MAX_REPLICAS:
        yield Problem("spec.replicas", replicas, f"must be less than or equal to {_MAX_REPLICAS}")
    if size < 1:
        yield Problem(f"{_TEMPLATE}.size", size, "must be greater than or equal to 1")
    if replicas * size > _MAX_INT32:
        yield Problem("spec.replicas", replicas, f"the product of replicas and size must not exceed {_MAX_INT32}")


def _enums(lws: LeaderWorkerSet) -> Iterator[Problem]:
    spec, policy = lws.spec, lws.template.sub_group_policy
    network = spec.network_config.subdomain_policy if spec.network_config else None
    rows: list[tuple[str, str | None, tuple[str, ...]]] = [
        (
            f"{_TEMPLATE}.restartPolicy",
            lws.template.raw_restart_policy,
            (types.DEPRECATED_DEFAULT, types.ON_POD_RESTART, types.AFTER_START, types.NONE),
        ),
        ("spec.rolloutStrategy.type", spec.rollout_strategy.raw_type, (types.ROLLING_UPDATE,)),
        ("spec.startupPolicy", spec.raw_startup_policy, (types.LEADER_CREATED, types.LEADER_READY)),
        ("spec.groupIdentity", spec.raw_group_identity, (types.ORDINAL, types.HASH)),
        ("spec.groupReplacementPolicy", spec.raw_group_replacement_policy, (types.IMMEDIATE, types.POST_TERMINATION)),
        ("spec.podTerminationPolicy", spec.raw_pod_termination_policy, (types.DEFAULT_TERMINATION, types.PARALLEL)),
        ("spec.networkConfig.subdomainPolicy", network, (types.SHARED, types.UNIQUE_PER_REPLICA)),
        (
            f"{_TEMPLATE}.subGroupPolicy.subGroupPolicyType",
            policy.raw_type if policy else None,
            (types.LEADER_WORKER, types.LEADER_EXCLUDED),
        ),
    ]
    yield from (not_supported(path, value, allowed) for path, value, allowed in rows if value and value not in allowed)


def _restarts(template: LeaderWorkerTemplate) -> Iterator[Problem]:
    """maxGroupRestarts and restartBackoff (2.3): judged by effective values, only where groups are recreated."""
    limit, backoff, policies = (
        template.max_group_restarts,
        template.restart_backoff,
        f"{types.ON_POD_RESTART} or {types.AFTER_START}",
    )
    if limit is not None:
        path = f"{_TEMPLATE}.maxGroupRestarts"
        if limit < 0:
            yield Problem(path, limit, "must be greater than or equal to 0")
        if not template.recreates:
            yield Problem(path, limit, f"may only be set when restartPolicy is {policies}")
    if backoff is None:
        return
    path = f"{_TEMPLATE}.restartBackoff"
    if not template.recreates:
        value = {"baseSeconds": backoff.base, "capSeconds": backoff.cap}
        yield Problem(path, value, f"may only be set when restartPolicy is {policies}")
    if backoff.base <= 0:
        yield Problem(f"{path}.baseSeconds", backoff.base, "must be greater than 0")
    if backoff.cap <= 0:
        yield Problem(f"{path}.capSeconds", backoff.cap, "must be greater than 0")
    elif backoff.base > backoff.cap:
        rule = f"must be less than or equal to capSeconds, which is {backoff.cap}"
        yield Problem(f"{path}.baseSeconds", backoff.base, rule)


def _rollout(lws: LeaderWorkerSet) -> Iterator[Problem]:
    config, replicas = lws.spec.rollout_strategy.rolling_update, lws.spec.replicas
    if config.partition < 0:
        yield Problem(f"{_ROLLING}.partition", config.partition, "must be greater than or equal to 0")
    rows = (("maxUnavailable", config.max_unavailable), ("maxSurge", config.max_surge))
    bad = [problem for name, value in rows if (problem := _int_or_percent(f"{_ROLLING}.{name}", value))]
    yield from bad
    if bad or replicas <= 0:
        return
    if scaled(config.max_unavailable, replicas, up=False) == 0 and scaled(config.max_surge, replicas, up=True) == 0:
        rule = f"must not be 0 of {replicas} replicas when maxSurge is 0, because the rollout could never begin"
        yield Problem(f"{_ROLLING}.maxUnavailable", config.max_unavailable, rule)


def _int_or_percent(path: str, value: types.IntOrPercent) -> Problem | None:
    if isinstance(value, int):
        return Problem(path, value, "must be greater than or equal to 0") if value < 0 else None
    if not _PERCENT.match(value):
        return Problem(path, value, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%')")
    return Problem(path, value, "must not be greater than 100%") if int(value[:-1]) > 100 else None


def _subgroups(lws: LeaderWorkerSet) -> Iterator[Problem]:
    policy, size = lws.template.sub_group_policy, lws.template.size
    if policy is None:
        if keys.SUBGROUP_EXCLUSIVE_TOPOLOGY in lws.metadata.annotations:
            path = f"metadata.annotations[{keys.SUBGROUP_EXCLUSIVE_TOPOLOGY}]"
            value = lws.metadata.annotations[keys.SUBGROUP_EXCLUSIVE_TOPOLOGY]
            yield Problem(path, value, "may only be set together with spec.leaderWorkerTemplate.subGroupPolicy")
        return
    path = f"{_TEMPLATE}.subGroupPolicy.subGroupSize"
    if policy.size is None:
        yield Problem(path, None, "the number of pods in a subgroup", kind="Required")
    elif policy.size < 1:
        yield Problem(path, policy.size, "must be greater than or equal to 1")
    elif policy.size > size:
        yield Problem(path, policy.size, f"must not be greater than size, which is {size}")
    elif policy.type == types.LEADER_EXCLUDED and (size - 1) % policy.size != 0:
        yield Problem(path, policy.size, f"size - 1, which is {size - 1}, must be divisible by it with LeaderExcluded")
    elif size % policy.size != 0 and (size - 1) % policy.size != 0:
        yield Problem(path, policy.size, f"size or size - 1 must be divisible by it, size is {size}")


def _identity(lws: LeaderWorkerSet) -> Iterator[Problem]:
    """What goes only with one of the identity modes (2.2, 4.2)."""
    spec, template = lws.spec, lws.template
    if not lws.hash_mode:
        if spec.group_replacement_policy == types.IMMEDIATE:
            rule = "Immediate may only be set when groupIdentity is Hash"
            yield Problem("spec.groupReplacementPolicy", spec.group_replacement_policy, rule)
        return
    if template.volume_claim_templates:
        yield Problem(f"{_TEMPLATE}.volumeClaimTemplates", None, "may not be set when groupIdentity is Hash", kind="Forbidden")
    if spec.rollout_strategy.rolling_update.partition:
        value = spec.rollout_strategy.rolling_update.partition
        yield Problem(f"{_ROLLING}.partition", value, "must be 0 when groupIdentity is Hash")
    hostname = (template.effective_leader_template.get("spec") or {}).get("hostname")
    if hostname:
        which = "workerTemplate" if template.leader_template is None else "leaderTemplate"
        path = f"{_TEMPLATE}.{which}.spec.hostname"
        yield Problem(path, hostname, "may not be set when groupIdentity is Hash, because it is made from the group's key")


def _network(lws: LeaderWorkerSet) -> Iterator[Problem]:
    network = lws.spec.network_config
    if network is not None and not network.subdomain_policy:
        yield Problem("spec.networkConfig.subdomainPolicy", None, "Shared or UniquePerReplica", kind="Required")


def _topology(lws: LeaderWorkerSet) -> Iterator[Problem]:
    """The topology annotations name a node label."""
    for key in (keys.EXCLUSIVE_TOPOLOGY, keys.SUBGROUP_EXCLUSIVE_TOPOLOGY):
        value = lws.metadata.annotations.get(key)
        if value is not None and not _LABEL_KEY.match(value):
            yield Problem(
                f"metadata.annotations[{key}]", value, "must be the key of a node label (e.g. 'topology.kubernetes.io/zone')"
            )


def _immutable(new: LeaderWorkerSet, old: LeaderWorkerSet) -> Iterator[Problem]:
    rows = (
        ("spec.groupIdentity", new.spec.group_identity, old.spec.group_identity),
        ("spec.podTerminationPolicy", new.spec.pod_termination_policy, old.spec.pod_termination_policy),
    )
    yield from (Problem(path, value, "field is immutable") for path, value, before in rows if value != before)
    yield from _immutable_subgroups(new, old)
    if (new.spec.scheduling is None) != (old.spec.scheduling is None) or (
        _shape(new.spec.scheduling) != _shape(old.spec.scheduling)
    ):
        rule = "cannot be added, removed or moved to another level after creation"
        yield Problem("spec.scheduling", new.spec.scheduling, rule)


def _immutable_subgroups(new: LeaderWorkerSet, old: LeaderWorkerSet) -> Iterator[Problem]:
    path = f"{_TEMPLATE}.subGroupPolicy"
    after, before = new.template.sub_group_policy, old.template.sub_group_policy
    if (after is None) != (before is None):
        what = "added" if before is None else "removed"
        value = None if after is None else {"subGroupPolicyType": after.type, "subGroupSize": after.size}
        yield Problem(path, value, f"cannot be {what} after creation")
    elif after is not None and before is not None and before.size is not None and after.size not in (before.size, None):
        # Objects from before the size was required may still be given one (2.7).
        yield Problem(f"{path}.subGroupSize", after.size, "field is immutable")


def _shape(scheduling: Mapping[str, Any] | None) -> tuple[bool, bool, bool]:
    """Which levels of ``scheduling`` are there."""
    replica = (scheduling or {}).get("replica")
    inner = replica if isinstance(replica, Mapping) else {}
    return replica is not None, "leader" in inner, "worker" in inner
