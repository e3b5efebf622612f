"""A watch that loses or damages one event: the store is older than its version says, and no other event mends it."""

import re
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job, is_finished
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, job_controller, manifest, nothing_left_behind, pods_of, read
from tests.kit.transports import ChangedWatches

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


def nth(number: int, change: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
    """Change the n-th event that shows a change of a Job, and no other line."""
    seen = 0

    def changed(line: bytes) -> bytes | None:
        nonlocal seen
        seen += b'"MODIFIED"' in line[:20]
        return change(line) if seen == number and b'"MODIFIED"' in line[:20] else line

    return changed


def once(change: Callable[[bytes], bytes | None], what: bytes) -> Callable[[bytes], bytes | None]:
    """Change the first line that holds something, and no other."""
    lines: list[bytes] = []

    def changed(line: bytes) -> bytes | None:
        lines.extend([line] * (what in line))
        return change(line) if [line] == lines else line

    return changed


def nameless(line: bytes) -> bytes:
    return re.sub(rb'"name":"pi"', b'"name":7', line)


# The third event and the fourth are of one sync: the fourth mends the loss of the third.
CHANGES = [
    *(pytest.param(lambda line: None, number, id=f"lost-{number}") for number in (1, 2, 4)),
    *(pytest.param(nameless, number, id=f"nameless-{number}") for number in (1, 2, 3, 4)),
]


@pytest.mark.parametrize(("change", "number"), CHANGES)
async def test_job_whose_watch_event_was_lost_finishes_and_says_so(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, change: Callable[[bytes], bytes | None], number: int
) -> None:
    wire = ChangedWatches(kcr_cluster.transport, "jobs", nth(number, change))
    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock, transport=wire):
            await create(kcr_cluster.client, manifest(completions=2, parallelism=1))
            # Bookmarks come every minute: until then a lost event may just be late.
            job = await finished(kcr_cluster.client, seconds=90)
            assert job.status.succeeded == 2
            assert wire.changed == 1
            assert nothing_left_behind(await pods_of(kcr_cluster.client))
    warnings = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert warnings.count("watch lost an event, relisting") == 1
    # That the store does not show our own writes is said as well, and nothing of another client.
    assert {*warnings} <= {"watch lost an event, relisting", "reconcile failed", "conflict, requeuing"}


async def test_users_change_that_the_watch_lost_is_found_by_conflicts(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # The label's event is lost. The pods are unschedulable, so the next write is that of the deadline.
    wire = ChangedWatches(kcr_cluster.transport, "jobs", once(lambda line: None, b'"a-label"'))
    endless = manifest(activeDeadlineSeconds=100)
    endless["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
    with capture_logs() as logs:
        async with job_controller(kcr_cluster, kcr_clock, transport=wire):
            job = await create(kcr_cluster.client, endless)
            await kcr_clock.advance(5)
            await kcr_cluster.client.merge_patch(Job, job.key, {"metadata": {"labels": {"a-label": "b"}}})
            await kcr_clock.advance(100)
            assert is_finished(await read(kcr_cluster.client))
    assert "watch lost an event, relisting" in [line["event"] for line in logs]
