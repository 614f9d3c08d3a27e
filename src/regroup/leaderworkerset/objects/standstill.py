"""A Deployment whose rollout stands still because it was scaled to the size that its only ReplicaSet had already. Pure.

Its controller notes on each ReplicaSet the size that the Deployment had when it last looked, and takes a note of another size
for a scaling that goes before any rollout. Where one ReplicaSet alone has pods and is of the new size already, it sees nothing to
do and leaves the note as it is, so that each of its looks ends there and the rollout never goes on (6.3).
"""

from collections.abc import Iterable

from regroup.kube.workloads import Deployment, ReplicaSet

DESIRED = "deployment.kubernetes.io/desired-replicas"
"""The Deployment controller's note on a ReplicaSet."""


def holds_up(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet whose note holds up the rollout; None where all is well or the controller has not looked yet."""
    if deployment.metadata.deleting or deployment.status.observed_generation < deployment.metadata.generation:
        return None
    active = [found for found in sets if found.replicas > 0]
    if len(active) != 1 or active[0].replicas != deployment.replicas or active[0].metadata.deleting:
        return None
    note = active[0].metadata.annotations.get(DESIRED, "")
    return active[0] if note.isdecimal() and int(note) != deployment.replicas else None
