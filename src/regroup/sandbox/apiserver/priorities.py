"""The priority of new pods: what the PriorityClass that they name says, as built-in admission has it."""

from typing import Any

from regroup.kube.resources import PODS
from regroup.sandbox.apiserver import failures
from regroup.sandbox.apiserver.storage import Storage
from regroup.sandbox.kinds.builtin import PRIORITY_CLASSES
from regroup.sandbox.kinds.prepare import SYSTEM_CLASSES
from regroup.wire.resource import Resource

Obj = dict[str, Any]
PREEMPTION = "PreemptLowerPriority"


class Priorities:
    """Looks classes up in the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def admit(self, resource: Resource, operation: str, obj: Obj) -> None:
        """Fill in class, priority and preemption policy of a new pod. Raises ``Failure`` (403) for a class that is not there,
        and for a pod that names other values than its class."""
        if resource != PODS or operation != "CREATE":
            return
        spec = obj["spec"]
        value, policy = self._of_class(obj, spec)
        _set(obj, "priority", value, what="integer value of priority")
        _set(obj, "preemptionPolicy", policy, what="string value of PreemptionPolicy")

    def _of_class(self, obj: Obj, spec: Obj) -> tuple[int, str]:
        name = spec.get("priorityClassName") or ""
        if name in SYSTEM_CLASSES:
            return SYSTEM_CLASSES[name], PREEMPTION
        if name:
            stored = self._storage.get(PRIORITY_CLASSES, ("", name))
            if stored is None:
                raise failures.forbidden(PODS, _name(obj), f"no PriorityClass with name {name} was found")
            return _values(stored.obj)
        defaults = [stored.obj for stored in self._storage.items(PRIORITY_CLASSES) if stored.obj.get("globalDefault")]
        if not defaults:
            return 0, PREEMPTION
        # Of several the one with the lowest value counts, so that nobody gains by a second one.
        chosen = min(defaults, key=lambda one: one.get("value", 0))
        spec["priorityClassName"] = chosen["metadata"]["name"]
        return _values(chosen)


def _values(found: Obj) -> tuple[int, str]:
    return found.get("value", 0), found.get("preemptionPolicy") or PREEMPTION


def _set(obj: Obj, field: str, value: Any, *, what: str) -> None:
    given = obj["spec"].get(field)
    if given is not None and given != value:
        why = f"the {what} ({given}) must not be provided in pod spec; priority admission controller computed {value}"
        raise failures.forbidden(PODS, _name(obj), f"{why} from the given PriorityClass name")
    obj["spec"][field] = value


def _name(obj: Obj) -> str:
    return str(obj["metadata"].get("name") or "")
