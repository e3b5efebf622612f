import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry, Histogram
from structlog.testing import capture_logs

from kcr.serving import health
from kcr.serving.health import Health, LoopMonitor, ProbeResult
from kcr.testing import eventually


def well() -> str:
    return ""


def ill() -> str:
    return "pods is forbidden"


def broken() -> str:
    raise LookupError("no such thing")


def checked() -> Health:
    health = Health()
    health.add_live("event-loop", well)
    health.add_ready("informer-pods", ill)
    health.add_ready("controllers", well)
    return health


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        pytest.param("/healthz", {}, 200, "ok", id="brief"),
        pytest.param("/livez", {}, 200, "ok", id="live-is-healthy"),
        pytest.param(
            "/healthz", {"verbose": [""]}, 200, "[+]event-loop ok\nhealthz check passed\n", id="verbose"
        ),
        pytest.param(
            "/readyz", {}, 500,
            "[-]informer-pods failed: pods is forbidden\n[+]controllers ok\nreadyz check failed\n", id="told",
        ),
        pytest.param("/readyz", {"exclude": ["informer-pods"]}, 200, "ok", id="excluded"),
        pytest.param(
            "/readyz", {"exclude": ["informer-pods", "nodes"], "verbose": [""]}, 200,
            "[+]informer-pods excluded: ok\n[+]controllers ok\n"
            "warn: some health checks cannot be excluded: no matches for nodes\nreadyz check passed\n",
            id="unknown-exclusion",
        ),
        pytest.param("/readyz/controllers", {}, 200, "ok", id="one-check"),
        pytest.param("/readyz/informer-pods", {}, 500, "informer-pods failed: pods is forbidden\n", id="one-ill"),
    ],
)  # fmt: skip
def test_probe_is_answered_as_by_kubernetes(path: str, query: dict[str, list[str]], status: int, text: str) -> None:
    assert checked().answer(path, query) == ProbeResult(status, text)  # CM-52


@pytest.mark.parametrize("path", ["/", "/metrics", "/readyz/nodes", "/livez/informer-pods"])
def test_other_paths_are_not_there(path: str) -> None:
    assert checked().answer(path, {}) is None


def test_probe_without_checks_passes_with_a_ping() -> None:  # CM-52
    assert Health().answer("/readyz", {"verbose": []}) == ProbeResult(200, "[+]ping ok\nreadyz check passed\n")


def test_check_that_breaks_fails_and_spares_the_others() -> None:
    health = checked()
    health.add_live("broken", broken)
    assert health.answer("/livez", {}) == ProbeResult(
        500, "[+]event-loop ok\n[-]broken failed: LookupError: no such thing\nlivez check failed\n"
    )


def lag_of(registry: CollectorRegistry) -> float:
    return registry.get_sample_value("lag_sum") or 0.0


@pytest.mark.asyncio
async def test_late_loop_is_measured_and_its_culprit_named(monkeypatch: pytest.MonkeyPatch) -> None:  # PY-15, ST-36
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(health, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(health, "STUCK_SECONDS", 0.1)
    registry = CollectorRegistry()
    monitor = LoopMonitor(Histogram("lag", "", registry=registry))

    def hold_up() -> None:
        threading.Event().wait(0.3)

    with capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(monitor.run())
            await eventually(lambda: registry.get_sample_value("lag_count"))
            hold_up()
            await eventually(lambda: lag_of(registry) >= 0.2)
            assert "stuck for " in monitor.check()
            task.cancel()
    # On a busy machine the loop is late by itself as well.
    named = [line for line in lines if line["seconds"] >= 0.2 and "hold_up" in line["where"]]
    assert {line["log_level"] for line in named} == {"warning"}


@pytest.mark.asyncio
async def test_loop_that_stays_blocked_is_named_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(health, "LATE_SECONDS", 0.05)
    monkeypatch.setattr(health, "STUCK_SECONDS", 0.1)
    monitor = LoopMonitor(Histogram("lag", "", registry=CollectorRegistry()))

    def block_until_named() -> bool:
        waiting = threading.Event()
        return any(waiting.wait(0.01) or blocked() for _ in range(1000))

    def blocked() -> list[object]:
        return [line for line in lines if line["event"] == "event loop is blocked" and "wait" in line["where"]]

    with capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(monitor.run())
            await asyncio.sleep(0.05)
            assert block_until_named()
            task.cancel()


@pytest.mark.asyncio
async def test_loop_in_time_is_well() -> None:
    monitor = LoopMonitor(Histogram("lag", "", registry=CollectorRegistry()))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(monitor.run())
        await asyncio.sleep(0)
        assert monitor.check() == ""
        task.cancel()
    await eventually(lambda: monitor.name not in {thread.name for thread in threading.enumerate()})


@pytest.mark.asyncio
async def test_longer_block_is_named_though_a_short_one_was_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.01)
    monitor = LoopMonitor(Histogram("lag", "", registry=CollectorRegistry()))

    def import_modules() -> None:
        threading.Event().wait(0.3)

    def hold_up() -> None:
        threading.Event().wait(1.5)

    def is_named(name: str) -> bool:
        return any(name in line["where"] for line in lines)

    with capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(monitor.run())
            await asyncio.sleep(0.05)
            import_modules()
            await eventually(lambda: is_named("import_modules"))
            hold_up()
            await eventually(lambda: is_named("hold_up"))
            task.cancel()
