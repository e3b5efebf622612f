"""What the debug pages show of a controller."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.controller import Controller, ControllerOptions, OwnWrites, Result, watch
from kcr.errors import TerminalError
from kcr.informer import Store
from kcr.serving.debug.snapshot import ControllerReader
from kcr.serving.debug.state import KeyState
from kcr.testing import FakeInformer, VirtualClock, build
from kcr.workqueue import ItemExponential, Reason

pytestmark = pytest.mark.kcr_virtual


def key(name: str) -> Key:
    return Key("default", name)


class Situations:
    """A reconciler whose keys' names say what becomes of them."""

    def __init__(self, configs: Store[ConfigMap]) -> None:
        self.own_writes = OwnWrites()
        self._configs = configs

    async def reconcile(self, key: Key) -> Result:
        if key.name.startswith("failing"):
            raise ValueError(f"{key}: no such thing")
        if key.name == "hopeless":
            raise TerminalError("no such zone")
        if key.name == "stuck":
            await asyncio.sleep(3600)
        if key.name == "deferred":
            self.own_writes.wrote(key, self._configs, build.config_map("deferred", resource_version="42"))
        if key.name == "later":
            return Result(requeue_after=300)
        return Result()


@asynccontextmanager
async def running(*, workers: int = 1) -> AsyncIterator[tuple[Controller, Callable[[], ControllerReader]]]:
    informer = FakeInformer(ConfigMap)
    reconciler = Situations(informer.store)
    controller = Controller(
        "test", reconciler,
        ControllerOptions(workers=workers, own_writes=reconciler.own_writes, limiter=ItemExponential(100, 1000),
                          retry_on_event="always"),
        random=random.Random(0),
    )  # fmt: skip
    controller.watch(watch(ConfigMap), informer)
    informer.add(build.config_map("paused", annotations={"kcr.dev/paused": "true"}))

    def read() -> ControllerReader:
        now = asyncio.get_running_loop().time()
        return ControllerReader(controller, now, {id(informer.store): "configmaps"}, threading.get_ident())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield controller, read
        task.cancel()


def phases(states: tuple[KeyState, ...]) -> Mapping[str, str]:
    return {state.key.removeprefix("default/"): state.phase for state in states}


async def test_keys_in_trouble_come_first(kcr_clock: VirtualClock) -> None:
    async with running() as (controller, read):
        for name in ("later", "deferred", "hopeless", "paused", "failing", "failing-twice"):
            controller.queue.add(key(name))
        await kcr_clock.settle()
        for name in ("deferred", "failing-twice"):
            controller.queue.add(key(name))
        await kcr_clock.settle()
        controller.queue.add(key("stuck"))
        await kcr_clock.advance(0.1)
        controller.queue.add(key("queued"), priority=3)
        state = read().state(100)
    assert list(phases(state.keys).items()) == [
        ("failing-twice", "backoff"),
        ("failing", "backoff"),
        ("hopeless", "idle"),
        ("deferred", "deferred"),
        ("stuck", "processing"),
        ("queued", "queued"),
        ("paused", "paused"),
        ("later", "delayed"),
    ]
    assert (state.failing, state.deferred, state.paused, state.delayed, state.queued) == (3, 1, 1, 3, {"3": 1})


async def test_only_so_many_keys_are_shown(kcr_clock: VirtualClock) -> None:
    async with running() as (controller, read):
        for number in range(20):
            controller.queue.add(key(f"failing-{number}"))
        controller.queue.add(key("later"))
        await kcr_clock.settle()
        state = read().state(5)
    assert len(state.keys) == 5
    assert state.keys_left_out == 17  # the paused one among them
    (group,) = state.errors
    assert (group.text, group.keys) == ("ValueError: …: no such thing at test_snapshot_keys.py:… in reconcile", 20)


async def test_key_tells_all_that_is_known(kcr_clock: VirtualClock) -> None:
    async with running() as (controller, read):
        controller.queue.add(key("failing"), reason=Reason("Pod", "update"))
        await kcr_clock.advance(40)
        state = read().key_state(key("failing"))
        runs = read().runs_of(key("failing"))
    line = Situations.reconcile.__code__.co_firstlineno + 2
    assert state == KeyState(
        key="default/failing",
        phase="backoff",
        retries=1,
        priority=0,
        queued_seconds=None,
        due_seconds=60.0,
        reasons=("reconcile error: ValueError: default/failing: no such thing",),
        error=f"ValueError: default/failing: no such thing at test_snapshot_keys.py:{line} in reconcile",
        waits_for=(),
    )
    assert [(run.seconds_ago, run.outcome) for run in runs] == [(40.0, "error")]


async def test_parked_key_names_the_store_and_its_version(kcr_clock: VirtualClock) -> None:
    async with running() as (controller, read):
        controller.queue.add(key("deferred"))
        await kcr_clock.settle()
        controller.queue.add(key("deferred"))
        await kcr_clock.settle()
        state = read().key_state(key("deferred"))
    (missing,) = state.waits_for
    assert missing.startswith("configmaps: version 42, the store has ")


async def test_running_reconcile_names_its_line(kcr_clock: VirtualClock) -> None:
    async with running(workers=2) as (controller, read):
        controller.queue.add(key("stuck"), reason=Reason("Pod", "update"))
        await kcr_clock.advance(60)
        (run,) = read().state(1).running
    assert (run.key, run.seconds, run.reasons) == ("default/stuck", 60.0, ("Pod update",))
    assert " reconcile > tasks.py:" in run.at


async def test_unknown_key_is_idle() -> None:
    async with running() as (_, read):
        state = read().key_state(key("unknown"))
    assert (state.phase, state.retries, state.error) == ("idle", 0, "")


async def test_slowest_and_last_reconciles_are_shown(kcr_clock: VirtualClock) -> None:
    async with running() as (controller, read):
        for name in ("one", "two", "one"):
            controller.queue.add(key(name))
            await kcr_clock.advance(1)
        state = read().state(1)
    assert [(run.key, run.seconds_ago) for run in state.recent] == [
        ("default/one", 1.0), ("default/two", 2.0), ("default/one", 3.0),
    ]  # fmt: skip
    assert {(slow.key, slow.runs) for slow in state.slowest} == {("default/one", 2), ("default/two", 1)}
