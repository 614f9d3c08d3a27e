"""The open schemas of pod and claim templates. Pure."""

from regroup.kube.schema import Schema, array_of, boolean, integer, map_of, obj, open_object, string, text_map


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
