"""Table columns of the built-in kinds but pods, as ``kubectl get`` shows them. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from regroup.sandbox.kinds.definition import Column
from regroup.sandbox.schema.columns import age

Obj = dict[str, Any]
Cell = Callable[[Obj, datetime], Any]
_MANY = 3
"""Items of a list that a cell shows before it says how many more there are."""


def at(obj: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path; ``default`` when a step is missing or null."""
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
        if obj is None:
            return default
    return obj


def text(path: str, empty: str = "") -> Cell:
    """A cell with the text at ``path``."""
    return lambda obj, _: at(obj, path) or empty


def number(path: str) -> Cell:
    return lambda obj, _: at(obj, path, 0)


def cell(name: str, value: Cell, description: str = "", *, wide: bool = False, type: str = "string") -> Column:
    return Column(name, value, type=type, description=description, priority=int(wide))


NAME = Column(
    "Name", lambda obj, _: obj["metadata"]["name"], format="name", description="Name of the object, unique in its namespace."
)
AGE = Column(
    "Age", lambda obj, now: age(at(obj, "metadata.creationTimestamp"), now), description="Time since the object was created."
)
CREATED = Column(
    "Created At", lambda obj, _: at(obj, "metadata.creationTimestamp"), type="date", description="When it was created."
)
GENERIC: tuple[Column, ...] = (NAME, AGE)
"""For kinds with nothing of their own to show."""


def _listed(items: Sequence[str]) -> str:
    shown = ",".join(items[:_MANY])
    if len(items) > _MANY:
        return f"{shown} + {len(items) - _MANY} more..."
    return shown or "<unset>"


def _node_status(node: Obj, _: datetime) -> str:
    ready = [entry for entry in at(node, "status.conditions", []) if entry["type"] == "Ready"]
    words = ["Unknown"] if not ready else ["Ready" if ready[-1]["status"] == "True" else "NotReady"]
    if at(node, "spec.unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Obj, _: datetime) -> str:
    labels = at(node, "metadata.labels", {})
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


def _address(kind: str) -> Cell:
    def show(node: Obj, _: datetime) -> str:
        found = (entry["address"] for entry in at(node, "status.addresses", []) if entry["type"] == kind)
        return next(found, "<none>")

    return show


def _kernel(node: Obj, _: datetime) -> str:
    info = at(node, "status.nodeInfo", {})
    machine = f" ({info['architecture']})" if info.get("architecture") else ""
    return (info.get("kernelVersion") or "<unknown>") + machine


NODES = (
    NAME,
    cell("Status", _node_status, "Whether the node can run pods."),
    cell("Roles", _roles, "Roles of the node."),
    AGE,
    cell("Version", text("status.nodeInfo.kubeletVersion"), "Version of the kubelet."),
    cell("Internal-IP", _address("InternalIP"), "Address inside the cluster.", wide=True),
    cell("External-IP", _address("ExternalIP"), "Address outside of the cluster.", wide=True),
    cell("OS-Image", text("status.nodeInfo.osImage", "<unknown>"), "Operating system.", wide=True),
    cell("Kernel-Version", _kernel, "Version of the kernel.", wide=True),
    cell("Container-Runtime", text("status.nodeInfo.containerRuntimeVersion", "<unknown>"), "What runs containers.", wide=True),
)
NAMESPACES = (NAME, cell("Status", text("status.phase"), "Phase of the namespace."), AGE)
CONFIGMAPS = (
    NAME,
    cell("Data", lambda obj, _: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), "Number of keys."),
    AGE,
)
SECRETS = (
    NAME,
    cell("Type", text("type"), "What the secret is for."),
    cell("Data", lambda obj, _: len(obj.get("data") or {}), "Number of keys."),
    AGE,
)


