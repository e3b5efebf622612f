"""Pods that the Job controller and another client remove in the same moment."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
import pytest_asyncio

from kcr.api.core import Pod
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import ConflictError, ServerError
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import EVERY_LOSS, loss_of
from tests.kit.fake_node import FakeNode
from tests.kit.harness import job_controller, pods_of, read
from tests.kit.transports import late_watches
from tests.kit.user_actions import UserActions

pytestmark = pytest.mark.kcr_virtual

TWO: dict[str, Any] = {"parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed", "held": True}


@pytest_asyncio.fixture
async def bare(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """Give a cluster without a node: nothing but the test itself ends pods."""
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, gc=False) as cluster:
        yield cluster


async def comes_to(cluster: EmbeddedCluster, clock: VirtualClock, *, seconds: float = 30, **wanted: Any) -> None:
    """Wait until the Job's status has these fields, or fail with what it has."""
    for _ in range(round(seconds * 10)):
        status = (await read(cluster.client)).status
        if {name: getattr(status, name) for name in wanted} == wanted:
            return
        await clock.advance(0.1)
    raise AssertionError(f"not in {seconds} s: {wanted}; {status}; {await pods_of(cluster.client)}")


@asynccontextmanager
async def two_pods(
    cluster: EmbeddedCluster, clock: VirtualClock, *, late: Mapping[str, float] = {}
) -> AsyncIterator[tuple[UserActions, FaultyTransport, tuple[Pod, ...]]]:
    """Run the controller, and a Job until its two pods are active."""
    user, faults = UserActions(cluster.client, clock), FaultyTransport(cluster.transport)
    async with job_controller(cluster, clock, transport=late_watches(faults, Random(1), late)):
        await user.create(**TWO)
        await comes_to(cluster, clock, active=2)
        yield user, faults, await pods_of(cluster.client)


async def all_go(cluster: EmbeddedCluster, clock: VirtualClock, **wanted: Any) -> None:
    """Let the other finalizer go, and see that the pods do as well."""
    user = UserActions(cluster.client, clock)
    await user.release(await pods_of(cluster.client))
    await comes_to(cluster, clock, active=0, terminating=0, **wanted)


