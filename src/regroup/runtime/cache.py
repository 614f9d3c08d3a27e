"""The shared cache: one watch and one store for each kind and selector, however many read them."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from regroup.kube.meta import HasMeta
from regroup.runtime.clock import Clock
from regroup.runtime.reflector import READ_TIMEOUT, Reflector, ReflectorStatistics
from regroup.runtime.store import Change, Indexer, Store, UnionStore
from regroup.wire.client import Client
from regroup.wire.resource import Resource

T = TypeVar("T", bound=HasMeta)


@dataclass(frozen=True, slots=True)
class InformerStatistics:
    """One kind in the cache: how many objects, and how each of its watches fares (one for each namespace)."""

    resource: str
    objects: int
    synced: bool
    reflectors: tuple[ReflectorStatistics, ...]


class Informer(Generic[T]):
    """One kind: its store, and who is told of changes. Made by ``Cache.informer``."""

    def __init__(self, resource: Resource, *, store: Store[T]) -> None:
        self.resource = resource
        self.store = store
        self.reflectors: list[Reflector[T]] = []
        self._handlers: list[Callable[[Change[T]], None]] = []

    @property
    def synced(self) -> bool:
        """Whether the first list is in."""
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    def add_handler(self, handler: Callable[[Change[T]], None]) -> None:
        """Tell ``handler`` of every change; what is there already comes as additions at once."""
        for obj in self.store.values():
            handler(Change(None, obj))
        self._handlers.append(handler)

    def notify(self, change: Change[T]) -> None:
        """Tell all handlers. They only note keys; one that raises is a bug and ends the process."""
        for handler in self._handlers:
            handler(change)

    def statistics(self) -> InformerStatistics:
        return InformerStatistics(
            str(self.resource), len(self.store), self.synced, tuple(reflector.statistics() for reflector in self.reflectors)
        )


class Cache:
    """All informers of one process. ``namespaces`` limits them to some; none means all."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: random.Random,
        namespaces: Sequence[str] = (),
        read_timeout: float = READ_TIMEOUT,
        log: Any = None,
    ) -> None:
        self._client, self._clock, self._rng = client, clock, rng
        self._namespaces = tuple(dict.fromkeys(namespaces))
        self._read_timeout = read_timeout
        self._log = log
        self._informers: dict[tuple[Resource, type[Any], str, str], Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def informer(
        self,
        resource: Resource,
        *,
        type: type[T],
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, Indexer[T]] | None = None,
    ) -> Informer[T]:
        """The informer of a kind; the same arguments give the same one, and indexers add up. May come while the cache runs."""
        key = (resource, type, label_selector, field_selector)
        known = self._informers.get(key)
        if known is not None:
            for name, function in (indexers or {}).items():
                known.store.add_indexer(name, function)
            return cast("Informer[T]", known)
        scopes = self._scopes(resource)
        # Each namespace has a store of its own, so that its relist is whole by itself and touches nobody else's objects.
        parts: list[Store[T]] = [Store(indexers=indexers) for _ in scopes]
        informer = Informer(resource, store=parts[0] if len(parts) == 1 else UnionStore(parts))
        for namespace, store in zip(scopes, parts, strict=True):
            informer.reflectors.append(
                Reflector(
                    self._client,
                    resource,
                    type=type,
                    store=store,
                    on_change=informer.notify,
                    clock=self._clock,
                    rng=self._rng,
                    namespace=namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    read_timeout=self._read_timeout,
                    log=self._log,
                )
            )
        self._informers[key] = informer
        if self._tasks is not None:
            self._start(informer)
        return informer

    async def run(self) -> None:
        """Keep all informers until cancelled. A watcher that dies ends this with its error: never alive and deaf."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for informer in list(self._informers.values()):
                    self._start(informer)
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def wait_synced(self) -> None:
        """Wait until every informer that is known now has its first list."""
        for informer in list(self._informers.values()):
            for reflector in informer.reflectors:
                await reflector.synced.wait()

    def unhealthy(self, *, longer_than: float) -> str | None:
        """A sentence on the first kind that has been deaf for more than so many seconds, None when there is none."""
        for informer in self._informers.values():
            for reflector in informer.reflectors:
                deaf = reflector.deaf_for()
                if deaf > longer_than:
                    why = reflector.last_error or "nothing was heard"
                    return f"{informer.resource} has had no working watch for {deaf:.0f} s: {why}"
        return None

    def refused(self) -> str | None:
        """A sentence on the first kind that the server does not let us read, None when there is none."""
        for informer in self._informers.values():
            for reflector in informer.reflectors:
                if reflector.refused:
                    return f"{informer.resource} cannot be listed and watched: {reflector.refused}"
        return None

    def collections(self) -> tuple[tuple[Resource, str | None], ...]:
        """Each collection that is watched: its kind, and its namespace (None: all)."""
        named = (
            (informer.resource, namespace)
            for informer in self._informers.values()
            for namespace in self._scopes(informer.resource)
        )
        return tuple(dict.fromkeys(named))

    def statistics(self) -> tuple[InformerStatistics, ...]:
        return tuple(informer.statistics() for informer in self._informers.values())

    def _scopes(self, resource: Resource) -> tuple[str | None, ...]:
        return self._namespaces if self._namespaces and resource.namespaced else (None,)

    def _start(self, informer: Informer[Any]) -> None:
        assert self._tasks is not None  # noqa: S101 - callers have looked
        for reflector in informer.reflectors:
            self._tasks.create_task(reflector.run(), name=f"watch of {informer.resource}")
