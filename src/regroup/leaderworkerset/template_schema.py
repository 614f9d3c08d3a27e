"""Building blocks of the schema, and the open schemas of pod and claim templates. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]


def string(description: str, *, enum: Sequence[str] = (), default: str | None = None) -> Schema:
    """A text, perhaps one of a few."""
    schema: Schema = {"type": "string", "description": description}
    if enum:
        schema["enum"] = list(enum)
    if default is not None:
        schema["default"] = default
    return schema


def integer(
    description: str, *, minimum: int | None = None, maximum: int | None = None, default: int | None = None, width: int = 32
) -> Schema:
    """A whole number of ``width`` bits."""
    schema: Schema = {"type": "integer", "format": f"int{width}", "description": description}
    limits = {"minimum": minimum, "maximum": maximum, "default": default}
    return schema | {key: value for key, value in limits.items() if value is not None}


def boolean(description: str) -> Schema:
    """Yes or no."""
    return {"type": "boolean", "description": description}


def array_of(description: str, items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "description": description, "items": items}


def map_of(description: str, items: Schema) -> Schema:
    """A list whose items are told apart by their ``name``."""
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return {**array_of(description, items), **keyed}


def text_map(description: str) -> Schema:
    """Labels, annotations and the like."""
    return {"type": "object", "description": description, "additionalProperties": {"type": "string"}}


def obj(description: str, properties: Mapping[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """An object with exactly these fields."""
    schema: Schema = {"type": "object", "description": description, "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return schema


def open_object(description: str, *, properties: Mapping[str, Schema] | None = None, required: Sequence[str] = ()) -> Schema:
    """An object that may have other fields as well, which are kept."""
    schema = obj(description, properties or {}, required=required)
    if not properties:
        del schema["properties"]
    return {**schema, "x-kubernetes-preserve-unknown-fields": True}


def pod_template(description: str) -> Schema:
    """A PodTemplateSpec."""
    return obj(
        description,
        {
            "metadata": _template_metadata("Labels and annotations of the pods. Keys of this API are set by the operator."),
            "spec": _pod_spec(),
        },
    )


def claim_template(description: str) -> Schema:
    """A PersistentVolumeClaim in ``volumeClaimTemplates``."""
    return open_object(
        description,
        properties={
            "metadata": _template_metadata("Name and labels of the claims."),
            "spec": open_object("What is claimed, as in a PersistentVolumeClaim."),
        },
    )


def _template_metadata(description: str) -> Schema:
    return open_object(
        description,
        properties={
            "name": string("Name."),
            "labels": text_map("Labels."),
            "annotations": text_map("Annotations."),
            "finalizers": array_of("Finalizers.", string("A finalizer.")),
        },
    )


def _pod_spec() -> Schema:
    return open_object(
        "The pods, as in any pod template (see kubectl explain pod.spec).",
        properties={
            "containers": {**map_of("Containers of a pod.", _container()), "minItems": 1},
            "initContainers": map_of("Containers that run, in order, before the others start.", _container()),
            "nodeSelector": text_map("Labels that a node must have."),
            "nodeName": string("The node to run on, without a scheduler."),
            "serviceAccountName": string("Account that the pods run under."),
            "schedulerName": string("Scheduler that places the pods."),
            "priorityClassName": string("Priority of the pods."),
            "restartPolicy": string("Whether the kubelet restarts a container that ended; pods of a set need Always."),
            "hostNetwork": boolean("Use the node's network."),
            "terminationGracePeriodSeconds": integer("Time that a pod gets to end.", minimum=0, width=64),
            "tolerations": array_of("Taints that are tolerated.", open_object("A toleration.")),
            "volumes": map_of(
                "Volumes of a pod.",
                open_object("A volume.", properties={"name": string("Name of the volume.")}, required=("name",)),
            ),
        },
        required=("containers",),
    )


def _container() -> Schema:
    return open_object(
        "A container (see kubectl explain pod.spec.containers).",
        properties={
            "name": string("Name of the container."),
            "image": string("Image to run."),
            "command": array_of("What to run in place of the image's entry point.", string("A word.")),
            "args": array_of("Arguments.", string("A word.")),
            "env": array_of(
                "Environment variables. LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and LWS_WORKER_INDEX are put before them.",
                open_object(
                    "A variable.",
                    properties={"name": string("Name of the variable."), "value": string("Its value.")},
                    required=("name",),
                ),
            ),
            "ports": array_of(
                "Ports that the container listens on.",
                open_object(
                    "A port.",
                    properties={
                        "name": string("Name of the port."),
                        "containerPort": integer("Number of the port.", minimum=1, maximum=65535),
                        "protocol": string("TCP, UDP or SCTP."),
                    },
                    required=("containerPort",),
                ),
            ),
            "resources": open_object("Compute resources that are requested and allowed."),
            "volumeMounts": array_of(
                "Where volumes appear in the container.",
                open_object(
                    "A mount.",
                    properties={"name": string("Name of the volume."), "mountPath": string("Path in the container.")},
                    required=("mountPath", "name"),
                ),
            ),
        },
        required=("name",),
    )
