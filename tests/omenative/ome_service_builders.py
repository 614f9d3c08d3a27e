"""InferenceServices and runtimes for tests: the fixtures F1, F2, F3 of spec/omenative.md 8."""

from typing import Any

import msgspec

from regroup.omenative.api.types import BaseModel, InferenceService, ServingRuntime, decode
from regroup.omenative.configuration.settings import LiveSettings
from regroup.omenative.service.resolve import Resolved, Sources, Trouble, resolve

Object = dict[str, Any]

RECREATE = "RecreateInstanceOnPodRestart"


def service(name: str = "qwen3-0-6b", *, metadata: Object | None = None, **spec: Any) -> InferenceService:
    """An InferenceService in OMENative mode with a runtime, unless ``spec`` says otherwise."""
    base: Object = {"deploymentMode": "OMENative", "runtime": {"name": "srt"}}
    meta = {"name": name, "namespace": "ns", "uid": "isvc-uid", "generation": 3, **(metadata or {})}
    return decode({"metadata": meta, "spec": {**base, **spec}})


def runtime(namespace: str = "", **spec: Any) -> ServingRuntime:
    """A runtime of which each component has a container, unless ``spec`` says otherwise."""
    runner = {"runner": {"name": "ome-container", "image": "server:1"}}
    base: Object = {"engineConfig": runner, "decoderConfig": runner, "routerConfig": runner}
    return msgspec.convert({"metadata": {"name": "srt", "namespace": namespace}, "spec": {**base, **spec}}, ServingRuntime)


def gang_runtime(**config: Any) -> ServingRuntime:
    """A runtime whose engine has a leader and three workers."""
    part = {"runner": {"image": "server:1"}}
    return runtime(engineConfig={"leader": part, "worker": {**part, "size": 3}, **config})


def model(namespace: str = "", **storage: Any) -> BaseModel:
    """A model."""
    return msgspec.convert({"metadata": {"name": "qwen3", "namespace": namespace}, "spec": {"storage": storage}}, BaseModel)


def resolved(
    of: InferenceService,
    component: str = "engine",
    *,
    by: ServingRuntime | Trouble | None = None,
    with_model: BaseModel | Trouble | None = None,
    live: LiveSettings | None = None,
) -> Resolved | Trouble:
    """``resolve`` with a usual runtime."""
    sources = Sources(runtime=by if by is not None else runtime(), model=with_model)
    return resolve(of, component, sources=sources, live=live or LiveSettings())
