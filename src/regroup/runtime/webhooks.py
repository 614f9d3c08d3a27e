"""How a cluster is told to ask us: webhook entries and configurations, whatever they admit. Pure."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How API servers reach us: by ``service`` (namespace, name) or by the base ``url``; not exactly one is a ``ValueError``.

    ``namespaces`` limits what is asked about to those; none means all.
    """

    service: tuple[str, str] | None = None
    url: str | None = None
    ca_bundle: bytes = b""
    namespaces: Sequence[str] = ()

    def __post_init__(self) -> None:
        if (self.service is None) == (self.url is None):
            raise ValueError("webhooks are reached either by a service or by a URL")

    def webhook(self, name: str, *, path: str, rules: Sequence[Object], more: Mapping[str, Any] | None = None) -> Object:
        """One entry: fails closed, has no side effects. ``more`` is added to it."""
        entry: Object = {
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": _TIMEOUT_SECONDS,
        }
        if self.namespaces:
            expression = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(self.namespaces)}
            entry["namespaceSelector"] = {"matchExpressions": [expression]}
        return {**entry, "name": name, "rules": list(rules), **(more or {}), "clientConfig": self._client(path)}

    def _client(self, path: str) -> Object:
        config: Object
        if self.service is not None:
            config = {"service": {"namespace": self.service[0], "name": self.service[1], "path": path, "port": 443}}
        else:
            config = {"url": f"{(self.url or '').rstrip('/')}{path}"}
        if self.ca_bundle:
            config["caBundle"] = base64.b64encode(self.ca_bundle).decode()
        return config


def rule(group: str, version: str, resources: Sequence[str], operations: Sequence[str]) -> Object:
    """What is asked about, of resources that live in namespaces."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources),
        "operations": list(operations),
        "scope": "Namespaced",
    }


def configuration(kind: str, *, name: str, webhooks: Sequence[Object]) -> Object:
    """A configuration; ``kind`` is ``Mutating`` or ``Validating``."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
