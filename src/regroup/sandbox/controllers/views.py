"""What the built-in controllers read of the kinds that more than one of them watches. Pure.

They extend the partial views of ``regroup.kube`` by fields that only a cluster's own controllers need, so that an operator's
cache does not pay for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from regroup.kube import pod as kube_pod
from regroup.kube.meta import HasMeta, ObjectView, OwnerReference, View, find_condition

POD_KIND = "Pod"


class ContainerPort(View, frozen=True, gc=False, kw_only=True):
    """``spec.containers[].ports[]``: what a named target port of a Service is looked up in."""

    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Container(View, frozen=True, gc=False, kw_only=True):
    """``spec.containers[]``: its ports."""

    name: str = ""
    raw_ports: tuple[ContainerPort, ...] | None = msgspec.field(name="ports", default=None)

    @property
    def ports(self) -> Sequence[ContainerPort]:
        return self.raw_ports or ()


class PodSpec(kube_pod.PodSpec, frozen=True, gc=False, kw_only=True):
    """``spec`` of a pod, with the ports of its containers."""

    raw_containers: tuple[Container, ...] | None = msgspec.field(name="containers", default=None)

    @property
    def containers(self) -> Sequence[Container]:
        return self.raw_containers or ()


class Pod(kube_pod.Pod, frozen=True, gc=False, kw_only=True):
    """A pod as the built-in controllers see it."""

    spec: PodSpec = PodSpec()

    def available_at(self, min_ready_seconds: int) -> datetime | None:
        """When the pod has been ready for ``min_ready_seconds``; None while it is not ready."""
        condition = find_condition(self.status.conditions, "Ready")
        if condition is None or condition.status != "True" or condition.last_transition_time is None:
            return None
        return condition.last_transition_time + timedelta(seconds=min_ready_seconds)

    def available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Ready, and for longer than ``min_ready_seconds``."""
        if min_ready_seconds <= 0:
            return self.ready
        moment = self.available_at(min_ready_seconds)
        return moment is not None and moment < now


class ControllerRevision(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ControllerRevision; ``data`` stays as the bytes that it came as."""

    revision: int = 0
    data: msgspec.Raw = msgspec.Raw(b"null")


class Claim(ObjectView, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim: its metadata is all that a StatefulSet looks at."""


def controller_uids(obj: HasMeta) -> Iterable[str]:
    """Index function: the UID of the controlling owner."""
    owner = obj.metadata.controller
    return (owner.uid,) if owner is not None else ()


def uncontrolled_namespaces(obj: HasMeta) -> Iterable[str]:
    """Index function: the namespace of an object that no controller owns."""
    return (obj.metadata.namespace,) if obj.metadata.controller is None else ()


def owner_refs(references: Iterable[OwnerReference]) -> list[dict[str, Any]]:
    """Owner references as they are written."""
    written: list[dict[str, Any]] = []
    for reference in references:
        entry: dict[str, Any] = {
            "apiVersion": reference.api_version,
            "kind": reference.kind,
            "name": reference.name,
            "uid": reference.uid,
        }
        if reference.controller is not None:
            entry["controller"] = reference.controller
        if reference.block_owner_deletion is not None:
            entry["blockOwnerDeletion"] = reference.block_owner_deletion
        written.append(entry)
    return written


def percent_or_count(value: int | str | None, total: int, *, round_up: bool, default: int | str) -> int:
    """An IntOrString such as ``maxUnavailable`` as a count of ``total``. Raises ``ValueError`` for what is neither."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"invalid value {value!r}: neither an integer nor a percentage")
    scaled = int(value[:-1]) * total
    return -(-scaled // 100) if round_up else scaled // 100


def labels_equal(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    """Whether two label maps say the same."""
    return dict(left) == dict(right)
