"""Faults at chosen moments: what each of them must not lead to."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job, UncountedTerminatedPods
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.cluster import EmbeddedCluster
from kcr.errors import ApiError, ConflictError, ForbiddenError, TooManyRequestsError
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr.testing.answers import LOSSES, Loss
from tests.kit.harness import conditions, create, finished, job_controller, manifest, pods_of, read
from tests.kit.observers import observing_pods
from tests.kit.transports import LateWatches, WatchGate

KEY = Key("default", "pi")


def gate_of(cluster: EmbeddedCluster, *, relists: bool = False) -> WatchGate:
    """A transport that can hold back watches; those that it held back are cut, and then resumed or listed again."""
    return WatchGate(cluster.transport, on_cut=cluster.storage.compact if relists else lambda: None)


@pytest.mark.virtual
async def test_deadline_holds_while_creations_fail(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Retries come after 1, 3, 7, 15, 31 and 63 s: none of them at the deadline.
    faults = FaultyTransport(cluster.transport)
    faults.on("create", Pod).fail(ForbiddenError)
    async with job_controller(cluster, clock, transport=faults):
        await create(cluster.client, manifest(activeDeadlineSeconds=40))
        await clock.advance(41)
        assert conditions(await read(cluster.client))[-1] == ("Failed", "DeadlineExceeded")


@pytest.mark.virtual
async def test_pod_found_after_a_lost_reply_is_no_echo(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # By then the pod has ended, and after the relist this is all that the store ever hears of it.
    gate = gate_of(cluster, relists=True)
    faults = FaultyTransport(gate)
    faults.on("create", Pod, nth=1).lose_reply()
    async with job_controller(cluster, clock, transport=faults):
        gate.open["pods"].clear()
        await create(cluster.client, manifest())
        await clock.advance(5)
        gate.open["pods"].set()
        await finished(cluster.client, seconds=60)


@pytest.mark.virtual
async def test_pod_that_came_and_went_unseen_is_replaced(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Nothing will ever show it; only time can say that it is no longer expected (EX-6).
    gate = gate_of(cluster, relists=True)
    async with job_controller(cluster, clock, transport=gate):
        gate.open["pods"].clear()
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await clock.advance(1)
        (pod,) = await pods_of(cluster.client)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        gate.open["pods"].set()
        await finished(cluster.client, seconds=600)


@pytest.mark.virtual
@pytest.mark.parametrize("refused", [ForbiddenError, ConflictError, TooManyRequestsError])
async def test_refusal_after_a_lost_reply_makes_no_second_pod(
    cluster: EmbeddedCluster, clock: VirtualClock, refused: type[ApiError]
) -> None:
    # A quota may refuse what it has let in before: the pod that is there has used it up.
    gate = gate_of(cluster)
    faults = FaultyTransport(gate)
    faults.on("create", Pod, nth=1).lose_reply()
    for nth in (2, 3):
        faults.on("create", Pod, nth=nth).fail(refused)
    async with job_controller(cluster, clock, transport=faults):
        gate.open["pods"].clear()
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await clock.advance(20)
        assert len(await pods_of(cluster.client)) == 1
        gate.open["pods"].set()
        await finished(cluster.client, seconds=600)


@pytest.mark.virtual
async def test_creation_that_was_seen_is_not_sent_again(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # The pod has come and gone before anybody is told that it was made. Sent again, it would be one too many, because
    # nobody expects it any more.
    faults = FaultyTransport(cluster.transport)
    for nth in (1, 3, 4, 5):
        faults.on("create", Pod, nth=nth).lose_request()
    for nth in (2, 6):
        faults.on("create", Pod, nth=nth).lose_reply()
    async with (
        observing_pods(cluster) as seen,
        job_controller(cluster, clock, transport=faults, sync_job_batch_period=0.0),
    ):
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
        await clock.advance(0.3)
        (pod,) = await pods_of(cluster.client)
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await clock.advance(20)
        assert (seen.most_active, len(await pods_of(cluster.client))) == (1, 1)


@pytest.mark.virtual
async def test_pod_without_its_owner_is_adopted_again(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Row 123; job-controller §4.3, step 5.
    async with job_controller(cluster, clock):
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
        await clock.advance(5)
        (pod,) = await pods_of(cluster.client)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
        await clock.advance(5)
        (again,) = await pods_of(cluster.client)
        assert (again.key, again.metadata.owner_references) == (pod.key, pod.metadata.owner_references)
        assert again.metadata.finalizers == pod.metadata.finalizers
        assert (await read(cluster.client)).status.active == 1


@pytest.mark.virtual
async def test_pod_that_ended_unseen_is_counted_though_it_is_too_many(
    cluster: EmbeddedCluster, clock: VirtualClock
) -> None:
    gate = gate_of(cluster)
    async with job_controller(cluster, clock, transport=gate):
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "10s"}))
        await clock.advance(5)
        gate.open["pods"].clear()
        await clock.advance(10)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        await clock.advance(5)
        gate.open["pods"].set()
        job = await finished(cluster.client, seconds=60)
    assert job.status.succeeded == 1


@pytest.mark.virtual
async def test_failed_removal_waits_for_its_retry(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Without batching, work put off comes again at once; work that failed must not, or it would never stop.
    gate = gate_of(cluster)
    async with job_controller(cluster, clock, transport=gate, sync_job_batch_period=0.0):
        await create(cluster.client, manifest(parallelism=2, annotations={"sim.kcr.dev/run-for": "forever"}))
        await clock.advance(5)
        gate.open["pods"].clear()
        for pod in await pods_of(cluster.client):
            await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"annotations": {"seen": "no"}}})
        await cluster.client.merge_patch(Job, KEY, {"spec": {"parallelism": 1}})
        await clock.advance(5)
        gate.open["pods"].set()
        await clock.advance(120)
        assert (await read(cluster.client)).status.active == 1


@pytest.mark.virtual
async def test_crash_with_full_lists_leaves_nothing_listed(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # The lists are full of pods that still have their finalizer.
    transport = CrashingTransport(cluster.transport)
    async with job_controller(cluster, clock, transport=transport, max_uncounted_pods=1):
        await create(cluster.client, manifest(parallelism=2, annotations={"sim.kcr.dev/run-for": "5s"}))
        await clock.advance(1)
        # The status that lists the first pod; its finalizer is not removed any more.
        transport.crash_after(transport.writes + 1)
        await clock.advance(10)
    assert (await read(cluster.client)).status.uncounted_terminated_pods != UncountedTerminatedPods()
    async with job_controller(cluster, clock, max_uncounted_pods=1):
        job = await finished(cluster.client, seconds=60)
    assert job.status.succeeded == 2


@pytest.mark.virtual
@pytest.mark.parametrize("late", [{}, {"jobs": 3.0}, {"pods": 3.0}, {"jobs": 2.0, "pods": 2.0}], ids=str)
async def test_namesake_inherits_nothing(
    cluster: EmbeddedCluster, clock: VirtualClock, late: Mapping[str, float]
) -> None:
    # Rows 151 to 154: three Jobs of one name, each deleted while its pods fail, go, or have not been seen.
    transport = LateWatches(cluster.transport, Random(5), late)
    fails = {"sim.kcr.dev/exit-code": "1", "sim.kcr.dev/run-for": "1s"}
    async with job_controller(cluster, clock, transport=transport):
        for pause in (0.0, 1.5, 4.0):
            await create(cluster.client, manifest(parallelism=5, backoffLimit=20, annotations=fails))
            await clock.advance(pause)
            await cluster.client.delete(Job, KEY, propagation="Background")
        last = await create(
            cluster.client,
            manifest(parallelism=5, podReplacementPolicy="Failed", annotations={"sim.kcr.dev/run-for": "forever"}),
        )
        await clock.advance(9)
        job = await read(cluster.client)
        assert (job.status.active, job.status.failed, job.status.succeeded) == (5, 0, 0)
        mine = [
            pod for pod in await pods_of(cluster.client) if pod.metadata.owner_references[0].uid == last.metadata.uid
        ]
        assert len(mine) == 5


class SameDraw(Random):
    """Draws the suffixes of the first two pods alike."""

    def __init__(self) -> None:
        super().__init__(0)
        self._letters = iter("bbbbb" * 2)

    def choice(self, seq: Any) -> Any:
        return next(self._letters, None) or super().choice(seq)


@pytest.mark.virtual
async def test_two_pods_that_draw_one_name_are_two(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Among 6,000 pods of a Job it happens once: 27 letters, five of them.
    async with job_controller(cluster, clock, seed=SameDraw()):
        await create(cluster.client, manifest(parallelism=2, completions=2))
        await finished(cluster.client, seconds=30)
        assert len(await pods_of(cluster.client)) == 2


@pytest.mark.virtual
@pytest.mark.parametrize("loss", LOSSES)
async def test_success_whose_record_had_no_answer_is_not_made_again(
    cluster: EmbeddedCluster, clock: VirtualClock, loss: Loss
) -> None:
    # Whichever reply is lost: index 0 is on record when somebody takes its pod away, though the store does not show it.
    for number in range(1, 12):
        transport = CrashingTransport(LateWatches(cluster.transport, Random(number), {"jobs": 3.0}))
        transport.lose_reply(number, loss)
        async with job_controller(cluster, clock, transport=transport), observing_pods(cluster) as seen:
            spec: dict[str, Any] = {"completionMode": "Indexed", "completions": 1, "parallelism": 1}
            await create(cluster.client, manifest(**spec, annotations={"sim.kcr.dev/run-for": "5s"}))
            await clock.run_until(lambda: "Succeeded" in seen.phases.values(), seconds=30)
            while (await read(cluster.client)).status.completed_indexes != "0":
                await clock.advance(0.05)
            for pod in await pods_of(cluster.client):
                if pod.status.phase == "Succeeded":
                    await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
                    await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
            await finished(cluster.client, seconds=600)
            assert len(seen.phases) == 1, f"reply {number} was lost"
            await cluster.client.delete(Job, KEY, propagation="Foreground")
            await clock.advance(60)
