"""``/healthz``, ``/readyz`` and ``/metrics`` over plain HTTP.

A check is a function that returns None when all is well, else a sentence. ``?verbose`` lists them all, as Kubernetes' own do.
"""

import asyncio
from collections.abc import Callable, Mapping

from aiohttp import web

from regroup.runtime.metrics import Metrics

Check = Callable[[], str | None]


class HealthServer:
    """Serves liveness (``/healthz``), readiness (``/readyz``) and, when given, the metrics page."""

    def __init__(self, *, liveness: Mapping[str, Check], readiness: Mapping[str, Check], metrics: Metrics | None = None) -> None:
        self._liveness = dict(liveness)
        self._readiness = dict(readiness)
        self._metrics = metrics

    async def serve(self, *, host: str, port: int, ready: Callable[[int], None] | None = None) -> None:
        """Serve until cancelled; ``ready`` gets the port that was bound. Raises ``OSError`` for a port that is taken."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._metrics is not None:
            app.router.add_get("/metrics", self._render)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await site.start()
            if ready is not None:
                ready(runner.addresses[0][1])
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer(self._liveness, verbose="verbose" in request.query)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer(self._readiness, verbose="verbose" in request.query)

    async def _render(self, _: web.Request) -> web.Response:
        assert self._metrics is not None  # noqa: S101 - the route exists only then
        self._metrics.refresh()
        page = await asyncio.to_thread(self._metrics.render)
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


def _answer(checks: Mapping[str, Check], *, verbose: bool) -> web.Response:
    results = {name: check() for name, check in checks.items()}
    failed = any(problem is not None for problem in results.values())
    if not failed and not verbose:
        return web.Response(text="ok")
    lines = [f"[-]{name} failed: {problem}" if problem is not None else f"[+]{name} ok" for name, problem in results.items()]
    return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)