async def test_pods_deleted_while_their_job_is_suspended_terminate(
    bare: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with two_pods(bare, kcr_clock) as (user, faults, pods):
        # The request is on its way when the other client's arrives.
        faults.on("patch", Pod, nth=1).then(lambda: user.delete_pods(pods))
        await user.patch(suspend=True)
        await comes_to(bare, kcr_clock, active=0, terminating=2, seconds=1)
        await all_go(bare, kcr_clock, failed=0)
        assert await pods_of(bare.client) == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pod_that_ends_while_its_job_is_suspended_is_counted(
    bare: EmbeddedCluster, kcr_clock: VirtualClock, phase: str
) -> None:
    async with two_pods(bare, kcr_clock) as (user, faults, (first, _)):
        node = FakeNode(bare.client, kcr_clock)
        faults.on("patch", Pod, name=first.metadata.name, nth=1).then(lambda: node.end(first, phase, 0))
        await user.patch(suspend=True)
        counted = {phase.lower(): 1}
        await comes_to(bare, kcr_clock, active=0, terminating=1, **counted, seconds=2)
        await all_go(bare, kcr_clock, **counted)


async def touch(user: UserActions, pod: Pod) -> None:
    await user.client.merge_patch(Pod, pod.key, {"metadata": {"annotations": {"touched": "yes"}}})


async def test_conflict_on_one_pod_delays_nothing(bare: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with two_pods(bare, kcr_clock) as (user, faults, (first, _)):
        faults.on("patch", Pod, name=first.metadata.name, nth=1).then(lambda: touch(user, first))
        await user.patch(suspend=True)
        # In the same pass: a retry would come a second later.
        await comes_to(bare, kcr_clock, active=0, terminating=2, seconds=0.5)
        assert not any(map(is_tracked, await pods_of(bare.client)))


async def test_pod_that_conflicts_for_ever_is_the_only_one_left(bare: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with two_pods(bare, kcr_clock) as (user, faults, (first, _)):
        faults.on("patch", Pod, name=first.metadata.name).fail(ConflictError)
        await user.patch(suspend=True)
        await comes_to(bare, kcr_clock, active=1, terminating=1, seconds=0.5)
        faults.heal()
        await comes_to(bare, kcr_clock, active=0, terminating=2, seconds=5)
        await all_go(bare, kcr_clock)


@pytest.mark.parametrize("page", [0, 404])
async def test_live_pod_that_cannot_be_read_is_looked_at_again(
    bare: EmbeddedCluster, kcr_clock: VirtualClock, page: int
) -> None:
    async with two_pods(bare, kcr_clock) as (user, faults, (first, _)):
        faults.on("patch", Pod, name=first.metadata.name, nth=1).then(lambda: touch(user, first))
        look = faults.on("get", Pod, nth=1)
        look.lose_request(page) if page else look.fail(ServerError)
        await user.patch(suspend=True)
        await comes_to(bare, kcr_clock, active=0, terminating=2, seconds=5)
        await all_go(bare, kcr_clock)


@pytest.mark.parametrize("late", [{"pods": 3.0}, {"pods": 3.0, "jobs": 3.0}], ids=str)
async def test_deletion_that_the_watch_does_not_show_yet_is_no_obstacle(
    bare: EmbeddedCluster, kcr_clock: VirtualClock, late: Mapping[str, float]
) -> None:
    async with two_pods(bare, kcr_clock, late=late) as (user, faults, _):
        await kcr_clock.advance(10)
        pods = await pods_of(bare.client)
        faults.on("patch", Pod, nth=1).then(lambda: user.delete_pods(pods))
        await user.patch(suspend=True)
        await comes_to(bare, kcr_clock, active=0, terminating=2, seconds=10)
        await all_go(bare, kcr_clock, failed=0)


@pytest.mark.parametrize("loss", ["crash", *EVERY_LOSS])
async def test_removal_that_is_cut_short_after_any_write_is_made_up_for(
    kcr_clock: VirtualClock, loss: str | None
) -> None:
    # The other client deletes the pods while the controller dies, or gets no answer. What it then finds terminating
    # is the kubelet's to end, and counts as what it ends as.
    for number in range(1, 12):
        async with EmbeddedCluster(clock=kcr_clock, random=Random(number), runtime=None, gc=False) as cluster:
            await cut_short(cluster, kcr_clock, number, loss)


async def cut_short(cluster: EmbeddedCluster, clock: VirtualClock, number: int, loss: str | None) -> None:
    user, faults = UserActions(cluster.client, clock), FaultyTransport(cluster.transport)
    wire = CrashingTransport(faults)
    async with job_controller(cluster, clock, transport=wire):
        await user.create(**TWO)
        await comes_to(cluster, clock, active=2)
        pods = await pods_of(cluster.client)
        number += wire.writes
        if loss == "crash":
            wire.crash_after(number)
        else:
            wire.lose_reply(number, loss_of(number, cast(Loss | None, loss)))
        faults.on("patch", Pod, nth=1).then(lambda: user.delete_pods(pods))
        await user.patch(suspend=True)
        await clock.advance(20)
        wire.crash_after(0)
    async with job_controller(cluster, clock):
        await clock.advance(5)
        await FakeNode(cluster.client, clock).fail(*(pod for pod in await pods_of(cluster.client) if is_tracked(pod)))
        await clock.advance(5)
        assert not any(map(is_tracked, await pods_of(cluster.client)))
        await all_go(cluster, clock)
        status = (await read(cluster.client)).status
        assert status.uncounted_terminated_pods is not None
        assert status.failed + status.succeeded <= 2
        await user.patch(suspend=False)
        await comes_to(cluster, clock, active=2, seconds=60)
