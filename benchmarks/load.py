"""The load that benchmarks are measured with: pods as a real cluster has them, and an API server in memory that serves them.

A pod is a little over 8 KB of JSON, most of it what no controller reads: managed fields, environment, volumes, image digests.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from regroup.kube.pod import Pod
from regroup.runtime.reflector import PAGE
from regroup.wire.transport import Request, Response, Stream

GROUP_SIZE = 8
CHUNK = 64 * 1024
"""Bytes that one read of a socket gives."""

_NAME, _GROUP, _UID, _VERSION, _NODE = "@NAME@", "@GROUP@", "@UID-------------------------------@", "@VERSION@", "@NODE@"


def group_of(pod: Pod) -> Iterable[str]:
    """An index as the controllers keep it."""
    return [pod.metadata.labels["leaderworkerset.sigs.k8s.io/group-key"]]


def owner_of(pod: Pod) -> Iterable[str]:
    return [owner.uid for owner in pod.metadata.owner_references]


def node_of(pod: Pod) -> Iterable[str]:
    return [pod.spec.node_name] if pod.spec.node_name else []


INDEXERS = {"group": group_of, "owner": owner_of, "node": node_of}


def _template() -> str:
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "inference",
        "leaderworkerset.sigs.k8s.io/group-key": _GROUP,
        "leaderworkerset.sigs.k8s.io/group-index": "0",
        "leaderworkerset.sigs.k8s.io/worker-index": "1",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": "6d5f6c7c9b",
        "app": "inference",
        "controller-revision-hash": "inference-0-5c6f7d8f9b",
        "apps.kubernetes.io/pod-index": "1",
        "statefulset.kubernetes.io/pod-name": _NAME,
    }
    environment = [
        {"name": f"SETTING_{number}", "value": f"value-{number}-of-a-setting-that-no-controller-reads"} for number in range(24)
    ]
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    fields: dict[str, Any] = {
        f"f:field-{number}": {".": {}, f"f:part-{number}": {}, f'k:{{"name":"SETTING_{number}"}}': {}} for number in range(23)
    }
    managed = [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}
        for manager in ("kube-controller-manager", "kubelet")
    ]
    pod: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": _NAME,
            "generateName": "inference-",
            "namespace": "serving",
            "uid": _UID,
            "resourceVersion": _VERSION,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": {
                "leaderworkerset.sigs.k8s.io/size": str(GROUP_SIZE),
                "leaderworkerset.sigs.k8s.io/leader-name": "l-0",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "inference-0",
                    "uid": _GROUP,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": managed,
        },
        "spec": {
            "nodeName": _NODE,
            "hostname": _NAME,
            "subdomain": "inference",
            "volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(4)],
            "containers": [
                {
                    "name": "worker",
                    "image": "registry.example/inference/server@sha256:" + "0123456789abcdef" * 4,
                    "command": ["/bin/serve", "--tensor-parallel-size", "8"],
                    "env": environment,
                    "resources": {"limits": {"nvidia.com/gpu": "8", "memory": "64Gi"}},
                    "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/mnt/{number}"} for number in range(4)],
                    "terminationMessagePath": "/dev/termination-log",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "serviceAccountName": "default",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [
                {
                    "name": "worker",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
                    "lastState": {},
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "image": "registry.example/inference/server:1",
                    "imageID": "registry.example/inference/server@sha256:" + "0123456789abcdef" * 4,
                    "containerID": "containerd://" + "0123456789abcdef" * 4,
                }
            ],
            "qosClass": "Burstable",
        },
    }
    return json.dumps(pod, separators=(",", ":"))


_POD = _template()


def pod_line(number: int, *, version: int, group_size: int = GROUP_SIZE) -> bytes:
    """Pod ``number`` as an API server sends it, at ``version``."""
    text = _POD.replace(_NAME, f"inference-{number // group_size}-{number % group_size}")
    text = text.replace(_GROUP, f"group-{number // group_size:029}").replace(_UID, f"{number:036}")
    return text.replace(_VERSION, str(version)).replace(_NODE, f"node-{number % 997}").encode()


def events(pods: Iterable[bytes], *, kind: str = "ADDED") -> Iterator[bytes]:
    """Watch events, in pieces as a socket gives them."""
    waiting = bytearray()
    for pod in pods:
        waiting += b'{"type":"%s","object":%s}\n' % (kind.encode(), pod)
        while len(waiting) >= CHUNK:
            yield bytes(waiting[:CHUNK])
            del waiting[:CHUNK]
    if waiting:
        yield bytes(waiting)


def mark(version: int) -> bytes:
    """The bookmark that ends a streamed list."""
    annotations = '"annotations":{"k8s.io/initial-events-end":"true"}'
    return f'{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}",{annotations}}}}}}}\n'.encode()


class LazyPods(Sequence[bytes]):
    """Pods that are made when they are asked for, so that their bytes are not kept. Only streamed, never paged."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position: int | slice) -> bytes:  # type: ignore[override]  # iteration is all that is needed
        if isinstance(position, slice):
            raise TypeError("these pods are only streamed")
        if position >= self._count:
            raise IndexError(position)
        return pod_line(position, version=position + 2)


class MemoryServer:
    """An API server of one collection of pods, as a ``Transport`` without sockets: pages, streamed lists, one live watch."""

    def __init__(self, pods: Sequence[bytes], *, version: int, streams_lists: bool = True) -> None:
        self.streams_lists = streams_lists
        self.fill(pods, version=version)
        self._live: asyncio.Queue[bytes] = asyncio.Queue()

    def fill(self, pods: Sequence[bytes], *, version: int) -> None:
        """Have other pods from now on. Pages are made here, so that making them is not taken for the client's work."""
        self.pods, self.version = pods, version
        self._pages = [] if self.streams_lists else [self._page(begin) for begin in range(0, len(pods), PAGE)]

    def _page(self, begin: int) -> bytes:
        more = f',"continue":"{begin + PAGE}"' if begin + PAGE < len(self.pods) else ""
        head = f'{{"kind":"PodList","metadata":{{"resourceVersion":"{self.version}"{more}}},"items":['.encode()
        return head + b",".join(self.pods[begin : begin + PAGE]) + b"]}"

    def send(self, piece: bytes) -> None:
        """Bytes on the live watch."""
        self._live.put_nowait(piece)

    def expire(self) -> None:
        """End the live watch with ERROR 410, so that the next thing is a relist."""
        self.send(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n')

    async def request(self, request: Request, *, timeout: float) -> Response:
        query = dict(request.query)
        if query.get("limit") != str(PAGE):
            raise ValueError(f"only pages of {PAGE} are made here")
        await asyncio.sleep(0)
        return Response(200, {}, self._pages[int(query.get("continue", "0")) // PAGE])

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        first = "sendInitialEvents" in dict(request.query)
        if first and not self.streams_lists:
            yield _Stream(422, _once(b'{"kind":"Status","code":422,"reason":"Invalid"}'))
        else:
            yield _Stream(200, self._chunks(first=first))

    async def _chunks(self, *, first: bool) -> AsyncIterator[bytes]:
        if first:
            for piece in events(self.pods):
                yield piece
                await asyncio.sleep(0)  # as a socket's buffer runs dry
            yield mark(self.version)
        while True:
            yield await self._live.get()

    async def close(self) -> None:
        return


class _Stream:
    def __init__(self, status: int, chunks: AsyncIterator[bytes]) -> None:
        self._status, self._chunks = status, chunks

    @property
    def status(self) -> int:
        return self._status

    @property
    def headers(self) -> Mapping[str, str]:
        return {}

    def chunks(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self._chunks])


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
