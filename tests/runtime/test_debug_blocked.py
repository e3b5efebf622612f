"""What the debug port says while the event loop is blocked, on both loops that programs run on."""

import asyncio
import threading
from typing import Any

import msgspec
import pytest

import kcr
from kcr.app.process import fast_loop
from kcr.serving import observability
from kcr.serving.debug import routes
from kcr.serving.ports import ProbeRequest, ProbeResponse, ProgramLoop
from kcr.testing import eventually
from tests.kit.debug_port import BlockingReconciler, PortReader, debugged


class Look:
    """Reads from another thread what the port says, once the loop is blocked; then releases it."""

    def __init__(self, reconciler: BlockingReconciler) -> None:
        self.state: Any = None
        self.details: Any = None
        self.probe = self.added = self.late = (0, "")
        self._reconciler = reconciler

    def take(self, reader: PortReader) -> None:
        try:
            assert self._reconciler.is_blocked.wait(10)
            while self.state is None or not self.state["loop"]["blockedAt"]:
                self.state = msgspec.json.decode(reader.read_now("/debug/kcr/state")[1])
            self.details = msgspec.json.decode(reader.read_now("/debug/kcr/key?key=default/other")[1])
            self.probe = reader.read_now("/livez")
            self.added = reader.read_now("/debug/kcr/cluster")
            self.late = reader.read_now("/debug/kcr/logs")
        finally:
            self._reconciler.release()


async def look() -> Look:
    reconciler, program = BlockingReconciler(), ProgramLoop()
    seen = Look(reconciler)

    async def cluster(request: ProbeRequest) -> ProbeResponse:
        return ProbeResponse(200, b"Jobs")

    async def logs(request: ProbeRequest) -> ProbeResponse:
        return ProbeResponse(200, await program.read(lambda: b"lines", 0.5))

    added = {"/debug/kcr/cluster": cluster, "/debug/kcr/logs": logs}
    async with debugged(reconciler, routes=added) as (reader, queue):
        thread = threading.Thread(target=seen.take, args=(reader,))
        thread.start()
        queue.add(kcr.Key("default", "block"))
        await eventually(lambda: not thread.is_alive(), seconds=30)
        # The loop goes on as if nothing had been asked.
        assert await reader.read("/readyz") == (200, "ok")
    return seen


@pytest.mark.soak
@pytest.mark.parametrize("factory", [pytest.param(None, id="standard"), pytest.param(fast_loop(), id="fast")])
def test_blocked_loop_is_named_with_its_line(factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observability, "STUCK_SECONDS", 0.5)
    monkeypatch.setattr(routes, "LOOP_SECONDS", 0.5)
    with asyncio.Runner(loop_factory=factory) as runner:
        seen = runner.run(look())
    assert seen.state["loop"]["blockedAt"].endswith(" hold_up")
    assert seen.state["loop"]["lagSeconds"] >= 0.1
    ((run,),) = [controller["running"] for controller in seen.state["controllers"]]
    assert run["key"] == "default/block"
    assert run["at"].endswith(" hold_up")
    (detail,) = seen.details
    assert detail["state"]["phase"] == "idle"
    assert detail["explanation"] is None
    assert detail["explanationError"].startswith("the event loop is blocked: ")
    assert seen.added == (200, "Jobs")
    status, text = seen.late
    assert status == 503
    assert text.startswith("the event loop is blocked: ")
    status, text = seen.probe
    assert status == 500
    assert text.startswith("event-loop failed: the event loop has been blocked for 0.5 s: ")
    assert text.endswith(" hold_up\n")
