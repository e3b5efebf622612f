"""A watch that loses or damages one event: the store is older than its version says, and no other event mends it."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job, is_finished
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.rules import Rule
from tests.kit.harness import create, finished, job_controller, manifest, nothing_left_behind, pods_of, read

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


def lose(rule: Rule) -> None:
    rule.drop()


def unname(rule: Rule) -> None:
    rule.change(lambda job: job["metadata"].update(name=7))


# The third event and the fourth are of one sync: the fourth mends the loss of the third.
CHANGES = [
    *(pytest.param(lose, number, id=f"lost-{number}") for number in (1, 2, 4)),
    *(pytest.param(unname, number, id=f"nameless-{number}") for number in (1, 2, 3, 4)),
]


@pytest.mark.parametrize(("act", "number"), CHANGES)
async def test_job_whose_watch_event_was_lost_finishes_and_says_so(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, act: Callable[[Rule], None], number: int
) -> None:
    wire = FaultyTransport(kcr_cluster.transport)
    # The first event shows that the Job was created.
    rule = wire.on("event", Job, nth=1 + number)
    act(rule)
    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock, transport=wire):
            await create(kcr_cluster.client, manifest(completions=2, parallelism=1))
            # Bookmarks come every minute: until then a lost event may just be late.
            job = await finished(kcr_cluster.client, seconds=90)
            assert job.status.succeeded == 2
            assert rule.met == 1
            assert nothing_left_behind(await pods_of(kcr_cluster.client))
    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warnings.count("watch lost an event, relisting") == 1
    # That the store does not show our own writes is said as well, and nothing of another client.
    assert {*warnings} <= {"watch lost an event, relisting", "reconcile failed", "conflict, requeuing"}


async def test_users_change_that_the_watch_lost_is_found_by_conflicts(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # The label's event is lost. The pods are unschedulable, so the next write is that of the deadline.
    wire = FaultyTransport(kcr_cluster.transport)
    endless = manifest(activeDeadlineSeconds=100)
    endless["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock, transport=wire):
            job = await create(kcr_cluster.client, endless)
            await kcr_clock.advance(5)
            wire.on("event", Job, nth=1).drop()
            await kcr_cluster.client.merge_patch(Job, job.key, {"metadata": {"labels": {"a-label": "b"}}})
            await kcr_clock.advance(100)
            assert is_finished(await read(kcr_cluster.client))
    assert "watch lost an event, relisting" in [line["event"] for line in logs]
