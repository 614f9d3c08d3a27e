"""Custom resources: from a definition to served objects, and back."""

import pytest
from tests.sandbox.apiserver_hands import APPLY, DEFINITIONS, STRATEGIC, TABLE, WIDGETS, Api, widgets

pytestmark = pytest.mark.looptime


def condition(crd: dict[str, object], kind: str) -> str:
    status = crd["status"]
    assert isinstance(status, dict)
    return next((entry["status"] for entry in status["conditions"] if entry["type"] == kind), "")


async def test_a_definition_is_served_at_once(api: Api) -> None:
    """Established, in discovery (both forms), in OpenAPI, and taking objects, by the time that its create is answered."""
    await api.define_widgets()
    crd = await api.get(f"{DEFINITIONS}/widgets.example.com")
    assert (condition(crd, "NamesAccepted"), condition(crd, "Established")) == ("True", "True")
    assert crd["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert crd["status"]["storedVersions"] == ["v1"]
    assert "example.com" in [group["name"] for group in (await api.get("/apis"))["groups"]]
    names = [entry["name"] for entry in (await api.get("/apis/example.com/v1"))["resources"]]
    assert sorted(names) == ["widgets", "widgets/scale", "widgets/status"]
    assert "apis/example.com/v1" in (await api.get("/openapi/v3"))["paths"]
    await api.create(WIDGETS, "w", spec={"size": 1})


async def test_objects_follow_the_schema(api: Api) -> None:
    """Defaults filled in, unknown fields pruned with a warning, wrong values refused with path, value and rule."""
    await api.define_widgets()
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1, "foo": 1}}
    answer = await api.ask("POST", WIDGETS, body)
    assert (answer.body["spec"], answer.warnings) == ({"size": 1, "mode": "a"}, ['unknown field "spec.foo"'])
    wrong = {**body, "metadata": {"name": "x"}, "spec": {"size": 0, "mode": "z"}}
    answer = await api.ask("POST", WIDGETS, wrong)
    assert (answer.status, {field for _, field in answer.causes}) == (422, {"spec.size", "spec.mode"})
    assert "spec.size in body should be greater than or equal to 1" in answer.message
    answer = await api.ask("POST", WIDGETS, {**body, "metadata": {"name": "x"}, "spec": {}})
    assert answer.message == 'Widget.example.com "x" is invalid: spec.size: Required value'


async def test_versions_of_one_object(api: Api) -> None:
    """Every served version shows the same object; written in one it is read in the other; watches convert as well."""
    await api.define_widgets()
    other = WIDGETS.replace("/v1/", "/v1beta1/")
    await api.create(WIDGETS, "w", spec={"size": 1})
    seen = await api.get(f"{other}/w")
    assert (seen["apiVersion"], seen["spec"]["size"]) == ("example.com/v1beta1", 1)
    async with api.watch(other) as watch:
        assert (await watch.next())["object"]["apiVersion"] == "example.com/v1beta1"
        assert (await api.patch(f"{other}/w", {"spec": {"size": 5}})).body["apiVersion"] == "example.com/v1beta1"
        assert (await watch.next())["object"]["spec"]["size"] == 5
    assert (await api.get(f"{WIDGETS}/w"))["spec"]["size"] == 5


async def test_subresources(api: Api) -> None:
    """Status is written apart; scale maps its paths, also for clients that only know Scale."""
    await api.define_widgets()
    await api.create(WIDGETS, "w", spec={"size": 1, "replicas": 3}, status={"replicas": 9})
    assert "status" not in await api.get(f"{WIDGETS}/w")
    await api.patch(f"{WIDGETS}/w/status", {"status": {"replicas": 2, "selector": "a=b"}, "spec": {"size": 9}})
    scale = await api.get(f"{WIDGETS}/w/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    assert (await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}})).body["spec"] == {"replicas": 7}
    after = await api.get(f"{WIDGETS}/w")
    assert (after["spec"], after["metadata"]["generation"]) == ({"size": 1, "mode": "a", "replicas": 7}, 2)


async def test_printer_columns(api: Api) -> None:
    """Name first, then the definition's own, typed, with an age."""
    await api.define_widgets()
    await api.create(WIDGETS, "w", spec={"size": 4})
    table = await api.get(WIDGETS, accept=TABLE)
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", 0), ("Size", 0), ("Mode", 1), ("Age", 0),
    ]  # fmt: skip
    assert table["rows"][0]["cells"] == ["w", 4, "a", "0s"]


async def test_no_strategic_patch(api: Api) -> None:
    """415 with the types that are taken."""
    await api.define_widgets()
    await api.create(WIDGETS, "w", spec={"size": 1})
    answer = await api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}}, content_type=STRATEGIC)
    assert (answer.status, answer.reason) == (415, "UnsupportedMediaType")
    assert "application/apply-patch+yaml" in answer.message


