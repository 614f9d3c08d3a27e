"""The configuration of a running operator: read at the start, and followed while it runs (spec/omenative.md 6.4).

What is wrong at the start ends it. Later, what cannot be read counts as absent, and what cannot be reached stays as it was. The
ConfigMap is watched: a change is in force at once, well within the 30 s that upstream's cache may take, and costs no polling.
"""

import random
from collections.abc import Callable, Mapping

import structlog

from regroup.kube.meta import ObjectView
from regroup.kube.resources import CONFIGMAPS
from regroup.omenative.configuration.config import CONFIG_MAP, live_settings, start_settings
from regroup.omenative.configuration.settings import Settings
from regroup.runtime.clock import Clock
from regroup.runtime.reflector import Reflector
from regroup.runtime.store import Change, Store
from regroup.wire.client import Client
from regroup.wire.errors import NotFound


class ConfigMapView(ObjectView, frozen=True, gc=False, kw_only=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None


class LiveConfig:
    """``settings`` as they are now. ``load`` once, then ``run`` as long as the process."""

    def __init__(self, client: Client, *, namespace: str, clock: Clock, rng: random.Random) -> None:
        self._client = client
        self._namespace = namespace
        self._settings = Settings()
        self._complaints: tuple[str, ...] = ()
        self._listeners: list[Callable[[], None]] = []
        self._log = structlog.get_logger("omenative.config").bind(config_map=f"{namespace}/{CONFIG_MAP}")
        self._store: Store[ConfigMapView] = Store()
        self._reflector = Reflector(
            client,
            CONFIGMAPS,
            type=ConfigMapView,
            store=self._store,
            on_change=self._changed,
            clock=clock,
            rng=rng,
            namespace=namespace,
            field_selector=f"metadata.name={CONFIG_MAP}",
        )

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        return self._settings

    def on_change(self, listener: Callable[[], None]) -> None:
        """Tell ``listener`` whenever another configuration is in force."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read all of it. Raises ``ConfigInvalid`` for what an operator must not start with, and ``WireError``."""
        data = await self._read()
        start = start_settings(data)
        self._take(data, Settings(start=start))

    async def run(self) -> None:
        """Follow the live part. Never ends by itself."""
        await self._reflector.run()

    def _changed(self, change: Change[ConfigMapView]) -> None:
        before = self._settings
        self._take((change.new.data or {}) if change.new is not None else {}, before)
        if self._settings != before:
            self._log.info("the configuration changed")
            for listener in self._listeners:
                listener()

    async def _read(self) -> Mapping[str, str]:
        try:
            found = await self._client.get(CONFIGMAPS, CONFIG_MAP, namespace=self._namespace, type=ConfigMapView)
        except NotFound:
            return {}
        return found.data or {}

    def _take(self, data: Mapping[str, str], before: Settings) -> None:
        read = live_settings(data)
        complaints = tuple(read.complaints)
        if complaints != self._complaints:
            self._complaints = complaints
            for complaint in complaints:
                self._log.warning("a setting is ignored", why=complaint)
        self._settings = Settings(live=read.settings, start=before.start)
