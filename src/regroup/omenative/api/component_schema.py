"""Schemas of components, as an InferenceService and a runtime have them (spec/omenative.md 1.1.1, 1.1.2). Pure.

Everything here is open: manifests that were written for OME apply as they are. What is typed is what people get wrong most;
limits whose message matters are left to admission.
"""

from collections.abc import Mapping

from regroup.kube.schema import Schema, array_of, boolean, integer, obj, open_object, string, text_map
from regroup.omenative.api.lifecycle import RESTART_POLICIES, UPDATE_STRATEGIES
from regroup.omenative.api.lifecycle_rules import MIGRATION_MODES, READY_POLICIES

TOPOLOGY_SPREADS = ("Preferred", "Required")


def int_or_percent(description: str) -> Schema:
    """A whole number or a percentage."""
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "description": description,
    }


def lifecycle() -> Schema:
    """``lifecycle``."""
    rolling = open_object(
        "Limits of an update, in Instances.",
        properties={
            "maxUnavailable": int_or_percent(
                "How many Instances may be out of service, as a number or a percentage; crash-loop repairs honour it under every "
                "strategy. Unset: no cap."
            ),
            "maxSurge": int_or_percent("How many Instances may be replaced at a time by SurgeThenDrain."),
            "partition": integer("Instances that are kept on the old revision.", minimum=0),
        },
    )
    in_place = open_object(
        "How an update in place is done.",
        properties={
            "gracePeriodSeconds": integer("Wait between leaving rotation and changing images.", minimum=0),
            "markNotReadyDuringLifecycle": boolean("Whether the pod leaves rotation meanwhile."),
        },
    )
    return open_object(
        "How Instances start, fail, restart and update. Only read in OMENative mode.",
        properties={
            "restartPolicy": string(
                "What a failed pod of a Ready Instance leads to. None: only that pod is repaired. RecreateInstanceOnPodRestart: "
                "all pods of the Instance are drained, deleted and created anew. Default: None for one pod, "
                "RecreateInstanceOnPodRestart for several.",
                enum=RESTART_POLICIES,
            ),
            "updateStrategy": open_object(
                "How a change of the pod template reaches the Instances.",
                properties={
                    "type": string("The strategy.", enum=UPDATE_STRATEGIES),
                    "rollingUpdate": rolling,
                    "inPlaceUpdateStrategy": in_place,
                },
            ),
            "readyPolicy": string("Whether all pods of an Instance must be ready.", enum=READY_POLICIES),
            "instanceReadyTimeout": string(
                "Time that an operation has to get its pods serving, such as 45m. 0s counts as unset and hides the runtime's."
            ),
            "minReadySeconds": integer("Seconds that new pods must stay ready before their Instance is Ready."),
            "migrationPolicy": open_object(
                "Whether Instances may be moved.", properties={"mode": string("How.", enum=MIGRATION_MODES)}
            ),
        },
    )


def engine(description: str) -> Schema:
    """An engine or a decoder."""
    return open_object(
        description,
        properties={
            **_extension(),
            **pod_fields(),
            "runner": container("The main container, ome-container by default."),
            "leader": open_object(
                "The leader pod of an Instance of several pods.",
                properties={**pod_fields(), "runner": container("The leader's main container.")},
            ),
            "worker": open_object(
                "The worker pods of an Instance of several pods.",
                properties={
                    **pod_fields(),
                    "size": integer("Number of workers; the runtime's, else 1."),
                    "runner": container("The workers' main container."),
                },
            ),
            "topologyKey": string("Node label within which workers must be with their leader."),
            "topologySpread": string("How strictly Instances are spread.", enum=TOPOLOGY_SPREADS),
            "topologySpreadKey": string("Node label over which Instances are spread."),
        },
    )


def router(description: str) -> Schema:
    """A router."""
    return open_object(
        description,
        properties={
            **_extension(),
            **pod_fields(),
            "runner": container("The main container, ome-container by default."),
            "config": text_map("Settings, handed to the main container as environment variables."),
        },
    )


