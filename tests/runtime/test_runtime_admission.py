"""The admission server: AdmissionReview in, AdmissionReview out; a bug becomes an answer; what comes back is bounded."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.edges_plane import Log

from regroup.runtime import admission
from regroup.runtime.admission import AdmissionRequest, AdmissionResponse, AdmissionServer, allowed, denied, patched


def review(**fields: Any) -> bytes:
    request = {
        "uid": "r-1",
        "operation": "CREATE",
        "kind": {"group": "example.dev", "version": "v1", "kind": "Thing"},
        "resource": {"group": "example.dev", "version": "v1", "resource": "things"},
        "namespace": "default",
        "name": "x",
        "object": {"metadata": {"name": "x"}},
        "oldObject": None,
        "userInfo": {"username": "alice"},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | fields}).encode()


async def answer(response: AdmissionResponse, **fields: Any) -> dict[str, Any]:
    server = AdmissionServer(log=Log())
    server.register("/check", lambda _: response)
    decoded = json.loads(await server.handle("/check", review(**fields)))
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    result: dict[str, Any] = decoded["response"]
    return result


async def test_the_handler_sees_the_request_and_its_uid_comes_back() -> None:
    """All fields of the request reach the handler; the answer names the request."""
    seen: list[AdmissionRequest] = []

    async def handler(request: AdmissionRequest) -> AdmissionResponse:
        seen.append(request)
        return allowed(warnings=["old field"])

    server = AdmissionServer(log=Log())
    server.register("/check", handler)
    decoded = json.loads(await server.handle("/check", review(dryRun=True, subResource="status")))
    assert decoded["response"] == {"uid": "r-1", "allowed": True, "warnings": ["old field"]}
    (request,) = seen
    assert (request.operation, request.group, request.kind, request.resource) == ("CREATE", "example.dev", "Thing", "things")
    assert (request.namespace, request.name, request.user, request.dry_run) == ("default", "x", "alice", True)
    assert (request.object, request.old_object, request.sub_resource) == ({"metadata": {"name": "x"}}, None, "status")


async def test_a_patch_comes_back_as_base64_and_an_empty_one_not_at_all() -> None:
    """An empty patch changes nothing and is not sent."""
    operations = [{"op": "add", "path": "/spec", "value": {"a": 1}}]
    result = await answer(patched(operations))
    assert result["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(result["patch"])) == operations
    assert await answer(patched([])) == {"uid": "r-1", "allowed": True}


async def test_a_refusal_names_the_object_and_the_fields() -> None:
    """With name, group, kind and causes kubectl prints `The Thing "x" is invalid: spec.a: ...` as for a built-in kind."""
    cause = {"reason": "FieldValueInvalid", "message": "Invalid value: 1: must be 2", "field": "spec.a"}
    result = await answer(denied("spec.a: Invalid value: 1: must be 2", causes=[cause]))
    assert result["allowed"] is False
    assert result["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "spec.a: Invalid value: 1: must be 2",
        "details": {"name": "x", "group": "example.dev", "kind": "Thing", "causes": [cause]},
    }


async def test_a_refusal_of_an_object_without_a_name_gives_its_prefix() -> None:
    """With generateName the name does not exist yet."""
    result = await answer(denied("no"), name="", object={"metadata": {"generateName": "x-"}})
    assert result["status"]["details"] | {"causes": []} == {"name": "x-", "group": "example.dev", "kind": "Thing", "causes": []}


async def test_a_refusal_that_blames_no_field_is_shown_by_kubectl() -> None:
    """kubectl prints nothing of an Invalid status but its causes: without one, nobody would learn why."""
    result = await answer(denied("because of this"))
    assert result["status"]["details"]["causes"] == [{"message": "because of this"}]
    forbidden = await answer(denied("because of this", code=403, reason="Forbidden"))
    assert "causes" not in forbidden["status"]["details"]


async def test_what_comes_back_is_bounded() -> None:
    """A manifest with thousands of mistakes gets a bounded answer."""
    causes = [{"reason": "FieldValueInvalid", "message": "no", "field": f"spec.f{number}"} for number in range(5000)]
    result = await answer(denied("x" * 100_000, causes=causes, warnings=["w" * 1000]))
    assert len(result["status"]["details"]["causes"]) == admission.CAUSES_LIMIT
    assert len(result["status"]["message"]) == admission.MESSAGE_LIMIT
    assert len(result["warnings"][0]) == 256


async def test_a_bug_in_a_handler_is_an_answer() -> None:
    """A handler that fails answers 500, so that failurePolicy decides, and the server goes on."""
    server = AdmissionServer(log=(log := Log()))

    def broken(request: AdmissionRequest) -> AdmissionResponse:
        raise KeyError("oh")

    server.register("/broken", broken)
    server.register("/fine", lambda _: allowed())
    result = json.loads(await server.handle("/broken", review()))["response"]
    assert (result["allowed"], result["status"]["code"], result["status"]["reason"]) == (False, 500, "InternalError")
    assert json.loads(await server.handle("/fine", review()))["response"]["allowed"] is True
    assert log.of("error") == ["admission handler failed"]
    statistics = server.statistics()
    assert (statistics.allowed, statistics.denied, statistics.failed) == (1, 0, 1)


async def test_paths_are_exact_and_taken_once() -> None:
    """An unknown path is a LookupError; two handlers of one path would hide one of them."""
    server = AdmissionServer(log=Log())
    server.register("/check", lambda _: allowed())
    with pytest.raises(LookupError, match="/other"):
        await server.handle("/other", review())
    with pytest.raises(ValueError, match="taken"):
        server.register("/check", lambda _: allowed())


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["request", "uid", "kind", "x"]), inner),
    max_leaves=12,
)


@given(st.binary(max_size=40) | JUNK.map(lambda value: json.dumps(value).encode()))
async def test_a_body_that_is_no_review_is_a_value_error(body: bytes) -> None:
    """Whatever is posted, nothing but ValueError comes out of the decoder."""
    server = AdmissionServer(log=Log())
    server.register("/check", lambda _: allowed())
    with pytest.raises(ValueError, match="not an AdmissionReview"):
        await server.handle("/check", body)


async def test_nesting_without_end_is_a_value_error() -> None:
    """A body made to exhaust the stack is refused like any other nonsense."""
    server = AdmissionServer(log=Log())
    server.register("/check", lambda _: allowed())
    with pytest.raises(ValueError, match="not an AdmissionReview"):
        await server.handle("/check", b"[" * 100_000)
