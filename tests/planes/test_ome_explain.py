"""``regroup explain isvc/NAME`` on a cluster (issue 6, item 8): what it says is what the operator then does."""

from tests.planes.ome_hands import RECREATE, Ome, runtime_manifest, service_manifest
from tests.planes.plane import NAMESPACE, Plane

from regroup.omenative.controller.explain_query import explain
from regroup.omenative.keys import CLUSTER_SERVING_RUNTIMES, MAIN_CONTAINER


async def test_explain_tells_the_restart_that_comes(plane: Plane) -> None:
    """4.2, 4.6: with the operator stopped, explain names the trigger, the next phase, the writes and the event to come."""
    async with plane:
        ome = Ome(plane)
        body = runtime_manifest(
            "lazy",
            engineConfig={
                "runner": {"name": MAIN_CONTAINER, "image": "server:1"},
                "lifecycle": {"restartPolicy": RECREATE},
            },
        )
        await plane.client.apply(CLUSTER_SERVING_RUNTIMES, "lazy", body, field_manager="kubectl")
        await ome.apply(service_manifest(runtime="lazy"))
        await ome.wait_ready()
        await plane.sleep(3)
        settled = await explain(plane.client, NAMESPACE, "svc", clock=plane.clock, config_namespaces=[NAMESPACE])
        (engine,) = settled.components
        assert (engine.restart_policy, engine.restart_policy_from, engine.desired) == (RECREATE, "runtime", 1)
        (instance,) = engine.instances
        assert (instance.phase, instance.next_phase, instance.actions, instance.events) == ("Ready", "Ready", [], [])
        await plane.stop_operator()
        await plane.faults.crash(NAMESPACE, ome.pod_name(), container=MAIN_CONTAINER, exit_code=137, reason="OOMKilled")
        await plane.sleep(15)
        coming = await explain(plane.client, NAMESPACE, "svc", clock=plane.clock, config_namespaces=[NAMESPACE])
        (instance,) = coming.components[0].instances
        assert (instance.phase, instance.next_phase) == ("Ready", "Restarting")
        assert "OOMKilled (exit 137)" in instance.events[0]
        assert instance.actions
        await plane.start_operator()
        await ome.wait_restarted()
        (told,) = await ome.events("RestartTriggered")
        assert instance.events[0] == f"RestartTriggered: {told.note}"
        assert coming.to_dict()["components"][0]["instances"][0]["next_phase"] == "Restarting"
