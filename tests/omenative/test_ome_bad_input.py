"""Whatever JSON can say, admission answers with problems and never with an exception (design 9)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regroup.omenative.admission.replica_validation import refusal, validate_replica
from regroup.omenative.admission.validation import validate_service, warnings
from regroup.omenative.service.merge import merge_component

_WORDS = st.sampled_from(
    [
        "spec",
        "metadata",
        "name",
        "annotations",
        "engine",
        "decoder",
        "router",
        "leader",
        "worker",
        "size",
        "lifecycle",
        "updateStrategy",
        "rollingUpdate",
        "maxSurge",
        "maxUnavailable",
        "minReadySeconds",
        "instanceReadyTimeout",
        "restartPolicy",
        "runners",
        "template",
        "parentRef",
        "component",
        "runtime",
        "model",
        "rollout",
        "groups",
        "ome.io/deploymentMode",
        "ome.io/revision-history-limit",
        "omenative.regroup.dev/projected",
    ]
)
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.sampled_from(["OMENative", "0%", "60", "1h", "None", "engine", "default", "worker"])
)
JSON = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4), max_leaves=25
)
OBJECT = st.fixed_dictionaries({"metadata": JSON, "spec": JSON})


@given(OBJECT, st.none() | OBJECT)
def test_services(obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Every problem can be told: path, value, rule."""
    for problem in validate_service(obj, old):
        assert problem.path
        assert problem.message.startswith(f"{problem.path}: ")
    warnings(obj)


@given(OBJECT, st.none() | OBJECT)
def test_replicas(obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """The same for replicas, and for the question who may write one."""
    for problem in validate_replica(obj, old):
        assert problem.message.startswith(f"{problem.path}: ")
    answer = refusal(obj, old)
    assert answer is None or answer.endswith("edit the InferenceService instead")


@given(st.dictionaries(_WORDS, JSON, max_size=4), st.dictionaries(_WORDS, JSON, max_size=4))
def test_merging_twice_is_merging_once(runtime: dict[str, Any], service: dict[str, Any]) -> None:
    """1.3: what the service says stays said."""
    once = merge_component(runtime, service)
    assert merge_component(once, service).keys() == once.keys()
