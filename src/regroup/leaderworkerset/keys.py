"""Every name that this API puts on objects: labels, annotations, finalizers, gates (spec/leaderworkerset.md 2.9). Pure.

Upstream's keys have upstream's prefix, so that objects of either operator are read by the other; our own extensions have ours.
"""

from regroup.wire.resource import Resource

GROUP = "leaderworkerset.x-k8s.io"
LEADERWORKERSETS = Resource(GROUP, "v1", "leaderworkersets", "LeaderWorkerSet")

PREFIX = "leaderworkerset.sigs.k8s.io/"
OWN_PREFIX = "leaderworkerset.regroup.dev/"

# Labels.
NAME = PREFIX + "name"
GROUP_INDEX = PREFIX + "group-index"
GROUP_KEY = PREFIX + "group-key"
WORKER_INDEX = PREFIX + "worker-index"
REVISION = PREFIX + "template-revision-hash"
ROLE = PREFIX + "role"
SUBGROUP_INDEX = PREFIX + "subgroup-index"
SUBGROUP_KEY = PREFIX + "subgroup-key"
LEADER_UID = OWN_PREFIX + "leader-uid"
"""On workers: the incarnation of the group, so that one DELETE of a collection can hit no other."""

# Annotations.
EVIDENCE = OWN_PREFIX + "evidence"
"""On events: the failure behind them, as JSON, for ``regroup history``."""
SIZE = PREFIX + "size"
REPLICAS = PREFIX + "replicas"
LEADER_NAME = PREFIX + "leader-name"
LEADER_ADDRESS = PREFIX + "leader-address"
GROUP_IDENTITY = PREFIX + "group-identity"
EXCLUSIVE_TOPOLOGY = PREFIX + "exclusive-topology"
SUBGROUP_EXCLUSIVE_TOPOLOGY = PREFIX + "subgroup-exclusive-topology"
SUBGROUP_SIZE = PREFIX + "subgroup-size"
SUBGROUP_POLICY_TYPE = PREFIX + "subgroup-policy-type"
SUBDOMAIN_POLICY = PREFIX + "subdomainPolicy"
POD_TERMINATION_POLICY = PREFIX + "pod-termination-policy"
LEADER_REQUESTS_TPUS = PREFIX + "leader-requests-tpus"
WORKLOAD_SCHEDULING = PREFIX + "workload-aware-scheduling"
"""On pods: the level at which ``spec.scheduling`` groups them."""
WORKLOAD_NAME = PREFIX + "workload-name"
SCHEDULING_LEVEL = PREFIX + "scheduling-level"
"""Label of PodGroups."""
AFTER_START_EXPERIMENT = PREFIX + "experimental-recreate-group-after-start"
"""Deprecated: its presence on a LeaderWorkerSet turns the AfterStart guard on (5.8)."""
RESTART_COUNTS = PREFIX + "group-restart-counts"
EXHAUSTED = PREFIX + "group-restart-budget-exhausted"
RECOVER = PREFIX + "recover"
RECREATE_PENDING = PREFIX + "group-recreate-pending"
ABSORBED_RESTARTS = PREFIX + "absorbed-restarts"
POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
GATED_DELETION_COST = "-100"

# Others.
CLEANUP_FINALIZER = PREFIX + "group-restart-budget-cleanup"
GATE = PREFIX + "group-replacement"
GROUP_READY = PREFIX + "group-ready"
"""Readiness gate and pod condition of Hash leaders of groups larger than one."""

LEADER = "leader"
WORKER = "worker"
LEADER_INDEX = "0"

RESERVED_POD_LABELS = frozenset(
    {NAME, GROUP_INDEX, GROUP_KEY, WORKER_INDEX, REVISION, ROLE, SUBGROUP_INDEX, SUBGROUP_KEY, LEADER_UID}
)
"""What a user's template cannot set: it would make a worker a leader (case C112)."""
RESERVED_POD_ANNOTATIONS = frozenset(
    {
        SIZE,
        LEADER_NAME,
        LEADER_ADDRESS,
        GROUP_IDENTITY,
        EXCLUSIVE_TOPOLOGY,
        SUBGROUP_EXCLUSIVE_TOPOLOGY,
        SUBGROUP_SIZE,
        SUBGROUP_POLICY_TYPE,
        SUBDOMAIN_POLICY,
        POD_TERMINATION_POLICY,
        LEADER_REQUESTS_TPUS,
        WORKLOAD_SCHEDULING,
        WORKLOAD_NAME,
        EXHAUSTED,
        RECOVER,
        RECREATE_PENDING,
        ABSORBED_RESTARTS,
    }
)
