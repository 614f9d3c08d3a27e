"""Schema of InferenceReplica: one component, its Instances and their rows (spec/omenative.md 1.2). Pure."""

from regroup.kube.schema import Schema, array_of, boolean, integer, obj, open_object, string, text_map
from regroup.omenative.api.component_schema import TOPOLOGY_SPREADS, conditions, int_or_percent, lifecycle, pod_fields
from regroup.omenative.api.replica import FREEZE, RECOVER
from regroup.omenative.keys import COMPONENTS, DEFAULT_RUNNER, LEADER, WORKER

_DATE = "date-time"


def replica_schema() -> Schema:
    """``openAPIV3Schema``."""
    return obj(
        "InferenceReplica runs the Instances of one component. Made from an InferenceService; do not edit its spec.",
        {
            "apiVersion": string("Version of the API that this object is written for."),
            "kind": string("InferenceReplica."),
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    )


def _spec() -> Schema:
    template = open_object(
        "Template of the pods.",
        properties={
            "metadata": open_object(
                "Labels and annotations of the pods.",
                properties={"labels": text_map("Labels."), "annotations": text_map("Annotations.")},
            ),
            "spec": open_object("The pods (see kubectl explain pod.spec).", properties=pod_fields()),
        },
    )
    runner = open_object(
        "One kind of pod of an Instance.",
        properties={
            "name": string("Which kind.", enum=(DEFAULT_RUNNER, LEADER, WORKER)),
            "size": integer("Pods of that kind in an Instance.", minimum=1),
            "template": template,
        },
        required=("name", "template"),
    )
    runners = {
        **array_of("The pods of an Instance: one default, or a leader and workers.", runner),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "maxItems": 3,
    }
    return open_object(
        "What is wanted.",
        properties={
            "parentRef": open_object(
                "The InferenceService that this belongs to. Cannot be changed.",
                properties={"name": string("Its name.")},
                required=("name",),
            ),
            "component": string("Which component. Cannot be changed.", enum=COMPONENTS),
            "replicas": integer("Instances wanted; 0 runs 1.", minimum=0, maximum=100_000, default=1),
            "runners": runners,
            "lifecycle": lifecycle(),
            "minReadySeconds": integer("Seconds that new pods must stay ready before their Instance is Ready.", minimum=0),
            "topologyKey": string("Node label within which workers must be with their leader."),
            "topologySpread": string("How strictly Instances are spread.", enum=TOPOLOGY_SPREADS),
            "topologySpreadKey": string("Node label over which Instances are spread."),
            "pairingProtocol": {**string("Revisions pair with those that speak the same."), "maxLength": 63},
            "pacing": open_object(
                "Limits that a rollout puts on this component.",
                properties={
                    "partition": integer("Instances that are kept on the old revision.", minimum=0),
                    "maxUnavailable": int_or_percent("Instances that may be out of service."),
                    "rollbackToRevision": string("Revision to go back to."),
                },
            ),
            "paused": boolean("Whether updates, new Instances and migrations are held."),
            "pauseMode": string("Recover: repairs go on. Freeze: they are held as well.", enum=("", RECOVER, FREEZE)),
            "revisionHistoryLimit": integer("Revisions that are kept beside those in use.", minimum=1),
        },
        required=("component",),
    )


def _status() -> Schema:
    return open_object(
        "What was last observed.",
        properties={
            "observedGeneration": integer("Generation of the spec that this status speaks of.", width=64),
            "replicas": integer("Instances that exist, in any phase."),
            "readyReplicas": integer("Instances of which every pod is ready."),
            "servingReplicas": integer("Instances of which every pod is in rotation."),
            "availableReplicas": integer("Instances of which every pod has been ready long enough."),
            "updatedReplicas": integer("Instances on updateRevision."),
            "updatedReadyReplicas": integer("Instances on updateRevision of which every pod is ready."),
            "currentRevision": string("The revision that all Instances ran last."),
            "updateRevision": string("The newest revision that is wanted."),
            "collisionCount": integer("How often a revision's name was taken."),
            "labelSelector": string("Selects the pods, for autoscalers."),
            "instanceStatuses": {
                **array_of("One row for each Instance.", _row()),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["index"],
            },
            "instanceStatusEncoding": string("How another operator stored the rows: ColumnarV2. Read, never written."),
            "instanceStatusColumns": open_object("Its rows, by column, in the place of instanceStatuses. Read, never written."),
            "retryBlocks": array_of("How often revisions have failed.", open_object("One revision.")),
            "conditions": conditions("Ready and others."),
            "rolloutHold": open_object("Why nothing can move, and since when."),
        },
    )


def _row() -> Schema:
    return open_object(
        "An Instance.",
        properties={
            "index": integer("Its index, the same for life.", minimum=0),
            "incarnation": integer("From 1 on; one more with every restart."),
            "phase": string("Pending, Creating, Ready, Updating, Restarting, Migrating, Failed or Deleting."),
            "runningRevision": string("The revision that it runs."),
            "targetRevision": string("The revision that it is brought to."),
            "podCount": integer("Its pods."),
            "servingPodCount": integer("Pods in rotation."),
            "availablePodCount": integer("Pods that have been ready long enough."),
            "admitted": boolean("Whether none of its pods is held by a scheduling gate."),
            "readySince": {**string("When it last became Ready."), "format": _DATE},
            "activeOrdinal": integer("Ordinal of the live pod of an Instance of one pod."),
            "operation": open_object("Work in flight, or kept for inspection."),
            "lastFailure": open_object("The newest failure that could be read: pod, container, reason, exit code, time."),
            "announced": array_of("Events that are told once.", string("Reason and episode.")),
        },
        required=("index",),
    )
