"""Admission webhooks: who is asked, with what, and what comes of the answers. The webhooks are the test's own functions."""

import asyncio
import base64
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.sandbox.apiserver_hands import CONFIGMAPS, PODS, WIDGETS, Api, Obj

from regroup.kube.resources import NAMESPACES
from regroup.runtime.clock import LoopClock
from regroup.sandbox.apiserver.server import ApiServer
from regroup.sandbox.apiserver.webhooks import WebhookFailed

pytestmark = pytest.mark.looptime
_REGISTER = "/apis/admissionregistration.k8s.io/v1"


class Hooks:
    """Webhooks by name, and the questions that they got."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Obj]] = []
        self.answers: dict[str, Callable[[Obj], Obj]] = {}
        self.slow: dict[str, float] = {}

    async def call(self, url: str, body: bytes, ca_bundle: bytes | None, timeout: float) -> bytes:
        name = url.rpartition("/")[2]
        request = json.loads(body)["request"]
        self.asked.append((name, request))
        if name in self.slow:
            await asyncio.sleep(self.slow[name])
        if name not in self.answers:
            raise WebhookFailed("connection refused")
        response = {"uid": request["uid"], "allowed": True, **self.answers[name](request)}
        return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}).encode()

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def guarded(hooks: Hooks) -> Api:
    """A server that calls ``hooks``."""
    clock = LoopClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    server = ApiServer(clock=clock, rng=random.Random(1), webhook_caller=hooks.call)
    for name, labels in (("default", {"team": "a"}), ("quiet", {})):
        meta = {"name": name, "uid": name, "labels": labels}
        server.storage.put(NAMESPACES, ("", name), {"kind": "Namespace", "apiVersion": "v1", "metadata": meta})
    return Api(server)


def webhook(name: str, **fields: object) -> Obj:
    return {
        "name": f"{name}.test.io",
        "clientConfig": {"url": f"https://hooks.test/{name}"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


async def register(api: Api, kind: str, *webhooks: Obj, name: str = "config") -> None:
    plural = f"{kind.lower()}webhookconfigurations"
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
    answer = await api.ask("POST", f"{_REGISTER}/{plural}", body)
    assert answer.status == 201, answer.text


def patch(*operations: Obj) -> Callable[[Obj], Obj]:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"patchType": "JSONPatch", "patch": text}


def add_data(key: str) -> Callable[[Obj], Obj]:
    """Adds a key to the data of a config map, once."""

    def answer(request: Obj) -> Obj:
        if key in (request["object"].get("data") or {}):
            return {}
        operations = [] if "data" in request["object"] else [{"op": "add", "path": "/data", "value": {}}]
        return patch(*operations, {"op": "add", "path": f"/data/{key}", "value": "set"})(request)

    return answer


async def test_mutating_then_validating(guarded: Api, hooks: Hooks) -> None:
    """The validating one sees what the mutating one made of it; the question carries all that it should."""
    await register(guarded, "Mutating", webhook("mutate"))
    await register(guarded, "Validating", webhook("validate"))
    hooks.answers = {"mutate": add_data("m"), "validate": lambda request: {"warnings": ["mind the gap"]}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
    answer = await guarded.ask("POST", CONFIGMAPS, body)
    assert (answer.body["data"], answer.warnings) == ({"m": "set"}, ["mind the gap"])
    assert hooks.names() == ["mutate", "validate"]
    first, second = (request for _, request in hooks.asked)
    assert (first["operation"], first["namespace"], first["oldObject"], first["dryRun"]) == ("CREATE", "default", None, False)
    assert first["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert first["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert "uid" not in first["object"]["metadata"], "a mutating webhook comes before the name is made up"
    assert second["object"]["metadata"]["name"].startswith("a-")
    assert second["object"]["data"] == {"m": "set"}


async def test_updates_and_deletions(guarded: Api, hooks: Hooks) -> None:
    """Old and new on an update, only old on a deletion; a refusal leaves the object."""
    await guarded.create(CONFIGMAPS, "a")
    await register(guarded, "Validating", webhook("validate"))
    hooks.answers["validate"] = lambda request: {"allowed": request["operation"] != "DELETE"}
    await guarded.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
    assert (await guarded.ask("DELETE", f"{CONFIGMAPS}/a")).status == 400
    assert (await guarded.ask("DELETE", f"{CONFIGMAPS}?labelSelector=!x")).status == 400
    update, delete, _ = (request for _, request in hooks.asked)
    assert ("data" in update["oldObject"], update["object"]["data"]) == (False, {"k": "v"})
    assert (delete["object"], delete["oldObject"]["metadata"]["name"]) == (None, "a")
    assert await guarded.names(CONFIGMAPS) == ["a"]


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({"message": "no", "code": 422, "reason": "Invalid"}, 422, "Invalid", "denied the request: no"),
        ({"reason": "Forbidden", "code": 403}, 403, "Forbidden", "denied the request: Forbidden"),
        ({"code": 200}, 400, "", "denied the request without explanation"),
        ({}, 400, "", "denied the request without explanation"),
    ],
)
async def test_refusals(guarded: Api, hooks: Hooks, *, status: Obj, code: int, reason: str, message: str) -> None:
    """The webhook's own code, reason and details, under the webhook's name; never a code below 400."""
    await register(guarded, "Validating", webhook("validate"))
    details = {"causes": [{"reason": "R", "message": "M", "field": "spec.x"}]}
    hooks.answers["validate"] = lambda request: {"allowed": False, "status": {**status, "details": details}}
    answer = await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert (answer.status, answer.reason) == (code, reason)
    assert answer.message == f'admission webhook "validate.test.io" {message}'
    assert answer.causes == [("R", "spec.x")]


async def test_a_webhook_that_fails(guarded: Api, hooks: Hooks) -> None:
    """failurePolicy: Fail is 500 and says which webhook, Ignore goes on."""
    await register(guarded, "Validating", webhook("dead"), name="one")
    answer = await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert (answer.status, answer.reason) == (500, "InternalError")
    text = 'Internal error occurred: failed calling webhook "dead.test.io": failed to call webhook: connection refused'
    assert answer.message == text
    await guarded.ask("DELETE", f"{_REGISTER}/validatingwebhookconfigurations/one")
    await register(guarded, "Mutating", webhook("dead", failurePolicy="Ignore"))
    assert (await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})).status == 201


async def test_a_webhook_that_takes_too_long(guarded: Api, hooks: Hooks) -> None:
    """timeoutSeconds counts as a failure."""
    await register(guarded, "Validating", webhook("slow", timeoutSeconds=3))
    hooks.answers["slow"], hooks.slow["slow"] = lambda request: {}, 60
    start = asyncio.get_running_loop().time()
    answer = await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert answer.status == 500
    assert asyncio.get_running_loop().time() - start == pytest.approx(3, abs=0.1)
    assert "context deadline exceeded" in answer.message


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: {"uid": "another"},
        patch({"op": "remove", "path": "/nothing"}),
        lambda request: {"patch": "!", "patchType": "JSONPatch"},
        lambda request: {"patch": base64.b64encode(b"[]").decode(), "patchType": "Other"},
        patch({"op": "replace", "path": "", "value": 5}),
    ],
)
async def test_answers_that_make_no_sense(guarded: Api, hooks: Hooks, answer: Callable[[Obj], Obj]) -> None:
    """500, and nothing is stored."""
    await register(guarded, "Mutating", webhook("odd"))
    hooks.answers["odd"] = answer
    assert (await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})).status == 500
    assert await guarded.names(CONFIGMAPS) == []


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, True),
        ({"rules": []}, False),
        ({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, True),
        ({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*"]}]}, False),
        ({"rules": [{"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, False),
        ({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/status"]}]}, False),
        (
            {
                "rules": [
                    {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "Cluster"}
                ]
            },
            False,
        ),
        ({"objectSelector": {"matchLabels": {"app": "x"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "y"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
    ],
)
async def test_who_is_asked(guarded: Api, hooks: Hooks, fields: Obj, asked: bool) -> None:
    """Rules (operation, group, version, resource, scope) and both selectors must match."""
    await register(guarded, "Validating", webhook("validate", **fields))
    hooks.answers["validate"] = lambda request: {}
    await guarded.create(CONFIGMAPS, "a", labels={"app": "x"})
    assert hooks.names() == (["validate"] if asked else [])


async def test_an_old_label_counts_too(guarded: Api, hooks: Hooks) -> None:
    """objectSelector: an object that takes its label off does not escape."""
    await guarded.create(CONFIGMAPS, "a", labels={"app": "x"})
    await register(guarded, "Validating", webhook("validate", objectSelector={"matchLabels": {"app": "x"}}))
    hooks.answers["validate"] = lambda request: {}
    await guarded.patch(f"{CONFIGMAPS}/a", {"metadata": {"labels": {"app": None}}})
    await guarded.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
    assert hooks.names() == ["validate"]


async def test_status_is_a_resource_of_its_own(guarded: Api, hooks: Hooks) -> None:
    """A rule on ``pods/status`` sees writes of the status, one on ``pods`` does not."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    main, status = (
        webhook(name, rules=[{**rule, "resources": [what]}]) for name, what in (("main", "pods"), ("status", "pods/status"))
    )
    await register(guarded, "Validating", main, status)
    hooks.answers = {"main": lambda request: {}, "status": lambda request: {}}
    await guarded.pod("p")
    await guarded.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
    assert hooks.names() == ["status"]
    assert hooks.asked[0][1]["subResource"] == "status"


