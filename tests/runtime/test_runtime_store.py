"""The store: what changes say, indexes, UIDs, replacement, and several namespaces read as one."""

from collections.abc import Callable, Iterable

import pytest

from regroup.kube.meta import ObjectMeta
from regroup.kube.pod import Pod
from regroup.runtime.store import Change, Store, UnionStore


def _pod(name: str, *, uid: str = "", version: int = 1, namespace: str = "ns", color: str = "") -> Pod:
    meta = ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid or f"uid-{name}",
        resource_version=str(version),
        raw_labels={"color": color} if color else None,
    )
    return Pod(metadata=meta)


def by_color(pod: Pod) -> Iterable[str]:
    color = pod.metadata.labels.get("color")
    return [color] if color else []


def _colored() -> Store[Pod]:
    return Store(indexers={"color": by_color})


def test_upsert_says_added_changed_or_nothing() -> None:
    """An unknown name is an addition, a new version a change, the same version nothing at all."""
    store = _colored()
    first, second = _pod("a"), _pod("a", version=2)

    assert store.upsert(first) == [Change(None, first)]
    assert store.upsert(_pod("a")) == []
    assert store.upsert(second) == [Change(first, second)]
    assert store.get("ns", "a") is second
    assert Change(first, second).object is second


def test_another_uid_under_the_name_is_a_deletion_and_an_addition() -> None:
    """A quickly replaced object never looks like a change of the old one."""
    store = _colored()
    old, new = _pod("a", uid="1", color="red"), _pod("a", uid="2", color="blue")
    store.upsert(old)

    changes = store.upsert(new)

    assert changes == [Change(old, None), Change(None, new)]
    assert store.by_uid("1") is None
    assert store.by_uid("2") is new
    assert store.index("color", "red") == ()
    assert store.index("color", "blue") == (new,)


def test_remove_takes_only_the_object_that_is_meant() -> None:
    """The deletion of an object that was replaced already does not touch its successor."""
    store = _colored()
    new = _pod("a", uid="2")
    store.upsert(new)

    assert store.remove(_pod("a", uid="1")) == []
    assert store.remove(_pod("b")) == []
    last = _pod("a", uid="2", version=9)
    assert store.remove(last) == [Change(last, None)]
    assert len(store) == 0
    assert Change(last, None).object is last


def test_an_empty_change_is_refused() -> None:
    """A change without any object is a bug, not an object."""
    empty: Change[Pod] = Change(None, None)
    with pytest.raises(ValueError, match="before or after"):
        _ = empty.object


def test_index_is_in_order_and_follows_each_change() -> None:
    """By namespace and name, whatever the order of arrival; a moved object leaves its old value."""
    store = _colored()
    for name in ("c", "a", "b"):
        store.upsert(_pod(name, color="red"))
    store.upsert(_pod("z", namespace="alpha", color="red"))

    assert [pod.metadata.key for pod in store.index("color", "red")] == ["alpha/z", "ns/a", "ns/b", "ns/c"]
    store.upsert(_pod("b", version=2, color="blue"))
    assert [pod.metadata.name for pod in store.index("color", "red")] == ["z", "a", "c"]
    assert set(store.index_values("color")) == {"red", "blue"}
    with pytest.raises(KeyError):
        store.index("shape", "round")


def test_an_indexer_may_come_later_and_its_name_is_its_own() -> None:
    """A late indexer sees what is there; twice the same is one; another under the name is refused; a failing one is not kept."""
    store: Store[Pod] = Store()
    pod = _pod("a", color="red")
    store.upsert(pod)

    def failing(obj: Pod) -> Iterable[str]:
        raise KeyError(obj.metadata.name)

    with pytest.raises(KeyError):
        store.add_indexer("color", failing)
    store.add_indexer("color", by_color)
    store.add_indexer("color", by_color)

    assert store.index("color", "red") == (pod,)
    with pytest.raises(ValueError, match="taken by another function"):
        store.add_indexer("color", failing)


@pytest.mark.parametrize("write", [Store.upsert, lambda store, pod: store.replacement().add(pod)])
def test_an_indexer_that_raises_changes_nothing(write: Callable[[Store[Pod], Pod], object]) -> None:
    """The store is whole after a failed write."""

    def by_number(pod: Pod) -> Iterable[str]:
        return [str(int(pod.metadata.labels["color"]))]

    store = Store(indexers={"color": by_color, "number": by_number})
    good = _pod("a", color="1")
    store.upsert(good)

    for bad in (_pod("a", version=2, color="red"), _pod("a", uid="2", color="red"), _pod("b", color="red")):
        with pytest.raises(ValueError, match="invalid literal"):
            write(store, bad)

    assert list(store.values()) == [good]
    assert store.index("number", "1") == (good,)
    assert store.by_uid("uid-a") is good
    assert set(store.index_values("color")) == {"1"}


