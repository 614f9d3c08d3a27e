"""The table of conversations: YAML files, one a subject. Knows how a step is written, not how it is played.

A step is a mapping with one key ``METHOD target`` whose value is the body (a text is sent as it is), and options beside it::

    - PATCH $cm/a?fieldManager=me: {data: {a: "1"}}
      as: merge                          # content type, of MEDIA; json when left out
      accept: table                      # what is asked for, of ACCEPT; json when left out
      keep: {rv: metadata.resourceVersion}   # for later steps: $rv
      pick: {name: "path.into[key=value].body"}   # compare only this of the body
      until: 200                         # ask again, a while, until the answer has this status, has warnings (``warned``) or
                                         # has ``path=value`` in its body: what a real server does a little later

``WATCH target`` opens a watch and reads its events until the server ends it, one second later. ``$ns`` is the conversation's own
namespace; the other names that begin with ``$`` are PATHS.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "conversations"
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "WATCH"})
_OPTIONS = frozenset({"as", "accept", "keep", "pick", "until"})
MEDIA: Mapping[str, str] = {
    "json": "application/json",
    "yaml": "application/yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "jsonpatch": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "text": "text/plain",
}
_META = ";v=v1;g=meta.k8s.io"
ACCEPT: Mapping[str, str] = {
    "json": "application/json",
    "table": f"application/json;as=Table{_META},application/json",
    "tableonly": f"application/json;as=Table{_META}",
    "partial": f"application/json;as=PartialObjectMetadata{_META},application/json",
    "partials": f"application/json;as=PartialObjectMetadataList{_META},application/json",
    "aggregated": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
    "yaml": "application/yaml",
    "nonsense": "application/nonsense",
}
_CORE = "/api/v1/namespaces/$ns"
_APPS = "/apis/apps/v1/namespaces/$ns"
PATHS: Mapping[str, str] = {
    "nsself": "/api/v1/namespaces/$ns",
    "cm": f"{_CORE}/configmaps",
    "secrets": f"{_CORE}/secrets",
    "pods": f"{_CORE}/pods",
    "svc": f"{_CORE}/services",
    "pvc": f"{_CORE}/persistentvolumeclaims",
    "sa": f"{_CORE}/serviceaccounts",
    "events": f"{_CORE}/events",
    "newevents": "/apis/events.k8s.io/v1/namespaces/$ns/events",
    "sts": f"{_APPS}/statefulsets",
    "deploy": f"{_APPS}/deployments",
    "rs": f"{_APPS}/replicasets",
    "crev": f"{_APPS}/controllerrevisions",
    "slices": "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/$ns/leases",
    "pdb": "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets",
    "roles": "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "priorities": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "crds": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "mutating": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "validating": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


class TableError(ValueError):
    """A file of the table is not written as it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request and what of its answer counts."""

    method: str
    target: str
    body: Any = None
    media: str = MEDIA["json"]
    accept: str = ACCEPT["json"]
    keep: Mapping[str, str] = field(default_factory=dict)
    pick: Mapping[str, str] | None = None
    until: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Requests that belong together; ``namespace`` is theirs alone."""

    subject: str
    name: str
    steps: tuple[Step, ...]

    @property
    def namespace(self) -> str:
        return "n-" + re.sub(r"[^a-z0-9]+", "-", f"{self.subject} {self.name}".lower()).strip("-")[:55].rstrip("-")

    def __str__(self) -> str:
        return f"{self.subject}: {self.name}"


def load(folder: Path = FOLDER) -> list[Conversation]:
    """All conversations, by subject. Raises ``TableError``."""
    found = [conversation for path in sorted(folder.glob("*.yaml")) for conversation in _subject(path)]
    for attribute in ("__str__", "namespace"):
        names = [str(one) if attribute == "__str__" else one.namespace for one in found]
        if twice := {name for name in names if names.count(name) > 1}:
            raise TableError(f"two conversations have one name: {', '.join(sorted(twice))}")
    return found


def _subject(path: Path) -> Iterator[Conversation]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for entry in content["conversations"]:
        try:
            steps = tuple(_step(step) for step in entry["steps"])
        except TableError as error:
            raise TableError(f"{path.name}: {entry['name']}: {error}") from None
        yield Conversation(subject=path.stem, name=entry["name"], steps=steps)


def _step(entry: Mapping[str, Any]) -> Step:
    heads = [key for key in entry if key.split(" ")[0] in METHODS]
    if len(heads) != 1 or set(entry) - set(heads) - _OPTIONS:
        raise TableError(f"a step is one METHOD target and options: {sorted(entry)}")
    method, _, target = heads[0].partition(" ")
    return Step(
        method=method,
        target=_path(target),
        body=entry[heads[0]],
        media=MEDIA[entry.get("as", "json")],
        accept=ACCEPT[entry.get("accept", "json")],
        keep=entry.get("keep") or {},
        pick=entry.get("pick"),
        until=str(entry.get("until", "")),
    )


def _path(target: str) -> str:
    name = re.match(r"\$([a-z]+)", target)
    if name is None:
        return target
    if name[1] not in PATHS:
        raise TableError(f"unknown path ${name[1]}")
    return PATHS[name[1]] + target[name.end() :]
