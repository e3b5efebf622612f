import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap
from kcr.client import Client
from kcr.errors import ServerError
from kcr.informer import Informer
from kcr.testing import FakeSource, VirtualClock, build

pytestmark = pytest.mark.kcr_virtual


def config_map(name: str) -> ConfigMap:
    return build.config_map(name, uid="")


@asynccontextmanager
async def informed(source: FakeSource[ConfigMap]) -> AsyncIterator[Informer[ConfigMap]]:
    informer = Informer(Client(source), ConfigMap)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.wait_synced()
        yield informer
        running.cancel()


def names(informer: Informer[ConfigMap]) -> set[str]:
    return {obj.metadata.name for obj in informer.store.list()}


async def test_informer_sees_what_the_source_says(kcr_clock: VirtualClock) -> None:  # TK-4
    source = FakeSource(ConfigMap, config_map("a"))
    async with informed(source) as informer:
        b = source.add(config_map("b"))
        source.modify(replace(b, data={"x": "1"}))
        source.delete(config_map("a"))
        await kcr_clock.advance(1)
        assert [(obj.metadata.name, obj.data) for obj in informer.store.list()] == [("b", {"x": "1"})]
        assert informer.store.resource_version == source.version > 1000


async def test_silent_changes_are_seen_by_the_next_list_only(kcr_clock: VirtualClock) -> None:  # TK-4
    source = FakeSource(ConfigMap, config_map("a"), config_map("b"))
    async with informed(source) as informer:
        source.add(config_map("c"), silent=True)
        source.delete(config_map("a"), silent=True)
        await kcr_clock.advance(60)
        assert names(informer) == {"a", "b"}
        source.reset()
        await kcr_clock.advance(60)
        assert names(informer) == {"b", "c"}


async def test_cut_watch_goes_on_from_the_log(kcr_clock: VirtualClock) -> None:  # TK-4
    source = FakeSource(ConfigMap)
    async with informed(source) as informer:
        await kcr_clock.advance(1)
        lists = source.lists
        source.cut()
        source.add(config_map("while-away"))
        await kcr_clock.advance(60)
        assert names(informer) == {"while-away"}
        assert source.lists == lists


async def test_reset_makes_old_versions_expire(kcr_clock: VirtualClock) -> None:  # TK-4
    source = FakeSource(ConfigMap, config_map("a"))
    async with informed(source):
        await kcr_clock.advance(1)
        lists = source.lists
        source.reset()
        await kcr_clock.advance(60)
        assert source.lists == lists + 1


async def test_failed_lists_are_tried_again(kcr_clock: VirtualClock) -> None:  # TK-4
    source = FakeSource(ConfigMap, config_map("a"))
    source.fail_lists(ServerError, times=3)
    async with informed(source) as informer:
        assert names(informer) == {"a"}
        assert source.lists == 4


async def test_reader_that_falls_far_behind_is_cut_off() -> None:  # TK-4
    source = FakeSource(ConfigMap)
    seen = []
    with pytest.raises(Exception, match="the connection was cut"):
        async with Client(source).watch(ConfigMap, resource_version="1000", timeout_seconds=60) as events:
            for number in range(150):
                source.add(config_map(f"c{number}"))
            async for event in events:
                seen.append(event.object)
    assert len(seen) == 100


async def test_bookmark_brings_the_version_alone(kcr_clock: VirtualClock) -> None:  # TK-4
    source = FakeSource(ConfigMap)
    async with informed(source) as informer:
        await kcr_clock.advance(1)
        source.add(config_map("a"), silent=True)
        source.bookmark()
        await kcr_clock.advance(1)
        assert informer.store.resource_version == source.version
        assert names(informer) == set()


async def test_fake_source_takes_no_writes() -> None:
    with pytest.raises(Exception, match="does no POST"):
        await Client(FakeSource(ConfigMap)).create(config_map("a"))
