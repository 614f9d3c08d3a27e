"""Pods to run through the kubelet's machine in tests."""

from typing import Any

import msgspec

from regroup.sandbox.kubelet.machine import Images, PodRun, Stage, advance, new_run, stop, strike
from regroup.sandbox.kubelet.options import Fault, KubeletOptions, PodPlan, plan
from regroup.sandbox.kubelet.views import KubeletPod

OPTIONS = KubeletOptions(pull_time=2, init_time=3, start_delay=1, ready_delay=4, stop_delay=5)
START = 1_000_000.0


def make_pod(
    *,
    containers: tuple[str | dict[str, Any], ...] = ("main",),
    init: tuple[dict[str, Any], ...] = (),
    policy: str = "Always",
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
) -> KubeletPod:
    body = {
        "metadata": {
            "name": "p",
            "namespace": "d",
            "uid": "u1",
            "annotations": {f"sandbox.regroup.dev/{key}": value for key, value in (annotations or {}).items()},
        },
        "spec": {
            "restartPolicy": policy,
            "containers": [_container(entry) for entry in containers],
            "initContainers": [_container(entry) for entry in init],
            **(spec or {}),
        },
    }
    return msgspec.convert(body, KubeletPod)


def _container(entry: str | dict[str, Any]) -> dict[str, Any]:
    fields = {"name": entry} if isinstance(entry, str) else entry
    return {"image": f"img/{fields['name']}", **fields}


class Pod:
    """A pod and its run, advanced in seconds since its start."""

    def __init__(self, pod: KubeletPod, *, options: KubeletOptions = OPTIONS, images: Images | None = None) -> None:
        self.body = pod
        self.options = options
        self.plan: PodPlan = plan(pod, options)
        self.images = images or Images()
        self.run: PodRun = new_run("u1", self.plan, now=START, ip="10.0.0.1")

    def at(self, seconds: float) -> PodRun:
        self.run = advance(self.run, self.plan, self.options, now=START + seconds, images=self.images)
        return self.run

    def stages(self, seconds: float) -> list[Stage]:
        return [entry.stage for entry in self.at(seconds).containers]

    def strike(self, seconds: float, fault: Fault) -> PodRun:
        self.at(seconds)
        self.run = strike(self.run, self.plan, self.options, fault, now=START + seconds)
        return self.at(seconds)

    def stop(self, seconds: float, grace: float) -> PodRun:
        self.at(seconds)
        self.run = stop(self.run, self.plan, self.options, now=START + seconds, grace=grace)
        return self.at(seconds)
