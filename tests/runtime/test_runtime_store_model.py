"""Stateful: whatever is written, the store equals a plain dict, its indexes a recomputation, and its changes the difference."""

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from regroup.kube.meta import ObjectMeta
from regroup.kube.pod import Pod, PodSpec
from regroup.runtime.store import Change, Store

KEYS = st.tuples(st.sampled_from(["one", "two"]), st.sampled_from(["a", "b", "c", "d"]))
COLORS = st.lists(st.sampled_from(["red", "green", "blue"]), max_size=3)
NODES = st.sampled_from(["", "n1", "n2"])


def by_colors(pod: Pod) -> Iterable[str]:
    return [color for color in pod.metadata.labels.get("colors", "").split(".") if color]


def by_node(pod: Pod) -> Iterable[str]:
    return [pod.spec.node_name] if pod.spec.node_name else []


INDEXERS = {"colors": by_colors, "node": by_node}


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dict of what must be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store[Pod] = Store()
        self.model: dict[tuple[str, str], Pod] = {}
        self.told: dict[tuple[str, str], Pod] = {}
        self.made = 0
        self.indexers = dict(INDEXERS)

    @initialize(early=st.booleans())
    def start(self, early: bool) -> None:
        self.store = Store(indexers=INDEXERS if early else {})
        self.indexers = {} if early else dict(INDEXERS)

    def make(self, key: tuple[str, str], colors: list[str], node: str, *, uid: str | None = None) -> Pod:
        self.made += 1
        meta = ObjectMeta(
            name=key[1],
            namespace=key[0],
            uid=uid or f"uid-{self.made}",
            resource_version=str(self.made),
            raw_labels={"colors": ".".join(colors)},
        )
        return Pod(metadata=meta, spec=PodSpec(node_name=node))

    def hear(self, changes: Iterable[Change[Pod]]) -> None:
        for change in changes:
            key = (change.object.metadata.namespace, change.object.metadata.name)
            if change.old is None:
                assert key not in self.told
            else:
                assert self.told[key].metadata.uid == change.old.metadata.uid
            if change.new is None:
                del self.told[key]
            else:
                assert change.old is None or change.old.metadata.uid == change.new.metadata.uid
                self.told[key] = change.new

    @rule(key=KEYS, colors=COLORS, node=NODES, another=st.booleans())
    def put(self, key: tuple[str, str], colors: list[str], node: str, another: bool) -> None:
        known = self.model.get(key)
        pod = self.make(key, colors, node, uid=known.metadata.uid if known is not None and not another else None)
        self.model[key] = pod
        self.hear(self.store.upsert(pod))

    @rule(key=KEYS)
    def put_again(self, key: tuple[str, str]) -> None:
        if key in self.model:
            assert self.store.upsert(self.model[key]) == []

    @rule(key=KEYS, stale=st.booleans())
    def delete(self, key: tuple[str, str], stale: bool) -> None:
        pod = self.model.get(key) if not stale else self.make(key, [], "")
        if pod is None:
            return
        if not stale:
            del self.model[key]
        self.hear(self.store.remove(pod))

    @rule(data=st.data(), fresh=st.lists(st.tuples(KEYS, COLORS, NODES), max_size=5), dropped=st.sets(KEYS, max_size=2))
    def relist(
        self,
        data: st.DataObject,
        fresh: list[tuple[tuple[str, str], list[str], str]],
        dropped: set[tuple[str, str]],
    ) -> None:
        """Some stay, some change, some are others of the same name, some are gone; some only come and go while listing."""
        content = {key: pod for key, pod in self.model.items() if data.draw(st.booleans(), label=f"keep {key}")}
        replacement = self.store.replacement()
        for pod in content.values():
            replacement.add(pod)
        for key, colors, node in fresh:
            known = content.get(key)
            same = known is not None and data.draw(st.booleans(), label=f"same object {key}")
            content[key] = self.make(key, colors, node, uid=known.metadata.uid if known is not None and same else None)
            replacement.add(content[key])
        for key in dropped:
            content.pop(key, None)
            replacement.remove(*key)
        self.model = content
        self.hear(replacement.commit())

    @rule()
    def add_indexer(self) -> None:
        if self.indexers:
            name, function = self.indexers.popitem()
            self.store.add_indexer(name, function)

    @invariant()
    def equals_the_model(self) -> None:
        held = {(pod.metadata.namespace, pod.metadata.name): pod for pod in self.store.values()}
        assert held == self.model
        assert self.told == self.model
        assert len(self.store) == len(self.model)

    @invariant()
    def uids_are_found(self) -> None:
        for pod in self.model.values():
            assert self.store.by_uid(pod.metadata.uid) == pod
        assert len(self.store._tables.uids) == len(self.model)

    @invariant()
    def indexes_equal_a_recomputation(self) -> None:
        for name, function in INDEXERS.items():
            if name in self.indexers:
                continue  # not added yet
            expected: dict[str, list[Pod]] = {}
            for _, pod in sorted(self.model.items()):
                for value in dict.fromkeys(function(pod)):
                    expected.setdefault(value, []).append(pod)
            assert {value: list(self.store.index(name, value)) for value in self.store.index_values(name)} == expected


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