def test_replace_tells_deletions_first_and_keeps_what_is_the_same() -> None:
    """Gone, replaced, changed, added and untouched objects of one relist; the untouched is still the very same object."""
    store = _colored()
    same, changed, replaced, gone = (_pod(name, color="red") for name in ("same", "changed", "replaced", "gone"))
    for pod in (same, changed, replaced, gone):
        store.upsert(pod)
    changed_now, replaced_now, fresh = _pod("changed", version=2), _pod("replaced", uid="2", color="red"), _pod("fresh")

    changes = store.replace([_pod("same", color="red"), changed_now, replaced_now, fresh])

    assert {change.object.metadata.name for change in changes[:2]} == {"replaced", "gone"}
    assert all(change.new is None for change in changes[:2])
    assert changes[2:] == [Change(changed, changed_now), Change(None, replaced_now), Change(None, fresh)]
    assert store.get("ns", "same") is same
    assert [pod.metadata.name for pod in store.index("color", "red")] == ["replaced", "same"]


def test_a_replacement_shows_nothing_before_it_is_committed_and_everything_after() -> None:
    """A list that fails half-way leaves the store as it was; a committed one is there at once, before any change is told."""
    store = _colored()
    old = _pod("a", color="red")
    store.upsert(old)
    abandoned = store.replacement()
    abandoned.add(_pod("b"))
    assert list(store.values()) == [old]

    replacement = store.replacement()
    replacement.add(_pod("b", color="blue"))
    replacement.add(_pod("c"))
    replacement.remove("ns", "c")
    replacement.remove("ns", "never there")
    changes = replacement.commit()

    assert [pod.metadata.name for pod in store.values()] == ["b"]
    assert [(change.old is None, change.new is None) for change in changes] == [(False, True), (True, False)]


def test_keep_carries_an_object_over() -> None:
    """What a list could not read stays, and nothing is told of it; a name that was never there stays away."""
    store = _colored()
    pod = Pod(metadata=ObjectMeta(name="a", namespace="ns", uid="1"))  # without a version
    store.upsert(pod)
    replacement = store.replacement()

    replacement.keep("ns", "a")
    replacement.keep("ns", "b")

    assert list(replacement.commit()) == []
    assert list(store.values()) == [pod]


def test_an_indexer_that_comes_while_a_replacement_is_filled_is_part_of_it() -> None:
    """Informers are asked for at any time; an index is never missing an object."""
    store: Store[Pod] = Store()
    replacement = store.replacement()
    pod = _pod("a", color="red")
    replacement.add(pod)

    store.add_indexer("color", by_color)
    list(replacement.commit())

    assert store.index("color", "red") == (pod,)


def test_a_union_reads_as_one_store_and_cannot_be_written() -> None:
    """Several namespaces: every way of reading goes over all parts, in one order."""
    parts: list[Store[Pod]] = [Store(), Store()]
    union = UnionStore(parts, indexers={"color": by_color})
    second, first = _pod("a", namespace="two", uid="2", color="red"), _pod("b", namespace="one", uid="1", color="red")
    parts[0].upsert(second)
    parts[1].upsert(first)

    assert union.index("color", "red") == (first, second)
    assert union.index("color", "blue") == ()
    assert union.get("two", "a") is second
    assert union.get("two", "b") is None
    assert union.by_uid("1") is first
    assert union.by_uid("3") is None
    assert len(union) == 2
    assert list(union.values()) == [second, first]
    assert union.index_values("color") == ("red",)
    assert union.statistics().objects == 2
    assert union.statistics().indexes == {"color": 1}
    for write in (union.upsert, union.remove, lambda pod: union.replace([pod])):
        with pytest.raises(TypeError, match="only read"):
            write(first)


def test_statistics_count_objects_and_index_values() -> None:
    """Numbers for the debug page."""
    store = _colored()
    store.upsert(_pod("a", color="red"))
    store.upsert(_pod("b", color="blue"))

    assert store.statistics().objects == 2
    assert store.statistics().indexes == {"color": 2}


def test_objects_without_uid_are_kept_by_name_only() -> None:
    """An empty UID names nothing."""
    store: Store[Pod] = Store()
    store.upsert(Pod(metadata=ObjectMeta(name="a", resource_version="1")))

    assert store.by_uid("") is None
    assert store.get("", "a") is not None