async def test_asked_again_if_needed(guarded: Api, hooks: Hooks) -> None:
    """reinvocationPolicy IfNeeded: once more after a later webhook changed the object, the others only once."""
    first = webhook("first", reinvocationPolicy="IfNeeded")
    await register(guarded, "Mutating", first, webhook("second"), webhook("third", reinvocationPolicy="IfNeeded"))
    hooks.answers = {name: add_data(name) for name in ("first", "second", "third")}
    made = await guarded.create(CONFIGMAPS, "a")
    assert hooks.names() == ["first", "second", "third", "first"]
    assert made["data"] == {"first": "set", "second": "set", "third": "set"}


async def test_configurations_are_asked_by_name(guarded: Api, hooks: Hooks) -> None:
    """In the order of their names, whichever was made first."""
    for name in ("z", "a"):
        await register(guarded, "Mutating", webhook(name), name=name)
    hooks.answers = {"a": add_data("a"), "z": add_data("z")}
    await guarded.create(CONFIGMAPS, "x")
    assert hooks.names() == ["a", "z"]


async def test_equivalent_versions(guarded: Api, hooks: Hooks) -> None:
    """matchPolicy: a rule on another version of the kind is asked in that version, and its patch converted; Exact is not."""
    await guarded.define_widgets()
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1beta1"], "operations": ["*"], "resources": ["widgets"]}
    await register(guarded, "Mutating", webhook("exact", rules=[rule], matchPolicy="Exact"), webhook("equivalent", rules=[rule]))
    hooks.answers = {"equivalent": patch({"op": "add", "path": "/spec/replicas", "value": 4})}
    made = await guarded.create(WIDGETS, "w", spec={"size": 1})
    assert (made["apiVersion"], made["spec"]["replicas"]) == ("example.com/v1", 4)
    ((name, request),) = hooks.asked
    assert (name, request["kind"]["version"], request["requestKind"]["version"]) == ("equivalent", "v1beta1", "v1")
    assert request["object"]["apiVersion"] == "example.com/v1beta1"


