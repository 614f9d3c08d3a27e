"""What ``kubectl ome`` reads of a busy namespace (omenative 7.2)."""

from tests.planes.ome_hands import Ome, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.cli.ome.reading import read_events, read_pods, read_service
from regroup.kube.resources import EVENTS
from regroup.omenative.keys import ENGINE
from regroup.runtime.clock import micro_timestamp

OTHERS = 520
"""More than a page of events, of names that come first."""


async def test_events_of_an_instance_among_many(plane: Plane) -> None:
    """The events of its pods are found, whatever else its namespace tells."""
    async with plane:
        for number in range(OTHERS):
            body = {
                "apiVersion": EVENTS.api_version,
                "kind": EVENTS.kind,
                "metadata": {"name": f"a-{number:04}", "namespace": NAMESPACE},
                "eventTime": micro_timestamp(plane.clock.now()),
                "type": "Normal",
                "reason": "Told",
                "action": "Tell",
                "note": "something else",
                "reportingController": "somebody",
                "reportingInstance": "somebody-1",
                "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": "other", "uid": "other"},
            }
            await plane.client.create(EVENTS, body, namespace=NAMESPACE)
        ome = Ome(plane)
        await ome.runtime()
        await ome.apply(service_manifest())
        await ome.wait_ready()
        service = await read_service(plane.client, NAMESPACE, "svc")
        pods = await read_pods(plane.client, service, ENGINE, 0)

        async def seen() -> bool:
            events = await read_events(plane.client, service, pods)
            told_of = {event.regarding.uid for event in events}
            return "Scheduled" in {event.reason for event in events} and told_of == {pods[0].uid}

        await plane.wait_for(seen, timeout=30, what="the pod's own events, and no others")
