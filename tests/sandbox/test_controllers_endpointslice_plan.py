"""Which EndpointSlices a Service gets."""

from typing import Any

import msgspec
import pytest

from regroup.sandbox.controllers.slices import (
    MAX_ENDPOINTS,
    EndpointSlice,
    Service,
    SliceChanges,
    reconcile,
)
from regroup.sandbox.controllers.views import Pod


def service(**spec: Any) -> Service:
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "svc", "labels": {"own": "label"}},
        "spec": {"clusterIP": "None", "selector": {"app": "web"}, **spec},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Service)


def pod(
    name: str,
    *,
    ip: str = "10.0.0.1",
    ready: bool = True,
    deleting: bool = False,
    phase: str = "Running",
    hostname: str = "",
    subdomain: str = "",
    ports: list[dict[str, Any]] | None = None,
) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"{name}-uid"}
    if deleting:
        metadata["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    body = {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "hostname": hostname, "subdomain": subdomain, "containers": [{"ports": ports}]},
        "status": {"phase": phase, "podIP": ip, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Pod)


def stored(body: dict[str, Any], name: str) -> EndpointSlice:
    """A slice as the server would keep what was created."""
    metadata = {**body["metadata"], "name": name, "uid": name, "resourceVersion": "1"}
    return msgspec.json.decode(msgspec.json.encode({**body, "metadata": metadata}), type=EndpointSlice)


def settle(svc: Service, pods: list[Pod]) -> tuple[EndpointSlice, ...]:
    made = reconcile(svc, pods, (), zones={"n1": ""})
    return tuple(stored(body, f"web-{number}") for number, body in enumerate(made.create))


def test_a_headless_service_without_pods_has_one_empty_slice() -> None:
    """The placeholder says: looked at, nobody there."""
    (made,) = reconcile(service(), [], (), zones={"n1": ""}).create
    assert made["endpoints"] == []
    assert made["ports"] == []
    assert made["metadata"]["generateName"] == "web-"
    assert made["metadata"]["labels"] == {
        "own": "label",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "service.kubernetes.io/headless": "",
    }
    assert made["metadata"]["ownerReferences"][0]["uid"] == "svc"


def test_an_endpoint_tells_address_node_zone_target_and_host_name() -> None:
    """The host name is only told for a pod whose subdomain is the Service."""
    pods = [pod("a", hostname="a", subdomain="web"), pod("b", ip="10.0.0.2", hostname="b", subdomain="else")]
    (made,) = reconcile(service(), pods, (), zones={"n1": "z1"}).create
    assert made["addressType"] == "IPv4"
    assert made["endpoints"][0] == {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "hostname": "a",
        "nodeName": "n1",
        "zone": "z1",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "a-uid"},
    }
    assert "hostname" not in made["endpoints"][1]


@pytest.mark.parametrize(
    ("ready", "deleting", "publish", "wanted"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (False, False, True, (True, False, False)),
        (True, True, False, (False, True, True)),
        (True, True, True, (True, True, True)),
        (False, True, False, (False, False, True)),
    ],
)
def test_conditions_of_an_endpoint(ready: bool, deleting: bool, publish: bool, wanted: tuple[bool, bool, bool]) -> None:
    """ready, serving and terminating; publishNotReadyAddresses makes everything ready."""
    svc = service(publishNotReadyAddresses=publish)
    (made,) = reconcile(svc, [pod("a", ready=ready, deleting=deleting)], (), zones={"n1": ""}).create
    conditions = made["endpoints"][0]["conditions"]
    assert (conditions["ready"], conditions["serving"], conditions["terminating"]) == wanted


@pytest.mark.parametrize(
    "gone",
    [pod("a", ip=""), pod("a", phase="Failed"), pod("a", phase="Succeeded"), pod("a", ip="fd00::1")],
    ids=["no address", "failed", "succeeded", "another family"],
)
def test_a_pod_without_a_usable_address_is_no_endpoint(gone: Pod) -> None:
    """No address yet, ended, or of the other address family."""
    (made,) = reconcile(service(), [gone], (), zones={"n1": ""}).create
    assert made["endpoints"] == []