async def test_updates_must_name_a_version(api: Api) -> None:
    """A PUT of a custom resource without a resourceVersion is 422."""
    await api.define_widgets()
    made = await api.create(WIDGETS, "w", spec={"size": 1})
    made["metadata"].pop("resourceVersion")
    answer = await api.ask("PUT", f"{WIDGETS}/w", made)
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "metadata.resourceVersion")])


async def test_a_changed_definition(api: Api) -> None:
    """A new schema holds for the next write; a version that is no longer served is 404."""
    await api.define_widgets()
    crd = await api.get(f"{DEFINITIONS}/widgets.example.com")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] = 10
    crd["spec"]["versions"][1]["served"] = False
    assert (await api.ask("PUT", f"{DEFINITIONS}/widgets.example.com", crd)).status == 200
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 5}}
    assert (await api.ask("POST", WIDGETS, body)).status == 422
    assert (await api.ask("GET", WIDGETS.replace("/v1/", "/v1beta1/"))).status == 404


async def test_names_that_are_taken(api: Api) -> None:
    """A second definition with the same kind is accepted as an object, but not served."""
    await api.define_widgets()
    second = widgets(names={"plural": "gizmos", "kind": "Widget"})
    second["metadata"]["name"] = "gizmos.example.com"
    assert (await api.ask("POST", DEFINITIONS, second)).status == 201
    crd = await api.get(f"{DEFINITIONS}/gizmos.example.com")
    assert (condition(crd, "NamesAccepted"), condition(crd, "Established")) == ("False", "False")
    assert (await api.ask("GET", WIDGETS.replace("widgets", "gizmos"))).status == 404


async def test_a_definition_takes_its_objects_with_it(api: Api) -> None:
    """Deleted with all of them; one that a finalizer holds keeps the definition until it goes."""
    await api.define_widgets()
    await api.create(WIDGETS, "a", spec={"size": 1})
    await api.create(WIDGETS, "b", spec={"size": 1}, finalizers=["x.io/f"])
    gone = (await api.ask("DELETE", f"{DEFINITIONS}/widgets.example.com")).body
    assert gone["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert condition(gone, "Terminating") == "True"
    assert await api.names(WIDGETS) == ["b"]
    assert await api.names(DEFINITIONS) == ["widgets.example.com"]
    await api.patch(f"{WIDGETS}/b", {"metadata": {"finalizers": None}})
    assert await api.names(DEFINITIONS) == []
    assert (await api.ask("GET", WIDGETS)).status == 404
    assert (await api.ask("GET", "/apis/example.com")).status == 404


async def test_an_empty_definition_goes_at_once(api: Api) -> None:
    """And the group with it; defined again it starts empty."""
    await api.define_widgets()
    await api.ask("DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert await api.names(DEFINITIONS) == []
    await api.define_widgets()
    assert await api.names(WIDGETS) == []


async def test_server_side_apply(api: Api) -> None:
    """Create, own, conflict with causes, force, give up a field."""
    await api.define_widgets()

    def config(**spec: object) -> dict[str, object]:
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}

    made = await api.patch(f"{WIDGETS}/w?fieldManager=one", config(size=1, replicas=2), content_type=APPLY)
    assert made.status == 201
    conflict = await api.patch(f"{WIDGETS}/w?fieldManager=two", config(size=5), content_type=APPLY)
    assert (conflict.status, conflict.causes) == (409, [("FieldManagerConflict", ".spec.size")])
    forced = await api.patch(f"{WIDGETS}/w?fieldManager=two&force=true", config(size=5), content_type=APPLY)
    assert forced.body["spec"] == {"size": 5, "mode": "a", "replicas": 2}
    given_up = await api.patch(f"{WIDGETS}/w?fieldManager=one", config(), content_type=APPLY)
    assert given_up.body["spec"] == {"size": 5, "mode": "a"}
    again = await api.patch(f"{WIDGETS}/w?fieldManager=two&force=true", config(size=5), content_type=APPLY)
    assert again.body["metadata"]["resourceVersion"] == given_up.body["metadata"]["resourceVersion"]
    nobody = await api.patch(f"{WIDGETS}/w", config(size=5), content_type=APPLY)
    assert (nobody.status, nobody.causes) == (422, [("FieldValueRequired", "fieldManager")])
    other = await api.patch(f"{WIDGETS}/x?fieldManager=one", config(size=5), content_type=APPLY)
    assert other.message == "the name of the object (w) does not match the name on the URL (x)"
