"""What operators see of a process: its metrics and probes over HTTP, and a monitor of its event loop."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from kcr.endpoint import HTTPServer, ProbeRequest, ProbeResponse, parse_address
from kcr.health import Health, LoopMonitor
from kcr.metrics import Metrics
from kcr.runnables import RunnableGroup


class Operations:
    """The endpoints of a process; nothing is served and monitored unless `expose` says so."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        """Make them; they are there while the context of `serving` lives.

        Args:
            metrics: What `/metrics` renders.
            health: What the probes ask.
        """
        self._metrics = metrics
        self._health = health
        self._endpoints: list[HTTPServer] = []
        self._monitoring = RunnableGroup("monitors")
        # Whether ports can no longer be added.
        self._exposed = False

    def expose(self, metrics: str, probes: str) -> None:
        """Serve metrics and probes, and monitor the event loop; see `Manager.expose`."""
        if self._exposed:
            raise RuntimeError("expose a manager once, and before it runs")
        self._exposed = True
        for what, text, page in (("metrics", metrics, self._metrics_page), ("probes", probes, self._probe_page)):
            address = parse_address(text)
            if address is not None:
                self._endpoints.append(HTTPServer(what, address, page))
        monitor = LoopMonitor(self._metrics.loop_lag)
        self._monitoring.add(monitor.run, monitor.name)
        self._health.add_live("event-loop", monitor.check)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve for as long as the context lives.

        Raises:
            ConfigError: An address cannot be bound.
        """
        self._exposed = True
        async with AsyncExitStack() as stack:
            for endpoint in self._endpoints:
                await stack.enter_async_context(endpoint)
            async with self._monitoring:
                yield

    def _metrics_page(self, asked: ProbeRequest) -> ProbeResponse | None:
        return ProbeResponse(200, *self._metrics.render(asked.accept)) if asked.path == "/metrics" else None

    def _probe_page(self, asked: ProbeRequest) -> ProbeResponse | None:
        result = self._health.answer(asked.path, asked.query)
        return ProbeResponse(result.status, result.text.encode()) if result is not None else None
