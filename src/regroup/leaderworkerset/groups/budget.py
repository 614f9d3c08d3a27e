"""The restart counters of all groups of a LeaderWorkerSet, kept in one annotation (spec/leaderworkerset.md 5.5). Pure.

A map is never guessed: what cannot be read is an error, and nothing is deleted on its account.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from regroup.leaderworkerset.keys import RESTART_COUNTS

COUNTED = "leaderworkerset.regroup.dev/counted-leaders"
"""On a LeaderWorkerSet: for each counter the leader whose recreation it counts, written together with the count. A crash after
that write neither counts the same recreation twice nor forgets it (own extension, 5.5 exactly-once)."""
_TEXT_LIMIT = 120


class CorruptCounts(Exception):
    """The annotation is no map from ``<revision>/<group-index>`` to numbers of 0 or more."""


def counter_key(revision: str, index: str) -> str:
    """The key of one group at one revision."""
    return f"{revision}/{index}"


def parse_counts(text: str | None) -> dict[str, int]:
    """The counters; an absent or empty annotation is an empty map. Raises ``CorruptCounts``."""
    if not text:
        return {}
    try:
        value: Any = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise CorruptCounts(f"annotation {RESTART_COUNTS} is not JSON: {error}; it is {text[:_TEXT_LIMIT]!r}") from error
    if not isinstance(value, dict):
        raise CorruptCounts(f"annotation {RESTART_COUNTS} must be a JSON object; it is {text[:_TEXT_LIMIT]!r}")
    for key, count in value.items():
        if type(count) is not int or count < 0:
            raise CorruptCounts(
                f"annotation {RESTART_COUNTS} has {key[:_TEXT_LIMIT]!r}: {count!r:.40}; it must be a number from 0"
            )
    return value


def parse_counted(text: str | None) -> dict[str, str]:
    """Counter key to leader digest. What cannot be read says nothing: it only guards against a crash in one short moment."""
    try:
        value: Any = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return {}
    if not isinstance(value, dict):
        return {}
    return {key: digest for key, digest in value.items() if isinstance(digest, str)}


def counted_digest(leader_uid: str) -> str:
    """Eight hexadecimal digits that stand for a leader."""
    return sha256(leader_uid.encode()).hexdigest()[:8]


def format_map(values: Mapping[str, str | int]) -> str | None:
    """Compact JSON in key order, or None when the annotation is to be removed."""
    return msgspec.json.encode(dict(sorted(values.items()))).decode() if values else None


def format_counts(counts: Mapping[str, int]) -> str | None:
    """The annotation as it is written, None when it is to be removed."""
    return format_map(counts)


def raised(counts: Mapping[str, int], key: str, *, to: int) -> dict[str, int]:
    """``counts`` with ``key`` at least at ``to``; a higher stored value is never lowered, other keys are kept."""
    result = dict(counts)
    result[key] = max(result.get(key, 0), to)
    return result


def without(counts: Mapping[str, int], keys: Collection[str]) -> dict[str, int]:
    """``counts`` without ``keys``."""
    return {key: count for key, count in counts.items() if key not in keys}


def pruned(counts: Mapping[str, int], *, replicas: int, revision: str, update_done: bool) -> dict[str, int]:
    """Ordinal housekeeping: groups at or above ``replicas`` are gone (surge groups are below it), and once a rollout is
    completely done so are other revisions. Raises ``CorruptCounts`` for a key that is no ordinal key."""
    kept = {}
    for key, count in counts.items():
        name, slash, index = key.rpartition("/")
        if not slash or not index.isdigit():
            raise CorruptCounts(f"annotation {RESTART_COUNTS} has key {key[:_TEXT_LIMIT]!r}; it must be <revision>/<group-index>")
        if int(index) < replicas and (name == revision or not update_done):
            kept[key] = count
    return kept


def handed_over(counts: Mapping[str, int], *, revision: str, index: str, owned: Collection[str]) -> dict[str, int]:
    """Hash: the new leader of ``index`` takes the highest count of its revision that no living or retained leader owns (ties:
    the smaller key); ``owned`` are counter keys. Without one it starts at 0. A second call changes nothing."""
    key = counter_key(revision, index)
    free = [one for one in counts if one.startswith(f"{revision}/") and one not in owned and one != key]
    if key in counts or not free:
        return dict(counts)
    source = min(free, key=lambda one: (-counts[one], one))
    result = without(counts, {source})
    result[key] = counts[source]
    return result


def pruned_hash(
    counts: Mapping[str, int], *, revision: str, owned: Collection[str], room: int, update_done: bool
) -> dict[str, int]:
    """Hash housekeeping on the current revision: all owned entries stay, and at most ``room`` unowned ones, the highest first
    (ties: the smaller key). Once a rollout is completely done other revisions go."""
    free = sorted(
        (key for key in counts if key.startswith(f"{revision}/") and key not in owned), key=lambda one: (-counts[one], one)
    )
    kept = without(counts, set(free[max(0, room) :]))
    return {key: count for key, count in kept.items() if not update_done or key.startswith(f"{revision}/")}
