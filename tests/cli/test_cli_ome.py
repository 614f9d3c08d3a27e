"""``kubectl ome``: what its tables and reports say (spec/omenative.md 7; behaviours 115, 116)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from regroup.cli.ome.instances import evidence_of, instance_lines, list_report, shortened
from regroup.cli.ome.reading import Service
from regroup.cli.ome.status import InstanceStatus, compact, status_report, wide
from regroup.omenative.api import replica as replicas
from regroup.omenative.api import types
from regroup.omenative.view import InstancePod
from regroup.wire.codec import decode, encode

NOW = "2026-08-01T12:00:00Z"
RESTARTING: dict[str, Any] = {
    "index": 0,
    "incarnation": 2,
    "phase": "Restarting",
    "runningRevision": "chat-engine-1a2b3c4d",
    "podCount": 1,
    "admitted": True,
    "operation": {
        "id": "restart-0-1785585600",
        "type": "Restart",
        "step": "Drain",
        "reason": "pod qwen3-engine-0-default-0 container ome-container restarted after Ready: OOMKilled (exit 137)",
        "startedAt": NOW,
        "deadline": "2026-08-01T12:30:00Z",
    },
    "lastFailure": {
        "podName": "qwen3-engine-0-default-0",
        "containerName": "ome-container",
        "reason": "OOMKilled",
        "exitCode": 137,
        "time": NOW,
    },
}


def service(*rows: dict[str, Any], generation: int = 1, observed: int = 1, parent: str = "1") -> Service:
    isvc = types.decode({"metadata": {"name": "qwen3", "namespace": "t", "generation": 1}, "spec": {"engine": {}}})
    replica = replicas.decode(
        {
            "metadata": {
                "name": "qwen3-engine",
                "namespace": "t",
                "generation": generation,
                "annotations": {"ome.io/parent-generation": parent},
            },
            "spec": {"component": "engine"},
            "status": {"observedGeneration": observed, "instanceStatuses": list(rows)},
        }
    )
    return Service(namespace="t", name="qwen3", service=isvc, replicas={"engine": replica})


def pod(**status: Any) -> InstancePod:
    body = {
        "metadata": {"name": "qwen3-engine-0-default-0", "uid": "u", "labels": {"ome.io/runner": "default"}},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "containerStatuses": [{"name": "ome-container", "restartCount": 3}], **status},
    }
    return decode(encode(body), InstancePod)


def test_an_instance_during_its_first_restart() -> None:
    """Behaviour 115: PHASE Restarting, IDX/INC 0/2; flags for admitted, operation and failure."""
    (line,) = instance_lines(service(RESTARTING))
    assert line.cells() == ("engine", "0/2", "Restarting", "0/0/1", "chat...3c4d", "AOF", "OK")


def test_a_healthy_instance() -> None:
    """7.1: the example line."""
    row = {"index": 0, "incarnation": 1, "phase": "Ready", "podCount": 1, "servingPodCount": 1, "availablePodCount": 1}
    (line,) = instance_lines(service({**row, "admitted": True, "runningRevision": "r"}))
    assert line.cells() == ("engine", "0/1", "Ready", "1/1/1", "r", "A--", "OK")


def test_a_row_that_moves_names_both_revisions() -> None:
    """7.1: REVS is ``running>target`` while they differ."""
    (line,) = instance_lines(service({"index": 0, "incarnation": 1, "runningRevision": "a", "targetRevision": "b"}))
    assert line.cells()[4] == "a>b"


@pytest.mark.parametrize(
    ("given", "evidence"),
    [
        ({}, "EMPTY"),
        ({"rows": [0, 2]}, "SPARSE"),
        ({"rows": [0], "generation": 3, "observed": 2}, "STALE:2/3"),
        ({"rows": [0], "observed": 0}, "NOT-OBSERVED"),
        ({"rows": [0], "parent": "0"}, "STALE:PARENT"),
        ({"rows": [0]}, "OK"),
    ],
)
def test_evidence_says_how_far_rows_can_be_trusted(given: dict[str, Any], evidence: str) -> None:
    """7.1: EVIDENCE."""
    rows = [{"index": index, "incarnation": 1} for index in given.pop("rows", [])]
    found = service(*rows, **given)
    assert evidence_of(found, found.replicas["engine"]) == evidence


def test_a_component_without_a_replica_is_a_line_of_dashes() -> None:
    """7.1: a component without rows has one row, with its evidence."""
    found = service()
    lines = instance_lines(Service(namespace="t", name="qwen3", service=found.service, replicas={"engine": None}))
    assert [line.cells() for line in lines] == [("engine", "-", "-", "-", "-", "-", "UNAVAILABLE")]


def test_long_names_lose_their_middle() -> None:
    """7.1: ``first4...last4``."""
    assert shortened("chat-completion-engine-e") == "chat...ne-e"
    assert shortened("short") == "short"


def test_the_status_of_an_instance_that_restarts() -> None:
    """Behaviour 116: the operation, the last failure and each pod's restarts."""
    found = service(RESTARTING)
    replica = found.replicas["engine"]
    assert replica is not None
    status = InstanceStatus(
        service=found, component="engine", index=0, replica=replica, row=replica.status.rows[0], pods=[pod()], events=[]
    )
    short = dict(compact(status))
    assert short["state"] == "Reported engine[0] evidence=Reported"
    assert short["instance"] == "qwen3-engine inc=2 phase=Restarting admitted=true"
    assert short["operation"].startswith("Restart/Drain id=restart-0-1785585600 reason=pod qwen3")
    assert short["failure"] == "qwen3-engine-0-default-0 container=ome-container reason=OOMKilled exit=137"
    assert "restarts=3" in short["pod"]
    long = dict(wide(status))
    assert (long["operation type"], long["operation step"], long["operation deadline"]) == (
        "Restart",
        "Drain",
        "2026-08-01T12:30:00Z",
    )
    assert (long["failure exit code"], long["failure time"], long["pod[0] restarts"]) == ("137", NOW, "3")


def test_reports_for_scripts() -> None:
    """7.1: kinds and version of the JSON and YAML reports."""
    found = service(RESTARTING)
    report = list_report(found, instance_lines(found))
    assert (report["apiVersion"], report["kind"]) == ("cli.ome.io/v1alpha1", "InstanceListReport")
    assert report["items"][0]["runningRevision"] == "chat-engine-1a2b3c4d"
    replica = found.replicas["engine"]
    assert replica is not None
    status = InstanceStatus(
        service=found, component="engine", index=0, replica=replica, row=replica.status.rows[0], pods=[pod()], events=[]
    )
    details = status_report(status)
    assert details["kind"] == "InstanceStatusReport"
    assert details["instance"]["operation"]["startedAt"] == datetime(2026, 8, 1, 12, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(("mode", "state"), [("OMENative", "NotProjected"), ("RawDeployment", "NotOMENative")])
def test_a_component_that_has_no_rows_says_why(mode: str, state: str) -> None:
    """7.2: ``state``."""
    isvc = types.decode({"metadata": {"name": "q", "namespace": "t"}, "spec": {"deploymentMode": mode, "engine": {}}})
    found = Service(namespace="t", name="q", service=isvc, replicas={"engine": None})
    status = InstanceStatus(service=found, component="engine", index=0, replica=None, row=None, pods=[], events=[])
    assert status.state == state
    assert dict(compact(status))["issue"]