def test_nothing_is_written_when_nothing_changed() -> None:
    """A settled Service costs no write."""
    pods = [pod("a"), pod("b", ip="10.0.0.2")]
    assert reconcile(service(), pods, settle(service(), pods), zones={"n1": ""}) == SliceChanges()


def test_a_change_of_one_pod_updates_its_slice_only() -> None:
    """Endpoints stay in their slices; a new pod goes where there is room; the version read is the one replaced."""
    pods = [pod(f"p{number:03}", ip=f"10.0.1.{number}") for number in range(MAX_ENDPOINTS + 5)]
    slices = settle(service(), pods)
    assert [len(entry.endpoints) for entry in slices] == [100, 5]
    pods[2] = pod("p002", ip="10.0.1.2", ready=False)
    changes = reconcile(service(), pods, slices, zones={"n1": ""})
    assert [source.metadata.name for source, _ in changes.update] == ["web-0"]
    assert changes.update[0][1]["metadata"]["resourceVersion"] == "1"
    assert (changes.create, changes.delete) == ((), ())
    changes = reconcile(service(), [*pods[:2], *pods[3:], pod("x"), pod("y")], slices, zones={"n1": ""})
    assert [(source.metadata.name, len(body["endpoints"])) for source, body in changes.update] == [("web-0", 100), ("web-1", 6)]


def test_slices_that_ran_empty_are_deleted_but_for_the_last() -> None:
    """The last one stays as the placeholder."""
    pods = [pod(f"p{number:03}", ip=f"10.0.1.{number}") for number in range(MAX_ENDPOINTS + 5)]
    slices = settle(service(), pods)
    changes = reconcile(service(), pods[:10], slices, zones={"n1": ""})
    assert [entry.metadata.name for entry in changes.delete] == ["web-1"]
    changes = reconcile(service(), [], slices, zones={"n1": ""})
    assert [entry.metadata.name for entry in changes.delete] == ["web-1"]
    assert [body["endpoints"] for _, body in changes.update] == [[]]


def test_named_target_ports_divide_the_pods() -> None:
    """Pods that serve a named port under different numbers cannot share a slice; one that lacks it has no port."""
    svc = service(clusterIP="10.96.0.1", ports=[{"name": "http", "port": 80, "targetPort": "web"}])
    pods = [
        pod("a", ip="10.0.0.1", ports=[{"name": "web", "containerPort": 8080}]),
        pod("b", ip="10.0.0.2", ports=[{"name": "web", "containerPort": 9090}]),
        pod("c", ip="10.0.0.3"),
    ]
    made = reconcile(svc, pods, (), zones={"n1": ""}).create
    assert [[port["port"] for port in body["ports"]] for body in made] == [[8080], [9090], []]
    assert "service.kubernetes.io/headless" not in made[0]["metadata"]["labels"]


def test_a_replaced_pod_of_the_same_name_is_another_endpoint() -> None:
    """Endpoints are told apart by the UID of their pod."""
    slices = settle(service(), [pod("a")])
    meta = {"name": "a", "namespace": "default", "uid": "new"}
    body = msgspec.json.encode({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"podIP": "10.0.0.9"}})
    changes = reconcile(service(), [msgspec.json.decode(body, type=Pod)], slices, zones={"n1": ""})
    assert changes.update[0][1]["endpoints"][0]["targetRef"]["uid"] == "new"


@pytest.mark.parametrize(("publish", "count"), [(False, 0), (True, 1)])
def test_a_pod_on_a_node_that_is_gone_is_no_endpoint(publish: bool, count: int) -> None:
    """As Kubernetes does (differential life ``endpoints``): unless the Service publishes whatever is not ready."""
    svc = service(publishNotReadyAddresses=publish)
    (made,) = reconcile(svc, [pod("a")], (), zones={"other": ""}).create
    assert len(made["endpoints"]) == count
