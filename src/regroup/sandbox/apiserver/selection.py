"""Which objects a list or a watch asked for: namespace, labels, fields. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regroup.sandbox.apiserver.failures import bad_request
from regroup.sandbox.kinds.definition import KindDefinition
from regroup.wire.selectors import FieldRequirement, LabelSelector, SelectorError, parse_field_selector, parse_label_selector

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """Matches objects of one kind."""

    definition: KindDefinition
    namespace: str
    labels: LabelSelector
    fields: tuple[FieldRequirement, ...]

    def matches(self, obj: Obj) -> bool:
        meta = obj["metadata"]
        if self.namespace and meta.get("namespace") != self.namespace:
            return False
        if self.labels.requirements and not self.labels.matches(meta.get("labels")):
            return False
        return all(requirement.matches(self._field(requirement.path, obj)) for requirement in self.fields)

    def _field(self, path: str, obj: Obj) -> str:
        if path in {"metadata.name", "metadata.namespace"}:
            return str(obj["metadata"].get(path.partition(".")[2], ""))
        return self.definition.field_selectors[path](obj)


def selection(definition: KindDefinition, namespace: str, query: Mapping[str, str]) -> Selection:
    """The selection of a request. Raises ``Failure`` (400) for selectors or fields that are unknown."""
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
        fields = parse_field_selector(query.get("fieldSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from error
    known = {"metadata.name", "metadata.namespace", *definition.field_selectors}
    for requirement in fields:
        if requirement.path not in known:
            text = query.get("fieldSelector", "")
            raise bad_request(
                f'Unable to find "{definition.resource}" that match label selector "{query.get("labelSelector", "")}", '
                f'field selector "{text}": field label not supported: {requirement.path}'
            )
    return Selection(definition, namespace, labels, fields)
