"""The probe port: probes, answered on the program's loop, and the debug pages, answered on the port's own thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlencode

from kcr.api.bindaddress import BindAddress
from kcr.serving.debug.access import ROOT
from kcr.serving.debug.sources import StateSources
from kcr.serving.health import STUCK_SECONDS
from kcr.serving.ports import HTTPServer, ProbeRequest, ProbeResponse, ProgramLoop, ServerThread


class ProbePort:
    """The handler of the port's requests."""

    def __init__(self, sources: StateSources, program: ProgramLoop) -> None:
        """Make it.

        Args:
            sources: The parts of the manager.
            program: The event loop of the program.
        """
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
async def serve_probes(address: BindAddress, sources: StateSources) -> AsyncIterator[None]:
    """Serve probes and debug pages for as long as the context lives.

    Args:
        address: Where to listen.
        sources: The parts of the manager.

    Raises:
        ConfigError: The address cannot be bound.
    """
    port = ProbePort(sources, ProgramLoop())
    server = HTTPServer("probes", address, port.answer)
    async with ServerThread(server, "probes"):
        sources.options.on_listening(str(address._replace(port=server.port)))
        yield
