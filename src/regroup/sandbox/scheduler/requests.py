"""What a pod asks of a node and what a node has, in whole thousandths, so that comparing is integer work. Pure.

Rules as the API documents them: the larger of the sum of the containers and the largest init container, where a restartable
init container (a sidecar) counts from its own start on; a limit stands for a request that is not there; overhead is added.
"""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING
from functools import lru_cache

from regroup.sandbox.scheduler.views import Container, PodSpec, Resources
from regroup.wire.codec import parse_quantity

Quantity = str | int | float
Amounts = dict[str, int]
"""Resource name to thousandths of its unit (a CPU is 1000, a byte is 1000)."""

PODS = "pods"
ASSUMED_CPU = 100
"""Thousandths of a CPU that a pod without a request counts for in scores (never in filters)."""
ASSUMED_MEMORY = 200 * 1024 * 1024 * 1000
"""The same for memory: 200 MiB."""


@lru_cache(maxsize=4096)
def milli(quantity: Quantity) -> int:
    """``quantity`` in thousandths, rounded up. Raises ``ValueError`` for what is not a quantity."""
    return int((parse_quantity(quantity) * 1000).to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """All of ``quantities`` in thousandths."""
    return {name: milli(value) for name, value in quantities.items()}


def requested(spec: PodSpec) -> Amounts:
    """What the pod asks for; always with one of ``pods``."""
    total: Amounts = {}
    for container in spec.containers:
        _add(total, _of_container(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers or ():
        wanted = _of_container(container)
        if container.restart_policy == "Always":
            _add(sidecars, wanted)
            _raise(peak, sidecars)
        else:
            _add(wanted, sidecars)
            _raise(peak, wanted)
    _add(total, sidecars)
    _raise(total, peak)
    if spec.resources is not None:
        total.update(_of_resources(spec.resources))
    _add(total, amounts(spec.overhead or {}))
    total[PODS] = 1000
    return {name: amount for name, amount in total.items() if amount}


def _of_container(container: Container) -> Amounts:
    return _of_resources(container.resources) if container.resources is not None else {}


def _of_resources(resources: Resources) -> Amounts:
    return amounts({**(resources.limits or {}), **(resources.requests or {})})


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0):
            total[name] = amount


def host_ports(containers: Iterable[Container]) -> tuple[tuple[str, str, int], ...]:
    """``(ip, protocol, port)`` that the containers take on the host; an empty ip is all of them."""
    return tuple(
        ("" if port.host_ip == "0.0.0.0" else port.host_ip, port.protocol, port.host_port)  # noqa: S104 - compared, not bound
        for container in containers
        for port in container.ports or ()
        if port.host_port
    )
