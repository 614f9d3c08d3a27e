"""What an API server takes and what it refuses, in the words that a user reads: spec/leaderworkerset.md 2, case C110."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.planes.plane import NAMESPACE, Plane, lws_manifest

from regroup.kube.resources import PODS, SERVICES
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.wire.errors import Invalid

HASH: dict[str, Any] = {"groupIdentity": "Hash"}
OURS = 'admission webhook "validate.leaderworkerset.regroup.dev" denied the request: '
GROUP = "spec.leaderWorkerTemplate"
ROLLOUT = "spec.rolloutStrategy.rollingUpdateConfiguration"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
NO_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character (e.g. 'my-name', or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
MAX = 63
"""Characters of a DNS label and of a label's value."""


def rolling(**limits: Any) -> dict[str, Any]:
    return {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": limits}}


async def refusal(plane: Plane, body: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Why the object is not taken, without the head that names it, and the paths of its causes."""
    with pytest.raises(Invalid) as refused:
        await plane.client.create(LEADERWORKERSETS, body, namespace=NAMESPACE)
    head = f'LeaderWorkerSet.leaderworkerset.x-k8s.io "{body["metadata"]["name"]}" is invalid: '
    before, found, why = refused.value.message.partition(head)
    assert found, refused.value.message
    return before + why, [cause["field"] for cause in refused.value.causes]


async def test_what_is_refused_and_why(plane: Plane) -> None:
    """Behaviours 11, 14, 15, 17, 19, 20: the whole sentence, whether the schema or our webhook says it, and the path."""
    body = "in body should be"
    rows: list[tuple[dict[str, Any], str, str]] = [
        (
            lws_manifest(template={"restartBackoff": {"baseSeconds": 0}}),
            f"{GROUP}.restartBackoff.baseSeconds",
            f"Invalid value: 0: {GROUP}.restartBackoff.baseSeconds {body} greater than or equal to 1",
        ),
        (
            lws_manifest(template={"restartBackoff": {"capSeconds": -1}}),
            f"{GROUP}.restartBackoff.capSeconds",
            f"Invalid value: -1: {GROUP}.restartBackoff.capSeconds {body} greater than or equal to 1",
        ),
        (
            lws_manifest(groupReplacementPolicy="Immediate"),
            "spec.groupReplacementPolicy",
            'Invalid value: "Immediate": Immediate may only be set when groupIdentity is Hash',
        ),
        (
            lws_manifest(template={"volumeClaimTemplates": [CLAIM]}, **HASH),
            f"{GROUP}.volumeClaimTemplates",
            "Forbidden: may not be set when groupIdentity is Hash",
        ),
        (
            lws_manifest(**HASH, **rolling(partition=1)),
            f"{ROLLOUT}.partition",
            "Invalid value: 1: must be 0 when groupIdentity is Hash",
        ),
        (
            lws_manifest(replicas=2, **rolling(maxSurge=0, maxUnavailable=0)),
            f"{ROLLOUT}.maxUnavailable",
            "Invalid value: 0: must not be 0 of 2 replicas when maxSurge is 0, because the rollout could never begin",
        ),
        (
            lws_manifest(replicas=1_000_001),
            "spec.replicas",
            f"Invalid value: 1000001: spec.replicas {body} less than or equal to 1000000",
        ),
        (
            lws_manifest("n" * 44, size=2, **HASH),
            "metadata.name",
            (
                f'Invalid value: "{"n" * 44}": must be no more than 43 characters, because host names and labels of its pods add '
                "to it and must fit in 63"
            ),
        ),
    ]
    async with plane:
        for manifest, path, why in rows:
            said, paths = await refusal(plane, manifest)
            by_schema = body in why
            assert said == f"{'' if by_schema else OURS}{path}: {why}"
            assert paths == [path]
        assert (await plane.client.list_all(LEADERWORKERSETS, namespace=NAMESPACE)).items == []


async def test_what_is_taken(plane: Plane) -> None:
    """Behaviours 5, 8, 12, 17, 20: stored as it was written, with the defaults of what it leaves open, and it works."""
    longest = "n" * 43
    async with plane:
        await plane.apply(
            lws_manifest("never", policy="RecreateGroupAfterStart", size=1, template={"maxGroupRestarts": 0}),
            lws_manifest("paced", size=1, template={"restartBackoff": {}}),
            lws_manifest("hashed", size=1, template={"maxGroupRestarts": 3}, **HASH),
            lws_manifest("none", replicas=0, **rolling(maxSurge=0, maxUnavailable=0)),
            lws_manifest(longest, size=2, **HASH),
        )
        never, paced, hashed = [(await _stored(plane, name)) for name in ("never", "paced", "hashed")]
        assert (never["restartPolicy"], never["maxGroupRestarts"]) == ("RecreateGroupAfterStart", 0)
        assert paced["restartBackoff"] == {"baseSeconds": 10, "capSeconds": 300}
        assert hashed["maxGroupRestarts"] == 3
        for name in ("never", "paced", "hashed", "none", longest):
            await plane.wait_available(name)
        assert len(await plane.pods(longest)) == 2


async def _stored(plane: Plane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, name, namespace=NAMESPACE)
    template: dict[str, Any] = found["spec"]["leaderWorkerTemplate"]
    return template


async def test_the_termination_policy_stays(plane: Plane) -> None:
    """Behaviour 16: by a patch and by an apply; what is stored is as before."""
    async with plane:
        await plane.apply(lws_manifest(replicas=0))
        parallel = lws_manifest(replicas=0, podTerminationPolicy="Parallel")
        for change in (plane.patch_lws("demo", {"podTerminationPolicy": "Parallel"}), plane.apply(parallel)):
            with pytest.raises(Invalid) as refused:
                await change
            assert refused.value.message == (
                f'{OURS}LeaderWorkerSet.leaderworkerset.x-k8s.io "demo" is invalid: spec.podTerminationPolicy: Invalid value: '
                '"Parallel": field is immutable'
            )
        raw: dict[str, Any] = await plane.client.get(LEADERWORKERSETS, "demo", namespace=NAMESPACE)
        assert raw["spec"]["podTerminationPolicy"] == "Default"


async def test_names_are_refused_or_work(plane: Plane) -> None:
    """Case C110: what could not become a label or a host name is refused at once; the longest names work in full, do not get in
    each other's way, and mean the same pods to the next operator."""
    one, two = "n" * 49 + "a", "n" * 49 + "b"
    why = "group index and revision hash are added to it in labels of its pods"
    async with plane:
        for name in ("a.b", "1abc"):
            said, paths = await refusal(plane, lws_manifest(name))
            assert (said, paths) == (f'{OURS}metadata.name: Invalid value: "{name}": {NO_LABEL}', ["metadata.name"])
        said, paths = await refusal(plane, lws_manifest("UPPER"))
        assert said.startswith('metadata.name: Invalid value: "UPPER": a lowercase RFC 1123 subdomain must consist of')
        assert paths == ["metadata.name"]
        for length, replicas, longest in ((63, 1, 50), (58, 1000, 48), (51, 2, 50), (49, 1000, 48)):
            said, _ = await refusal(plane, lws_manifest("n" * length, replicas=replicas, size=100))
            invalid = f'{OURS}metadata.name: Invalid value: "{"n" * length}": '
            assert said == f"{invalid}must be no more than {longest} characters, because {why}"
        most = lws_manifest("n" * 48, replicas=1000, size=100)
        await plane.client.create(LEADERWORKERSETS, most, namespace=NAMESPACE, dry_run=True)

        await plane.apply(
            lws_manifest(one, replicas=2, size=2),
            lws_manifest(two, replicas=2, size=2, networkConfig={"subdomainPolicy": "UniquePerReplica"}),
        )
        before = [await plane.wait_available(name) for name in (one, two)]
        for name in (one, two):
            assert len(await plane.pods(name)) == 4
            for pod in await plane.pods(name):
                await _resolves(plane, name, pod)
        await plane.stop_operator()
        await plane.start_operator()
        await plane.sleep(20)
        assert [await plane.wait_available(name) for name in (one, two)] == before


async def _resolves(plane: Plane, name: str, pod: str) -> None:
    """The leader's address that a pod is given leads to its leader: host name, headless Service and namespace, all DNS labels."""
    raw: dict[str, Any] = await plane.client.get(PODS, pod, namespace=NAMESPACE)
    assert all(len(value) <= MAX for value in raw["metadata"]["labels"].values())
    address = next(one["value"] for one in raw["spec"]["containers"][0]["env"] if one["name"] == "LWS_LEADER_ADDRESS")
    host, service, namespace = address.split(".")
    assert max(len(host), len(service)) <= MAX
    assert namespace == NAMESPACE
    leader: dict[str, Any] = await plane.client.get(PODS, host, namespace=NAMESPACE)
    assert pod.startswith(host)
    assert leader["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    assert (leader["spec"]["hostname"], leader["spec"]["subdomain"]) == (host, service)
    headless: dict[str, Any] = await plane.client.get(SERVICES, service, namespace=NAMESPACE)
    assert headless["spec"]["clusterIP"] == "None"
    selector = headless["spec"]["selector"]
    assert selector.items() <= leader["metadata"]["labels"].items()
    assert selector["leaderworkerset.sigs.k8s.io/name"] == name
