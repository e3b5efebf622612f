"""What `kcr run` is made of, by its options."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job
from kcr.app.options import ProgramOptions
from kcr.app.process import GracePeriod
from kcr.app.run import ReadyFile, make_elector
from kcr.client import Client, ClusterConfig
from kcr.manager import Manager
from kcr.testing import FakeSource, VirtualClock


def test_dry_run_takes_no_lease() -> None:
    config = ClusterConfig(server="https://127.0.0.1:6443", namespace="default")
    options = ProgramOptions(leader_elect=True, leader_elect_resource_name="web")
    elector = make_elector(options, config, GracePeriod())
    assert elector is not None
    assert elector.config.key == ("default", "web")
    assert make_elector(replace(options, dry_run="server"), config, GracePeriod()) is None


@pytest.mark.kcr_virtual
async def test_ready_file_is_there_from_ready_to_the_end(kcr_clock: VirtualClock, tmp_path: Path) -> None:
    path, manager = tmp_path / "ready", Manager(Client(FakeSource(Job)), clock=kcr_clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(ReadyFile(manager, path).run())
        await kcr_clock.advance(1)
        assert not path.exists()
        async with manager.running():
            await kcr_clock.advance(1)
            assert path.exists()
            running.cancel()
            await kcr_clock.advance(1)
            assert not path.exists()
