"""Who is who in a group: the names, keys and indexes of its pods (spec/leaderworkerset.md 3.8, 4.1, 4.2). Pure."""

import hashlib
import re

_ORDINAL = re.compile(r"(.*)-([0-9]+)\Z")


def sha1_hex(text: str) -> str:
    """40 hexadecimal digits."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def group_key(namespace: str, pod_name: str) -> str:
    """The key of an Ordinal group: stable, and unique in the cluster."""
    return sha1_hex(f"{namespace}/{pod_name}")


def subgroup_key(parent: str, index: int) -> str:
    """``parent`` is the leader pod's name (Ordinal) or the group key (Hash)."""
    return sha1_hex(f"{parent}/{index}")


def parent_and_ordinal(pod_name: str) -> tuple[str, int] | None:
    """``demo-0-3`` is number 3 of ``demo-0``; None for a name without a trailing number."""
    match = _ORDINAL.match(pod_name)
    return (match[1], int(match[2])) if match else None


def leader_pod_name(lws: str, index: int) -> str:
    """The leader of an Ordinal group."""
    return f"{lws}-{index}"


def hash_host_name(lws: str, key: str) -> str:
    """Host name of a Hash leader, which also names its worker set."""
    return f"{lws}-{key[:8]}"


def subgroup_index(worker: int, *, size: int, subgroup_size: int) -> int:
    """The subgroup of a worker. When only the workers divide evenly, the leader is an extra member of the first subgroup."""
    if size % subgroup_size != 0 and (size - 1) % subgroup_size == 0:
        return (worker - 1) // subgroup_size
    return worker // subgroup_size