def _external(service: Obj, _: datetime) -> str:
    spec = service.get("spec") or {}
    fixed = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(fixed) or "<none>"
        case "LoadBalancer":
            ingress = at(service, "status.loadBalancer.ingress", [])
            given = sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""})
            return ",".join([*given, *fixed]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case _:
            return "<unknown>"


def _service_ports(service: Obj, _: datetime) -> str:
    shown = []
    for port in at(service, "spec.ports", []):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _pairs(labels: Obj | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"


SERVICES = (
    NAME,
    cell("Type", text("spec.type"), "How the service is exposed."),
    cell("Cluster-IP", lambda obj, _: next(iter(at(obj, "spec.clusterIPs", [])), "<none>"), "Address of the service."),
    cell("External-IP", _external, "Addresses outside of the cluster."),
    cell("Port(s)", _service_ports, "Ports of the service."),
    AGE,
    cell("Selector", lambda obj, _: _pairs(at(obj, "spec.selector")), "Labels of the pods behind it.", wide=True),
)
ENDPOINT_SLICES = (
    NAME,
    cell("AddressType", text("addressType"), "Kind of the addresses."),
    cell(
        "Ports",
        lambda obj, _: _listed([str(port.get("port") or port.get("name") or "*") for port in obj.get("ports") or []]),
        "Ports of every endpoint.",
    ),
    cell(
        "Endpoints",
        lambda obj, _: _listed([ip for each in obj.get("endpoints") or [] for ip in each.get("addresses") or []]),
        "Addresses of the endpoints.",
    ),
    AGE,
)


def _containers(field: str) -> Cell:
    return lambda obj, _: ",".join(entry.get(field) or "" for entry in at(obj, "spec.template.spec.containers", []))


def selector_text(selector: Obj | None) -> str:
    """A label selector in the form that ``kubectl -l`` takes."""
    selector = selector or {}
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for entry in selector.get("matchExpressions") or []:
        key, values = entry["key"], ",".join(sorted(entry.get("values") or []))
        form = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        parts.append((key, form.get(entry["operator"], "<invalid>")))
    return ",".join(shown for _, shown in sorted(parts, key=lambda part: part[0]))


def _ready(obj: Obj, _: datetime) -> str:
    return f"{at(obj, 'status.readyReplicas', 0)}/{at(obj, 'spec.replicas', 0)}"


_CONTAINERS = cell("Containers", _containers("name"), "Names of the containers.", wide=True)
_IMAGES = cell("Images", _containers("image"), "Images of the containers.", wide=True)
_READY = cell("Ready", _ready, "Pods that are ready, of those wanted.")
_SELECTOR = cell("Selector", lambda obj, _: selector_text(at(obj, "spec.selector")), "Labels of the pods.", wide=True)
STATEFULSETS = (NAME, _READY, AGE, _CONTAINERS, _IMAGES)
DEPLOYMENTS = (
    NAME,
    _READY,
    cell("Up-to-date", number("status.updatedReplicas"), "Pods made from the newest template."),
    cell("Available", number("status.availableReplicas"), "Pods that have been ready for long enough."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
REPLICASETS = (
    NAME,
    cell("Desired", number("spec.replicas"), "Pods wanted.", type="integer"),
    cell("Current", number("status.replicas"), "Pods that exist.", type="integer"),
    cell("Ready", number("status.readyReplicas"), "Pods that are ready.", type="integer"),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)


def _controller(obj: Obj, _: datetime) -> str:
    for owner in at(obj, "metadata.ownerReferences", []):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            return f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}"
    return "<none>"


CONTROLLER_REVISIONS = (
    NAME,
    cell("Controller", _controller, "Who keeps the revision."),
    cell("Revision", number("revision"), "Number of the revision."),
    AGE,
)
LEASES = (NAME, cell("Holder", text("spec.holderIdentity"), "Who holds the lease."), AGE)


def _limit(path: str) -> Cell:
    def show(obj: Obj, _: datetime) -> str:
        value = at(obj, path)
        return "N/A" if value is None else str(value)

    return show


POD_DISRUPTION_BUDGETS = (
    NAME,
    cell("Min Available", _limit("spec.minAvailable"), "Pods that must stay available."),
    cell("Max Unavailable", _limit("spec.maxUnavailable"), "Pods that may be unavailable."),
    cell("Allowed Disruptions", number("status.disruptionsAllowed"), "Pods that may be disrupted now.", type="integer"),
    AGE,
)
CRDS = (NAME, CREATED)
WEBHOOK_CONFIGURATIONS = (
    NAME,
    cell("Webhooks", lambda obj, _: len(obj.get("webhooks") or []), "Number of webhooks.", type="integer"),
    AGE,
)
ROLES = (NAME, CREATED)


def _subjects(kind: str) -> Cell:
    def show(obj: Obj, _: datetime) -> str:
        found: Iterable[Obj] = (entry for entry in obj.get("subjects") or [] if entry.get("kind") == kind)
        if kind == "ServiceAccount":
            return ", ".join(f"{entry.get('namespace') or ''}/{entry['name']}" for entry in found)
        return ", ".join(entry["name"] for entry in found)

    return show


ROLE_BINDINGS = (
    NAME,
    cell("Role", lambda obj, _: f"{at(obj, 'roleRef.kind', '')}/{at(obj, 'roleRef.name', '')}", "The role that is given."),
    AGE,
    cell("Users", _subjects("User"), "Users who have it.", wide=True),
    cell("Groups", _subjects("Group"), "Groups that have it.", wide=True),
    cell("ServiceAccounts", _subjects("ServiceAccount"), "Service accounts that have it.", wide=True),
)
PRIORITY_CLASSES = (
    NAME,
    cell("Value", number("value"), "Priority of its pods.", type="integer"),
    cell("Global-Default", lambda obj, _: bool(obj.get("globalDefault")), "Whether pods without a class get it.", type="boolean"),
    AGE,
    cell("PreemptionPolicy", text("preemptionPolicy"), "Whether its pods may push others out."),
)


def _modes(claim: Obj) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(word for name, word in short.items() if name in at(claim, "status.accessModes", []))


def _if_bound(value: Callable[[Obj], str]) -> Cell:
    return lambda obj, _: value(obj) if at(obj, "spec.volumeName") else ""


def _phase(claim: Obj, _: datetime) -> str:
    return "Terminating" if at(claim, "metadata.deletionTimestamp") else str(at(claim, "status.phase", ""))


CLAIMS = (
    NAME,
    cell("Status", _phase, "Phase of the claim."),
    cell("Volume", text("spec.volumeName"), "The volume that backs it."),
    cell("Capacity", _if_bound(lambda obj: str(at(obj, "status.capacity", {}).get("storage", "0"))), "Size of the volume."),
    cell("Access Modes", _if_bound(_modes), "How the volume may be mounted."),
    cell("StorageClass", text("spec.storageClassName"), "Class of the storage."),
    cell("VolumeAttributesClass", text("spec.volumeAttributesClassName", "<unset>"), "Class of the volume's attributes."),
    AGE,
    cell("VolumeMode", text("spec.volumeMode", "<unset>"), "Whether it is a file system or a block device.", wide=True),
)
