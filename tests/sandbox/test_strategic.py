"""Strategic merge patches do what they do on Kubernetes 1.36.3: merge keys, directives, and the order of elements."""

from copy import deepcopy
from typing import Any

import pytest

from regroup.kube.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS
from regroup.sandbox.kinds.builtin import BUILTINS
from regroup.sandbox.strategic import StrategicError, strategic_merge

SCHEMAS = {kind.resource: kind.schema for kind in BUILTINS}


def live() -> dict[str, Any]:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]
    first = {
        "name": "c1",
        "image": "i",
        "args": ["1", "2"],
        "env": env,
        "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "UDP"}],
    }
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "q"}}]
    pod = {
        "containers": [first, {"name": "c2", "image": "j"}],
        "volumes": volumes,
        "nodeSelector": {"x": "1", "y": "2"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}
    return {
        "metadata": {"name": "d", "labels": {"l": "1", "m": "2"}, "finalizers": ["a/a", "b/b", "c/c"]},
        "spec": {"strategy": strategy, "template": {"spec": pod}},
    }


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    before = live()
    result = strategic_merge(before, patch, schema=SCHEMAS[DEPLOYMENTS])
    assert before == live(), "the live object must not change"
    return result


def pod_after(patch: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = patched({"spec": {"template": {"spec": patch}}})["spec"]["template"]["spec"]
    return spec


def names(pod: dict[str, Any]) -> list[str]:
    return [container["name"] for container in pod["containers"]]


def test_elements_merge_by_their_key() -> None:
    pod = pod_after({"containers": [{"name": "c1", "image": "z"}]})
    assert pod["containers"][0] == {**live()["spec"]["template"]["spec"]["containers"][0], "image": "z"}
    assert names(pod) == ["c1", "c2"]


def test_new_elements_come_first() -> None:
    """Elements of the patch that the live list lacks come before those that only the live list has."""
    assert names(pod_after({"containers": [{"name": "c3", "image": "z"}]})) == ["c3", "c1", "c2"]


def test_delete_and_new_in_one_list() -> None:
    change = [{"name": "B", "value": "9"}, {"name": "D", "value": "4"}, {"name": "A", "$patch": "delete"}]
    env = pod_after({"containers": [{"name": "c1", "env": change}]})["containers"][0]["env"]
    assert env == [{"name": "B", "value": "9"}, {"name": "D", "value": "4"}, {"name": "C", "value": "3"}]


def test_a_list_is_replaced_on_demand() -> None:
    assert names(pod_after({"containers": [{"$patch": "replace"}, {"name": "n", "image": "m"}]})) == ["n"]


def test_lists_without_merge_strategy_are_replaced() -> None:
    pod = pod_after({"tolerations": [{"key": "n"}], "containers": [{"name": "c1", "args": ["9"]}]})
    assert pod["tolerations"] == [{"key": "n"}]
    assert pod["containers"][0]["args"] == ["9"]


def test_the_order_of_elements_can_be_set() -> None:
    order = [{"name": "c2"}, {"name": "new"}, {"name": "c1"}]
    assert names(pod_after({"$setElementOrder/containers": order, "containers": [{"name": "new", "image": "y"}]})) == [
        "c2",
        "new",
        "c1",
    ]
    assert names(pod_after({"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}]})) == ["c2", "c1"]


def test_an_order_that_misses_an_element_of_the_patch_is_an_error() -> None:
    with pytest.raises(StrategicError) as caught:
        pod_after({"$setElementOrder/containers": [{"name": "c2"}], "containers": [{"name": "zz", "image": "y"}]})
    assert str(caught.value) == (
        "The order in patch list:\n[map[image:y name:zz]]\n doesn't match $setElementOrder list:\n[map[name:c2]]\n"
    )


def test_maps_merge_and_null_removes() -> None:
    """Also maps that server-side apply owns as a whole: a strategic merge takes them apart."""
    assert pod_after({"nodeSelector": {"x": None, "z": "3"}})["nodeSelector"] == {"y": "2", "z": "3"}
    assert "nodeSelector" not in pod_after({"nodeSelector": None})
    assert patched({"metadata": {"labels": {"l": None, "n": "3"}}})["metadata"]["labels"] == {"m": "2", "n": "3"}


def test_maps_are_replaced_on_demand() -> None:
    assert pod_after({"nodeSelector": {"$patch": "replace", "z": "3"}})["nodeSelector"] == {"z": "3"}
    assert pod_after({"nodeSelector": {"$patch": "delete"}})["nodeSelector"] == {}


def test_a_field_whose_strategy_is_replace() -> None:
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"c": "d"}}}}
    result = strategic_merge(budget, patch, schema=SCHEMAS[POD_DISRUPTION_BUDGETS])
    assert result["spec"] == {"minAvailable": 1, "selector": {"matchLabels": {"c": "d"}}}


def test_plain_values_merge_as_a_set() -> None:
    finalizers = patched({"metadata": {"finalizers": ["d/d", "a/a"]}})["metadata"]["finalizers"]
    assert finalizers == ["d/d", "a/a", "b/b", "c/c"]


def test_plain_values_are_deleted_by_a_parallel_list() -> None:
    assert patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b/b"]}})["metadata"]["finalizers"] == ["a/a", "c/c"]


def test_retain_keys_clears_what_is_not_named() -> None:
    strategy = patched({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}})["spec"]["strategy"]
    assert strategy == {"type": "Recreate"}
    change = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}
    assert pod_after({"volumes": [change]})["volumes"][0] == {"name": "v", "hostPath": {"path": "/x"}}


def test_retain_keys_must_name_what_the_patch_sets() -> None:
    with pytest.raises(StrategicError, match=r"^invalid patch format of retainKeys$"):
        patched({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([{"image": "z"}], "map: map[image:z] does not contain declared merge key: name"),
        ([{"name": "c1", "$patch": "foo"}], "unknown patch type: foo in map: map[$patch:foo name:c1]"),
    ],
)
def test_malformed_elements_are_errors(change: list[Any], message: str) -> None:
    with pytest.raises(StrategicError) as caught:
        pod_after({"containers": change})
    assert (str(caught.value), caught.value.code) == (message, 500)


def test_new_values_carry_neither_nulls_nor_directives() -> None:
    change = {"name": "n", "image": "m", "env": [{"name": "A", "value": None}, {"name": "B", "$patch": "delete"}]}
    pod = pod_after({"containers": [change]})
    assert pod["containers"][0] == {"name": "n", "image": "m", "env": [{"name": "A"}]}


def test_an_empty_patch_changes_nothing() -> None:
    assert patched({}) == live()


def test_a_patch_is_idempotent() -> None:
    """Applied to its own result, a patch without lists of plain values to delete changes nothing more."""
    patch = {
        "spec": {"template": {"spec": {"containers": [{"name": "c3", "image": "z"}, {"name": "c1", "env": [{"name": "D"}]}]}}}
    }
    once = patched(deepcopy(patch))
    assert strategic_merge(once, patch, schema=SCHEMAS[DEPLOYMENTS]) == once
