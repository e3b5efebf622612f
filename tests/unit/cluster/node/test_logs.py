import asyncio

import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.cluster.node.logs import Log, Logs

pytestmark = pytest.mark.kcr_virtual


async def test_log_gives_back_what_was_printed(kcr_clock: VirtualClock) -> None:
    logs = Logs(kcr_clock)
    log = logs.begin("u", "c")
    log.write(b"one\n")
    log.write(b"two\n")
    assert log.read() == b"one\ntwo\n"


async def test_container_that_has_not_run_has_no_log(kcr_clock: VirtualClock) -> None:
    assert Logs(kcr_clock).get("u", "c") is None


async def test_run_before_is_kept_and_older_ones_are_not(kcr_clock: VirtualClock) -> None:
    logs = Logs(kcr_clock)
    for text in (b"first", b"second", b"third"):
        logs.begin("u", "c").write(text)
    runs = [logs.get("u", "c"), logs.get("u", "c", previous=True)]
    assert [run.read() for run in runs if run is not None] == [b"third", b"second"]


async def test_oldest_whole_lines_go_beyond_the_limit(kcr_clock: VirtualClock) -> None:
    log = Log(kcr_clock, limit=10)
    for piece in (b"aaa\nb", b"bb\nccc\n", b"ddd\n"):
        log.write(piece)
    assert log.read() == b"ccc\nddd\n"


async def test_follower_sees_everything_and_the_end(kcr_clock: VirtualClock) -> None:
    log = Log(kcr_clock)
    seen = b""

    async def follow() -> None:
        nonlocal seen
        async for data in log.follow():
            seen += data

    log.write(b"before\n")
    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        await kcr_clock.settle()
        log.write(b"during\n")
        await kcr_clock.settle()
        assert seen == b"before\nduring\n"
        log.write(b"last\n")
        log.close()
    assert seen == b"before\nduring\nlast\n"


async def test_slow_follower_goes_on_after_what_was_dropped(kcr_clock: VirtualClock) -> None:
    log = Log(kcr_clock, limit=8)
    log.write(b"aaa\n")
    followed = log.follow()
    assert await anext(followed) == b"aaa\n"
    for piece in (b"bbb\n", b"ccc\n", b"ddd\n"):
        log.write(piece)
    assert await anext(followed) == b"ccc\nddd\n"
    await followed.aclose()


async def test_dropped_logs_end_for_those_who_follow(kcr_clock: VirtualClock) -> None:
    logs = Logs(kcr_clock)
    log = logs.begin("u", "c")
    log.write(b"x")
    followed = log.follow()
    assert await anext(followed) == b"x"
    logs.drop("u")
    assert [data async for data in followed] == []
    assert logs.get("u", "c") is None
