"""Which objects a list or a watch asked for: namespace, labels, fields. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regroup.sandbox.apiserver.failures import bad_request
from regroup.sandbox.apiserver.registry import Served
from regroup.sandbox.apiserver.storage import Stored
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.wire.selectors import FieldRequirement, LabelSelector, SelectorError, parse_field_selector, parse_label_selector

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """Matches stored objects of one kind, in the form in which the kind is served."""

    served: Served
    namespace: str
    labels: LabelSelector
    fields: tuple[FieldRequirement, ...]

    def matches(self, stored: Stored) -> bool:
        meta = stored.obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(meta.get("labels")):
            return False
        if not self.fields:
            return True
        obj = self.served.from_stored(stored.obj)
        return all(requirement.matches(self._field(requirement.path, obj)) for requirement in self.fields)

    def _field(self, path: str, obj: Obj) -> str:
        if path in {"metadata.name", "metadata.namespace"}:
            return str(obj["metadata"].get(path.partition(".")[2], ""))
        return self.served.definition.field_selectors[path](obj)


def selection(served: Served, namespace: str, query: Mapping[str, str]) -> Selection:
    """The selection of a request. Raises ``Failure`` (400) for selectors and fields that are not known."""
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from error
    known = {"metadata.name", "metadata.namespace", *served.definition.field_selectors}
    for requirement in fields:
        if requirement.path not in known:
            raise bad_request(_unsupported(served.definition, requirement.path))
    return Selection(served, namespace, labels, fields)


def _unsupported(definition: KindDefinition, path: str) -> str:
    # Kinds with selectors of their own, and custom ones, say it in other words than those with the common two.
    if definition.custom or definition.field_selectors:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
