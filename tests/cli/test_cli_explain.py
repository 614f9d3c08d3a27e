"""`regroup explain`: what the operator would decide, read through a plain client; a table for people, JSON for scripts."""

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from tests.planes.gang_apis import volcano_crd
from tests.planes.plane import NAMESPACE, lws_manifest, pod_template
from tests.planes.sandbox_plane import SandboxPlane

from regroup.cli.explain import FEW, show
from regroup.kube.resources import CRDS, MUTATING_WEBHOOKS, PODS
from regroup.leaderworkerset.controller.explain_query import Explanation, NoSuchGroup, explain
from regroup.leaderworkerset.controller.setup import Settings
from regroup.leaderworkerset.objects.gang import Provider
from regroup.sandbox.apifaults import Match
from regroup.wire.errors import NotFound

pytestmark = pytest.mark.looptime


async def test_groups_are_explained_as_the_operator_sees_them() -> None:
    """Settled groups run and nothing is done; a broken one would be recreated, by the rule that the controller uses."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=2, size=3))
        await plane.wait_available()
        await plane.stop_operator()
        client, clock = plane.cluster.client("explain"), plane.clock
        seen = await explain(client, NAMESPACE, "demo", group=None, now=clock.now(), settings=Settings())
        assert [(one.group, one.state, one.decision) for one in seen.groups] == [
            ("0", "Running", "Stay"),
            ("1", "Running", "Stay"),
        ]
        assert {member.pod for member in seen.groups[0].members} == {"demo-0", "demo-0-1", "demo-0-2"}
        assert json.loads(json.dumps(seen.to_dict()))["groups"][1]["size"] == 3
        pods = [member.pod for group in seen.groups for member in group.members]
        assert all(pod in _shown(seen) for pod in pods)
        assert not any(pod in _shown(seen, details=False) for pod in pods)
        many = replace(seen, groups=[*seen.groups] * FEW)
        assert not any(pod in _shown(many) for pod in pods)
        assert f"{len(many.groups)} groups: --group N shows one" in _shown(many)
        assert all(pod in _shown(many, details=True) for pod in pods)

        await plane.faults.crash(NAMESPACE, "demo-1-2", exit_code=7)
        await plane.sleep(5)
        plane.cluster.server.faults.record().clear()
        seen = await explain(client, NAMESPACE, "demo", group="1", now=clock.now(), settings=Settings())
        (broken,) = seen.groups
        assert (broken.group, broken.decision, broken.state) == ("1", "Recreate", "Recreating")
        assert "demo-1-2" in " ".join(broken.failures)
        record = plane.cluster.server.faults.record()
        assert not [entry for entry in record if entry.writes and "explain" in entry.user_agent], "reads only"

        assert "Recreate" in _shown(seen)
        assert "demo-1-2" in _shown(seen)
        assert "\x1b" not in _shown(seen), "no colours outside a terminal"


def _shown(seen: Explanation, *, details: bool | None = None) -> str:
    page = io.StringIO()
    show(seen, Console(file=page, width=200), details=details)
    return page.getvalue()


async def test_a_pod_that_no_webhook_has_seen_is_named() -> None:
    """Somebody took the webhooks away: a leader that was made meanwhile has no identity, so its group has none either. The note
    says which pod that is and what to do; done, the group is whole again."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=1, size=2))
        await plane.wait_available()
        found: dict[str, Any] = await plane.client.get(MUTATING_WEBHOOKS, "regroup")
        await plane.client.delete(MUTATING_WEBHOOKS, "regroup")
        await plane.delete_pod("demo-0")
        await plane.sleep(30)
        client, clock = plane.cluster.client("explain"), plane.clock
        seen = await explain(client, NAMESPACE, "demo", group=None, now=clock.now(), settings=Settings())
        assert [one.state for one in seen.groups] == ["NoLeader"]
        (note,) = seen.notes
        assert "webhook was not registered" in note
        assert note.endswith(": demo-0")
        assert "demo-0" in _shown(seen, details=False)
        body = {key: found[key] for key in ("apiVersion", "kind", "webhooks")} | {"metadata": {"name": "regroup"}}
        await plane.client.create(MUTATING_WEBHOOKS, body)
        await plane.delete_pod("demo-0")
        await plane.wait_available()
        seen = await explain(client, NAMESPACE, "demo", group=None, now=clock.now(), settings=Settings())
        assert (seen.notes, seen.groups[0].state) == ([], "Running")


