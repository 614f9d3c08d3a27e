"""Single writes: counters that survive conflicts, finalizers and gates that never hit a stranger's."""

import random
from typing import Any

import msgspec
import pytest
from tests.leaderworkerset.lws_api import Api, Object

from regroup.kube.pod import Pod
from regroup.leaderworkerset import keys
from regroup.leaderworkerset.api.types import LeaderWorkerSet
from regroup.leaderworkerset.controller import podwrites
from regroup.leaderworkerset.controller.counters import Counters
from regroup.leaderworkerset.controller.podwrites import Overtaken
from regroup.leaderworkerset.groups.budget import COUNTED, CorruptCounts
from regroup.leaderworkerset.groups.decisions import PodId
from regroup.leaderworkerset.view import GroupKey
from regroup.wire.client import Client
from regroup.wire.errors import Conflict
from regroup.wire.transport import Request

LWS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/t/leaderworkersets/demo"
POD = "/api/v1/namespaces/t/pods/demo-0"
KEY = GroupKey("t", "demo", "0")
OURS = keys.CLEANUP_FINALIZER


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def client(api: Api) -> Client:
    return Client(api, rng=random.Random(1))


def lws(api: Api, counts: str = "") -> LeaderWorkerSet:
    meta: Object = {
        "name": "demo",
        "namespace": "t",
        "uid": "lws",
        "annotations": {keys.RESTART_COUNTS: counts} if counts else {},
    }
    return msgspec.convert(api.put(LWS, {"metadata": meta}), LeaderWorkerSet)


def put_pod(api: Api, **meta: Any) -> Pod:
    base = {"name": "demo-0", "namespace": "t", "uid": "a", "annotations": {keys.SIZE: "2"}}
    return msgspec.convert(api.put(POD, {"metadata": {**base, **meta}, "spec": {}}), Pod)


def stored(api: Api) -> dict[str, int]:
    value: dict[str, int] = msgspec.json.decode(api.objects[LWS]["metadata"]["annotations"][keys.RESTART_COUNTS])
    return value


@pytest.mark.looptime
class TestCounters:
    """Spec 5.5."""

    async def test_others_survive_a_stale_read(self, api: Api, client: Client) -> None:
        """Behaviour 75, case C29: another group's count and a foreign label come in between read and write."""
        stale = lws(api)

        def other_writer(request: Request) -> None:
            if request.method == "PATCH" and len(api.requests) == 0:
                found = api.objects[LWS]
                found["metadata"]["labels"] = {"team": "x"}
                found["metadata"]["annotations"][keys.RESTART_COUNTS] = '{"r/1":2}'
                api.put(LWS, found)

        api.before = other_writer
        await Counters(client, rng=random.Random(1)).raise_to(stale, KEY, revision="r", leader_uid="u", to=1)
        assert stored(api) == {"r/0": 1, "r/1": 2}
        assert api.objects[LWS]["metadata"]["labels"] == {"team": "x"}

    async def test_the_same_recreation_is_counted_once(self, api: Api, client: Client) -> None:
        """Behaviour 85: after a crash the same leader's recreation is neither written nor counted again; the next leader's is."""
        counters = Counters(client, rng=random.Random(1))
        first = await counters.raise_to(lws(api, '{"r/0":1}'), KEY, revision="r", leader_uid="u", to=2)
        writes = len(api.writes())
        again = await counters.raise_to(first, KEY, revision="r", leader_uid="u", to=3)
        assert (stored(api), len(api.writes())) == ({"r/0": 2}, writes)
        await counters.raise_to(again, KEY, revision="r", leader_uid="v", to=3)
        assert stored(api) == {"r/0": 3}

    async def test_clear_takes_both_annotations_away(self, api: Api, client: Client) -> None:
        """Spec 5.6.4: an empty map is no annotation."""
        counters = Counters(client, rng=random.Random(1))
        counted = await counters.raise_to(lws(api), KEY, revision="r", leader_uid="u", to=1)
        await counters.clear(counted, KEY, revision="r")
        assert keys.RESTART_COUNTS not in api.objects[LWS]["metadata"]["annotations"]
        assert COUNTED not in api.objects[LWS]["metadata"]["annotations"]

    async def test_corrupt_counts_are_left(self, api: Api, client: Client) -> None:
        """Behaviour 76."""
        with pytest.raises(CorruptCounts):
            await Counters(client, rng=random.Random(1)).raise_to(lws(api, "null"), KEY, revision="r", leader_uid="u", to=1)
        assert api.writes() == []

    async def test_too_many_writers(self, api: Api, client: Client) -> None:
        """Case C29: the pass is tried again later instead of never ending."""
        stale = lws(api)

        def other_writer(request: Request) -> None:
            if request.method == "PATCH":
                api.put(LWS, api.objects[LWS])

        api.before = other_writer
        with pytest.raises(Conflict):
            await Counters(client, rng=random.Random(1)).raise_to(stale, KEY, revision="r", leader_uid="u", to=1)


