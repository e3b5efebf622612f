"""The controller may die after any write, and start again: every pod is counted exactly once, none is too many."""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.client import Transport
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import (
    EVERY_LOSS,
    MOST_WRITES,
    NO_FAULT,
    WriteFault,
    crash_after_writes,
    in_virtual_time,
    lose_replies,
    loss_of,
    surviving,
)
from tests.kit.harness import (
    conditions,
    create,
    ended,
    finished,
    job_controller,
    manifest,
    nothing_left_behind,
    pods_of,
)
from tests.kit.observers import PodObserver, observing_pods

SPEC: dict[str, Any] = {"parallelism": 10, "completions": 50, "backoffLimit": 100}
SMALL: dict[str, Any] = {"parallelism": 3, "completions": 6}


def some_fail(pod: object, container: str, attempt: int) -> RunResult:
    """Pods run for different times, and every seventh fails: its replacement must be the only one."""
    name = pod.metadata.name  # type: ignore[attr-defined]  # a pod as the node sees it
    dice = sum(name.encode())
    return RunResult(exit_code=1 if dice % 7 == 0 else 0, run_for=1.0 + dice % 5)


async def live(fault: WriteFault, **spec: Any) -> int:
    """Run one Job to its end in spite of the fault, check it, and return the number of writes."""
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, random=Random(0), runtime="simulated", gc=False, on_run=some_fail)

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return job_controller(cluster, clock, transport=transport, seed=seed)

    async def is_over() -> bool:
        return await ended(cluster.client) is not None

    async with cluster, observing_pods(cluster) as seen:
        await create(cluster.client, manifest(**SPEC | spec))
        async with surviving(cluster.transport, fault, controller, is_over) as transport:
            job = await finished(cluster.client, seconds=600)
            await clock.advance(5)
        check(job, seen)
        assert nothing_left_behind(await pods_of(cluster.client))
    return transport.writes


live_small = partial(live, **SMALL)


def check(job: Job, seen: PodObserver) -> None:
    """Every pod there ever was ended by itself and was counted; there were no more than wanted, at any time."""
    phases = Counter(seen.phases.values())
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    assert (job.status.succeeded, job.status.failed) == (phases["Succeeded"], phases["Failed"])
    assert phases["Succeeded"] == job.spec.completions
    assert phases.total() == phases["Succeeded"] + phases["Failed"]
    assert seen.most_active <= (job.spec.parallelism or 0)


@pytest.mark.soak
def test_run_without_a_crash_is_what_the_others_are_measured_by() -> None:
    assert in_virtual_time(live(NO_FAULT)) > 100


@pytest.mark.parametrize("most", MOST_WRITES)
def test_crash_after_any_write_of_a_small_job_loses_nothing(most: int | None) -> None:
    crash_after_writes(live_small, most)


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_of_a_small_job_loses_nothing(loss: Loss | None, most: int | None) -> None:
    lose_replies(live_small, most, loss=loss)


async def gap_before_replacement(lost_reply: int, loss: Loss) -> int:
    """Run a Job whose pods fail at once, with one reply lost; return the seconds between its two pods."""
    clock = VirtualClock()
    async with EmbeddedCluster(
        clock=clock, random=Random(0), gc=False, on_run=lambda *_: RunResult(exit_code=1)
    ) as cluster:
        transport = CrashingTransport(cluster.transport)
        transport.lose_reply(lost_reply, loss)
        async with job_controller(cluster, clock, transport=transport):
            await create(cluster.client, manifest(backoffLimit=1))
            await finished(cluster.client)
            made = [pod.metadata.creation_timestamp for pod in await pods_of(cluster.client)]
    first, second = sorted(moment for moment in made if moment is not None)
    return int((second - first).total_seconds())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_costs_no_backoff(loss: Loss | None) -> None:
    # job-controller §18: the first replacement comes 10 s after the failure at the earliest.
    gaps = [in_virtual_time(gap_before_replacement(write, loss_of(write, loss))) for write in range(1, 12, 3)]
    assert all(10 <= gap < 20 for gap in gaps), gaps


@pytest.mark.parametrize(
    "late",
    [
        # Shorter and longer than a reconcile waits for its own writes.
        pytest.param({"jobs": 0.4, "pods": 0.4}, id="shortly"),
        pytest.param({"jobs": 20.0, "pods": 2.0}, marks=pytest.mark.soak, id="for-long"),
        pytest.param({"jobs": 3.0}, marks=pytest.mark.soak, id="jobs"),
        pytest.param({"pods": 3.0}, marks=pytest.mark.soak, id="pods"),
    ],
)
def test_late_watches_make_no_pod_too_many(late: Mapping[str, float]) -> None:
    # Row 15 and job-controller §8.3: what this process wrote is known before the store shows it.
    in_virtual_time(live(WriteFault(late=late)))


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize(
    "late", [pytest.param({"jobs": 3.0}, marks=pytest.mark.soak), {"jobs": 2.0, "pods": 2.0}], ids=str
)
def test_lost_replies_with_late_watches_lose_nothing(late: Mapping[str, float], most: int | None) -> None:
    lose_replies(live_small, most, late=late)


@pytest.mark.timeout(60)
def test_crash_in_the_middle_of_fifty_pods_loses_nothing() -> None:
    crash_after_writes(live, 1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("late", [{}, {"jobs": 2.0, "pods": 2.0}], ids=["prompt", "late"])
def test_crash_after_writes_of_fifty_pods_loses_nothing(late: Mapping[str, float]) -> None:
    crash_after_writes(live, late=late)


# Each write has its reply lost without a word, and once more in one of the other ways, turn by turn.
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("loss", ["silence", None], ids=["silence", "in-turn"])
@pytest.mark.parametrize("late", [{}, {"jobs": 2.0, "pods": 2.0}], ids=["prompt", "late"])
def test_lost_reply_of_every_write_of_fifty_pods_loses_nothing(late: Mapping[str, float], loss: Loss | None) -> None:
    lose_replies(live, late=late, loss=loss)
