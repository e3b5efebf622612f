import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client, Pressure, Request
from kcr.errors import ApiError, ServerError, TooManyRequestsError, TransportError, error_for
from kcr.metrics import Metrics
from kcr.testing import VirtualClock
from tests.kit.busy_server import BusyServer, in_seconds

pytestmark = pytest.mark.kcr_virtual

A = Key("default", "a")


def down(_: int) -> ApiError:
    return ServerError(503, "ServiceUnavailable", "no")


def beyond(seats: int) -> Callable[[int], ApiError | None]:
    """Return the refusals of API priority and fairness, for a priority level with so many seats and no queues."""
    busy = error_for(429, "TooManyRequests", "too many requests", retry_after_seconds=1)
    return lambda executed: busy if executed >= seats else None


@asynccontextmanager
async def asked_by(workers: int, client: Client) -> AsyncIterator[None]:
    """Ask for the Pod all the time, in so many tasks, each as soon as it has an answer."""

    async def ask() -> None:
        while True:
            try:
                await client.get(Pod, A)
            except TooManyRequestsError as error:
                await asyncio.sleep(error.retry_after_seconds)
            except (ApiError, TransportError):
                await asyncio.sleep(0.005)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask()) for _ in range(workers)]
        yield
        for task in tasks:
            task.cancel()


async def test_requests_nearly_stop_while_everything_is_refused(kcr_clock: VirtualClock) -> None:
    server = BusyServer()
    async with asked_by(10, Client(server)):
        await kcr_clock.advance(10)
        server.refuse = down
        await kcr_clock.advance(20)
        server.refuse = lambda _: None
        await kcr_clock.advance(10)
    normal = in_seconds(server.sent, 5, 10)
    assert normal == 1000
    assert in_seconds(server.sent, 12, 30) <= 0.05 * normal
    assert in_seconds(server.sent, 12, 30) <= 1.2
    assert in_seconds(server.done, 32, 40) >= 0.95 * normal


async def test_server_that_admits_half_is_kept_busy(kcr_clock: VirtualClock) -> None:
    # Priority and fairness admit 20 at once, and twice as many want to.
    server = BusyServer(seconds=lambda _: 0.05)
    server.refuse = beyond(20)
    async with asked_by(40, Client(server)):
        await kcr_clock.advance(20)
    admitted = 20 / 0.05
    assert in_seconds(server.done, 5, 20) >= 0.9 * admitted
    assert in_seconds(server.sent, 5, 20) <= 1.1 * admitted


async def test_half_refused_at_random_does_not_stop_the_others(kcr_clock: VirtualClock) -> None:
    server, pressure = BusyServer(), Pressure()
    busy = error_for(429, "TooManyRequests", "no", retry_after_seconds=1)
    server.refuse = lambda _: busy if pressure.random.random() < 0.5 else None
    async with asked_by(100, Client(server, pressure=pressure)):
        await kcr_clock.advance(30)
    # Each asks until it is refused, and then sleeps for a second.
    assert in_seconds(server.done, 5, 30) >= 0.9 * in_seconds(server.sent, 5, 30) / 2
    assert in_seconds(server.done, 5, 30) >= 80


async def test_slow_answers_lower_the_limit(kcr_clock: VirtualClock) -> None:
    server, pressure = BusyServer(seconds=lambda _: 0.2), Pressure()
    async with asked_by(100, Client(server, pressure=pressure)):
        await kcr_clock.advance(2)
        assert pressure.limit == 100
        # A disk of etcd that is shared by all.
        server.seconds = lambda executed: executed * 0.1
        await kcr_clock.advance(60)
        assert pressure.limit < 50
        server.seconds = lambda _: 0.2
        await kcr_clock.advance(15)
        assert pressure.limit == 100


async def test_requests_that_wait_are_sent_in_their_order(kcr_clock: VirtualClock) -> None:
    server, pressure = BusyServer(seconds=lambda _: 1.0), Pressure()
    client = Client(server, pressure=pressure)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.request("GET", f"/{number}")) for number in range(250)]
        await kcr_clock.advance(0.5)
        assert (pressure.in_flight, pressure.waiting) == (100, 150)
        for cancelled in (100, 101, 249):
            tasks[cancelled].cancel()
        await kcr_clock.advance(1)
        assert (pressure.in_flight, pressure.waiting) == (100, 47)
    assert server.targets == [f"/{number}" for number in range(250) if number not in (100, 101, 249)]
    assert server.sent == {0: 100, 1: 100, 2: 47}


