"""What the server says of itself: discovery in both forms, OpenAPI, version, health."""

import pytest
from tests.sandbox.apiserver_hands import DEFINITIONS, Api, Obj

from regroup.sandbox.kinds.versions import version_rank

pytestmark = pytest.mark.looptime
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


def resource(document: Obj, group: str, plural: str) -> Obj:
    versions = next(item["versions"] for item in document["items"] if item["metadata"].get("name", "") == group)
    found: Obj = next(entry for entry in versions[0]["resources"] if entry["resource"] == plural)
    return found


@pytest.mark.parametrize(("accept", "form"), [(V2, "v2"), (V2BETA1, "v2beta1")])
async def test_aggregated(api: Api, accept: str, form: str) -> None:
    """Stack 4.4: the content type names the form; kubectl up to 1.29 asks for v2beta1 only."""
    answer = await api.ask("GET", "/apis", accept=f"{accept},application/json")
    assert answer.headers["content-type"] == accept
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{form}")
    sets = resource(answer.body, "apps", "statefulsets")
    assert (sets["scope"], sets["shortNames"], sets["categories"]) == ("Namespaced", ["sts"], ["all"])
    assert sets["verbs"] == ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
    assert [entry["subresource"] for entry in sets["subresources"]] == ["scale", "status"]
    assert sets["subresources"][0]["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    core = await api.get("/api", accept=accept)
    assert [entry["subresource"] for entry in resource(core, "", "pods")["subresources"]] == [
        "binding",
        "eviction",
        "log",
        "status",
    ]
    assert "deletecollection" not in resource(core, "", "namespaces")["verbs"]


async def test_the_client_s_order_counts(api: Api) -> None:
    """The first acceptable form is taken; a client that knows none of them gets the legacy one."""
    assert (await api.get("/apis", accept=f"{V2BETA1},{V2},application/json"))["apiVersion"].endswith("v2beta1")
    assert (await api.get("/apis", accept="application/json"))["kind"] == "APIGroupList"
    assert (await api.get("/apis", accept=f"application/json,{V2}"))["kind"] == "APIGroupList"


async def test_legacy(api: Api) -> None:
    """Groups, versions and resources one by one; subresources are entries of their own."""
    assert (await api.get("/api"))["versions"] == ["v1"]
    assert (await api.get("/apis/apps"))["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    core = await api.get("/api/v1")
    assert (core["kind"], core["groupVersion"]) == ("APIResourceList", "v1")
    entries = {entry["name"]: entry for entry in core["resources"]}
    assert entries["pods"]["namespaced"] is True
    assert (entries["pods/eviction"]["group"], entries["pods/eviction"]["kind"]) == ("policy", "Eviction")
    assert entries["pods/log"]["verbs"] == ["get"]
    assert "configmaps/status" not in entries
    apps = await api.get("/apis/apps/v1")
    assert apps["apiVersion"] == "v1"
    assert "statefulsets/scale" in {entry["name"] for entry in apps["resources"]}


async def test_paths_that_are_not_there(api: Api) -> None:
    """A version of a known group is a Status, everything else is plain text; nothing is 500."""
    assert (await api.ask("GET", "/apis/apps/v9")).reason == "NotFound"
    for path in ("/apis/nothing", "/nothing", "/openapi/v1", "/openapi/v3/apis/nothing/v1"):
        answer = await api.ask("GET", path)
        assert (answer.status, answer.text) == (404, "404 page not found\n")


def fields(message: str) -> dict[int, str]:
    """The texts of a short protobuf message by their numbers."""
    found = {}
    while message:
        tag, length = ord(message[0]), ord(message[1])
        assert tag & 7 == 2, "not a text"
        found[tag >> 3], message = message[2 : 2 + length], message[2 + length :]
    return found


async def test_openapi_v2_describes_nothing(api: Api) -> None:
    """It is there, in both forms: kubectl asks it about kinds that v3 does not have, and takes its absence for another fault than
    that of a definition which is not installed."""
    proto = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await api.ask("GET", "/openapi/v2", accept=proto)
    assert (answer.status, answer.headers["content-type"]) == (200, proto.replace("@", "."))
    assert fields(answer.text) == {1: "2.0", 2: "\n\nKubernetes\x12\x0bunversioned", 8: ""}
    assert fields(fields(answer.text)[2]) == {1: "Kubernetes", 2: "unversioned"}
    assert (await api.get("/openapi/v2", accept="application/json"))["paths"] == {}


async def test_versions_are_ranked(api: Api) -> None:
    """The newest stable version is preferred."""
    names = ["foo", "v1alpha1", "v1beta1", "v2", "v1", "v1beta2", "v10"]
    assert sorted(names, key=version_rank) == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
    await api.define_widgets()
    group = await api.get("/apis/example.com")
    assert [entry["version"] for entry in group["versions"]] == ["v1", "v1beta1"]
    widgets = resource(await api.get("/apis", accept=V2), "example.com", "widgets")
    assert widgets["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}


async def test_openapi(api: Api) -> None:
    """Stack 4.4: the PATCH operation lists fieldValidation, schemas name their kind and have a real ObjectMeta."""
    index = (await api.get("/openapi/v3"))["paths"]
    document = await api.get(index["apis/apps/v1"]["serverRelativeURL"])
    path = document["paths"]["/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}"]
    assert "fieldValidation" in [parameter["name"] for parameter in path["patch"]["parameters"]]
    kind = {"group": "apps", "version": "v1", "kind": "StatefulSet"}
    assert path["patch"]["x-kubernetes-group-version-kind"] == kind
    schemas = document["components"]["schemas"]
    schema = next(entry for entry in schemas.values() if kind in entry.get("x-kubernetes-group-version-kind", []))
    (reference,) = [entry["$ref"] for entry in schema["properties"]["metadata"]["allOf"]]
    assert "annotations" in schemas[reference.rpartition("/")[2]]["properties"]


async def test_openapi_changes_its_hash(api: Api) -> None:
    """Clients keep documents by their hash: a changed definition has another, an unchanged group the same."""
    await api.define_widgets()
    before = (await api.get("/openapi/v3"))["paths"]
    crd = await api.get(f"{DEFINITIONS}/widgets.example.com")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"] = {"type": "string"}
    assert (await api.ask("PUT", f"{DEFINITIONS}/widgets.example.com", crd)).status == 200
    after = (await api.get("/openapi/v3"))["paths"]
    assert after["apis/example.com/v1"] != before["apis/example.com/v1"]
    assert after["apis/apps/v1"] == before["apis/apps/v1"]


async def test_version_and_health(api: Api) -> None:
    """Majors as text; health as plain text."""
    version = await api.get("/version")
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")
    for path in ("/livez", "/readyz", "/healthz", "/readyz/ping"):
        answer = await api.ask("GET", path)
        assert (answer.status, answer.text, answer.headers["content-type"]) == (200, "ok", "text/plain; charset=utf-8")