async def test_dry_runs(guarded: Api, hooks: Hooks) -> None:
    """Webhooks are asked and told that nothing will come of it."""
    await register(guarded, "Validating", webhook("validate"))
    hooks.answers["validate"] = lambda request: {}
    assert (await guarded.ask("POST", f"{CONFIGMAPS}?dryRun=All", {"metadata": {"name": "a"}})).status == 201
    assert hooks.asked[0][1]["dryRun"] is True
    assert await guarded.names(CONFIGMAPS) == []


async def test_a_write_meanwhile(guarded: Api, hooks: Hooks) -> None:
    """Somebody writes while a webhook is asked: a patch is tried again on the new state, a PUT is a conflict."""
    made = await guarded.create(CONFIGMAPS, "a")
    await register(guarded, "Validating", webhook("slow", objectSelector={"matchLabels": {"slow": "1"}}))
    hooks.answers["slow"], hooks.slow["slow"] = lambda request: {}, 1
    label = {"metadata": {"labels": {"slow": "1"}}}
    patching = asyncio.create_task(guarded.patch(f"{CONFIGMAPS}/a", label))
    await asyncio.sleep(0.5)
    await guarded.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}})
    after = (await patching).body
    assert (after["data"], after["metadata"]["labels"]) == ({"k": "v"}, {"slow": "1"})
    stale = {**after, "metadata": {**after["metadata"], "annotations": {"x": "y"}}}
    putting = asyncio.create_task(guarded.ask("PUT", f"{CONFIGMAPS}/a", stale))
    await asyncio.sleep(0.5)
    del hooks.slow["slow"]
    assert (await guarded.patch(f"{CONFIGMAPS}/a", {"data": {"k": "w"}})).status == 200
    assert (await putting).reason == "Conflict"
    assert made["metadata"]["uid"] == after["metadata"]["uid"]


async def test_webhooks_are_not_asked_about_webhooks(guarded: Api, hooks: Hooks) -> None:
    """Or a broken one could never be taken away."""
    everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
    await register(guarded, "Validating", webhook("dead", rules=everything))
    assert (await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})).status == 500
    assert (await guarded.ask("DELETE", f"{_REGISTER}/validatingwebhookconfigurations/config")).status == 200
    assert (await guarded.ask("POST", CONFIGMAPS, {"metadata": {"name": "a"}})).status == 201
