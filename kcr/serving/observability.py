"""Observability of a manager: metrics, probes and debug pages of its components, and the ports that serve them.

The probe port serves probes, answered on the program's loop, and the debug pages, answered on the port's own thread.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from kcr.api.bindaddress import BindAddress, bind_address
from kcr.api.meta import Resource
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Controller
from kcr.errors import ConfigError
from kcr.informer import Informer, Selection
from kcr.informer.cache import informer_name
from kcr.metrics import Metrics
from kcr.runnables import RunnableGroup
from kcr.scopes.leaderelection import Leadership
from kcr.scopes.sharding.shards import Shards
from kcr.serving.debug.access import ROOT, DebugOptions
from kcr.serving.debug.sources import StateSources, WatchedKind
from kcr.serving.health import STUCK_SECONDS, Health, LoopMonitor
from kcr.serving.ports import (
    HTTPServer,
    ProbeRequest,
    ProbeResponse,
    ProgramLoop,
    ReviewedAccess,
    SecureServing,
    ServerCertificate,
    ServerThread,
)

# How long the first list of an informer may take that was opened while the manager is ready.
LATE_SYNC_SECONDS = 60.0


class Observability:
    """Shows the components of a manager in its metrics, probes and debug pages; ports are opened by `expose` only."""

    def __init__(
        self, client: Client, metrics: Metrics, health: Health, clock: Clock, election: Leadership | Shards | None
    ) -> None:
        """Create the endpoints; they are served inside the context of `serving`.

        Args:
            client: Asks the API server who may read the metrics.
            metrics: The metrics of `/metrics`.
            health: The checks of the probes.
            clock: The source of time.
            election: The leader election of the process, or its shards.
        """
        self._client = client
        # None allows every client to read.
        self._access: ReviewedAccess | None = None
        self._metrics = metrics
        self._health = health
        self._sources = StateSources(health, clock, election)
        # Of the informers. Two classes may stand for one kind, as a user's with fewer fields beside kcr's own.
        self._names: dict[type[Resource], str] = {}
        self._endpoints: list[AbstractAsyncContextManager[object]] = []
        self._monitoring = RunnableGroup("monitors")
        # Whether ports can no longer be added.
        self._exposed = False
        if isinstance(election, Shards):
            self._add_shards(election)
        elif election is not None:
            self._add_elector(election)

    def expose(
        self,
        metrics: str | BindAddress | None,
        probes: str | BindAddress | None,
        secure: SecureServing | None,
        debug: DebugOptions,
        most: int,
    ) -> None:
        """Serve metrics and probes, and monitor the event loop; see `Manager.expose`."""
        if self._exposed:
            raise RuntimeError("expose a manager once, and before it runs")
        try:
            address, probe_address = bind_address(metrics), bind_address(probes)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if address is None and secure is not None:
            raise ConfigError("metrics_secure: metrics are served nowhere: name their address, such as :8443")
        self._exposed = True
        if address is not None:
            tls = ServerCertificate(secure).context() if secure else None
            self._access = ReviewedAccess(self._client) if secure else None
            self._endpoints.append(HTTPServer("metrics", address, self._metrics_page, tls, max_connections=most))
        if probe_address is not None:
            self._endpoints.append(serve_probes(probe_address, self._sources, most))
        self._sources.options = debug
        monitor = self._sources.monitor = LoopMonitor(self._metrics.loop_lag)
        self._monitoring.add(monitor.run, monitor.name)
        self._health.add_live("event-loop", monitor.check)

    def add_controller(self, controller: Controller) -> None:
        """Show a controller on the debug pages."""
        self._sources.controllers[controller.name] = controller

    def add_informer(self, selections: tuple[Selection[Any], ...], informer: Informer[Any], *, is_late: bool) -> None:
        """Export an informer's metrics, and let readiness depend on it.

        Args:
            selections: Its selections.
            informer: The informer.
            is_late: Whether the process is ready already: then the first list may take a minute.
        """
        name = self._name(informer.kind)
        self._sources.informers[name] = WatchedKind(selections, informer)
        unready_from = asyncio.get_running_loop().time() + LATE_SYNC_SECONDS if is_late else 0.0

        def is_passed_over() -> bool:
            return not informer.store.synced and asyncio.get_running_loop().time() < unready_from

        self._health.add_ready(
            f"informer-{name}",
            lambda: "" if is_passed_over() else informer.unready_reason,
            remark=lambda: informer.not_synced_reason if is_passed_over() else informer.last_error or informer.silence,
        )
        self._metrics.informer(_labels(name, informer.kind), informer)

    def remove_informer(self, kind: type[Resource]) -> None:
        """Export an informer's metrics no more, and let readiness no longer depend on it."""
        name = self._names.pop(kind, "")
        self._sources.informers.pop(name, None)
        self._health.remove_ready(f"informer-{name}")
        self._metrics.remove_informer(_labels(name, kind))

    def _name(self, kind: type[Resource]) -> str:
        plain, taken = informer_name(kind), set(self._names.values())
        others = (f"{plain}-{kind.__name__}{number}" for number in ("", *range(2, len(taken) + 3)))
        name = self._names[kind] = next(one for one in (plain, *others) if one not in taken)
        return name

    def _add_elector(self, elector: Leadership) -> None:
        """Export the metrics of leader election, and let liveness depend on it; readiness names the leader.

        Source: controller-runtime/pkg/manager/manager.go, New: LeaderElectionLivenessProbe.
        """
        self._health.add_ready("leader-election", str, remark=elector.standby_remark)
        self._metrics.leader_election(elector.config.name, elector)
        self._health.add_live("leaderElection", elector.overdue)

    def _add_shards(self, shards: Shards) -> None:
        """Export the metrics of sharding, and let liveness depend on its Leases; readiness names the shards."""
        self._metrics.sharding(shards.config.name, shards)
        self._health.add_ready("sharding", str, remark=shards.remark)
        self._health.add_live("sharding", shards.overdue)

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

    async def _metrics_page(self, asked: ProbeRequest) -> ProbeResponse | None:
        if asked.path != "/metrics":
            return None
        refusal = await self._access.refuse(asked) if self._access is not None else None
        return refusal or ProbeResponse(200, *self._metrics.render(asked.accept))


