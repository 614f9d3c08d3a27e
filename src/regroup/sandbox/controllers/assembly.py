"""All built-in controllers, as a controller manager runs them."""

from collections.abc import Callable

from regroup.runtime.events import EventRecorder
from regroup.runtime.manager import Manager
from regroup.sandbox.controllers import (
    deployment,
    disruption,
    endpointslice,
    ephemeral,
    garbage,
    namespace,
    podgc,
    replicaset,
    statefulset,
    volumebinder,
)

COMPONENTS: tuple[tuple[str, Callable[..., None]], ...] = (
    (statefulset.NAME, statefulset.setup),
    (garbage.NAME, garbage.setup),
    (endpointslice.NAME, endpointslice.setup),
    (namespace.NAME, namespace.setup),
    (podgc.NAME, podgc.setup),
    (replicaset.NAME, replicaset.setup),
    (deployment.NAME, deployment.setup),
    ("controllermanager", disruption.setup),
    (volumebinder.NAME, volumebinder.setup),
    (ephemeral.NAME, ephemeral.setup),
)


def setup_built_in(manager: Manager, *, recorder_for: Callable[[str], EventRecorder | None]) -> None:
    """Add every built-in controller to ``manager``. ``recorder_for(component)`` gives the recorder that tells its events."""
    for component, setup in COMPONENTS:
        setup(manager, recorder=recorder_for(component))