async def test_request_cancelled_as_its_turn_comes_gives_its_place_back(kcr_clock: VirtualClock) -> None:
    places, request = Pressure().here(), Request("GET", "/")
    began = [places.enter() for _ in range(100)]
    async with asyncio.TaskGroup() as group:
        first, second = (group.create_task(places.wait(request)) for _ in range(2))
        await kcr_clock.settle()
        assert began[0] is not None
        places.leave(began[0])
        first.cancel()
    assert first.cancelled()
    assert (second.result(), places.in_flight) == (0.0, 100)


async def test_request_that_waits_too_long_is_not_sent(kcr_clock: VirtualClock) -> None:
    server = BusyServer()
    server.refuse = down
    pressure = Pressure()
    errors = list[str]()
    client = Client(server, pressure=pressure)

    async def ask() -> None:
        try:
            await client.get(Pod, A)
        except TransportError as error:
            errors.append(str(error))
        except ServerError:
            pass

    async with asked_by(5, client):
        await kcr_clock.advance(1)
    before = server.sent.total()
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(ask())
        await kcr_clock.advance(31)
    assert errors[0] == (
        "GET /api/v1/namespaces/default/pods/a: not sent, the API server has refused everything for 30 s: no"
    )
    assert server.sent.total() - before + len(errors) == 100
    assert len(errors) > 60
    assert (pressure.in_flight, pressure.waiting) == (0, 0)


async def test_busy_client_without_refusals_waits_as_long_as_it_takes(kcr_clock: VirtualClock) -> None:
    client = Client(BusyServer(seconds=lambda _: 1.0))
    async with asyncio.TaskGroup() as group:
        for _ in range(4_000):
            group.create_task(client.get(Pod, A))
    assert asyncio.get_running_loop().time() == 40


async def test_pressure_is_logged_when_it_begins_and_ends(kcr_clock: VirtualClock) -> None:
    server = BusyServer()
    with capture_logs() as logs:
        async with asked_by(10, Client(server)):
            for _ in range(3):
                server.refuse = down
                await kcr_clock.advance(3)
                server.refuse = lambda _: None
                await kcr_clock.advance(3)
            await kcr_clock.advance(10)
    first, last = logs
    assert first == {
        "event": "API server is overloaded or away, limiting requests in flight",
        "log_level": "warning",
        "limit": 9,
        "error": "no",
    }
    assert (last["event"], last["log_level"]) == ("API server takes requests again", "info")
    assert last["seconds"] == pytest.approx(15, abs=3)


async def test_unthrottled_client_never_waits(kcr_clock: VirtualClock) -> None:
    server, pressure = BusyServer(), Pressure()
    server.refuse = down
    client = Client(server, pressure=pressure)
    async with asked_by(10, client):
        await kcr_clock.advance(3)
        before = server.sent.total()
        for _ in range(20):
            with pytest.raises(ServerError):
                await client.with_options(throttled=False).get(Pod, A)
        assert server.sent.total() - before >= 20
        assert pressure.in_flight <= 1


async def test_limit_is_shown_in_metrics_and_remarks(kcr_clock: VirtualClock) -> None:
    metrics, pressure, server = Metrics(), Pressure(), BusyServer()
    metrics.pressure("api:6443", pressure)
    client = Client(server, pressure=pressure)

    def shown() -> list[float | None]:
        names = ("in_flight", "in_flight_limit", "waiting")
        value = metrics.registry.get_sample_value
        return [value(f"kcr_client_requests_{name}", {"host": "api:6443"}) for name in names]

    assert (shown(), pressure.remark()) == ([0, 100, 0], "")
    async with asked_by(10, client):
        await kcr_clock.advance(1.005)
        assert shown() == [10, 100, 0]
        server.refuse = down
        await kcr_clock.advance(3)
        assert shown() == [0, 1, 10]
        assert pressure.remark() == "the API server is overloaded or away: at most 1 requests in flight, 10 wait"


async def test_exchange_holds_a_place_until_its_answer_is_read(kcr_clock: VirtualClock) -> None:
    pressure, server = Pressure(), BusyServer()
    client = Client(server, pressure=pressure)
    async with client.exchange(Request("GET", "/version")) as response:
        assert (response.status, pressure.in_flight) == (200, 1)
        # The caller's time is not the server's.
        await kcr_clock.advance(60)
    assert (pressure.in_flight, pressure.limit) == (0, 100)
    server.refuse = down
    for _ in range(3):
        async with client.exchange(Request("GET", "/version")) as response:
            assert response.status == 503
    assert pressure.limit < 100
