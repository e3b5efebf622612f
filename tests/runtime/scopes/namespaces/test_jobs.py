"""Jobs in namespaces that come and go while they run: no pod is made twice, lost or counted twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

import kcr
from kcr.api.batch import Job
from kcr.api.core import Namespace, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Transport
from kcr.controllers.job.controller import Options, setup
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.crash import WriteFault, crash_after_writes, lose_replies
from tests.kit.harness import counters, finished, manifest, nothing_left_behind, read
from tests.kit.open_manager import running
from tests.kit.replicas import sharded_replica

pytestmark = pytest.mark.kcr_virtual

BLUE = {"team": "blue"}
NAMESPACES = ("a", "b")


@asynccontextmanager
async def cluster_with_jobs(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster with a Job in each of two namespaces, of which `a` belongs to the blue team; pods take a minute."""
    async with EmbeddedCluster(
        clock=clock, random=Random(0), on_run=lambda pod, container, restarts: RunResult(run_for=60)
    ) as cluster:
        for name in NAMESPACES:
            labels = BLUE if name == "a" else {}
            await cluster.client.create(Namespace(metadata=ObjectMeta(name=name, labels=labels)))
            await start(cluster, name)
        yield cluster


async def start(cluster: EmbeddedCluster, namespace: str, name: str = "pi") -> None:
    job = manifest(name, completions=4, parallelism=2)
    job["metadata"]["namespace"] = namespace
    await cluster.client.create_manifest(Job, job, namespace)


async def label(cluster: EmbeddedCluster, name: str, team: str | None) -> None:
    await cluster.client.merge_patch(Namespace, Key("", name), {"metadata": {"labels": {"team": team}}})


async def pods_in(cluster: EmbeddedCluster, namespace: str) -> tuple[Pod, ...]:
    return await cluster.client.list(Pod, namespace)


def manager_of(
    cluster: EmbeddedCluster, clock: VirtualClock, transport: Transport | None = None, seed: int = 1, **options: Any
) -> kcr.Manager:
    options = {"namespace": kcr.Namespaces(labels="team=blue"), **options}
    client = Client(transport or cluster.transport)
    manager = kcr.Manager(client, clock=clock, random=Random(seed), **options)
    setup(manager, Options(take_over=True))
    return manager


def active(manager: kcr.Manager) -> frozenset[str]:
    assert manager.namespaces is not None
    return manager.namespaces.active


async def check_ended(cluster: EmbeddedCluster, *namespaces: str) -> None:
    for namespace in namespaces:
        job = await finished(cluster.client, namespace=namespace)
        assert (job.status.succeeded, job.status.failed) == (4, 0)
        pods = await pods_in(cluster, namespace)
        assert len(pods) == 4
        assert nothing_left_behind(pods)


