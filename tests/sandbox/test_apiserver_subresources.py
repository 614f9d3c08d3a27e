"""Scale, binding, eviction, logs, and events in their two forms."""

import asyncio

import pytest
from tests.sandbox.apiserver_hands import MERGE, PODS, STATEFULSETS, STRATEGIC, Api, Obj, template

from regroup.sandbox.apiserver.podlogs import fresh_lines
from regroup.wire.transport import Request

pytestmark = pytest.mark.looptime
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
OLD_EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


class Logs:
    """Logs of one container, that a test writes."""

    def __init__(self) -> None:
        self.lines: list[str] | None = None

    def read(self, uid: str, container: str, *, previous: bool = False, timestamps: bool = False) -> list[str] | None:
        if self.lines is None or previous:
            return None
        return self.lines if timestamps else [line.partition(" ")[2] for line in self.lines]

    def add(self, second: int, text: str) -> None:
        self.lines = [*(self.lines or []), f"2026-01-01T00:00:{second:02}.000000000Z {text}"]


async def make_set(api: Api, **spec: object) -> None:
    base = {"serviceName": "x", "selector": {"matchLabels": {"a": "b", "c": "d"}}, "template": template(a="b", c="d")}
    await api.create(STATEFULSETS, "s", spec={**base, **spec})


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_scale(api: Api, content_type: str) -> None:
    """Read, patched and put; the writer owns the replicas through ``scale``; the generation counts."""
    await make_set(api, replicas=2)
    scale = await api.get(f"{STATEFULSETS}/s/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "a=b,c=d"})
    patched = (await api.patch(f"{STATEFULSETS}/s/scale", {"spec": {"replicas": 5}}, content_type=content_type)).body
    assert (patched["kind"], patched["spec"]) == ("Scale", {"replicas": 5})
    patched["spec"]["replicas"] = 6
    assert (await api.ask("PUT", f"{STATEFULSETS}/s/scale", patched)).body["spec"] == {"replicas": 6}
    found = await api.get(f"{STATEFULSETS}/s")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (6, 3)
    assert {entry.get("subresource") for entry in found["metadata"]["managedFields"]} == {None, "scale"}
    assert (await api.ask("PUT", f"{STATEFULSETS}/s/scale", scale)).reason == "Conflict"


@pytest.mark.parametrize(("replicas", "field"), [(-1, "spec.replicas"), ("x", "patch")])
async def test_a_scale_that_cannot_be(api: Api, replicas: object, field: str) -> None:
    """422 with the field."""
    await make_set(api)
    answer = await api.patch(f"{STATEFULSETS}/s/scale", {"spec": {"replicas": replicas}})
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", field)])


async def test_a_scale_as_a_table(api: Api) -> None:
    """What ``kubectl get --subresource=scale`` asks for: what is wanted and what there is; other forms stay."""
    await make_set(api, replicas=2)
    table = await api.get(f"{STATEFULSETS}/s/scale", accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["s", 2, 0]
    plain = await api.get(f"{STATEFULSETS}/s/scale", accept="application/json")
    assert (plain["kind"], plain["apiVersion"]) == ("Scale", "autoscaling/v1")


async def bind(api: Api, **fields: object) -> Obj:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}, **fields}
    answer = await api.ask("POST", f"{PODS}/p/binding", body)
    return {"status": answer.status, "message": answer.body.get("message", "")}


async def test_binding(api: Api) -> None:
    """The pod is on its node, PodScheduled is True; a second binding is a conflict that says where it is."""
    await api.pod("p")
    assert (await bind(api))["status"] == 201
    pod = await api.get(f"{PODS}/p")
    assert pod["spec"]["nodeName"] == "n1"
    assert [(entry["type"], entry["status"]) for entry in pod["status"]["conditions"]] == [("PodScheduled", "True")]
    again = await bind(api)
    assert again["status"] == 409
    assert again["message"].endswith('pod p is already assigned to node "n1"')


async def test_a_bound_pod_takes_over_where_its_node_is(api: Api) -> None:
    """The zone and the region of the node, over what the pod said itself; no other label."""
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    meta = {"name": "n1", "labels": {zone: "z", region: "r", "other": "x"}}
    assert (await api.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})).status == 201
    await api.pod("p", labels={"a": "b", zone: "elsewhere"})
    assert (await bind(api))["status"] == 201
    assert (await api.get(f"{PODS}/p"))["metadata"]["labels"] == {"a": "b", zone: "z", region: "r"}


@pytest.mark.parametrize(
    ("spec", "meta", "status"), [({"schedulingGates": [{"name": "g"}]}, {}, 409), ({}, {"uid": "other"}, 409), ({}, {}, 201)]
)
async def test_pods_that_cannot_be_bound(api: Api, spec: Obj, meta: Obj, status: int) -> None:
    """A gated pod, and one that is not the one that was judged."""
    await api.pod("p", **spec)
    assert (await bind(api, metadata={"name": "p", **meta}))["status"] == status


async def evict(api: Api, **options: object) -> tuple[int, str]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options}
    answer = await api.ask("POST", f"{PODS}/p/eviction", body)
    return answer.status, answer.reason


async def test_eviction(api: Api) -> None:
    """A running pod starts to end, with the condition that says why; preconditions and dry runs hold."""
    await api.pod("p", node="n")
    assert await evict(api, dryRun=["All"]) == (201, "")
    assert await evict(api, preconditions={"uid": "other"}) == (409, "Conflict")
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/p"))["metadata"]
    assert await evict(api, gracePeriodSeconds=7) == (201, "")
    pod = await api.get(f"{PODS}/p")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 7
    assert [(entry["type"], entry["reason"]) for entry in pod["status"]["conditions"]] == [
        ("DisruptionTarget", "EvictionByEvictionAPI")
    ]


