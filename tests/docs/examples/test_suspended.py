"""`suspended.yaml` (seed 001)."""

from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.conditions import find_condition
from kcr.api.core import Event
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, example, finished, job_controller, pods_of, read
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "myjob")


async def state(cluster: EmbeddedCluster) -> tuple[str, bool, int]:
    """The status of the condition Suspended, whether the Job has started, and how many pods there are."""
    job = await read(cluster.client, "myjob")
    condition = find_condition(job.status.conditions, "Suspended")
    pods = await pods_of(cluster.client, "myjob")
    return condition.status if condition is not None else "", job.status.start_time is not None, len(pods)


async def test_suspend_and_resume_write_the_events_in_order(kcr_clock: VirtualClock) -> None:
    # Examples row 6; job-controller rows 57 to 59.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=5)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        seen_events: set[str] = set()

        async def news() -> list[str]:
            """The reasons of the events that came since, in their order."""
            events = await cluster.client.list(Event, "default", fields="involvedObject.name=myjob")
            fresh = [event for event in events if event.metadata.resource_version not in seen_events]
            seen_events.update(event.metadata.resource_version for event in fresh)
            return [event.reason for event in sorted(fresh, key=lambda event: int(event.metadata.resource_version))]

        async def suspend(value: bool) -> list[str]:
            await cluster.client.strategic_patch(Job, KEY, {"spec": {"suspend": value}})
            await kcr_clock.advance(2)
            return await news()

        await create(cluster.client, example("suspended"))
        await kcr_clock.advance(2)
        assert (await state(cluster), await news()) == (("True", False, 0), ["Suspended"])
        assert await suspend(False) == ["SuccessfulCreate", "Resumed"]
        assert await state(cluster) == ("False", True, 1)
        assert await suspend(True) == ["SuccessfulDelete", "Suspended"]
        await kcr_clock.advance(60)
        assert await state(cluster) == ("True", False, 0)
        assert await suspend(False) == ["SuccessfulCreate", "Resumed"]
        job = await finished(cluster.client, "myjob")
    assert (job.status.succeeded, job.status.failed, seen.most_active) == (5, 0, 1)
