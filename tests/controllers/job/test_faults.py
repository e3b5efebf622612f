"""Faults at chosen moments: what each of them must not lead to."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job, UncountedTerminatedPods
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.errors import ApiError, ConflictError, ForbiddenError, TooManyRequestsError, TransportError
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import EVERY_LOSS, loss_of
from tests.kit.harness import conditions, create, finished, job_controller, manifest, pods_of, read
from tests.kit.observers import observing_pods
from tests.kit.transports import late_watches

KEY = Key("default", "pi")


def hold_pods(faults: FaultyTransport, cluster: EmbeddedCluster, *, relists: bool = False) -> asyncio.Event:
    """Hold back the events of pods until the result is set; then the watch is cut, and resumed or listed again."""
    released = asyncio.Event()

    async def wait() -> None:
        if not released.is_set():
            await released.wait()
            if relists:
                cluster.storage.compact()
            raise TransportError("the watch was cut")

    faults.on("event", Pod).then(wait)
    return released


@pytest.mark.kcr_virtual
async def test_deadline_holds_while_creations_fail(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Retries come after 1, 3, 7, 15, 31 and 63 s: none of them at the deadline.
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod).fail(ForbiddenError)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(kcr_cluster.client, manifest(activeDeadlineSeconds=40))
        await kcr_clock.advance(41)
        assert conditions(await read(kcr_cluster.client))[-1] == ("Failed", "DeadlineExceeded")


@pytest.mark.kcr_virtual
async def test_pod_found_after_a_lost_reply_is_no_echo(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # By then the pod has ended, and after the relist this is all that the store ever hears of it.
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod, nth=1).lose_reply()
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        released = hold_pods(faults, kcr_cluster, relists=True)
        await create(kcr_cluster.client, manifest())
        await kcr_clock.advance(5)
        released.set()
        await finished(kcr_cluster.client, seconds=60)


@pytest.mark.kcr_virtual
async def test_pod_that_came_and_went_unseen_is_replaced(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Nothing will ever show it; only time can say that it is no longer expected (EX-6).
    faults = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        released = hold_pods(faults, kcr_cluster, relists=True)
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await kcr_clock.advance(1)
        (pod,) = await pods_of(kcr_cluster.client)
        await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await kcr_cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        released.set()
        await finished(kcr_cluster.client, seconds=600)


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("refused", [ForbiddenError, ConflictError, TooManyRequestsError])
async def test_refusal_after_a_lost_reply_makes_no_second_pod(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, refused: type[ApiError]
) -> None:
    # A quota may refuse what it has let in before: the pod that is there has used it up.
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("create", Pod, nth=1).lose_reply()
    for nth in (2, 3):
        faults.on("create", Pod, nth=nth).fail(refused)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        released = hold_pods(faults, kcr_cluster)
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await kcr_clock.advance(20)
        assert len(await pods_of(kcr_cluster.client)) == 1
        released.set()
        await finished(kcr_cluster.client, seconds=600)


@pytest.mark.kcr_virtual
async def test_creation_that_was_seen_is_not_sent_again(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # The pod is created and deleted before the reply arrives. A create sent again would be one too many, because
    # the expectation is already fulfilled.
    faults = FaultyTransport(kcr_cluster.transport)
    for nth in (1, 3, 4, 5):
        faults.on("create", Pod, nth=nth).lose_request()
    for nth in (2, 6):
        faults.on("create", Pod, nth=nth).lose_reply()
    async with (
        observing_pods(kcr_cluster) as seen,
        job_controller(kcr_cluster, kcr_clock, transport=faults, sync_job_batch_period=0.0),
    ):
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
        await kcr_clock.advance(0.3)
        (pod,) = await pods_of(kcr_cluster.client)
        await kcr_cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await kcr_clock.advance(20)
        assert (seen.most_active, len(await pods_of(kcr_cluster.client))) == (1, 1)


@pytest.mark.kcr_virtual
async def test_pod_without_its_owner_is_adopted_again(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Row 123; job-controller §4.3, step 5.
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
        await kcr_clock.advance(5)
        (pod,) = await pods_of(kcr_cluster.client)
        await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
        await kcr_clock.advance(5)
        (again,) = await pods_of(kcr_cluster.client)
        assert (again.key, again.metadata.owner_references) == (pod.key, pod.metadata.owner_references)
        assert again.metadata.finalizers == pod.metadata.finalizers
        assert (await read(kcr_cluster.client)).status.active == 1


@pytest.mark.kcr_virtual
async def test_pod_that_ended_unseen_is_counted_though_it_is_too_many(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(kcr_cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "10s"}))
        await kcr_clock.advance(5)
        released = hold_pods(faults, kcr_cluster)
        await kcr_clock.advance(10)
        await kcr_cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        await kcr_clock.advance(5)
        released.set()
        job = await finished(kcr_cluster.client, seconds=60)
    assert job.status.succeeded == 1


@pytest.mark.kcr_virtual
async def test_failed_removal_waits_for_its_retry(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Without batching, work put off comes again at once; work that failed must not, or it would never stop.
    faults = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults, sync_job_batch_period=0.0):
        await create(kcr_cluster.client, manifest(parallelism=2, annotations={"sim.kcr.dev/run-for": "forever"}))
        await kcr_clock.advance(5)
        released = hold_pods(faults, kcr_cluster)
        for pod in await pods_of(kcr_cluster.client):
            await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"annotations": {"seen": "no"}}})
        await kcr_cluster.client.merge_patch(Job, KEY, {"spec": {"parallelism": 1}})
        await kcr_clock.advance(5)
        released.set()
        await kcr_clock.advance(120)
        assert (await read(kcr_cluster.client)).status.active == 1


@pytest.mark.kcr_virtual
async def test_crash_with_full_lists_leaves_nothing_listed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # The lists are full of pods that still have their finalizer.
    transport = CrashingTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=transport, max_uncounted_pods=1):
        await create(kcr_cluster.client, manifest(parallelism=2, annotations={"sim.kcr.dev/run-for": "5s"}))
        await kcr_clock.advance(1)
        # The status that lists the first pod; its finalizer is not removed any more.
        transport.crash_after(transport.writes + 1)
        await kcr_clock.advance(10)
    assert (await read(kcr_cluster.client)).status.uncounted_terminated_pods != UncountedTerminatedPods()
    async with job_controller(kcr_cluster, kcr_clock, max_uncounted_pods=1):
        job = await finished(kcr_cluster.client, seconds=60)
    assert job.status.succeeded == 2


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    "late",
    [
        {"jobs": 2.0, "pods": 2.0},
        *(pytest.param(one, marks=pytest.mark.soak) for one in ({}, {"jobs": 3.0}, {"pods": 3.0})),
    ],
    ids=str,
)
async def test_namesake_inherits_nothing(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, late: Mapping[str, float]
) -> None:
    # Rows 151 to 154: three Jobs of one name, each deleted while its pods fail, go, or have not been seen.
    transport = late_watches(kcr_cluster.transport, Random(5), late)
    fails = {"sim.kcr.dev/exit-code": "1", "sim.kcr.dev/run-for": "1s"}
    async with job_controller(kcr_cluster, kcr_clock, transport=transport):
        for pause in (0.0, 1.5, 4.0):
            await create(kcr_cluster.client, manifest(parallelism=5, backoffLimit=20, annotations=fails))
            await kcr_clock.advance(pause)
            await kcr_cluster.client.delete(Job, KEY, propagation="Background")
        last = await create(
            kcr_cluster.client,
            manifest(parallelism=5, podReplacementPolicy="Failed", annotations={"sim.kcr.dev/run-for": "forever"}),
        )
        await kcr_clock.advance(9)
        job = await read(kcr_cluster.client)
        assert (job.status.active, job.status.failed, job.status.succeeded) == (5, 0, 0)
        mine = [
            pod
            for pod in await pods_of(kcr_cluster.client)
            if pod.metadata.owner_references[0].uid == last.metadata.uid
        ]
        assert len(mine) == 5


class SameDraw(Random):
    """Draws the suffixes of the first two pods alike."""

    def __init__(self) -> None:
        super().__init__(0)
        self._letters = iter("bbbbb" * 2)

    def choice(self, seq: Any) -> Any:
        return next(self._letters, None) or super().choice(seq)


@pytest.mark.kcr_virtual
async def test_two_pods_that_draw_one_name_are_two(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Among 6,000 pods of a Job it happens once: 27 letters, five of them.
    async with job_controller(kcr_cluster, kcr_clock, seed=SameDraw()):
        await create(kcr_cluster.client, manifest(parallelism=2, completions=2))
        await finished(kcr_cluster.client, seconds=30)
        assert len(await pods_of(kcr_cluster.client)) == 2


@pytest.mark.kcr_virtual
@pytest.mark.parametrize("loss", EVERY_LOSS)
async def test_success_whose_record_had_no_answer_is_not_made_again(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, loss: Loss | None
) -> None:
    # Whichever reply is lost: index 0 is on record when its pod is deleted, though the store does not show it.
    for number in range(1, 12, 3):
        transport = CrashingTransport(late_watches(kcr_cluster.transport, Random(number), {"jobs": 3.0}))
        transport.lose_reply(number, loss_of(number, loss))
        async with job_controller(kcr_cluster, kcr_clock, transport=transport), observing_pods(kcr_cluster) as seen:
            spec: dict[str, Any] = {"completionMode": "Indexed", "completions": 1, "parallelism": 1}
            await create(kcr_cluster.client, manifest(**spec, annotations={"sim.kcr.dev/run-for": "5s"}))
            await kcr_clock.run_until(lambda: "Succeeded" in seen.phases.values(), seconds=30)
            while (await read(kcr_cluster.client)).status.completed_indexes != "0":
                await kcr_clock.advance(0.05)
            for pod in await pods_of(kcr_cluster.client):
                if pod.status.phase == "Succeeded":
                    await kcr_cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
                    await kcr_cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
            await finished(kcr_cluster.client, seconds=600)
            assert len(seen.phases) == 1, f"reply {number} was lost"
            await kcr_cluster.client.delete(Job, KEY, propagation="Foreground")
            await kcr_clock.advance(60)
