"""Objects through the API server: what it sets, what it refuses, and how concurrent writers meet."""

import asyncio

import pytest
from tests.sandbox.apiserver_hands import CONFIGMAPS, JSON_PATCH, MERGE, PODS, STATEFULSETS, STRATEGIC, Api, Obj, template

pytestmark = pytest.mark.looptime


async def test_a_new_object_gets_its_metadata(api: Api) -> None:
    """Stack 4.4: uid, whole-second creationTimestamp, version; generation only for kinds that count it."""
    made = await api.create(CONFIGMAPS, "a", data={"k": "v"})
    meta = made["metadata"]
    assert meta["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert len(meta["uid"]) == 36
    assert meta["resourceVersion"].isdecimal()
    assert "generation" not in meta
    assert await api.get(f"{CONFIGMAPS}/a") == made


async def test_one_version_counter_over_all_kinds(api: Api) -> None:
    """Versions grow over all kinds, and no two writes share one."""
    versions = [
        int((await api.create(collection, name))["metadata"]["resourceVersion"])
        for collection, name in ((CONFIGMAPS, "a"), ("/api/v1/nodes", "n"), (CONFIGMAPS, "b"))
    ]
    assert versions == sorted(set(versions))


async def test_generated_names(api: Api) -> None:
    """generateName: a prefix and five characters; an explicit name wins."""
    body: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x" * 70}}
    name = (await api.ask("POST", CONFIGMAPS, body)).body["metadata"]["name"]
    assert name[:58] == "x" * 58
    assert len(name) == 63
    body["metadata"]["name"] = "plain"
    assert (await api.ask("POST", CONFIGMAPS, body)).body["metadata"]["name"] == "plain"


@pytest.mark.parametrize(
    ("body", "status", "reason", "message"),
    [
        (
            {"metadata": {}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        ({"metadata": {"name": "a", "namespace": "b"}}, 400, "BadRequest", "the namespace of the provided object does not match"),
        (
            {"metadata": {"name": "a", "resourceVersion": "5"}},
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
        (
            {"metadata": {"name": "A_"}},
            422,
            "Invalid",
            'ConfigMap "A_" is invalid: metadata.name: Invalid value: "A_": a lowercase RFC',
        ),
        (
            {"kind": "Secret", "metadata": {"name": "a"}},
            400,
            "BadRequest",
            'Secret in version "v1" cannot be handled as a ConfigMap',
        ),
        (
            {"data": {"k": 5}, "metadata": {"name": "a"}},
            400,
            "BadRequest",
            "cannot unmarshal number into Go struct field ConfigMap.data",
        ),
    ],
)
async def test_refused_creates(api: Api, body: dict[str, object], status: int, reason: str, message: str) -> None:
    """Worded as a kube-apiserver 1.36 words it."""
    answer = await api.ask("POST", CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", **body})
    assert (answer.status, answer.reason) == (status, reason)
    assert message in answer.message


async def test_a_taken_name(api: Api) -> None:
    """409 AlreadyExists, with name and resource in the details."""
    await api.create(CONFIGMAPS, "a")
    answer = await api.ask("POST", CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_what_is_not_there(api: Api) -> None:
    """404: for an object with its details, for an unknown resource without, for an unknown group as plain text."""
    answer = await api.ask("GET", f"{STATEFULSETS}/x")
    assert answer.body["details"] == {"name": "x", "group": "apps", "kind": "statefulsets"}
    assert answer.message == 'statefulsets.apps "x" not found'
    answer = await api.ask("GET", "/api/v1/namespaces/default/nothing/x")
    assert answer.body["details"] == {}
    answer = await api.ask("GET", "/apis/nothing.io/v1/things")
    assert (answer.status, answer.text) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", f"{CONFIGMAPS}/a"),
        ("PUT", CONFIGMAPS),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("FOO", f"{CONFIGMAPS}/a"),
    ],
)
async def test_methods_that_a_path_does_not_take(api: Api, method: str, target: str) -> None:
    """405, not 404 and not an accident."""
    answer = await api.ask(method, target, {"apiVersion": "v1", "kind": "ConfigMap"})
    assert (answer.status, answer.reason) == (405, "MethodNotAllowed")


async def test_new_objects_need_a_living_namespace(api: Api) -> None:
    """404 for a namespace that is not there, 403 with the cause NamespaceTerminating for one that goes."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (await api.ask("POST", "/api/v1/namespaces/no/configmaps", body)).message == 'namespaces "no" not found'
    await api.create("/api/v1/namespaces", "going")
    await api.ask("DELETE", "/api/v1/namespaces/going")
    answer = await api.ask("POST", "/api/v1/namespaces/going/configmaps", body)
    assert (answer.status, answer.causes) == (403, [("NamespaceTerminating", "metadata.namespace")])


async def test_generation_counts_the_spec_only(api: Api) -> None:
    """+1 for a change of the spec, 0 for metadata and status."""
    spec = {"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    assert (await api.create(STATEFULSETS, "s", spec=spec))["metadata"]["generation"] == 1

    async def generation(target: str, patch: dict[str, object]) -> int:
        return int((await api.patch(target, patch)).body["metadata"]["generation"])

    assert await generation(f"{STATEFULSETS}/s", {"metadata": {"labels": {"x": "y"}}}) == 1
    assert await generation(f"{STATEFULSETS}/s/status", {"status": {"replicas": 1, "readyReplicas": 1}}) == 1
    assert await generation(f"{STATEFULSETS}/s", {"spec": {"replicas": 3}}) == 2
    assert await generation(f"{STATEFULSETS}/s", {"spec": {"replicas": 3}}) == 2


async def test_status_and_spec_are_written_apart(api: Api) -> None:
    """A write of the object leaves the status, a write of ``status`` leaves the spec."""
    await api.pod("p", node="n")
    main = (await api.patch(f"{PODS}/p", {"status": {"phase": "Failed"}})).body
    assert main["status"]["phase"] == "Pending"
    status = (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "other"}})).body
    assert (status["status"]["phase"], status["spec"]["nodeName"]) == ("Running", "n")


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_a_write_that_changes_nothing_is_no_write(api: Api, content_type: str) -> None:
    """Stack 4.4: no new version and no event."""
    made = await api.create(CONFIGMAPS, "a", data={"k": "v"})
    async with api.watch(f"{CONFIGMAPS}?resourceVersion={made['metadata']['resourceVersion']}") as watch:
        again = await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "v"}}, content_type=content_type)
        assert again.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        put = await api.ask("PUT", f"{CONFIGMAPS}/a", made)
        assert put.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert await watch.silent()


async def test_of_two_writers_the_second_is_told(api: Api) -> None:
    """409 Conflict for a PUT and for a patch that carry an old version; the object is as the first left it."""
    made = await api.create(CONFIGMAPS, "a")
    await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": "1"}})
    answer = await api.ask("PUT", f"{CONFIGMAPS}/a", {**made, "data": {"k": "2"}})
    assert (answer.status, answer.reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in answer.message
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    assert (await api.patch(f"{CONFIGMAPS}/a", stale)).status == 409
    assert (await api.get(f"{CONFIGMAPS}/a"))["data"] == {"k": "1"}


async def test_puts_without_a_version(api: Api) -> None:
    """Most kinds take them, leases must say a version, and a PUT of a lease that is not there makes it."""
    await api.create(CONFIGMAPS, "a")
    assert (await api.ask("PUT", f"{CONFIGMAPS}/a", {"metadata": {"name": "a"}, "data": {"k": "v"}})).status == 200
    assert (await api.ask("PUT", f"{CONFIGMAPS}/b", {"metadata": {"name": "b"}})).status == 404
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert (await api.ask("PUT", f"{leases}/l", {"metadata": {"name": "l"}})).status == 201
    answer = await api.ask("PUT", f"{leases}/l", {"metadata": {"name": "l"}})
    assert answer.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")


async def test_another_uid_is_another_object(api: Api) -> None:
    """An update that names the UID of an object that is gone is a conflict."""
    made = await api.create(CONFIGMAPS, "a")
    await api.ask("DELETE", f"{CONFIGMAPS}/a")
    await api.create(CONFIGMAPS, "a")
    body = {"metadata": {"name": "a", "uid": made["metadata"]["uid"]}, "data": {"k": "v"}}
    assert (await api.ask("PUT", f"{CONFIGMAPS}/a", body)).reason == "Conflict"


@pytest.mark.parametrize("field", ["uid", "creationTimestamp", "generation", "deletionTimestamp"])
async def test_what_only_the_server_sets(api: Api, field: str) -> None:
    """Server-owned metadata in a body changes nothing."""
    made = await api.create(CONFIGMAPS, "a")
    value = made["metadata"]["uid"] if field == "uid" else 7 if field == "generation" else "2020-01-01T00:00:00Z"
    body = {"metadata": {"name": "a", field: value}, "data": {"k": "v"}}
    after = (await api.ask("PUT", f"{CONFIGMAPS}/a", body)).body
    assert after["metadata"].get(field) == made["metadata"].get(field)


async def test_patches_that_do_not_fit(api: Api) -> None:
    """JSON patch: a failed test is 422 and changes nothing; an unknown type is 415; a wrong shape is 400."""
    await api.create(CONFIGMAPS, "a", data={"k": "v"})
    operations = [{"op": "replace", "path": "/data/k", "value": "w"}, {"op": "test", "path": "/data/k", "value": "x"}]
    assert (await api.patch(f"{CONFIGMAPS}/a", operations, content_type=JSON_PATCH)).status == 422
    assert (await api.get(f"{CONFIGMAPS}/a"))["data"] == {"k": "v"}
    assert (await api.patch(f"{CONFIGMAPS}/a", {}, content_type="application/foo")).status == 415
    assert (await api.patch(f"{CONFIGMAPS}/a", [1])).status == 400
    assert (await api.patch(f"{CONFIGMAPS}/a", {"data": {"k": 5}})).causes == [("FieldValueInvalid", "patch")]
    assert (await api.patch(f"{CONFIGMAPS}/b", {"data": {}})).status == 404


async def test_strategic_patches_merge_lists_by_key(api: Api) -> None:
    """A container is found by its name; a merge patch would have replaced the list."""
    await api.create(
        STATEFULSETS, "s", spec={"serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")}
    )
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}}
    after = (await api.patch(f"{STATEFULSETS}/s", patch, content_type=STRATEGIC)).body
    assert {entry["name"] for entry in after["spec"]["template"]["spec"]["containers"]} == {"c", "d"}


async def test_dry_runs_leave_nothing(api: Api) -> None:
    """dryRun=All answers as if, for create, patch and delete; nothing is stored and no version used up."""
    await api.create(CONFIGMAPS, "a")
    before = await api.version()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    assert (await api.ask("POST", f"{CONFIGMAPS}?dryRun=All", body)).status == 201
    assert (await api.patch(f"{CONFIGMAPS}/a?dryRun=All", {"data": {"k": "v"}})).body["data"] == {"k": "v"}
    assert (await api.ask("DELETE", f"{CONFIGMAPS}/a?dryRun=All")).body["status"] == "Success"
    assert (await api.ask("DELETE", f"{CONFIGMAPS}/a", {"dryRun": ["All"]})).body["status"] == "Success"
    assert await api.names(CONFIGMAPS) == ["a"]
    assert "data" not in await api.get(f"{CONFIGMAPS}/a")
    assert await api.version() == before


@pytest.mark.parametrize(
    ("query", "field"),
    [("fieldValidation=Bad", "fieldValidation"), ("dryRun=Some", "dryRun"), (f"fieldManager={'x' * 129}", "fieldManager")],
)
async def test_options_are_checked(api: Api, query: str, field: str) -> None:
    """422 on the options' own kind."""
    answer = await api.ask("POST", f"{CONFIGMAPS}?{query}", {"metadata": {"name": "a"}})
    assert answer.status == 422
    assert answer.body["details"]["kind"] == "CreateOptions"
    assert [cause[1] for cause in answer.causes] == [field]


async def test_unknown_fields(api: Api) -> None:
    """fieldValidation: Strict refuses, Warn (also by default) warns even beside an error, Ignore drops silently."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dat": {}, "foo": 1}
    answer = await api.ask("POST", f"{CONFIGMAPS}?fieldValidation=Strict", body)
    assert answer.status == 400
    assert answer.message.endswith('strict decoding error: unknown field "dat", unknown field "foo"')
    answer = await api.ask("POST", CONFIGMAPS, body)
    assert (answer.status, answer.warnings) == (201, ['unknown field "dat"', 'unknown field "foo"'])
    assert (await api.ask("POST", CONFIGMAPS, body)).warnings != []
    assert (await api.ask("POST", f"{CONFIGMAPS}?fieldValidation=Ignore", {**body, "metadata": {"name": "b"}})).warnings == []
    assert "foo" not in await api.get(f"{CONFIGMAPS}/b")


async def test_many_writers_at_once_lose_nothing(api: Api) -> None:
    """Merge patches of different keys that race: all of them are there."""
    await api.create(CONFIGMAPS, "a")
    await asyncio.gather(*(api.patch(f"{CONFIGMAPS}/a", {"data": {f"k{number}": "v"}}) for number in range(50)))
    assert len((await api.get(f"{CONFIGMAPS}/a"))["data"]) == 50


async def test_bodies_in_other_forms(api: Api) -> None:
    """YAML and protobuf bodies are taken, others are refused with 415, too large ones with 413."""
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yam}\ndata: {k: v}\n"
    assert (await api.ask("POST", CONFIGMAPS, text, content_type="application/yaml")).body["data"] == {"k": "v"}
    meta = b"\x0a\x01p"
    unknown = b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap" + b"\x12" + bytes([len(meta) + 2]) + b"\x0a" + bytes([len(meta)]) + meta
    answer = await api.ask("POST", CONFIGMAPS, b"k8s\x00" + unknown, content_type="application/vnd.kubernetes.protobuf")
    assert answer.body["metadata"]["name"] == "p"
    assert (await api.ask("POST", CONFIGMAPS, b"x", content_type="text/plain")).status == 415
    assert (await api.ask("POST", CONFIGMAPS, b" " * (3 * 1024 * 1024 + 1))).status == 413


async def test_a_body_that_is_no_json(api: Api) -> None:
    """400 with the kind that was wanted, never 500."""
    for body in (b"{bad", b"[1]", b"", b"\xff"):
        answer = await api.ask("POST", CONFIGMAPS, body)
        assert (answer.status, answer.reason) == (400, "BadRequest")
        assert "must be of type ConfigMap" in answer.message