def _labels(name: str, kind: type[Resource]) -> tuple[str, str, str, str]:
    group, version, _, plural, _ = kind.resource
    return name, group, version, plural


class ProbePort:
    """The handler of the port's requests."""

    def __init__(self, sources: StateSources, program: ProgramLoop) -> None:
        # Not with the first request: a process in trouble may have no time for it, and no file to open.
        from kcr.serving.debug.routes import DebugPages  # noqa: PLC0415  # most that import this never listen

        self._sources = sources
        self._program = program
        self._pages = DebugPages(sources, program)

    async def answer(self, request: ProbeRequest) -> ProbeResponse | None:
        """Answer a request; None when there is nothing at its path.

        A probe waits for the program's loop, as long as its client does: a kubelet gives up after its timeout. One that
        has waited for as long as fails liveness is answered, with the line that blocks the loop.
        """
        if request.path == "/":
            query = urlencode(request.query, doseq=True)
            place = f"{ROOT}?{query}" if query else ROOT
            return ProbeResponse(
                302, f"probes: /livez, /readyz; what the process does: {ROOT}\n".encode(), headers={"Location": place}
            )
        if request.path == "/debug" or request.path.startswith("/debug/"):
            return await self._pages.answer(request)
        try:
            result = await self._program.read(
                lambda: self._sources.health.answer(request.path, request.query), STUCK_SECONDS
            )
        except TimeoutError:
            return ProbeResponse(500, self._blocked())
        return ProbeResponse(result.status, result.text.encode()) if result is not None else None

    def _blocked(self) -> bytes:
        monitor = self._sources.monitor
        place = monitor.blocked_at(self._program.now()) if monitor is not None else ""
        return f"event-loop failed: the event loop has been blocked for {STUCK_SECONDS:g} s: {place}\n".encode()


@asynccontextmanager
async def serve_probes(address: BindAddress, sources: StateSources, most: int) -> AsyncIterator[None]:
    """Serve probes and debug pages for as long as the context lives.

    Raises:
        ConfigError: The address cannot be bound.
    """
    port = ProbePort(sources, ProgramLoop())
    server = HTTPServer("probes", address, port.answer, max_connections=most)
    async with ServerThread(server, "probes"):
        sources.options.on_listening(str(address._replace(port=server.port)))
        yield
