"""Lists: pages, selectors, versions, and the forms in which they go out."""

import pytest
from tests.sandbox.apiserver_hands import CONFIGMAPS, PODS, TABLE, WIDGETS, Api

pytestmark = pytest.mark.looptime


async def test_pages_show_one_moment(api: Api) -> None:
    """A list that is cut into pages shows what was there when it began, whatever is written meanwhile, at one version."""
    for name in "abcde":
        await api.create(CONFIGMAPS, name)
    first = await api.get(f"{CONFIGMAPS}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await api.ask("DELETE", f"{CONFIGMAPS}/d")
    await api.create(CONFIGMAPS, "bb")
    second = await api.get(f"{CONFIGMAPS}?limit=2&continue={first['metadata']['continue']}")
    third = await api.get(f"{CONFIGMAPS}?limit=2&continue={second['metadata']['continue']}")
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == ["a", "b", "c", "d", "e"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {first["metadata"]["resourceVersion"]}
    assert "continue" not in third["metadata"]


async def test_a_page_can_be_asked_for_twice(api: Api) -> None:
    """A client whose answer was lost asks again with the same token."""
    for name in "abc":
        await api.create(CONFIGMAPS, name)
    token = (await api.get(f"{CONFIGMAPS}?limit=1"))["metadata"]["continue"]
    pages = [await api.names(f"{CONFIGMAPS}?limit=5&continue={token}") for _ in range(2)]
    assert pages == [["b", "c"], ["b", "c"]]


async def test_an_old_token_is_gone(api: Api) -> None:
    """410 Expired once too many other lists were begun; 400 for a token that never was one."""
    for name in "ab":
        await api.create(CONFIGMAPS, name)
    token = (await api.get(f"{CONFIGMAPS}?limit=1"))["metadata"]["continue"]
    for _ in range(100):
        await api.get(f"{CONFIGMAPS}?limit=1")
    answer = await api.ask("GET", f"{CONFIGMAPS}?limit=1&continue={token}")
    assert (answer.status, answer.reason) == (410, "Expired")
    assert (await api.ask("GET", f"{CONFIGMAPS}?continue=zzz")).status == 400


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=x", ["a", "b"]),
        ("app!=x", ["c", "d"]),
        ("app in (x,y)", ["a", "b", "c"]),
        ("app notin (x)", ["c", "d"]),
        ("app", ["a", "b", "c"]),
        ("!app", ["d"]),
        ("app=x,tier=1", ["a"]),
    ],
)
async def test_label_selectors(api: Api, selector: str, names: list[str]) -> None:
    """Stack 4.4: equality, sets, existence; all requirements hold."""
    for name, labels in {"a": {"app": "x", "tier": "1"}, "b": {"app": "x"}, "c": {"app": "y"}, "d": {}}.items():
        await api.create(CONFIGMAPS, name, labels=labels)
    assert await api.names(f"{CONFIGMAPS}?labelSelector={selector.replace('=', '%3D')}") == names


async def test_field_selectors(api: Api) -> None:
    """Names on every kind, node and phase of pods; an unknown field is 400."""
    await api.pod("a", node="n1")
    await api.pod("b")
    assert await api.names(f"{PODS}?fieldSelector=spec.nodeName%3Dn1") == ["a"]
    assert await api.names(f"{PODS}?fieldSelector=spec.nodeName!%3Dn1") == ["b"]
    assert await api.names(f"{PODS}?fieldSelector=status.phase%3DPending,metadata.name%3Db") == ["b"]
    assert (await api.ask("GET", f"{PODS}?fieldSelector=spec.nothing%3D1")).message == "field label not supported: spec.nothing"
    answer = await api.ask("GET", f"{CONFIGMAPS}?fieldSelector=data.k%3D1")
    assert answer.message == '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'


