"""Gathers what one pass may know, from the cache. Makes no request and decides nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog

from regroup.kube.meta import ObjectView
from regroup.kube.node import UNREACHABLE_TAINT, Node
from regroup.kube.workloads import ControllerRevision
from regroup.omenative.api.replica import InferenceReplica
from regroup.omenative.configuration.settings import Settings
from regroup.omenative.controller.belongings import controlled
from regroup.omenative.controller.slices import EndpointSlice, by_service, routing
from regroup.omenative.controller.stores import BY_COMPONENT, Stores, component_text
from regroup.omenative.names import headless_service, instance_name, revision_service, stable_service
from regroup.omenative.objects.revision import RevisionDamaged, decode
from regroup.omenative.view import InstancePod, NodeFacts, ReplicaView, Revision, Routing
from regroup.runtime.clock import Clock


class Observer:
    """Views of replicas. Holds nothing of its own but what it was given."""

    def __init__(self, stores: Stores, *, clock: Clock, settings: Callable[[], Settings]) -> None:
        self._stores = stores
        self._clock = clock
        self._settings = settings
        self._log = structlog.get_logger("omenative")

    def revisions(self, replica: InferenceReplica) -> Sequence[Revision]:
        """The replica's stored revisions, oldest first. One that is damaged is left out: it is as good as gone."""
        found = [self._decoded(one) for one in self._of(self._stores.revisions, replica) if controlled(replica, one)]
        return sorted((one for one in found if one is not None), key=lambda one: (one.number, one.name))

    def pods(self, replica: InferenceReplica) -> Sequence[InstancePod]:
        """Its own pods, and orphans that carry its labels. A pod of another controller is never among them."""
        pods = self._of(self._stores.pods, replica)
        return tuple(
            pod for pod in pods if controlled(replica, pod) or (pod.metadata.controller is None and pod.incarnation is None)
        )

    def view(
        self,
        replica: InferenceReplica,
        *,
        revisions: Sequence[Revision],
        update_revision: str,
        slices: Iterable[EndpointSlice] | None = None,
    ) -> ReplicaView:
        """All that a pass may know. ``slices``: EndpointSlices that were just read, in the place of the cached ones."""
        pods = self.pods(replica)
        listed = by_service(self._of(self._stores.slices, replica) if slices is None else slices)
        headless = listed.get(headless_service(replica.name), ())
        stable = listed.get(stable_service(replica.name), ())
        return ReplicaView(
            replica=replica,
            now=self._clock.now(),
            settings=self._settings(),
            pods=pods,
            revisions=revisions,
            update_revision=update_revision,
            routing=self._routing(replica, pods, revisions, listed),
            headless_listed=frozenset(uid for one in headless for uid in one.targets(ready_only=False)),
            stable_ready=frozenset(uid for one in stable for uid in one.targets(ready_only=True)),
            nodes=self._nodes(pods),
            pod_groups=self._pod_groups(replica),
            gang_api=self._stores.pod_groups is not None,
        )

    def _decoded(self, found: ControllerRevision) -> Revision | None:
        try:
            return decode(found)
        except RevisionDamaged as error:
            self._log.warning("a stored revision is left out", revision=found.metadata.key, why=str(error))
            return None

    def _routing(
        self,
        replica: InferenceReplica,
        pods: Sequence[InstancePod],
        revisions: Sequence[Revision],
        listed: Mapping[str, Sequence[EndpointSlice]],
    ) -> Mapping[str, Routing]:
        hashes = {pod.revision_hash for pod in pods} | {revision.hash for revision in revisions}
        found: dict[str, Routing] = {}
        for hash_ in hashes - {""}:
            name = revision_service(replica.name, hash_)
            exists = self._stores.services.get(replica.namespace, name) is not None
            found[hash_] = routing(listed.get(name, ()), service_exists=exists)
        return found

    def _nodes(self, pods: Sequence[InstancePod]) -> Mapping[str, NodeFacts]:
        names = {pod.spec.node_name for pod in pods} - {""}
        return {name: node_facts(self._stores.nodes.get("", name)) for name in names}

    def _pod_groups(self, replica: InferenceReplica) -> Mapping[str, str]:
        store = self._stores.pod_groups
        if store is None or not replica.spec.multi_pod:
            return {}
        names = [instance_name(replica.name, index) for index in _indices(replica)]
        groups = {name: store.get(replica.namespace, name) for name in names}
        return {name: _standing(group, replica) for name, group in groups.items() if group is not None}

    def _of(self, store: Any, replica: InferenceReplica) -> Sequence[Any]:
        found: Sequence[Any] = store.index(BY_COMPONENT, component_text(replica))
        return found


def node_facts(node: Node | None) -> NodeFacts:
    """Whether a node is there and reports."""
    if node is None:
        return NodeFacts(exists=False, known=False)
    ready = node.ready
    silent = (ready is not None and ready.status == "Unknown") or node.taint(UNREACHABLE_TAINT) is not None
    return NodeFacts(exists=True, known=not silent)


def _indices(replica: InferenceReplica) -> Iterable[int]:
    """Indices that an Instance has or may get in this pass."""
    used = {row.index for row in replica.status.rows}
    return sorted(used | set(range(replica.spec.replicas + len(used))))


def _standing(group: ObjectView, replica: InferenceReplica) -> str:
    if not controlled(replica, group):
        return "foreign"
    return "terminating" if group.metadata.deleting else "ours"
