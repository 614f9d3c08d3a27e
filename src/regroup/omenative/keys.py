"""Every name that this API puts on objects or reads from them (spec/omenative.md 1, 2, 6). Pure.

Upstream's keys are kept letter by letter, so that objects of either operator are read by the other.
"""

from regroup.wire.resource import Resource

GROUP = "ome.io"
VERSION = "v1beta1"
INFERENCE_SERVICES = Resource(GROUP, VERSION, "inferenceservices", "InferenceService")
INFERENCE_REPLICAS = Resource(GROUP, VERSION, "inferencereplicas", "InferenceReplica")
SERVING_RUNTIMES = Resource(GROUP, VERSION, "servingruntimes", "ServingRuntime")
CLUSTER_SERVING_RUNTIMES = Resource(GROUP, VERSION, "clusterservingruntimes", "ClusterServingRuntime", namespaced=False)
BASE_MODELS = Resource(GROUP, VERSION, "basemodels", "BaseModel")
CLUSTER_BASE_MODELS = Resource(GROUP, VERSION, "clusterbasemodels", "ClusterBaseModel", namespaced=False)
POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

PREFIX = "ome.io/"
OWN_PREFIX = "omenative.regroup.dev/"
"""Of what upstream has no name for."""

# Labels of pods (2.2).
SERVICE = PREFIX + "inferenceservice"
COMPONENT = "component"
MANAGED_BY = PREFIX + "managed-by"
OMENATIVE = "OMENative"
INSTANCE_INDEX = PREFIX + "instance-index"
INCARNATION = PREFIX + "instance-incarnation"
RUNNER = PREFIX + "runner"
POD_ORDINAL = PREFIX + "pod-ordinal"
REVISION_HASH = PREFIX + "revision-hash"
PAIRING_PROTOCOL = PREFIX + "pairing-protocol"
POD_GROUP = "scheduling.x-k8s.io/pod-group"

# Annotations (2.7).
DEPLOYMENT_MODE = PREFIX + "deploymentMode"
ROLLOUT_PAUSED = PREFIX + "rollout-paused"
REVISION_HISTORY_LIMIT = PREFIX + "revision-history-limit"
EXCLUDED_ANNOTATIONS = PREFIX + "revision-excluded-annotation-keys"
RESET_INSTANCES = PREFIX + "reset-instances"
RELEASE_HELD_REVISION = PREFIX + "release-held-revision"
CONTROLLER_WRITE = PREFIX + "controller-write"
PARENT_GENERATION = PREFIX + "parent-generation"
INHERITED_LABELS = OWN_PREFIX + "inherited-labels"
"""Which labels of a replica are copies of its service's: pods get them, and one that is taken off there goes here as well.
``EXCLUDED_ANNOTATIONS`` says the same of annotations."""
PROJECTED = OWN_PREFIX + "projected"
"""Hash of a replica's spec as it was projected: admission tells by it whether an edit is ours."""

# Others.
SERVING_GATE = PREFIX + "serving"
"""Readiness gate and pod condition with which a pod is put in or out of rotation."""
TEARDOWN_FINALIZER = PREFIX + "ir-teardown"
MAIN_CONTAINER = "ome-container"

ENGINE = "engine"
DECODER = "decoder"
ROUTER = "router"
COMPONENTS = (ENGINE, DECODER, ROUTER)
"""In the order in which people see them."""

DEFAULT_RUNNER = "default"
LEADER = "leader"
WORKER = "worker"
