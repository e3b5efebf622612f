"""Keys that wait for objects: when they are enqueued, what counts as a failure, and what is shown."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap
from kcr.cli.objects.inside import ControllerView, phase_text
from kcr.controller import ControllerOptions
from kcr.controller.controller import Surroundings
from kcr.metrics import Metrics
from kcr.serving.debug.snapshot import ControllerReader
from kcr.serving.debug.state import KeyDetail
from kcr.testing import FakeInformer, VirtualClock, build
from kcr.workqueue import ItemExponential

pytestmark = pytest.mark.kcr_virtual

KEY, COLORS = kcr.Key("default", "shop"), kcr.Key("default", "colors")


def is_blue(config: ConfigMap) -> bool:
    return config.data["color"] == "blue"


class Waiting:
    """Raises what a function returns, until that is None; notes when it was called."""

    def __init__(self, wait: Callable[[], Exception | None]) -> None:
        self.wait = wait
        self.times: list[float] = []

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.times.append(asyncio.get_running_loop().time())
        if (wait := self.wait()) is not None:
            raise wait
        return kcr.Result()


class Running:
    """A controller whose only key was enqueued once, and the informer that it waits at."""

    def __init__(self, controller: kcr.Controller, metrics: Metrics, informer: FakeInformer[ConfigMap]) -> None:
        self.controller, self._metrics, self.informer = controller, metrics, informer

    def count(self, name: str, **labels: str) -> float | None:
        names = {"controller": "test", **labels}
        return self._metrics.registry.get_sample_value(f"controller_runtime_reconcile_{name}", names)

    def read(self) -> ControllerReader:
        now = asyncio.get_running_loop().time()
        return ControllerReader(self.controller, now, {}, threading.get_ident())


@asynccontextmanager
async def running(reconciler: Waiting, *objects: ConfigMap, workers: int = 1) -> AsyncIterator[Running]:
    metrics, informer = Metrics(), FakeInformer(ConfigMap, *objects)
    options = ControllerOptions(limiter=ItemExponential(1, 60), workers=workers)
    informers: dict[Any, Any] = {ConfigMap: informer}
    controller = kcr.Controller(
        "test", reconciler, options, random=random.Random(0), metrics=metrics,
        surroundings=Surroundings(find_informer=informers.get),
    )  # fmt: skip
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        controller.queue.add(KEY, priority=7)
        yield Running(controller, metrics, informer)
        task.cancel()


def wait_for(predicate: Callable[[Any], bool] | None = None, **options: Any) -> Callable[[], Exception]:
    return lambda: kcr.WaitFor(ConfigMap, COLORS, predicate, **options)


async def test_key_waits_until_the_object_exists(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for())
    async with running(reconciler) as run:
        await kcr_clock.advance(3600)
        run.informer.add(build.config_map("others"))
        await kcr_clock.advance(1)
        assert reconciler.times == [0]
        reconciler.wait = lambda: None
        run.informer.add(build.config_map("colors"))
        await kcr_clock.advance(3600)
        assert reconciler.times == [0, 3601]


async def test_key_waits_until_the_predicate_holds(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(is_blue))
    async with running(reconciler, build.config_map("colors", {"color": "red"})) as run:
        await kcr_clock.advance(10)
        run.informer.modify(build.config_map("colors", {"color": "green"}))
        await kcr_clock.advance(10)
        reconciler.wait = lambda: None
        run.informer.modify(build.config_map("colors", {"color": "blue"}))
        await kcr_clock.advance(60)
        assert reconciler.times == [0, 20]
        assert run.controller.waits.parked == {}


@pytest.mark.parametrize(("uid", "ends"), [("", [0, 20]), ("red", [0, 10])], ids=["any", "one-uid"])
async def test_key_waits_until_the_object_is_deleted(kcr_clock: VirtualClock, uid: str, ends: list[float]) -> None:
    reconciler = Waiting(lambda: kcr.WaitFor.absence(ConfigMap, COLORS, uid=uid))
    async with running(reconciler, build.config_map("colors", uid="red")) as run:
        await kcr_clock.advance(10)
        reconciler.wait = lambda: None
        run.informer.modify(build.config_map("colors", uid="blue"))
        await kcr_clock.advance(10)
        run.informer.delete(build.config_map("colors"))
        await kcr_clock.advance(10)
        assert reconciler.times == ends


async def test_waiting_key_holds_no_worker_and_is_no_error(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(is_blue, message="is blue"))
    with capture_logs() as logs:
        async with running(reconciler) as run:
            await kcr_clock.advance(1)
            assert run.controller.queue.processing == frozenset()
            assert (run.count("errors_total"), run.count("total", result="requeue_after")) == (0, 1)
            (ended,) = run.controller.journal.runs
            assert ended.text == "waits for configmaps default/colors: is blue"
    assert [line for line in logs if line["log_level"] != "debug"] == []


async def test_wait_resets_the_backoff(kcr_clock: VirtualClock) -> None:
    answers: list[Exception] = [kcr.RetryLater("no"), kcr.RetryLater("no"), kcr.WaitFor(ConfigMap, COLORS)]
    reconciler = Waiting(lambda: answers.pop(0) if answers else None)
    async with running(reconciler) as run:
        await kcr_clock.advance(2.5)
        assert run.controller.queue.retries(KEY) == 2
        await kcr_clock.advance(1)
        assert (run.controller.queue.retries(KEY), run.controller.queue.state(KEY).delay) == (0, None)


async def test_other_changes_enqueue_a_waiting_key(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for())
    async with running(reconciler) as run:
        await kcr_clock.advance(10)
        run.controller.queue.add(KEY)
        await kcr_clock.advance(10)
        assert reconciler.times == [0, 10]
        reconciler.wait = lambda: None
        run.controller.queue.add(KEY)
        await kcr_clock.advance(10)
        run.informer.add(build.config_map("colors"))
        await kcr_clock.advance(10)
        assert reconciler.times == [0, 10, 20]


async def test_key_whose_time_is_over_is_reconciled_again(kcr_clock: VirtualClock) -> None:
    timed_out: list[bool] = []
    reconciler = Waiting(lambda: None)
    async with running(reconciler) as run:

        def wait() -> Exception | None:
            timed_out.append(run.controller.has_timed_out(KEY))
            return None if timed_out[-1] else kcr.WaitFor(ConfigMap, COLORS, timeout=30)

        reconciler.wait = wait
        await kcr_clock.advance(3600)
        assert (reconciler.times, timed_out) == ([0, 30], [False, True])
        assert run.count("errors_total") == 0
        assert not run.controller.has_timed_out(KEY)


async def test_wait_is_measured_from_its_begin(kcr_clock: VirtualClock) -> None:
    await kcr_clock.advance(7)
    with capture_logs() as logs:
        async with running(Waiting(wait_for(timeout=30))):
            await kcr_clock.advance(31)
    errors = [line["error"] for line in logs if line["log_level"] == "warning"]
    assert errors[0] == "WaitTimeoutError: waited 30s for configmaps default/colors: exists"


async def test_wait_raised_after_its_time_is_a_failure_with_backoff(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(timeout=30))
    with capture_logs() as logs:
        async with running(reconciler) as run:
            await kcr_clock.advance(35)
            assert reconciler.times == [0, 30, 31, 33]
            assert run.count("errors_total") == 3
            reconciler.wait = lambda: None
            run.informer.add(build.config_map("colors"))
            await kcr_clock.settle()
            assert reconciler.times[-1] == 35
    first, *_ = [line for line in logs if line["log_level"] == "warning"]
    assert (first["event"], "exc_info" in first) == ("reconcile failed", False)
    assert first["error"] == "WaitTimeoutError: waited 30s for configmaps default/colors: exists"


async def test_time_counts_from_the_first_wait_for_an_object(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(timeout=30))
    async with running(reconciler) as run:
        for _ in range(3):
            await kcr_clock.advance(8)
            run.controller.queue.add(KEY)
        await kcr_clock.advance(5)
        assert run.count("errors_total") == 0
        await kcr_clock.advance(1.5)
        assert run.count("errors_total") == 1


async def test_wait_for_another_object_has_its_own_time(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(timeout=30))
    async with running(reconciler) as run:
        await kcr_clock.advance(20)
        reconciler.wait = lambda: kcr.WaitFor(ConfigMap, kcr.Key("default", "shapes"), timeout=30)
        run.controller.queue.add(KEY)
        await kcr_clock.advance(29)
        assert reconciler.times == [0, 20]
        await kcr_clock.advance(1.5)
        assert reconciler.times == [0, 20, 50]


async def test_several_waits_end_with_the_first(kcr_clock: VirtualClock) -> None:
    shapes = kcr.WaitFor(ConfigMap, kcr.Key("default", "shapes"))
    reconciler = Waiting(lambda: ExceptionGroup("two", [kcr.WaitFor(ConfigMap, COLORS), shapes]))
    async with running(reconciler) as run:
        await kcr_clock.advance(1)
        reconciler.wait = lambda: None
        run.informer.add(build.config_map("shapes"))
        run.informer.add(build.config_map("colors"))
        await kcr_clock.advance(1)
        assert reconciler.times == [0, 1]


async def test_wait_that_is_over_when_raised_is_no_hot_loop(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for())
    async with running(reconciler, build.config_map("colors")) as run:
        await kcr_clock.advance(10)
        assert reconciler.times == [0, 1, 3, 7]
        assert run.count("errors_total") == 0


async def test_wait_among_failures_is_a_failure(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(lambda: ExceptionGroup("two", [kcr.WaitFor(ConfigMap, COLORS), kcr.RetryLater("no")]))
    async with running(reconciler) as run:
        await kcr_clock.advance(1.5)
        assert (reconciler.times, run.count("errors_total"), run.controller.waits.parked) == ([0, 1], 2, {})


async def test_predicate_that_fails_fails_the_reconcile(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(is_blue))
    async with running(reconciler) as run:
        await kcr_clock.advance(10)
        run.informer.add(build.config_map("colors"))
        await kcr_clock.advance(0.5)
        assert reconciler.times == [0, 10]
        assert (run.count("errors_total"), run.count("panics_total")) == (1, 1)
        assert run.controller.queue.state(KEY).delay == pytest.approx(0.5)


async def test_kind_without_a_store_is_named_with_the_remedy(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(lambda: kcr.WaitFor(kcr.metadata_only(ConfigMap), COLORS))
    async with running(reconciler) as run:
        await kcr_clock.settle()
        error = run.read().key_state(KEY).error
    assert error.startswith(
        "KcrError: cannot wait for configmaps default/colors: the manager has no store of configmaps"
    )
    assert "call manager.store(" in error


async def test_closed_informer_ends_the_wait(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for())
    async with running(reconciler) as run:
        await kcr_clock.advance(10)
        reconciler.wait = lambda: None
        run.informer.close()
        await kcr_clock.advance(10)
        assert reconciler.times == [0, 10]


async def test_released_key_no_longer_waits(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for(timeout=30))
    async with running(reconciler) as run:
        await kcr_clock.advance(10)
        run.controller.release(KEY)
        run.informer.add(build.config_map("colors"))
        await kcr_clock.advance(60)
        assert reconciler.times == [0]


async def test_awaited_change_keeps_a_high_priority(kcr_clock: VirtualClock) -> None:
    reconciler = Waiting(wait_for())
    async with running(reconciler) as run:
        await kcr_clock.settle()
        run.informer.add(build.config_map("colors"))
        state = run.controller.queue.state(KEY)
    assert (state.queued, str(state.reasons[0])) == (7, "ConfigMap awaited default/colors 1")


async def test_debug_page_and_explain_name_the_object_and_the_time(kcr_clock: VirtualClock) -> None:
    def text(run: Running) -> str:
        shown = run.read().key_state(KEY)
        detail = KeyDetail(
            controller="test", state=shown, runs=(), unconfirmed=(), explanation=None, explanation_error=""
        )
        return phase_text(ControllerView(detail, None))

    reconciler = Waiting(wait_for(is_blue, timeout=60))
    async with running(reconciler) as run:
        await kcr_clock.advance(20)
        (shown,) = run.read().state(10).keys
        assert (shown.phase, shown.due_seconds) == ("waiting", None)
        assert text(run) == "waits for configmaps default/colors: is_blue, 40s more at most"
        await kcr_clock.advance(41)
        assert run.read().key_state(KEY).waits_for[1] == "longer than the 60s allowed"
        assert text(run).startswith("in backoff after 2 failures in a row")


@pytest.mark.parametrize("timeout", ["1m", True, float("nan")])
def test_timeout_that_is_no_time_is_refused(timeout: Any) -> None:
    with pytest.raises(TypeError, match=r"timeout is .*: give it a timedelta, a number of seconds or None"):
        kcr.WaitFor(ConfigMap, COLORS, timeout=timeout)