class TestPodWrites:
    """Spec 5.6, 8.4, case C121."""

    async def test_let_go_keeps_foreign_finalizers(self, api: Api, client: Client) -> None:
        put_pod(api, finalizers=["x.io/a", OURS, "foregroundDeletion"], annotations={keys.EXHAUSTED: "true", keys.SIZE: "2"})
        await podwrites.let_go(client, PodId("demo-0", "a"), namespace="t", drop=(keys.EXHAUSTED, keys.RECOVER))
        meta = api.objects[POD]["metadata"]
        assert (meta["finalizers"], meta["annotations"]) == (["x.io/a", "foregroundDeletion"], {keys.SIZE: "2"})

    async def test_a_finalizer_that_went_meanwhile_never_comes_back(self, api: Api, client: Client) -> None:
        """Case C121: its owner removes it between our read and our write."""
        put_pod(api, finalizers=["x.io/a", OURS])

        def owner(request: Request) -> None:
            if request.method == "PATCH" and len(api.requests) == 1:
                put_pod(api, finalizers=[OURS])

        api.before = owner
        await podwrites.let_go(client, PodId("demo-0", "a"), namespace="t")
        assert api.objects[POD]["metadata"]["finalizers"] == []

    async def test_another_pod_of_that_name_is_not_touched(self, api: Api, client: Client) -> None:
        """Case C36."""
        put_pod(api, uid="b", finalizers=[OURS])
        await podwrites.let_go(client, PodId("demo-0", "a"), namespace="t")
        assert await podwrites.annotate(client, PodId("demo-0", "a"), {"x": "y"}, namespace="t") is None
        assert api.objects[POD]["metadata"]["finalizers"] == [OURS]
        assert "x" not in api.objects[POD]["metadata"]["annotations"]

    async def test_retain_marks_and_drops_an_old_request(self, api: Api, client: Client) -> None:
        """Behaviours 86, 94: the request to recover from before exhaustion is removed with the same write; twice is once."""
        found = put_pod(api, finalizers=["x.io/a"], annotations={keys.RECOVER: "true", keys.SIZE: "2"})
        marks = {keys.EXHAUSTED: "true", keys.RECOVER: None}
        await podwrites.retain(client, found, annotations=marks)
        meta = api.objects[POD]["metadata"]
        assert (meta["finalizers"], meta["annotations"]) == (["x.io/a", OURS], {keys.EXHAUSTED: "true", keys.SIZE: "2"})
        await podwrites.retain(client, msgspec.convert(api.objects[POD], Pod), annotations=marks)
        assert len(api.writes()) == 1

    async def test_retain_reads_again_on_a_conflict(self, api: Api, client: Client) -> None:
        """C121: what the kubelet or a finalizer's owner wrote meanwhile is kept; a pod that is deleting by then is left."""
        stale = put_pod(api)
        put_pod(api, finalizers=["y.io/b"])
        await podwrites.retain(client, stale, annotations={})
        assert api.objects[POD]["metadata"]["finalizers"] == ["y.io/b", OURS]
        put_pod(api, deletionTimestamp="2026-08-01T12:00:00Z")
        await podwrites.retain(client, stale, annotations={})
        assert "finalizers" not in api.objects[POD]["metadata"]

    async def test_only_our_gate_is_lifted(self, api: Api, client: Client) -> None:
        """Spec 4.3: foreign gates stay; a leader that was replaced is another look's business."""
        body = {"metadata": {"name": "demo-0", "namespace": "t", "uid": "a"}}
        gated = msgspec.convert(
            api.put(POD, {**body, "spec": {"schedulingGates": [{"name": "x.io/other"}, {"name": keys.GATE}]}}), Pod
        )
        await podwrites.lift_gate(client, gated)
        assert api.objects[POD]["spec"]["schedulingGates"] == [{"name": "x.io/other"}]
        with pytest.raises(Overtaken):
            await podwrites.lift_gate(client, gated)
