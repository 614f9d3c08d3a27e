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
from tests.stories.lws.story_cluster import LIMIT, sandbox
from tests.stories.ome.ome_cluster import RECREATE, OmeKubectl, gang, runtime, service

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


def test_repairs_come_in_batches(k: OmeKubectl) -> None:
    """Behaviours 40, 49, 50, 54: 25 Instances are wedged: 10, 10, 5 open, and none waits for one that runs; no RepairHeld."""
    aged(k, 25)
    k.freezes()
    k.wedge(selector=ENGINE)
    assert {row["incarnation"] for row in k.rows().values()} == {1}
    with k.watching() as states:
        k.resumes()
        k.until(lambda: 25 in restarting(states()), what="all restart")
        assert restarting(states())[:4] == [0, 10, 20, 25]
    k.settled(25)
    assert {row["incarnation"] for row in k.rows().values()} == {2}
    said = k.notes("RestartTriggered")
    assert len(said) == 25, said
    assert all("wedged in ErrImagePull past" in one or "wedged in ImagePullBackOff past" in one for one in said)
    assert k.notes("RepairHeld") == []


def test_a_batch_counts_gangs(k: OmeKubectl) -> None:
    """Behaviours 51, 64: 12 gangs whose leaders serve and whose workers are wedged, without maxUnavailable: 10 open first."""
    k.apply(gang(k.namespace, workers=1), service("None", instances=12, annotations=SLOW))
    k.settled(12)
    k.lets_pass(GRACE + 5)
    k.freezes()
    k.wedge(selector="ome.io/runner=worker")
    with k.watching() as states:
        k.resumes()
        k.until(lambda: 12 in restarting(states()), what="all restart")
        assert restarting(states())[:3] == [0, 10, 12]


def test_policy_restarts_do_not_count(k: OmeKubectl) -> None:
    """Behaviour 53: 11 wedged and 3 crashed in one pass: 10 repairs and 3 restarts of the policy open."""
    k.apply(runtime(k.namespace), service(RECREATE, instances=14, annotations=SLOW))
    k.settled(14)
    k.lets_pass(GRACE + 5)
    k.freezes()
    crashed = [f"svc-engine-{index}-default-0" for index in (0, 5, 13)]
    k.end_container(*crashed)
    k.until(lambda: all(k.restarts(pod) for pod in crashed), what="their kubelets restart them")
    k.wedge(*(f"svc-engine-{index}-default-0" for index in range(14) if index not in (0, 5, 13)))
    with k.watching() as states:
        k.resumes()
        k.until(lambda: 14 in restarting(states()), what="all restart")
        assert restarting(states())[:3] == [0, 13, 14]


def test_replacing_pods_does_not_count(k: OmeKubectl) -> None:
    """Behaviour 55: 11 wedged and 2 deleted under None: 10 repairs open, and both pods are made anew in the same pass."""
    aged(k, 13)
    k.freezes()
    k("delete", "pod", "svc-engine-3-default-0", "svc-engine-7-default-0")
    k.wedge(selector=ENGINE)
    with k.watching() as states:
        k.resumes()
        k.until(lambda: any("Restarting" in line for line in states()), what="repairs open")
        first = next(line for line in states() if "Restarting" in line)
        assert (first.count("Restarting"), first[3], first[7]) == (10, "Creating", "Creating")
    k.settled(13)
    assert [k.rows()[index]["incarnation"] for index in (3, 7)] == [1, 1]


def test_each_component_has_its_own_batch(k: OmeKubectl) -> None:
    """Behaviour 56: engine and decoder, 11 wedged each: each opens 10 first."""
    part = {"minReplicas": 11, "maxReplicas": 11, "lifecycle": {"restartPolicy": "None"}, "annotations": SLOW}
    aged(k, 11, decoder=part)
    k.settled(11, name="svc-decoder")
    k.freezes(("engine", "decoder"))
    k.wedge(selector="ome.io/inferenceservice=svc")
    with k.watching("svc-engine") as engine, k.watching("svc-decoder") as decoder:
        k.resumes()
        k.until(lambda: 11 in restarting(engine()) and 11 in restarting(decoder()), what="all restart")
        for states in (engine, decoder):
            assert restarting(states())[:3] == [0, 10, 11]


def test_one_repair_of_a_serving_gang_at_a_time(k: OmeKubectl) -> None:
    """Behaviours 59, 60, 67, 68: at maxUnavailable 1 the gangs whose leaders serve are rebuilt one after the other."""
    rolling = {"updateStrategy": {"type": "SurgeThenDrain", "rollingUpdate": {"maxUnavailable": 1}}}
    parts = {"leader": {}, "worker": {"size": 1}}
    k.apply(gang(k.namespace, workers=1), service("None", instances=3, lifecycle=rolling, engine=parts))
    k.settled(3)
    k.lets_pass(GRACE + 5)
    k.freezes()
    k.wedge(selector="ome.io/runner=worker")
    with k.watching() as states:
        k.resumes()
        k.until(lambda: all(row["incarnation"] == 2 for row in k.rows().values()), what="all are rebuilt")
        k.settled(3)
        assert set(restarting(states())) == {0, 1}
    # Held while one ran, each once at most; the first was held by nobody.
    held = k.notes("RepairHeld")
    assert all("budget 1 exhausted (would become 2)" in one for one in held)
    assert not any("instance=0 " in one for one in held)
    assert len(held) == len(set(held))


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


def test_the_batch_is_read_at_the_start(tmp_path: Path) -> None:
    """Behaviours 52, 58: taken from the ConfigMap while the operator runs, the batch stays 10; after a restart there is none."""
    data = str(tmp_path / "data")
    for life, first in ((1, 10), (2, 12)):
        with sandbox(tmp_path, "--data-dir", data) as file:
            k = OmeKubectl(file, namespace=f"life-{life}")
            wanted = lifecycle(k)
            if life == 1:
                del wanted["repairBatchSize"]
                set_lifecycle(k, wanted)
            assert "repairBatchSize" not in lifecycle(k)
            aged(k, 12)
            k.freezes()
            k.wedge(selector=ENGINE)
            with k.watching() as states:
                k.resumes()
                k.until(lambda states=states: 12 in restarting(states()), what="all restart")  # type: ignore[misc]  # bound now
                assert restarting(states())[1] == first
            k.refuse_images(None)


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
