"""The outer edge for tests of single writes: objects in a dict behind the transport, with versions, preconditions and conflicts.

Not a cluster: nobody acts on what is written. Suites under ``tests/planes`` have one.
"""

import copy
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from regroup.wire.patches import PatchError, apply_json_patch, apply_merge_patch
from regroup.wire.transport import Request, Response, Stream

Object = dict[str, Any]


class Api:
    """Objects by path. ``before`` is called in front of each request and may change objects: another writer was faster."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.requests: list[Request] = []
        self.before: Callable[[Request], None] = lambda request: None
        self._version = 100

    def put(self, path: str, obj: Object) -> Object:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = obj
        return obj

    def writes(self) -> list[Request]:
        return [request for request in self.requests if request.method != "GET"]

    async def request(self, request: Request, *, timeout: float) -> Response:
        self.before(request)
        self.requests.append(request)
        found = self.objects.get(request.path)
        match request.method:
            case "GET" if found is not None:
                return _ok(found)
            case "PATCH" if found is not None:
                return self._patch(request, found)
            case "DELETE" if found is not None:
                options = msgspec.json.decode(request.body or b"{}")
                uid = (options.get("preconditions") or {}).get("uid")
                if uid and uid != found["metadata"]["uid"]:
                    return _failure(409, "Conflict")
                del self.objects[request.path]
                return _ok(found)
            case "POST":
                body = msgspec.json.decode(request.body or b"{}")
                path = f"{request.path}/{body['metadata']['name']}"
                if path in self.objects:
                    return _failure(409, "AlreadyExists")
                body["metadata"].setdefault("uid", f"uid-{body['metadata']['name']}")
                return _ok(self.put(path, body), status=201)
        return _failure(404, "NotFound")

    def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError("nothing is watched here")

    async def close(self) -> None:
        pass

    def _patch(self, request: Request, found: Object) -> Response:
        patch = msgspec.json.decode(request.body or b"{}")
        try:
            if "json-patch" in request.headers["content-type"]:
                new = apply_json_patch(copy.deepcopy(found), patch)
            else:
                new = apply_merge_patch(copy.deepcopy(found), patch)
        except PatchError as error:
            return _failure(422, "Invalid", str(error))
        for name in ("resourceVersion", "uid"):
            if new["metadata"].get(name) != found["metadata"].get(name):
                return _failure(409, "Conflict")
        return _ok(self.put(request.path, new))


def _ok(obj: Object, *, status: int = 200) -> Response:
    return Response(status, {"content-type": "application/json"}, msgspec.json.encode(obj))


def _failure(code: int, reason: str, message: str = "") -> Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Response(code, {"content-type": "application/json"}, msgspec.json.encode(body))
