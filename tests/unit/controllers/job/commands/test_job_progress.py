"""Waiting for Jobs to end."""

import asyncio

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.cli.display import Display
from kcr.controllers.job.commands.job_progress import JobProgress
from kcr.testing import FakeManager, build

PI, GONE = Key("default", "pi"), Key("default", "gone")


@pytest.mark.kcr_virtual
async def test_job_deleted_before_the_first_list_is_over() -> None:
    manager = FakeManager()
    await manager.client.create(build.job("pi", uid="", resource_version=""))
    progress = JobProgress(manager, Display(manager.clock), [PI, GONE])
    await manager.relist()
    await progress.find_unseen(manager.client, [PI, GONE])
    assert not progress.is_over(PI)
    async with asyncio.timeout(1):
        assert await progress.ended([GONE]) == ()


@pytest.mark.kcr_virtual
async def test_job_that_the_list_is_too_old_for_is_not_over() -> None:
    manager = FakeManager()
    progress = JobProgress(manager, Display(manager.clock), [PI])
    await manager.relist()
    await manager.client.create(build.job("pi", uid="", resource_version=""))
    await progress.find_unseen(manager.client, [PI])
    assert not progress.is_over(PI)
    assert (await manager.client.get(Job, PI)).key == PI
