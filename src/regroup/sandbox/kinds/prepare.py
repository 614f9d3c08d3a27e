"""What the server itself sets on built-in objects when they are created or changed: first status, addresses, built-in admission.

Pure: rules on ``(new, old)`` that fill in ``new``. Managers never own what is set here.
"""

import hashlib
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

Obj = dict[str, Any]

SERVICE_NETWORK = IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
TOLERATION_SECONDS = 300
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def pod(new: Obj, old: Obj | None) -> None:
    """Phase, class of service, priority, and the tolerations of lost nodes."""
    spec = new["spec"]
    if old is not None:
        # Admission knows them from the old object when an update leaves them out, as clients do that replace what they made.
        for name in ("priority", "preemptionPolicy"):
            if spec.get(name) is None and old["spec"].get(name) is not None:
                spec[name] = old["spec"][name]
        _tolerate_loss(spec)
        return
    status: Obj = {"phase": "Pending", "qosClass": quality(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**GATED, "lastTransitionTime": new["metadata"].get("creationTimestamp")}]
    new["status"] = status
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("priority") is None:
        spec["priority"] = SYSTEM_CLASSES.get(spec.get("priorityClassName") or "", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    _tolerate_loss(spec)


def _tolerate_loss(spec: Obj) -> None:
    for key in _LOST:
        if not _tolerates(spec.get("tolerations") or (), key):
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}
            spec["tolerations"] = [*(spec.get("tolerations") or []), toleration]


def _tolerates(tolerations: Iterable[Obj], key: str) -> bool:
    return any(
        (not entry.get("key") or entry["key"] == key) and entry.get("effect", "NoExecute") == "NoExecute" for entry in tolerations
    )


def quality(spec: Obj) -> str:
    """The class of service of a pod: by what its containers ask for of CPU and memory."""
    requests: dict[str, set[str]] = {}
    limits: dict[str, set[str]] = {}
    guaranteed = True
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    for container in containers:
        resources = container.get("resources") or {}
        asked, most = _wanted(resources.get("requests")), _wanted(resources.get("limits"))
        for name, amount in asked.items():
            requests.setdefault(name, set()).add(amount)
        for name, amount in most.items():
            limits.setdefault(name, set()).add(amount)
        guaranteed &= most.keys() == {"cpu", "memory"} and asked == most
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _wanted(resources: Obj | None) -> dict[str, str]:
    return {name: amount for name, amount in (resources or {}).items() if name in {"cpu", "memory"} and amount != "0"}


def namespace(new: Obj, old: Obj | None) -> None:
    """The finalizer under which a namespace waits for its content to go; its phase only the controller moves."""
    if old is None:
        spec = new["spec"]
        if "kubernetes" not in (spec.get("finalizers") or ()):
            spec["finalizers"] = [*(spec.get("finalizers") or []), "kubernetes"]
        new["status"] = {"phase": "Active"}
        return
    finalizers = (old.get("spec") or {}).get("finalizers")
    if finalizers:
        new["spec"]["finalizers"] = finalizers


def node(new: Obj, old: Obj | None) -> None:
    """A new node takes no pods until it is found ready."""
    if old is not None:
        return
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = new["spec"].get("taints") or []
    if not any(entry["key"] == taint["key"] and entry["effect"] == taint["effect"] for entry in taints):
        new["spec"]["taints"] = [*taints, taint]


def service(new: Obj, old: Obj | None) -> None:
    """Cluster address, address families and node ports. Both numbers follow from the names, so that no register is needed."""
    spec = new["spec"]
    kind = spec.get("type")
    if kind == "ExternalName":
        before = (old or {}).get("spec") or {}
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if old is not None and spec.get(name) == before.get(name):
                spec.pop(name, None)
        return
    before = (old or {}).get("spec") or {}
    if not spec.get("clusterIP"):
        first = next(iter(spec.get("clusterIPs") or ()), "")
        spec["clusterIP"] = first or before.get("clusterIP") or _address(new["metadata"])
    if not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif old is not None and spec["clusterIPs"] == before.get("clusterIPs") and spec["clusterIP"] != before.get("clusterIP"):
        spec["clusterIPs"] = [spec["clusterIP"], *spec["clusterIPs"][1:]]
    if not spec.get("ipFamilies"):
        free = spec["clusterIP"] == "None" and not spec.get("selector")
        spec["ipFamilies"] = ["IPv4", "IPv6"] if free and not spec.get("ipFamilyPolicy") else ["IPv4"]
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if len(spec["ipFamilies"]) > 1 else "SingleStack"
    if kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)):
        _node_ports(new["metadata"], spec["ports"] if spec.get("ports") else [], before.get("ports") or [])


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _address(meta: Obj) -> str:
    """An address of the service network, by namespace, name and UID; the first two and the last are left out."""
    offset = _number(f"{meta.get('namespace')}/{meta.get('name')}/{meta.get('uid')}") % (SERVICE_NETWORK.num_addresses - 3)
    return str(IPv4Address(int(SERVICE_NETWORK.network_address) + 2 + offset))


def _node_ports(meta: Obj, ports: list[Obj], before: list[Obj]) -> None:
    known = {(port["port"], port.get("protocol")): port["nodePort"] for port in before if port.get("nodePort")}
    taken = {port["nodePort"] for port in ports if port.get("nodePort")}
    for port in ports:
        if port.get("nodePort"):
            continue
        number = known.get((port["port"], port.get("protocol")))
        start = _number(f"{meta.get('namespace')}/{meta.get('name')}/{port['port']}/{port.get('protocol')}")
        while number is None or number in taken:
            number = NODE_PORTS[start % len(NODE_PORTS)]
            start += 1
        port["nodePort"] = number
        taken.add(number)
