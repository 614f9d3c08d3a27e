"""What the status remembers of each complete group, so that a replacement made while nobody looked is seen (own extension, B27).

A condition of an own type holds one short entry a group: which leader, and a digest of its workers' UIDs. It costs no write of
its own. Same leader, other workers, group complete: a member was replaced unseen. Pure.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

MEMBERS_CONDITION = "leaderworkerset.regroup.dev/Members"
MEMBERS_REASON = "Recorded"
_LIMIT = 30_000
"""Characters: below the API's limit for a condition's message. Groups beyond it are not remembered."""
_LAST_READ = 4
"""Records that are kept as they were read: that of a large set is passed over several times before it changes."""
_ENTRY = re.compile(r"([0-9a-f]{1,9})=([0-9a-f]{4})\.([0-9a-f]{8})\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """Digests of the incarnation (leader and generation of its worker set) and of the sorted UIDs of its workers."""

    leader: str
    workers: str


def leader_digest(uid: str, *, set_generation: int) -> str:
    """Four hexadecimal digits. The generation is part of it, because a worker set that was changed by hand and put right again
    replaces pods by itself: what was remembered before does not bind after."""
    return sha256(f"{uid}/{set_generation}".encode()).hexdigest()[:4]


def workers_digest(uids: Iterable[str]) -> str:
    """Eight hexadecimal digits, whatever the order."""
    return sha256("\n".join(sorted(uids)).encode()).hexdigest()[:8]


def entry_of(leader_uid: str, worker_uids: Iterable[str], *, set_generation: int) -> Entry:
    """The entry of a complete group; a group without workers has generation 0."""
    return Entry(leader_digest(leader_uid, set_generation=set_generation), workers_digest(worker_uids))


def record_name(index: str) -> str:
    """How the record names a group: its ordinal, or the first eight digits of its key, which its host name has as well."""
    return index if index.isdigit() and len(index) < 10 else index[:8]


@lru_cache(maxsize=_LAST_READ)
def parse_record(text: str) -> Mapping[str, Entry]:
    """Entries by ``record_name``. What cannot be read is left out: a lost entry only means that nothing is remembered."""
    record = {}
    for part in text.split():
        match = _ENTRY.match(part)
        if match is not None:
            record[match[1]] = Entry(match[2], match[3])
    return record


def format_record(record: Mapping[str, Entry]) -> str:
    """``<name>=<leader>.<workers>`` in the order of the ordinals, bounded."""
    parts, length = [], 0
    for index in sorted(record, key=lambda name: (len(name), name)):
        part = f"{index}={record[index].leader}.{record[index].workers}"
        length += len(part) + 1
        if length > _LIMIT:
            break
        parts.append(part)
    return " ".join(parts)


def carried_over(old: Mapping[str, Entry], *, name: str, incarnation: str, seen: Entry | None) -> Entry | None:
    """What to remember of a group now: for one incarnation the first complete set of workers stays, because another one is a
    failure that must not be forgotten before it was handled. ``incarnation`` is its leader digest, empty without a leader."""
    before = old.get(name)
    if before is not None and before.leader == incarnation:
        return before
    return seen


def recorded_workers(record: Mapping[str, Entry], *, index: str, leader_uid: str, set_generation: int) -> str:
    """The digest remembered for this very incarnation, empty when there is none."""
    entry = record.get(record_name(index))
    same = entry is not None and entry.leader == leader_digest(leader_uid, set_generation=set_generation)
    return entry.workers if entry is not None and same else ""