async def test_versions_of_lists(api: Api) -> None:
    """0 and the present one are served, a future one is 504 with Retry-After, nonsense is 400."""
    await api.create(CONFIGMAPS, "a")
    now = await api.version()
    for query in ("resourceVersion=0", f"resourceVersion={now}", f"resourceVersion={now}&resourceVersionMatch=Exact"):
        assert await api.names(f"{CONFIGMAPS}?{query}") == ["a"]
    future = await api.ask("GET", f"{CONFIGMAPS}?resourceVersion={int(now) + 100}")
    assert (future.status, future.reason, future.headers["retry-after"]) == (504, "Timeout", "1")
    assert (await api.ask("GET", f"{CONFIGMAPS}?resourceVersion=abc")).status == 400
    assert (await api.ask("GET", f"{CONFIGMAPS}?resourceVersion=1&resourceVersionMatch=Exact")).status == 410


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("resourceVersion=1&resourceVersionMatch=Foo", "resourceVersionMatch"),
        ("sendInitialEvents=true", "sendInitialEvents"),
    ],
)
async def test_list_options_are_checked(api: Api, query: str, field: str) -> None:
    """422 on ListOptions."""
    answer = await api.ask("GET", f"{CONFIGMAPS}?{query}")
    assert (answer.status, answer.body["details"]["kind"]) == (422, "ListOptions")
    assert [cause[1] for cause in answer.causes] == [field]


async def test_items_of_typed_lists_have_no_kind(api: Api) -> None:
    """As a real server: the list says what it is of; items of custom resources say it themselves."""
    await api.create(CONFIGMAPS, "a", data={"kind": "x"})
    body = await api.get(CONFIGMAPS)
    assert body["kind"] == "ConfigMapList"
    assert body["items"][0].keys() == {"metadata", "data"}
    await api.define_widgets()
    await api.create(WIDGETS, "w", spec={"size": 1})
    body = await api.get(WIDGETS)
    assert body["items"][0]["kind"] == "Widget"
    assert body["metadata"]["continue"] == ""


async def test_all_namespaces(api: Api) -> None:
    """Ordered by namespace, then name."""
    await api.create("/api/v1/namespaces", "a")
    await api.create("/api/v1/namespaces/a/configmaps", "z")
    await api.create(CONFIGMAPS, "b")
    assert await api.names("/api/v1/configmaps") == ["z", "b"]


async def test_tables(api: Api) -> None:
    """Columns, rows with the metadata of their objects, the whole object or none of it, ages at the time of asking."""
    await api.pod("p")
    table = await api.get(PODS, accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]][:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    row = table["rows"][0]
    assert row["cells"][:4] == ["p", "0/1", "Pending", 0] or row["cells"][:4] == ["p", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "p"
    whole = await api.get(f"{PODS}?includeObject=Object", accept=TABLE)
    assert whole["rows"][0]["object"]["spec"]["containers"][0]["name"] == "c"
    none = await api.get(f"{PODS}?includeObject=None", accept=TABLE)
    assert none["rows"][0]["object"] is None
    single = await api.get(f"{PODS}/p", accept=TABLE)
    assert [row["cells"][0] for row in single["rows"]] == ["p"]


async def test_metadata_only(api: Api) -> None:
    """PartialObjectMetadata(List), for clients that need no more."""
    await api.pod("p", labels={"a": "b"})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    body = await api.get(PODS, accept=accept)
    assert body["kind"] == "PartialObjectMetadataList"
    assert body["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    assert body["items"][0]["metadata"]["labels"] == {"a": "b"}
    one = await api.get(f"{PODS}/p", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    assert one.keys() == {"kind", "apiVersion", "metadata"}


async def test_what_cannot_be_accepted(api: Api) -> None:
    """406 for a client that takes only what the server does not speak; JSON for one that also takes JSON."""
    proto = "application/vnd.kubernetes.protobuf"
    assert (await api.ask("GET", CONFIGMAPS, accept=proto)).status == 406
    assert (await api.ask("GET", CONFIGMAPS, accept=f"{proto}, application/json")).status == 200
    assert (await api.ask("GET", CONFIGMAPS, accept="*/*")).status == 200
