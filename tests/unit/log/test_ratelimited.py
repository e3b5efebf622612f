"""The ceiling on the log lines of one key."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import structlog

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.app.logs import configure_logs
from kcr.controller import Controller, Result
from kcr.errors import TerminalError
from kcr.log import get_logger
from kcr.testing import FakeInformer, VirtualClock, build

pytestmark = pytest.mark.kcr_virtual

NOISY, OTHER = Key("default", "noisy"), Key("default", "other")


@contextmanager
def logs_of_a_process() -> Iterator[None]:
    configure_logs("json", "info")
    try:
        yield
    finally:
        configure_logs("json", "debug")


class Fails:
    """A reconciler whose keys cannot be helped."""

    async def reconcile(self, key: Key) -> Result:
        get_logger().info("looks")
        raise TerminalError("no such color")


async def lines_of(clock: VirtualClock, capsys: pytest.CaptureFixture[str], *keys: Key) -> list[dict[str, Any]]:
    """Return what is logged while one key after the other is reconciled, one a second."""
    controller = Controller("painter", Fails(), random=random.Random(0))
    with logs_of_a_process():
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            for key in keys:
                controller.queue.add(key)
                await clock.advance(1)
            task.cancel()
    return [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]


def errors(lines: list[dict[str, Any]], key: Key) -> list[str]:
    return [line["event"] for line in lines if line["level"] != "info" and line["name"] == key.name]


async def test_errors_of_a_key_beyond_twenty_are_summed_up(
    kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = await lines_of(kcr_clock, capsys, *[NOISY] * 50)
    assert errors(lines, NOISY) == ["terminal error, not retried"] * 20
    lines = await lines_of(kcr_clock, capsys, *[NOISY] * 70)
    told = errors(lines, NOISY)
    assert told[:20] == ["terminal error, not retried"] * 20
    assert told[20:22] == ["further 40 lines of this key suppressed", "terminal error, not retried"]


async def test_summary_is_in_the_name_of_its_key(kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str]) -> None:
    lines = await lines_of(kcr_clock, capsys, *[NOISY] * 60, NOISY)
    (summary,) = [line for line in lines if line["event"].startswith("further")]
    assert (summary["controller"], summary["namespace"], summary["name"]) == ("painter", "default", "noisy")
    assert "reconcile_id" not in summary


async def test_lines_of_other_keys_and_levels_stay(kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str]) -> None:
    lines = await lines_of(kcr_clock, capsys, *[NOISY] * 40, *[OTHER] * 5)
    assert len(errors(lines, OTHER)) == 5
    assert [line["event"] for line in lines].count("looks") == 45


async def test_lines_of_an_index_that_fails_for_each_object_are_limited(
    kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(obj: ConfigMap) -> list[str]:
        raise ValueError(f"no team in {obj.metadata.name}")

    informer = FakeInformer(ConfigMap)
    informer.store.add_index("team", broken)
    with logs_of_a_process():
        for number in range(50):
            informer.add(build.config_map(f"map-{number}", {}))
        await kcr_clock.advance(60)
        informer.add(build.config_map("last", {}))
    told = [msgspec.json.decode(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert told == ["index failed"] * 20 + ["further 30 lines of this key suppressed", "index failed"]


def test_lines_of_threads_and_of_no_reconcile_pass(capsys: pytest.CaptureFixture[str]) -> None:
    with logs_of_a_process():
        for _ in range(30):
            get_logger().error("no key")
            with structlog.contextvars.bound_contextvars(reconcile_id="1", name="a"):
                get_logger().error("no loop")
    assert len(capsys.readouterr().err.splitlines()) == 60
