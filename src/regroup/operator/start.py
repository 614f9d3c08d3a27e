"""Starts an operator: checks that it can work here, serves webhooks and health, waits for the lease, runs the controllers.

Webhooks are answered by every replica, controllers run in the one that leads. Losing the lease or the death of any task ends
``run`` with that error: a process that is alive, healthy and deaf must not exist.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict
from operator import add
from typing import Any

import structlog

from regroup.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from regroup.leaderworkerset.admission import webhook as lws_webhook
from regroup.leaderworkerset.keys import LEADERWORKERSETS
from regroup.omenative.admission import webhook as ome_webhook
from regroup.omenative.keys import INFERENCE_SERVICES
from regroup.operator import apis
from regroup.operator import webhooks as api_webhooks
from regroup.operator.apis import NotInstalled, Served
from regroup.operator.config import LEASE, SECRET, OperatorConfig
from regroup.operator.webhooks import WEBHOOK_CONFIGURATION
from regroup.runtime.admission import AdmissionServer
from regroup.runtime.certificates import Certificates, trust
from regroup.runtime.clock import Clock
from regroup.runtime.election import Election
from regroup.runtime.events import EventRecorder
from regroup.runtime.health import HealthServer
from regroup.runtime.manager import EndedEarly, Manager
from regroup.runtime.metrics import Metrics
from regroup.wire.client import Client
from regroup.wire.errors import Invalid, NotFound
from regroup.wire.resource import Resource

COMPONENT = "leaderworkerset"
"""``reportingController`` of our events, as users of the upstream project filter by."""
OME_COMPONENT = "ome-controller-manager"
"""The same for OMENative."""
DEAF_AFTER = 300.0
"""Seconds without a working watch after which liveness fails, so that the kubelet starts us anew."""

_CONFIGURATIONS = {MUTATING_WEBHOOKS: [WEBHOOK_CONFIGURATION], VALIDATING_WEBHOOKS: [WEBHOOK_CONFIGURATION]}


class RegisteredByService(Exception):
    """Our webhooks are to be registered by URL, and those of an operator inside the cluster are there."""


class Operator:
    """One operator process against one cluster. ``run`` is its life; cancelling it is a clean stop."""

    def __init__(self, client: Client, *, config: OperatorConfig, clock: Clock, rng: random.Random, log: Any = None) -> None:
        self._client = client
        self._config = config
        self._clock, self._rng = clock, rng
        self._log = log or structlog.get_logger("operator")
        self.metrics = Metrics()
        self.admission = AdmissionServer(log=self._log)
        lws_webhook.register(self.admission, provider=config.scheduler_provider)
        ome_webhook.register(self.admission)
        self.manager = Manager(client, clock=clock, rng=rng, namespaces=config.namespaces, metrics=self.metrics)
        self.recorder = EventRecorder(client, component=COMPONENT, instance=config.identity, clock=clock)
        self._ome_recorder = EventRecorder(client, component=OME_COMPONENT, instance=config.identity, clock=clock)
        self._election: Election | None = None
        if config.leader_elect:
            self._election = Election(
                client, namespace=config.home, name=LEASE, identity=config.identity, clock=clock, rng=rng, log=self._log
            )
        self.webhook_port = 0
        self.metrics_port = 0
        self._webhooks_up = asyncio.Event()
        self._missing: list[str] = []
        self._leads = not config.leader_elect
        self._own_ca = b""
        """What API servers shall trust, while our webhooks are registered by URL."""
        self._measure()

    @property
    def ready(self) -> asyncio.Event:
        """Set while this process leads and its caches are filled."""
        return self.manager.ready

    async def run(self) -> None:
        """Work until cancelled.

        Raises ``NotInstalled``, ``RegisteredByService``, ``WireError`` (unreachable, refused), ``OSError`` (a port that is
        taken), ``LeadershipLost``.
        """
        await self._set_up(await apis.look(self._client, namespaces=self._config.namespaces))
        await self.check()
        certificates = await self._certificates()
        async with asyncio.TaskGroup() as tasks:
            if certificates is not None:
                tasks.create_task(self._serve_webhooks(certificates), name="webhooks")
                await self._webhooks_up.wait()
                await self._follow(tasks, certificates)
            if self._config.metrics_port is not None:
                tasks.create_task(self._serve_health(self._config.metrics_port), name="health")
            # Beside each other, so that at the stop the lease is given back while the last events are written.
            tasks.create_task(self.recorder.run(), name="events")
            tasks.create_task(self._ome_recorder.run(), name="events of OMENative")
            tasks.create_task(self._lead(), name="controllers")

    async def _set_up(self, served: Served) -> None:
        """Add the controllers of what the cluster serves."""
        if served.leader_worker_sets:
            apis.keep_leader_worker_sets(self.manager, recorder=self.recorder, config=self._config, metrics=self.metrics)
        if served.inference_services:
            await apis.keep_inference_services(
                self.manager, recorder=self._ome_recorder, config=self._config, metrics=self.metrics, gangs=served.pod_groups
            )
        for there, resource in ((served.leader_worker_sets, LEADERWORKERSETS), (served.inference_services, INFERENCE_SERVICES)):
            if not there:
                self._log.info("not served by this cluster and not kept: start anew once it is installed", resource=str(resource))

    async def check(self) -> None:
        """See that the cluster lets us read all that we watch: a kind that cannot be read would hold up
        every controller. Raises ``NotInstalled`` or ``WireError``, which names the right that is missing."""
        for resource, namespace in self.manager.cache.collections():
            try:
                await self._client.list(resource, namespace=namespace, limit=1)
            except NotFound:
                raise NotInstalled(f"the cluster does not serve {resource}") from None

    def _measure(self) -> None:
        """What the parts know of themselves, as gauges."""

        def queues(count: str) -> Iterable[tuple[tuple[str, ...], float]]:
            return (((one.name,), float(getattr(one.queue.statistics(), count))) for one in self.manager.controllers)

        gauges = self.metrics.gauges
        gauges("workqueue_depth", "Keys that wait for a worker", ("name",), lambda: queues("ready"))
        gauges("regroup_queue_failing", "Keys whose last pass failed", ("name",), lambda: queues("failing"))
        gauges(
            "regroup_cache_objects",
            "Objects in the cache",
            ("resource",),
            lambda: _joined(((one.resource, float(one.objects)) for one in self.manager.cache.statistics()), by=add),
        )
        gauges(
            "regroup_watch_silence_seconds",
            "Seconds since a kind was last heard of",
            ("resource",),
            lambda: _joined(
                (
                    (one.resource, max((source.deaf_for for source in one.reflectors), default=0.0))
                    for one in self.manager.cache.statistics()
                ),
                by=max,
            ),
        )
        gauges(
            "regroup_events",
            "Events by what became of them",
            ("outcome",),
            lambda: _joined(
                (
                    (name, float(value))
                    for recorder in (self.recorder, self._ome_recorder)
                    for name, value in asdict(recorder.statistics()).items()
                ),
                by=add,
            ),
        )

    async def _lead(self) -> None:
        if self._election is None:
            await self.manager.run()
        else:
            await self._election.run(self._manage)
        raise EndedEarly("the controllers ended although they must run as long as the process")

    async def _manage(self) -> None:
        self.metrics.leading(LEASE, leads=True)
        self._leads = True
        try:
            if self._own_ca:
                await self._keep_registered(self._own_ca)
            await self.manager.run()
        finally:
            self._leads = False
            self.metrics.leading(LEASE, leads=False)

    async def _certificates(self) -> Certificates | None:
        config = self._config
        if config.webhook_port is None:
            return None
        certificates = Certificates(names=config.certificate_names(), clock=self._clock, log=self._log)
        if config.certificate_dir is not None:
            folder = config.certificate_dir
            certificates.use_files(certificate=folder / "tls.crt", key=folder / "tls.key")
        elif config.webhook_url:
            await certificates.load()
        else:
            await certificates.load(client=self._client, namespace=config.home, secret=SECRET)
        return certificates

    async def _serve_webhooks(self, certificates: Certificates) -> None:
        def bound(port: int) -> None:
            self.webhook_port = port
            self._webhooks_up.set()
            self._log.info("webhooks served", port=port)

        await self.admission.serve(
            host=self._config.host, port=self._config.webhook_port or 0, context=certificates.context, ready=bound
        )

    async def _follow(self, tasks: asyncio.TaskGroup, certificates: Certificates) -> None:
        """Make API servers trust what we serve with, now and whenever it changes."""
        config = self._config
        if config.certificate_dir is not None:
            folder = config.certificate_dir
            tasks.create_task(
                certificates.follow_files(certificate=folder / "tls.crt", key=folder / "tls.key"), name="mounted certificate"
            )
            return
        if config.webhook_url:
            self._own_ca = certificates.ca
            await self._register(certificates.ca)
            tasks.create_task(certificates.keep(on_trust=self._keep_registered), name="certificate")
        else:
            await self._trust(certificates.ca)
            tasks.create_task(
                certificates.keep(client=self._client, namespace=config.home, secret=SECRET, on_trust=self._trust),
                name="certificate",
            )

    async def _trust(self, ca: bytes) -> None:
        missing = await trust(self._client, _CONFIGURATIONS, ca)
        if missing and missing != self._missing:
            self._log.warning("webhook configurations are missing: objects and pods are not admitted by us", missing=missing)
        self._missing = missing

    async def _keep_registered(self, ca: bytes) -> None:
        """See that webhooks are registered. The leader sees to it that they are its own: another operator that was started for
        a while has left its URL. The others keep off what is not theirs: their CA in it would break it."""
        self._own_ca = ca
        urls = await self._registered_urls()
        if urls is not None and all(url.startswith(self._config.webhook_url) for url in urls):
            await trust(self._client, _CONFIGURATIONS, ca)
        elif urls is None or self._leads:
            await self._register(ca)

    async def _registered_urls(self) -> list[str] | None:
        """The URLs of the registered webhooks of our names; None when a configuration is missing."""
        urls = []
        for resource, names in _CONFIGURATIONS.items():
            for name in names:
                try:
                    found: dict[str, Any] = await self._client.get(resource, name)
                except NotFound:
                    return None
                urls += [str((webhook.get("clientConfig") or {}).get("url")) for webhook in found.get("webhooks") or []]
        return urls

    async def _register(self, ca: bytes) -> None:
        """Register our webhooks by URL, for an operator outside the cluster."""
        configurations = api_webhooks.configurations(
            url=self._config.webhook_url, ca_bundle=ca, namespaces=self._config.namespaces
        )
        for configuration in configurations:
            resource = _configuration_resource(configuration["kind"])
            name = configuration["metadata"]["name"]
            try:
                await self._client.apply(resource, name, configuration)
            except Invalid:
                found: dict[str, Any] = await self._client.get(resource, name)
                if any((webhook.get("clientConfig") or {}).get("service") for webhook in found.get("webhooks") or []):
                    raise RegisteredByService(f"{resource.kind} {name} leads to an operator inside the cluster") from None
                raise
        self._log.info("webhooks registered", url=self._config.webhook_url)

    async def _serve_health(self, port: int) -> None:
        def bound(port: int) -> None:
            self.metrics_port = port
            self._log.info("metrics and probes served", port=port)

        readiness = {"webhooks": self._not_serving, "rights": self.manager.cache.refused}
        server = HealthServer(liveness={"watches": self.deaf}, readiness=readiness, metrics=self.metrics)
        await server.serve(host=self._config.host, port=port, ready=bound)

    def _not_serving(self) -> str | None:
        if self._config.webhook_port is not None and not self._webhooks_up.is_set():
            return "webhooks are not served yet"
        return None

    def deaf(self) -> str | None:
        """Why this process should be started anew: a kind that has not been heard of for long. None when all is well."""
        return self.manager.cache.unhealthy(longer_than=DEAF_AFTER)


def _joined(
    values: Iterable[tuple[str, float]], *, by: Callable[[float, float], float]
) -> Iterable[tuple[tuple[str, ...], float]]:
    """One series for each name: both APIs watch pods and tell events, and a page must not have a series twice."""
    found: dict[str, float] = {}
    for name, value in values:
        found[name] = by(found[name], value) if name in found else value
    return (((name,), value) for name, value in found.items())


def _configuration_resource(kind: str) -> Resource:
    return MUTATING_WEBHOOKS if kind == MUTATING_WEBHOOKS.kind else VALIDATING_WEBHOOKS
