"""Objects of the OMENative API for tests: the fixtures F1, F2 and F3 of spec/omenative.md 8, as plain dicts."""

from collections.abc import Mapping
from typing import Any

from regroup.omenative.api.replica import InferenceReplica, decode
from regroup.omenative.objects.revision import new_revision
from regroup.omenative.outcome import CreatePod
from regroup.omenative.view import Revision

Object = dict[str, Any]


def template(image: str = "server:1", **spec: Any) -> Object:
    """A pod template with the main container."""
    return {"spec": {"containers": [{"name": "ome-container", "image": image}], **spec}}


def single(name: str = "qwen3-0-6b", *, component: str = "engine", pod: Object | None = None, **spec: Any) -> InferenceReplica:
    """F1: one pod an Instance."""
    runners: list[Object] = [{"name": "default", "template": pod or template()}]
    return replica(name, component=component, runners=runners, **spec)


def gang(name: str = "llama", *, workers: int = 3, pod: Object | None = None, **spec: Any) -> InferenceReplica:
    """F3: a leader and three workers."""
    made = pod or template()
    runners: list[Object] = [{"name": "leader", "template": made}, {"name": "worker", "size": workers, "template": made}]
    return replica(name, component="engine", runners=runners, **spec)


def replica(
    service: str, *, component: str, runners: list[Object], metadata: Mapping[str, Any] | None = None, **spec: Any
) -> InferenceReplica:
    """An InferenceReplica of ``service``."""
    return decode(
        {
            "metadata": {"name": f"{service}-{component}", "namespace": "ns", "uid": "uid-1", **(metadata or {})},
            "spec": {"parentRef": {"name": service}, "component": component, "runners": runners, **spec},
        }
    )


def stored(of: InferenceReplica) -> Revision:
    """The revision of ``of`` as it stands."""
    return new_revision(of, stored=())[0]


def create(name: str, *, runner: str = "default", ordinal: int = 0, index: int = 0, incarnation: int = 1) -> CreatePod:
    """The order to make a pod."""
    return CreatePod(index=index, name=name, runner=runner, ordinal=ordinal, incarnation=incarnation, revision="r")
