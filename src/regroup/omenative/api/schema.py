"""The CustomResourceDefinitions of OMENative mode (spec/omenative.md 1): six kinds of ``ome.io/v1beta1``. Pure."""

from collections.abc import Sequence
from typing import Any

from regroup.kube.schema import Schema, array_of, boolean, obj, open_object, string, text_map
from regroup.omenative.api.component_schema import conditions, engine, router
from regroup.omenative.api.replica_schema import replica_schema
from regroup.omenative.api.types import SPEC_DEPLOYMENT_MODES
from regroup.omenative.keys import (
    BASE_MODELS,
    CLUSTER_BASE_MODELS,
    CLUSTER_SERVING_RUNTIMES,
    GROUP,
    INFERENCE_REPLICAS,
    INFERENCE_SERVICES,
    SERVING_RUNTIMES,
)
from regroup.wire.resource import Resource

Object = dict[str, Any]
Column = tuple[str, str, str, str]

_AGE: Column = ("Age", "date", ".metadata.creationTimestamp", "Time since creation")


def crds() -> list[Object]:
    """The objects to apply."""
    return [
        _crd(
            INFERENCE_SERVICES,
            schema=_service(),
            short_names=("isvc",),
            columns=(
                ("URL", "string", ".status.url", "Where clients reach it"),
                ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether every component is ready"),
                ("BaseModel", "string", ".spec.model.name", "Model that it serves"),
                ("Runtime", "string", ".spec.runtime.name", "Runtime that serves it"),
                _AGE,
            ),
        ),
        _crd(
            INFERENCE_REPLICAS,
            schema=replica_schema(),
            short_names=("irep",),
            columns=(
                ("Component", "string", ".spec.component", "Which component"),
                ("Desired", "integer", ".spec.replicas", "Instances wanted"),
                ("Current", "integer", ".status.replicas", "Instances that exist"),
                ("Ready", "integer", ".status.readyReplicas", "Instances of which every pod is ready"),
                ("Available", "integer", ".status.availableReplicas", "Instances that have been ready long enough"),
                _AGE,
            ),
            scale=True,
        ),
        _crd(SERVING_RUNTIMES, schema=_runtime(SERVING_RUNTIMES), columns=_RUNTIME_COLUMNS),
        _crd(CLUSTER_SERVING_RUNTIMES, schema=_runtime(CLUSTER_SERVING_RUNTIMES), columns=_RUNTIME_COLUMNS),
        _crd(BASE_MODELS, schema=_model(BASE_MODELS), columns=_MODEL_COLUMNS),
        _crd(CLUSTER_BASE_MODELS, schema=_model(CLUSTER_BASE_MODELS), columns=_MODEL_COLUMNS),
    ]


_RUNTIME_COLUMNS: Sequence[Column] = (
    ("Disabled", "boolean", ".spec.disabled", "Whether it is left out of automatic selection"),
    _AGE,
)
_MODEL_COLUMNS: Sequence[Column] = (
    ("Format", "string", ".spec.modelFormat.name", "Format of the model"),
    ("State", "string", ".status.state", "Whether nodes have it"),
    _AGE,
)


def _crd(
    resource: Resource, *, schema: Schema, columns: Sequence[Column], short_names: Sequence[str] = (), scale: bool = False
) -> Object:
    subresources: Object = {"status": {}}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        }
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if short_names:
        names["shortNames"] = list(short_names)
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": description}
            for name, kind, path, description in columns
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def _top(resource: Resource, description: str, *, spec: Schema, status: Schema) -> Schema:
    return obj(
        description,
        {
            "apiVersion": string("Version of the API that this object is written for."),
            "kind": string(f"{resource.kind}."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    )


def _reference(description: str, kinds: Sequence[str], more: dict[str, Schema]) -> Schema:
    return open_object(
        description,
        properties={
            "name": string("Its name."),
            "kind": string("Its kind.", enum=kinds),
            "apiGroup": string("Its API group."),
            **more,
        },
        required=("name",),
    )


def _service() -> Schema:
    spec = open_object(
        "What is wanted.",
        properties={
            "deploymentMode": string(
                "How all components run, unless a component's own annotation says otherwise.", enum=SPEC_DEPLOYMENT_MODES
            ),
            "model": _reference("The model to serve.", (CLUSTER_BASE_MODELS.kind, BASE_MODELS.kind), {}),
            "runtime": _reference(
                "The runtime that serves it.",
                (CLUSTER_SERVING_RUNTIMES.kind, SERVING_RUNTIMES.kind),
                {"autoSync": boolean("Whether changes of the runtime are followed."), "revision": string("Pinned revision.")},
            ),
            "engine": engine("The engine; in prefill-decode serving it does the prefill."),
            "decoder": engine("The decoder of prefill-decode serving."),
            "router": router("The router in front of engine and decoder."),
        },
    )
    status = open_object(
        "What was last observed.",
        properties={
            "url": string("Where clients reach it."),
            "conditions": conditions("EngineReady, DecoderReady, RouterReady, IngressReady, Ready and others."),
            "components": {
                "type": "object",
                "description": "Each component's figures.",
                "additionalProperties": open_object("A component."),
            },
        },
    )
    return _top(INFERENCE_SERVICES, "InferenceService serves a model.", spec=spec, status=status)


def _runtime(resource: Resource) -> Schema:
    spec = open_object(
        "How models are served.",
        properties={
            "disabled": boolean("Leave it out of automatic selection."),
            "supportedModelFormats": array_of("Formats that it can serve.", open_object("A format.")),
            "engineConfig": engine("What engines get that use this runtime."),
            "decoderConfig": engine("What decoders get."),
            "routerConfig": router("What routers get."),
            "nodeSelector": text_map("Labels that nodes must have."),
            "schedulerName": string("Scheduler that places the pods."),
        },
    )
    return _top(
        resource, f"{resource.kind} says how a model is served.", spec=spec, status=open_object("What was last observed.")
    )


def _model(resource: Resource) -> Schema:
    spec = open_object(
        "The model.",
        properties={
            "modelFormat": open_object("Format of the weights.", properties={"name": string("Name of the format.")}),
            "modelFramework": open_object("Library that reads them."),
            "modelArchitecture": string("Architecture of the model."),
            "storage": open_object(
                "Where the weights are.",
                properties={
                    "storageUri": string("Where they come from."),
                    "path": string("Where they are on the nodes that have them."),
                },
            ),
            "disabled": boolean("Leave it out of automatic selection."),
        },
    )
    status = open_object(
        "What was last observed.",
        properties={
            "state": string("In_Transit, Ready, Failed and others."),
            "nodesReady": array_of("Nodes that have it.", string("Name of a node.")),
        },
    )
    return _top(resource, f"{resource.kind} is a model that can be served.", spec=spec, status=status)
