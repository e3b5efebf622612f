"""The controller may die after any write, and start again: every pod is counted exactly once, none is too many."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import pytest

from kcr.api.batch import Job
from kcr.cluster import EmbeddedCluster
from kcr.cluster.node import Outcome
from kcr.testing import CrashingTransport, VirtualClock, eventually
from kcr.testing.answers import LOSSES, Loss
from kcr.testing.loop import VirtualLoop
from tests.kit.harness import (
    LateWatches,
    Witness,
    conditions,
    create,
    ended,
    finished,
    job_controller,
    manifest,
    nothing_left_behind,
    pods_of,
    witness,
)  # fmt: skip

SPEC: dict[str, Any] = {"parallelism": 10, "completions": 50, "backoffLimit": 100}
SMALL: dict[str, Any] = {"parallelism": 3, "completions": 6}


def some_fail(pod: object, container: str, attempt: int) -> Outcome:
    """Pods run for different times, and every seventh fails: its replacement must be the only one."""
    name = pod.metadata.name  # type: ignore[attr-defined]  # a pod as the node sees it
    dice = sum(name.encode())
    return Outcome(exit_code=1 if dice % 7 == 0 else 0, run_for=1.0 + dice % 5)


@asynccontextmanager
async def some_cluster(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime="simulated", on_run=some_fail) as cluster:
        yield cluster


class Trouble(NamedTuple):
    """What goes wrong: the number of a write, what comes instead of its reply, and how many seconds watches lag."""

    crash_after: int | None = None
    lost_reply: int | None = None
    loss: Loss = "silence"
    late: Mapping[str, float] = {}


NO_TROUBLE = Trouble()


async def live_through(trouble: Trouble = NO_TROUBLE, **spec: Any) -> int:
    """Run one Job to its end in spite of the trouble, check it, and return the number of writes."""
    clock = VirtualClock()
    async with some_cluster(clock) as cluster, witness(cluster) as seen:
        transport = CrashingTransport(LateWatches(cluster.transport, Random(3), trouble.late))
        await create(cluster.client, manifest(**SPEC | spec))
        if trouble.lost_reply is not None:
            transport.lose_reply(trouble.lost_reply, trouble.loss)
        if trouble.crash_after is not None:
            transport.crash_after(trouble.crash_after)
            async with job_controller(cluster, clock, transport=transport):
                await wait_for_crash_or_end(transport, cluster)
        async with job_controller(cluster, clock, transport=None if trouble.crash_after else transport, seed=2):
            job = await finished(cluster.client, seconds=600)
            await clock.advance(5)
        check(job, seen)
        assert nothing_left_behind(await pods_of(cluster.client))
    return transport.writes


async def wait_for_crash_or_end(transport: CrashingTransport, cluster: EmbeddedCluster) -> None:
    async def over() -> bool:
        return transport.crashed.is_set() or await ended(cluster.client) is not None

    await eventually(over, seconds=600)


def check(job: Job, seen: Witness) -> None:
    """Every pod there ever was ended by itself and was counted; there were no more than wanted, at any time."""
    phases = Counter(seen.phases.values())
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    assert (job.status.succeeded, job.status.failed) == (phases["Succeeded"], phases["Failed"])
    assert phases["Succeeded"] == job.spec.completions
    assert phases.total() == phases["Succeeded"] + phases["Failed"]
    assert seen.most_active <= (job.spec.parallelism or 0)


def in_virtual_time(coroutine_function: object, *arguments: object, **options: object) -> int:
    """Run on a loop of its own, so that each crash starts from the same beginning."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine_function(*arguments, **options))  # type: ignore[operator,no-any-return]


def test_run_without_a_crash_is_what_the_others_are_measured_by() -> None:
    assert in_virtual_time(live_through) > 100


@pytest.mark.timeout(120)
def test_crash_after_any_write_of_a_small_job_loses_nothing() -> None:
    for write in range(1, in_virtual_time(live_through, **SMALL) + 1):
        in_virtual_time(live_through, Trouble(crash_after=write), **SMALL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("loss", LOSSES)
def test_lost_reply_of_any_write_of_a_small_job_loses_nothing(loss: Loss) -> None:
    for write in range(1, in_virtual_time(live_through, **SMALL) + 1):
        in_virtual_time(live_through, Trouble(lost_reply=write, loss=loss), **SMALL)


async def gap_before_replacement(lost_reply: int, loss: Loss) -> int:
    """Run a Job whose pods fail at once, with one reply lost; return the seconds between its two pods."""
    clock = VirtualClock()
    async with EmbeddedCluster(clock=clock, random=Random(0), on_run=lambda *_: Outcome(exit_code=1)) as cluster:
        transport = CrashingTransport(cluster.transport)
        transport.lose_reply(lost_reply, loss)
        async with job_controller(cluster, clock, transport=transport):
            await create(cluster.client, manifest(backoffLimit=1))
            await finished(cluster.client)
            made = [pod.metadata.creation_timestamp for pod in await pods_of(cluster.client)]
    first, second = sorted(moment for moment in made if moment is not None)
    return int((second - first).total_seconds())


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_reply_of_any_write_costs_no_backoff(loss: Loss) -> None:
    # job-controller §18: the first replacement comes 10 s after the failure at the earliest.
    gaps = [in_virtual_time(gap_before_replacement, write, loss) for write in range(1, 12)]
    assert all(10 <= gap < 20 for gap in gaps), gaps


@pytest.mark.parametrize(
    "late", [{"jobs": 3.0}, {"pods": 3.0}, {"jobs": 0.4, "pods": 0.4}, {"jobs": 20.0, "pods": 2.0}], ids=str
)
def test_late_watches_make_no_pod_too_many(late: Mapping[str, float]) -> None:
    # Row 15 and job-controller §8.3: what this process wrote is known before the store shows it.
    in_virtual_time(live_through, Trouble(late=late))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("late", [{"jobs": 3.0}, {"jobs": 2.0, "pods": 2.0}], ids=str)
def test_lost_replies_with_late_watches_lose_nothing(late: Mapping[str, float]) -> None:
    for write in range(1, in_virtual_time(live_through, Trouble(late=late), **SMALL) + 1):
        loss = LOSSES[write % len(LOSSES)]
        in_virtual_time(live_through, Trouble(lost_reply=write, loss=loss, late=late), **SMALL)


@pytest.mark.timeout(120)
def test_crash_in_the_middle_of_fifty_pods_loses_nothing() -> None:
    for write in range(1, in_virtual_time(live_through) + 1, 16):
        in_virtual_time(live_through, Trouble(crash_after=write))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("late", [{}, {"jobs": 2.0, "pods": 2.0}], ids=["prompt", "late"])
def test_crash_after_every_write_of_fifty_pods_loses_nothing(late: Mapping[str, float]) -> None:
    for write in range(1, in_virtual_time(live_through, Trouble(late=late)) + 1):
        in_virtual_time(live_through, Trouble(crash_after=write, late=late))


# Each write has its reply lost without a word, and once more in one of the other ways, turn by turn.
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("losses", [("silence",), LOSSES], ids=["silence", "in-turn"])
@pytest.mark.parametrize("late", [{}, {"jobs": 2.0, "pods": 2.0}], ids=["prompt", "late"])
def test_lost_reply_of_every_write_of_fifty_pods_loses_nothing(
    late: Mapping[str, float], losses: tuple[Loss, ...]
) -> None:
    for write in range(1, in_virtual_time(live_through, Trouble(late=late)) + 1):
        in_virtual_time(live_through, Trouble(lost_reply=write, loss=losses[write % len(losses)], late=late))
