"""How many repairs open at once, and the settings of the cluster, told with kubectl: [seed] behaviours of spec/omenative.md 8.

A freeze gathers what is wedged; the chart's batch is 10. What the operator writes is seen by `kubectl get -w`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stories.lws.story_cluster import LIMIT
from tests.stories.ome.ome_cluster import OmeKubectl, gang, runtime, service

pytestmark = [pytest.mark.http, pytest.mark.kubectl]

SETTLED = 3
GRACE = 60
ENGINE = "component=engine"
SLOW = {"sandbox.regroup.dev/ready-delay": "60s"}
"""So long that no restart is over while others are still to open."""


@pytest.fixture(autouse=True)
def images_again(k: OmeKubectl) -> Iterator[None]:
    """What a story refuses, the next one may need."""
    yield
    k.refuse_images(None)


def restarting(lines: list[list[str]]) -> list[int]:
    """How many Instances restart, in each state that differs from the one before."""
    counts = [line.count("Restarting") for line in lines]
    return [count for place, count in enumerate(counts) if place == 0 or counts[place - 1] != count]


def aged(k: OmeKubectl, count: int, **arguments: Any) -> None:
    """A service whose pods are older than the grace."""
    k.apply(runtime(k.namespace), service("None", instances=count, annotations=SLOW, **arguments))
    k.settled(count)
    k.lets_pass(GRACE + 5)


def test_an_update_that_takes_pods_offline_holds_a_repair(k: OmeKubectl) -> None:
    """Behaviour 62: a gang is being recreated for an update that gets no image; a serving gang's repair waits, told once."""
    rolling = {"updateStrategy": {"type": "RecreatePod", "rollingUpdate": {"maxUnavailable": 1, "partition": 1}}}
    part = {"runner": {"name": "ome-container", "image": f"absent-{k.namespace}:2"}}
    parts: dict[str, Any] = {"leader": {}, "worker": {"size": 1}}
    k.apply(gang(k.namespace, workers=1), service("None", instances=2, lifecycle=rolling, engine=parts))
    k.settled(2)
    k.lets_pass(GRACE + 5)
    k.refuse_images(f"absent-{k.namespace}")
    parts = {"leader": part, "worker": {"size": 1, **part}}
    k.apply(service("None", instances=2, lifecycle=rolling, engine=parts))
    k.phase("Updating", index=1)
    k.wedge("svc-engine-0-worker-0")
    [said] = k.until(lambda: k.notes("RepairHeld"), what="the repair is held")
    assert said == (
        "OMENative component=engine instance=0 crash-loop repair held by Budget: per-Component unavailability budget 1 exhausted "
        "(would become 2)"
    )
    k.lets_pass(200)
    assert len(k.notes("RepairHeld")) == 1
    assert (k.rows()[0]["phase"], k.rows()[0]["incarnation"]) == ("Ready", 1)


def test_the_grace_is_read_while_the_operator_runs(k: OmeKubectl) -> None:
    """Behaviours 42, 48: without a grace nothing is repaired; 10 minutes are 10 minutes; a minute is in force at once."""
    chart = lifecycle(k)
    k.apply(runtime(k.namespace), service("None"))
    k.settled()
    try:
        set_lifecycle(k, {name: value for name, value in chart.items() if name != "stuckPodGracePeriod"})
        k.wedge("svc-engine-0-default-0")
        k.lets_pass(200)
        assert k.rows()[0]["incarnation"] == 1
        set_lifecycle(k, {**chart, "stuckPodGracePeriod": "10m"})
        k.lets_pass(60)
        assert (k.rows()[0]["phase"], k.rows()[0]["incarnation"]) == ("Ready", 1)
        set_lifecycle(k, {**chart, "stuckPodGracePeriod": "60s"})
        k.settled(incarnation=2)
    finally:
        set_lifecycle(k, chart)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"repairBatchSize": 0}', "invalid lifecycle.repairBatchSize: must be > 0, got 0"),
        ('{"repairBatchSize": -3}', "invalid lifecycle.repairBatchSize: must be > 0, got -3"),
        ('{"stuckPodGracePeriod": 60}', "unable to parse lifecycle config json"),
        ("{", "unable to parse lifecycle config json"),
    ],
)
def test_settings_that_stop_the_start(k: OmeKubectl, ome_kubeconfig: Path, text: str, words: str) -> None:
    """Behaviours 57, 127: `regroup run` ends with an error that names the field."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inferenceservice-config"}, "data": {"lifecycle": text}}
    k.apply(body)
    command = [sys.executable, "-m", "regroup.cli", "run", "--kubeconfig", str(ome_kubeconfig), "--no-webhooks"]
    command += ["--no-leader-elect", "--metrics-port", "0", "--config-namespace", k.namespace, "--namespaces", k.namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, env=os.environ)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert words in said
    assert "Traceback" not in said


def lifecycle(k: OmeKubectl) -> dict[str, Any]:
    """The cluster's ``lifecycle`` settings."""
    found = k.without_namespace("get", "configmap", "-n", "ome", "inferenceservice-config", "-o", "jsonpath={.data.lifecycle}")
    settings: dict[str, Any] = json.loads(found)
    return settings


def set_lifecycle(k: OmeKubectl, settings: dict[str, Any]) -> None:
    """What a person does with `kubectl edit`."""
    patch = json.dumps({"data": {"lifecycle": json.dumps(settings)}})
    k.without_namespace("patch", "configmap", "-n", "ome", "inferenceservice-config", "--type=merge", "-p", patch)