async def test_disruption_budgets(api: Api) -> None:
    """A budget with nothing left answers 429, one with something left is charged; a pending pod is not protected."""
    await api.pod("p", node="n", labels={"app": "x"})
    await api.create(BUDGETS, "b", spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}})
    await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    assert await evict(api) == (429, "TooManyRequests")
    await api.patch(f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1}})
    assert await evict(api) == (429, "TooManyRequests"), "the budget was not yet looked at"
    await api.patch(f"{BUDGETS}/b/status", {"status": {"observedGeneration": 1}})
    assert await evict(api) == (201, "")
    assert (await api.get(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 0
    await api.ask("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    await api.pod("p", labels={"app": "x"})
    assert await evict(api) == (201, "")


async def test_logs(api: Api) -> None:
    """Lines as text, with times, a tail, since a moment; nothing yet and wrong names are said."""
    logs = api.server.logs = Logs()
    await api.pod("p")
    assert (await api.ask("GET", f"{PODS}/p/log")).status == 204
    await bind(api)
    waiting = await api.ask("GET", f"{PODS}/p/log")
    assert (waiting.status, waiting.message) == (400, 'container "c" in pod "p" is waiting to start: ContainerCreating')
    logs.add(1, "one")
    logs.add(2, "two")
    for query, text in (
        ("", "one\ntwo\n"),
        ("tailLines=1", "two\n"),
        ("tailLines=0", ""),
        ("timestamps=true&tailLines=1", "2026-01-01T00:00:02.000000000Z two\n"),
        ("sinceTime=2026-01-01T00:00:02Z", "two\n"),
        ("limitBytes=2", "on"),
    ):
        answer = await api.ask("GET", f"{PODS}/p/log?{query}")
        assert (answer.status, answer.text) == (200, text), query
    assert "container x is not valid for pod p" in (await api.ask("GET", f"{PODS}/p/log?container=x")).message
    assert "previous terminated container" in (await api.ask("GET", f"{PODS}/p/log?previous=true")).message


async def test_logs_that_are_followed(api: Api) -> None:
    """New lines come as they are written; the stream ends when the container has ended, with its last lines."""
    logs = api.server.logs = Logs()
    await api.pod("p", node="n")
    logs.add(1, "one")
    request = Request("GET", f"{PODS}/p/log", [("follow", "true")])
    async with api.transport.stream(request, connect_timeout=5, read_timeout=60) as stream:
        chunks = stream.chunks()
        assert await anext(chunks) == b"one\n"
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(5)
        logs.add(7, "two")
        assert await waiting == b"two\n"
        logs.add(8, "three")
        ended = {
            "name": "c",
            "state": {"terminated": {"exitCode": 0}},
            "ready": False,
            "restartCount": 0,
            "image": "i",
            "imageID": "",
        }
        await api.patch(f"{PODS}/p/status", {"status": {"containerStatuses": [ended]}})
        assert await anext(chunks) == b"three\n"
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)


@pytest.mark.parametrize(
    ("seen", "lines", "fresh"),
    [
        ([], ["a"], ["a"]),
        (["a"], ["a", "b"], ["b"]),
        (["a", "b"], ["b", "c"], ["c"]),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        (["a", "b"], ["a", "b"], []),
    ],
)
def test_fresh_lines(seen: list[str], lines: list[str], fresh: list[str]) -> None:
    """A bounded log loses its beginning; what is new is told once."""
    assert list(fresh_lines(seen, lines)) == fresh


def core_event(name: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u1"},
        "reason": "Started",
        "message": "it started",
        "type": "Normal",
        "count": 2,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:01Z",
        "source": {"component": "kubelet"},
    }


def new_event(name: str) -> Obj:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u1"},
        "reason": "Moved",
        "note": "it moved",
        "action": "Move",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:02.000000Z",
        "reportingController": "x/y",
        "reportingInstance": "z",
    }


async def test_events_have_two_forms(api: Api) -> None:
    """What is written in one is read in the other: lists, single objects, selectors, watches, patches and deletions."""
    async with api.watch(OLD_EVENTS) as old, api.watch(NEW_EVENTS) as new:
        assert (await api.ask("POST", OLD_EVENTS, core_event("a"))).status == 201
        assert (await api.ask("POST", NEW_EVENTS, new_event("b"))).status == 201
        first, second = (await old.next())["object"], (await old.next())["object"]
        assert (first["apiVersion"], second["message"], second["involvedObject"]["name"]) == ("v1", "it moved", "p")
        assert (await new.next())["object"]["note"] == "it started"
    a = await api.get(f"{NEW_EVENTS}/a")
    assert (a["deprecatedCount"], a["regarding"]["uid"], a["deprecatedSource"]) == (2, "u1", {"component": "kubelet"})
    assert (await api.get(f"{OLD_EVENTS}/b"))["reportingComponent"] == "x/y"
    assert await api.names(f"{OLD_EVENTS}?fieldSelector=involvedObject.uid%3Du1,reason%3DMoved") == ["b"]
    assert await api.names(f"{NEW_EVENTS}?fieldSelector=regarding.name%3Dp") == ["a", "b"]
    series = {"count": 3, "lastObservedTime": "2026-01-01T00:00:09.000000Z"}
    assert (await api.patch(f"{NEW_EVENTS}/b", {"series": series})).status == 200
    assert (await api.get(f"{OLD_EVENTS}/b"))["series"]["count"] == 3
    await api.ask("DELETE", f"{OLD_EVENTS}/b")
    assert await api.names(NEW_EVENTS) == ["a"]