def pod_fields() -> Mapping[str, Schema]:
    """Fields of an inline pod spec."""
    return {
        "containers": array_of("Containers beside the main one.", container("A container.")),
        "initContainers": array_of("Containers that run, in order, before the others start.", container("A container.")),
        "nodeSelector": text_map("Labels that a node must have."),
        "affinity": _affinity(),
        "readinessGates": array_of(
            "Conditions that a pod needs to be ready, beside the operator's own.",
            open_object("A gate.", properties={"conditionType": string("Which condition.")}, required=("conditionType",)),
        ),
        "topologySpreadConstraints": array_of("How pods are spread.", open_object("A constraint.")),
        "tolerations": array_of("Taints that are tolerated.", open_object("A toleration.")),
        "volumes": array_of(
            "Volumes of a pod.",
            open_object("A volume.", properties={"name": string("Name of the volume.")}, required=("name",)),
        ),
        "serviceAccountName": string("Account that the pods run under."),
        "schedulerName": string("Scheduler that places the pods."),
        "restartPolicy": string("Whether the kubelet restarts a container that ended; unrelated to lifecycle.restartPolicy."),
        "terminationGracePeriodSeconds": integer("Time that a pod gets to end.", minimum=0, width=64),
    }


def _affinity() -> Schema:
    """Typed as far as the operator adds to it."""
    required = "What must hold for a pod to be placed."
    terms = array_of("Alternatives, one of which must hold.", open_object("An alternative."))
    when = "requiredDuringSchedulingIgnoredDuringExecution"
    node = open_object(required, properties={"nodeSelectorTerms": terms})
    return open_object(
        "Where pods may and should be placed.",
        properties={
            "nodeAffinity": open_object("By nodes.", properties={when: node}),
            "podAffinity": open_object("By pods to be near.", properties={when: array_of(required, open_object("A term."))}),
            "podAntiAffinity": open_object("By pods to keep away from."),
        },
    )


def container(description: str) -> Schema:
    """A container whose name may be left out."""
    variable = open_object(
        "A variable.",
        properties={"name": string("Name of the variable."), "value": string("Its value.")},
        required=("name",),
    )
    port = open_object(
        "A port.",
        properties={
            "name": string("Name of the port."),
            "containerPort": integer("Number of the port.", minimum=1, maximum=65535),
            "protocol": string("TCP, UDP or SCTP."),
        },
        required=("containerPort",),
    )
    mount = open_object(
        "A mount.",
        properties={"name": string("Name of the volume."), "mountPath": string("Path in the container.")},
        required=("mountPath", "name"),
    )
    return open_object(
        f"{description} See kubectl explain pod.spec.containers.",
        properties={
            "name": string("Name of the container."),
            "image": string("Image to run."),
            "command": array_of("What to run in place of the image's entry point.", string("A word.")),
            "args": array_of("Arguments.", string("A word.")),
            "env": array_of("Environment variables. Those called OME_... are set by the operator.", variable),
            "ports": array_of("Ports that the container listens on.", port),
            "resources": open_object("Compute resources that are requested and allowed."),
            "volumeMounts": array_of("Where volumes appear in the container.", mount),
        },
    )


def condition() -> Schema:
    """A condition."""
    return obj(
        "One aspect of the state.",
        {
            "type": {**string("Which aspect."), "maxLength": 316},
            "status": string("True, False or Unknown.", enum=("True", "False", "Unknown")),
            "reason": {**string("Why, in one word."), "maxLength": 1024},
            "message": {**string("Why, for a person."), "maxLength": 32768},
            "severity": string("How grave it is."),
            "lastTransitionTime": {**string("When status last changed."), "format": "date-time"},
            "observedGeneration": integer("Generation of the spec that it was set for.", width=64, minimum=0),
        },
        required=("status", "type"),
    )


def conditions(description: str) -> Schema:
    """Conditions, one of a type."""
    return {
        **array_of(description, condition()),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }


def _extension() -> Mapping[str, Schema]:
    return {
        "minReplicas": integer("Instances wanted."),
        "maxReplicas": integer("Most Instances that an autoscaler may ask for."),
        "labels": text_map("Labels of the pods."),
        "annotations": text_map("Annotations of the pods; ome.io/deploymentMode selects the component's mode."),
        "minAvailable": int_or_percent("Instances that a voluntary disruption must leave. Not with maxUnavailable."),
        "maxUnavailable": int_or_percent("Instances that a voluntary disruption may take. Not with minAvailable."),
        "lifecycle": lifecycle(),
    }
