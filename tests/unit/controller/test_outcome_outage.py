import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kcr.api.meta import Key
from kcr.controller import Controller, ControllerOptions, Reconciler, Result
from kcr.errors import ApiError, ServerError, TransportError
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential

pytestmark = pytest.mark.kcr_virtual

KEYS = [Key("default", f"job-{number}") for number in range(40)]


class Server:
    """A reconciler whose server is away at times; it notes when each key was reconciled."""

    def __init__(self, error: Exception) -> None:
        self.is_away = True
        self.error = error
        self.tries: list[tuple[Key, float]] = []
        self.done: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> Result:
        now = asyncio.get_running_loop().time()
        self.tries.append((key, now))
        await asyncio.sleep(0.01)
        if self.is_away:
            raise self.error
        self.done[key] = now
        return Result()


@asynccontextmanager
async def running(server: Reconciler) -> AsyncIterator[Controller]:
    limiter = ItemExponential[Key](1, 60)
    controller = Controller("test", server, ControllerOptions(workers=5, limiter=limiter), random=random.Random(0))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller
        task.cancel()


UNANSWERED = [TransportError("refused"), ServerError(503, "ServiceUnavailable", "away")]


@pytest.mark.parametrize("error", UNANSWERED, ids=["no-answer", "service-unavailable"])
async def test_all_keys_are_retried_once_the_server_is_back(error: ApiError, kcr_clock: VirtualClock) -> None:
    server = Server(error)
    async with running(server) as controller:
        for key in KEYS:
            controller.queue.add(key)
        await kcr_clock.advance(300)
        back = asyncio.get_running_loop().time()
        server.is_away = False
        await kcr_clock.advance(3)
        # Their own delays have grown to a minute.
        assert sorted(server.done) == sorted(KEYS)
        assert max(server.done.values()) - back < 2.5


async def test_outage_is_logged_in_one_line_now_and_then(kcr_clock: VirtualClock) -> None:
    server = Server(TransportError("refused"))
    with capture_logs() as logs:
        async with running(server) as controller:
            for key in KEYS:
                controller.queue.add(key)
            await kcr_clock.advance(100)
            server.is_away = False
            await kcr_clock.advance(10)
    lines = [line for line in logs if line["log_level"] != "debug"]
    assert len(server.tries) > 200
    assert [line["event"] for line in lines] == [
        "reconcile failed",
        *["reconciles fail, the API server does not answer"] * 3,
        "API server answers again, retrying reconciles",
    ]
    assert [line.get("keys") for line in lines] == [None, 40, 40, 40, 40]
    assert "refused" in lines[1]["error"]


async def test_one_key_of_many_probes_a_server_that_is_away(kcr_clock: VirtualClock) -> None:
    server = Server(TransportError("refused"))
    async with running(server) as controller:
        for key in KEYS:
            controller.queue.add(key)
        await kcr_clock.advance(300)
    probes = [at for key, at in server.tries if key == KEYS[0]]
    others = [at for key, at in server.tries if key == KEYS[1]]
    assert 300 / 2.1 <= len(probes) <= 301
    assert len(others) < 12


async def test_error_of_one_key_is_no_outage(kcr_clock: VirtualClock) -> None:
    server = Server(ServerError(500, "InternalError", "webhook failed"))
    with capture_logs() as logs:
        async with running(server) as controller:
            controller.queue.add(KEYS[0])
            await kcr_clock.advance(2)
            controller.queue.add(KEYS[1])
            await kcr_clock.advance(0)
    failures = [line for line in logs if line["event"] == "reconcile failed"]
    assert len(failures) == 3


async def test_short_outage_of_one_key_is_told_by_one_line(kcr_clock: VirtualClock) -> None:
    server = Server(TransportError("cut"))
    with capture_logs() as logs:
        async with running(server) as controller:
            controller.queue.add(KEYS[0])
            await kcr_clock.advance(0.5)
            server.is_away = False
            await kcr_clock.advance(5)
    assert [line["event"] for line in logs if line["log_level"] != "debug"] == ["reconcile failed"]


async def test_probe_that_fails_otherwise_lets_the_others_go_on(kcr_clock: VirtualClock) -> None:
    server = Server(TransportError("refused"))
    reconcile = server.reconcile

    class Refusing:
        """The server is back, and refuses the writes of the key that has probed it."""

        async def reconcile(self, key: Key) -> Result:
            if key == KEYS[0] and not server.is_away:
                raise ServerError(500, "InternalError", "webhook failed")
            return await reconcile(key)

    async with running(Refusing()) as controller:
        for key in KEYS:
            controller.queue.add(key)
        await kcr_clock.advance(300)
        server.is_away = False
        await kcr_clock.advance(3)
        assert sorted(server.done) == sorted(KEYS[1:])
        # Nor does its backoff count the outage.
        assert controller.queue.retries(KEYS[0]) <= 2