async def test_a_group_that_is_not_there_yet_is_shown() -> None:
    """What is wanted and has no pods is listed as well."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=1, size=2))
        await plane.wait_available()
        await plane.stop_operator()
        await plane.patch_lws("demo", {"replicas": 3})
        seen = await explain(
            plane.cluster.client("explain"), NAMESPACE, "demo", group=None, now=plane.clock.now(), settings=Settings()
        )
        assert [(one.group, one.state) for one in seen.groups] == [("0", "Running"), ("1", "NoLeader"), ("2", "NoLeader")]


async def test_what_cannot_be_read_is_told() -> None:
    """No right to nodes: explained without them, with a note; no LeaderWorkerSet or no such group: an error."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(replicas=1, size=2))
        await plane.wait_available()
        client, now = plane.cluster.client("explain"), plane.clock.now()
        plane.cluster.server.faults.fail(403, match=Match(resource="nodes", user_agent="explain"))
        seen = await explain(client, NAMESPACE, "demo", group=None, now=now, settings=Settings())
        assert seen.groups[0].state == "Running"
        assert "nodes may not be read" in seen.notes[0]
        with pytest.raises(NoSuchGroup, match="no group '7'; groups: 0"):
            await explain(client, NAMESPACE, "demo", group="7", now=now, settings=Settings())
        with pytest.raises(NotFound):
            await explain(client, NAMESPACE, "other", group=None, now=now, settings=Settings())
        assert await plane.exists(PODS, "demo-0")


async def test_a_gang_without_its_api_is_explained() -> None:
    """Spec 3.6: told with the operator's own provider, the reason is that the cluster does not serve the API."""
    settings = Settings(scheduler_provider=Provider.VOLCANO)
    async with SandboxPlane(settings=settings) as plane:
        await plane.apply(lws_manifest(size=2))
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        client, now = plane.cluster.client("explain"), plane.clock.now()
        (group,) = (await explain(client, NAMESPACE, "demo", group=None, now=now, settings=settings)).groups
        assert (group.state, group.decision, group.rule) == ("Gated", "Wait", "lws 3.6")
        assert group.waits_for is not None
        assert "does not serve podgroups" in group.waits_for
        await plane.client.create(CRDS, volcano_crd())
        await plane.wait_available()
        (group,) = (await explain(client, NAMESPACE, "demo", group=None, now=now, settings=settings)).groups
        assert (group.state, group.waits_for) == ("Running", None)


@pytest.mark.parametrize(("identity", "kind"), [("Ordinal", "StatefulSet"), ("Hash", "Deployment")])
async def test_leaders_that_nothing_makes_are_explained(identity: str, kind: str) -> None:
    """Spec 3.1, 3.2: a template that the API server refuses leaves no workload for the leaders. That is said, with the place
    where the reason is, and no one is told that they are about to be made."""
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=2, groupIdentity=identity, worker=pod_template(restartPolicy="Never")))
        await plane.wait_for(lambda: plane.events("FailedCreate"))
        client, now = plane.cluster.client("explain"), plane.clock.now()
        seen = await explain(client, NAMESPACE, "demo", group=None, now=now, settings=Settings())
        assert list(seen.notes) == [
            f"{kind} demo, which makes the leaders, does not exist; a FailedCreate event of lws/demo tells why"
        ]
        assert all(f"{kind} demo, which makes the leaders, does not exist" in group.why for group in seen.groups)
        assert len(seen.groups) == (0 if identity == "Hash" else 1)


async def test_limits_and_the_last_failure_for_a_person() -> None:
    """Issue 5 point 4: members with node and restarts, the last failure with pod, container, exit code and time, rule and budget,
    what is waited for and until when."""
    template = {"maxGroupRestarts": 2, "restartBackoff": {"baseSeconds": 100, "capSeconds": 100}}
    async with SandboxPlane() as plane:
        await plane.apply(lws_manifest(size=2, template=template))
        await plane.wait_available()
        await plane.faults.crash(NAMESPACE, "demo-0-1", exit_code=23)
        await plane.wait_for(lambda: plane.events("GroupRestartBackoff"))
        await plane.sleep(1)
        client = plane.cluster.client("explain")
        seen = await explain(client, NAMESPACE, "demo", group=None, now=plane.clock.now(), settings=Settings())
        text = _shown(seen)
        (group,) = seen.groups
        assert (group.state, group.rule, group.restarts_used, group.restarts_left) == ("Deferred", "lws 5.7", 0, 2)
        assert group.next_permitted == group.recreation_permitted_from
        for line in (
            "budget: 0 of 2 restarts used, 2 left",
            f"a failure now recreates from: {group.recreation_permitted_from}",
            "pod demo-0-1 container main: container restarted, exit code 23",
            "waits for: container main of worker pod demo-0-1 restarted with exit code 23",
        ):
            assert line in text, text
        node = (await plane.pods())["demo-0-1"].spec.node_name
        assert any(line.split()[:1] == ["demo-0-1"] and node in line for line in text.splitlines())
