"""Restart backoff and the API, told with kubectl: [seed] behaviours 8, 120, 123, 125-128, 135; and 21, columns, our commands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stories.lws.story_cluster import Kubectl, P, group, lws

pytestmark = [pytest.mark.http, pytest.mark.kubectl]


def test_a_young_group_waits(k: Kubectl) -> None:
    """Behaviours 8, 120, 126, 127, 128, 135: a worker that is deleted too early after the start of its group is answered later:
    told with delay and count, the leader stays, the worker is replaced meanwhile, and then the whole group is new and counted
    once, in the counter that the budget shares."""
    k.apply(lws(template={"restartBackoff": {"baseSeconds": 200}, "maxGroupRestarts": 2}))
    assert k.lws()["spec"]["leaderWorkerTemplate"]["restartBackoff"] == {"baseSeconds": 200, "capSeconds": 300}
    old = k.ready()
    k("delete", "pod", "demo-0-1", "--wait=false")
    (event,) = k.until(lambda: k.events("GroupRestartBackoff"), what="the wait is told")
    assert "restart count 0" in event["message"]
    k.until(lambda: k.uids().get("demo-0-1") not in {None, old["demo-0-1"]}, what="the worker is replaced")
    assert k.uids()["demo-0"] == old["demo-0"], "the leader stays"
    assert k.counts() == {}
    k.recreated({**old, **k.uids()}, group())
    assert k.counts() == {"0": 1}


def test_an_old_group_does_not_wait(k: Kubectl) -> None:
    """Behaviours 123, 125: the wait is measured from the leader's creation and never longer than the cap: a group that has run
    for longer is recreated at once, whatever its count."""
    k.apply(lws(template={"restartBackoff": {"baseSeconds": 20, "capSeconds": 20}}))
    old = k.ready()
    _count(k, 35)
    k.lets_pass(40)
    k.crash("demo-0-1")
    k.recreated(old, group())
    assert k.events("GroupRestartBackoff") == []
    assert k.counts() == {"0": 36}


def test_the_longest_delay(k: Kubectl) -> None:
    """Behaviours 8, 123: the delays are 10 and 300 where nothing else is said, and 300 is the longest, whatever the count."""
    k.apply(lws(template={"restartBackoff": {}}))
    assert k.lws()["spec"]["leaderWorkerTemplate"]["restartBackoff"] == {"baseSeconds": 10, "capSeconds": 300}
    uids = k.ready()
    _count(k, 35)
    k.crash("demo-0-1")
    (event,) = k.until(lambda: k.events("GroupRestartBackoff"), what="the wait is told")
    found = re.search(r"recreated in (\d+) s \(restart count 35\)", event["message"])
    assert found is not None, event["message"]
    assert 100 < int(found[1]) <= 300
    assert k.uids() == uids


def _count(k: Kubectl, count: int) -> None:
    """Pretend that group 0 was recreated so often."""
    label = f"{P}template-revision-hash".replace(".", "\\.")
    revision = k("get", "pod", "demo-0", "-o", f"jsonpath={{.metadata.labels.{label}}}")
    k("annotate", "lws", "demo", f"{P}group-restart-counts=" + json.dumps({f"{revision}/0": count}))


def test_columns_scale_and_what_we_say_about_it(k: Kubectl, story_kubeconfig: Path, tmp_path: Path) -> None:
    """Behaviour 21, 2.1, issue 5 point 4: `kubectl get lws`, `kubectl scale`, the selector for autoscalers, `kubectl describe`,
    `regroup explain` and `regroup history` with its picture."""
    k.apply(lws(replicas=1))
    old = k.ready()
    table = k("get", "lws").splitlines()
    assert table[0].split() == ["NAME", "READY", "DESIRED", "UP-TO-DATE", "AGE"]
    assert table[1].split()[:4] == ["demo", "1", "1", "1"]
    k("scale", "lws/demo", "--replicas=2")
    k.ready()
    scale = json.loads(
        k("get", "--raw", f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{k.namespace}/leaderworkersets/demo/scale")
    )
    selected = k("get", "pods", "-l", scale["status"]["selector"], "-o", "jsonpath={.items[*].metadata.name}").split()
    assert sorted(selected) == ["demo-0", "demo-1"]
    k.crash("demo-0-1", code=42)
    k.recreated(old, group())
    k.ready()
    assert "RecreateGroup" in k("describe", "lws", "demo")

    def regroup(*arguments: str) -> str:
        env = {**os.environ, "KUBECONFIG": str(story_kubeconfig)}
        command = [sys.executable, "-m", "regroup.cli", *arguments, "-n", k.namespace]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    explained = json.loads(regroup("explain", "lws/demo", "-o", "json"))
    assert [(one["group"], one["state"]) for one in explained["groups"]] == [("0", "Running"), ("1", "Running")]
    assert explained["groups"][0]["last_failure"]["exitCode"] == 42
    picture = tmp_path / "timeline.svg"
    told = json.loads(regroup("history", "lws/demo", "-o", "json", "--plot", str(picture)))
    assert [(one["what"], one["pod"], one["exitCode"]) for one in told["entries"]] == [("recreated", "demo-0-1", 42)]
    assert picture.read_text().startswith("<svg")