async def test_namespace_that_gets_the_label_is_reconciled_without_restart(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster, running(manager_of(cluster, kcr_clock)) as manager:
        assert active(manager) == {"a"}
        await kcr_clock.advance(30)
        assert (len(await pods_in(cluster, "a")), len(await pods_in(cluster, "b"))) == (2, 0)
        await label(cluster, "b", "blue")
        await kcr_clock.advance(5)
        assert active(manager) == {"a", "b"}
        assert len(await pods_in(cluster, "b")) == 2
        await check_ended(cluster, "a", "b")


async def test_namespace_that_loses_the_label_is_left_as_it_is_and_continued_later(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster, running(manager_of(cluster, kcr_clock)) as manager:
        await label(cluster, "b", "blue")
        await kcr_clock.advance(30)
        await label(cluster, "b", None)
        await kcr_clock.advance(5)
        assert active(manager) == {"a"}
        for kind in (Job, Pod):
            assert {obj.metadata.namespace for obj in manager.store(kind).list()} == {"a"}
        before = await read(cluster.client, namespace="b")
        faults = len(await pods_in(cluster, "b"))
        await kcr_clock.advance(300)
        # Its two pods have ended, and are not counted.
        assert await read(cluster.client, namespace="b") == before
        assert (faults, len(await pods_in(cluster, "b"))) == (2, 2)
        await check_ended(cluster, "a")
        await label(cluster, "b", "blue")
        await check_ended(cluster, "b")


async def test_no_request_is_sent_for_a_namespace_that_left(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster:
        transport = FaultyTransport(cluster.transport)
        async with running(manager_of(cluster, kcr_clock, transport)):
            await kcr_clock.advance(30)
            await label(cluster, "a", None)
            await kcr_clock.advance(5)
            sent = len(transport.calls)
            await kcr_clock.advance(1200)
            assert {call.resource[2] for call in transport.calls[sent:]} == {"namespaces"}


async def test_label_that_comes_and_goes_at_once_makes_no_surplus_pod(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster, running(manager_of(cluster, kcr_clock)):
        for number in range(20):
            await label(cluster, "a", None if number % 2 == 0 else "blue")
            await label(cluster, "b", "blue" if number % 2 == 0 else None)
            await kcr_clock.advance(0.01 * number)
        await label(cluster, "b", "blue")
        await check_ended(cluster, "a", "b")


async def test_deleted_namespace_is_left_after_its_jobs(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster, running(manager_of(cluster, kcr_clock)) as manager:
        await label(cluster, "b", "blue")
        await kcr_clock.advance(30)
        await cluster.client.delete(Namespace, Key("", "b"))

        async def is_gone() -> bool:
            return "b" not in {one.metadata.name for one in await cluster.client.list(Namespace)}

        # Its pods have finalizers, which the controller removes while the namespace terminates.
        await eventually(is_gone, seconds=120)
        await kcr_clock.advance(5)
        assert active(manager) == {"a"}
        await check_ended(cluster, "a")
        # One of the same name is another one.
        await cluster.client.create(Namespace(metadata=ObjectMeta(name="b", labels=BLUE)))
        await start(cluster, "b")
        await check_ended(cluster, "b")


@pytest.mark.soak
async def test_names_change_at_run_time(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster:
        namespaces = kcr.Namespaces("a")
        async with running(manager_of(cluster, kcr_clock, namespace=namespaces)):
            await kcr_clock.advance(5)
            namespaces.change({"b"})
            await kcr_clock.advance(100)
            assert counters(await read(cluster.client, namespace="a"))[3] == 0
            namespaces.change({"b", "a"})
            await check_ended(cluster, "a", "b")


@pytest.mark.parametrize("step", [2, *(pytest.param(step, marks=pytest.mark.soak) for step in (0, 1, 3, 4, 5))])
async def test_restart_between_finds_the_present_namespaces(kcr_clock: VirtualClock, step: int) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster:
        transport = CrashingTransport(cluster.transport)
        async with running(manager_of(cluster, kcr_clock, transport)):
            await label(cluster, "b", "blue")
            await kcr_clock.advance(20 * step)
            await label(cluster, "a", None)
            # Dies while the namespace leaves.
            transport.crash_after(0)
        async with running(manager_of(cluster, kcr_clock, seed=2)) as manager:
            assert active(manager) == {"b"}
            await check_ended(cluster, "b")
            await label(cluster, "a", "blue")
            await check_ended(cluster, "a")


async def relabelled(fault: WriteFault) -> int:
    """A namespace leaves and comes back while its Job runs; the controller meets a fault."""
    clock = VirtualClock()
    async with cluster_with_jobs(clock) as cluster:
        transport = CrashingTransport(cluster.transport)
        fault.strike(transport)
        async with running(manager_of(cluster, clock, transport)):
            for number in range(6):
                if transport.crashed.is_set():
                    break
                await clock.advance(13 + number)
                await label(cluster, "a", None if number % 2 == 0 else "blue")
        await label(cluster, "a", "blue")
        async with running(manager_of(cluster, clock, seed=2)):
            await check_ended(cluster, "a")
        return transport.writes


def test_crash_after_each_write_loses_and_doubles_nothing() -> None:
    crash_after_writes(relabelled, most=1)


@pytest.mark.soak
def test_lost_reply_to_each_write_loses_and_doubles_nothing() -> None:
    lose_replies(relabelled, most=1)


@pytest.mark.soak
async def test_namespaces_change_under_sharding(kcr_clock: VirtualClock) -> None:
    async with cluster_with_jobs(kcr_clock) as cluster:
        first, second = (
            manager_of(cluster, kcr_clock, seed=seed, leader_election=sharded_replica(cluster, kcr_clock, name))
            for seed, name in enumerate("xy")
        )
        async with running(first):
            await kcr_clock.advance(20)
            async with running(second):
                await label(cluster, "b", "blue")
                await kcr_clock.advance(30)
                assert active(first) == active(second) == {"a", "b"}
                await label(cluster, "a", None)
                await kcr_clock.advance(40)
                await label(cluster, "a", "blue")
                await kcr_clock.advance(10)
            await check_ended(cluster, "a", "b")
