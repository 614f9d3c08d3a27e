"""Who selects whom, found by values: the same as asking every selector about every object."""

from hypothesis import given
from hypothesis import strategies as st

from regroup.kube.meta import ObjectMeta, ObjectView
from regroup.runtime.store import Store
from regroup.sandbox.controllers.informers import by_namespace
from regroup.sandbox.controllers.selecting import LABELS, Selectors, by_labels, candidates, equal_values

NAMES, VALUES, SPACES = st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from(["n", "m"])
PAIRS = st.dictionaries(NAMES, VALUES, max_size=3)


def _has(labels: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


@given(
    st.lists(st.tuples(st.integers(0, 5), SPACES, st.none() | PAIRS), max_size=25),
    SPACES,
    PAIRS,
)
def test_selectors_are_found_by_the_values_they_ask_for(
    steps: list[tuple[int, str, dict[str, str] | None]], namespace: str, labels: dict[str, str]
) -> None:
    """After any row of selectors that come, change and go: exactly those of the namespace whose values an object has."""
    selectors: Selectors[int] = Selectors()
    held: dict[int, tuple[str, dict[str, str]]] = {}
    for key, space, wanted in steps:
        if wanted is None:
            selectors.drop(key)
            held.pop(key, None)
        else:
            selectors.put(key, namespace=space, wanted=wanted)
            held[key] = (space, wanted)

    found = list(selectors.of(namespace, labels))

    assert len(found) == len(set(found))
    assert set(found) == {key for key, (space, wanted) in held.items() if space == namespace and _has(labels, wanted)}


@given(st.lists(st.tuples(SPACES, PAIRS), max_size=12), SPACES, PAIRS)
def test_no_object_that_is_selected_is_missed(
    objects: list[tuple[str, dict[str, str]]], namespace: str, wanted: dict[str, str]
) -> None:
    """Candidates are of the namespace, hold all that the selector matches, and are those of its rarest value."""
    store: Store[ObjectView] = Store(indexers={LABELS: by_labels, "namespace": by_namespace})
    for number, (space, labels) in enumerate(objects):
        meta = ObjectMeta(name=f"o{number}", namespace=space, uid=str(number), resource_version="1", raw_labels=labels)
        store.upsert(ObjectView(metadata=meta))

    near = candidates(store, namespace, wanted, otherwise="namespace")

    assert all(one.metadata.namespace == namespace for one in near)
    selected = {f"o{number}" for number, (space, labels) in enumerate(objects) if space == namespace and _has(labels, wanted)}
    assert selected <= {one.metadata.name for one in near}
    if wanted:
        counts = [sum(s == namespace and _has(labels, {n: v}) for s, labels in objects) for n, v in wanted.items()]
        assert len(near) == min(counts)


def test_only_match_labels_name_values() -> None:
    """Expressions are for whoever holds the selector; one that is empty selects by no value."""
    expression = {"key": "c", "operator": "Exists"}

    assert equal_values({"matchLabels": {"a": "x"}, "matchExpressions": [expression]}) == {"a": "x"}
    assert equal_values({"matchExpressions": [expression]}) == {}
    assert equal_values({}) == {}
