"""Jobs whose pods are scheduled all or none, by their form (job-controller §35): Kubernetes 1.36."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kcr.api.batch import Job
from kcr.api.meta import Key, ObjectMeta
from kcr.api.scheduling import PodGroup, TypedLocalReference, Workload, WorkloadSpec
from kcr.client import Transport
from kcr.errors import InvalidError
from kcr.feature_gates import read_gates
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import EVERY_LOSS, MOST_WRITES, WriteFault, crash_after_writes, lose_replies, surviving
from tests.kit.harness import create, ended, events_of, finished, job_controller, manifest

pytestmark = pytest.mark.kcr_virtual

GATES = "GenericWorkload=true,WorkloadWithJob=true"
GANG: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest_asyncio.fixture
async def cluster(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with cluster_with_gangs(kcr_clock) as running:
        yield running


def cluster_with_gangs(clock: VirtualClock) -> EmbeddedCluster:
    return EmbeddedCluster(
        clock=clock, random=Random(0), gangs=True, on_run=lambda *_: RunResult(run_for=30), kubernetes_version="1.36"
    )


async def groups_of_pods(cluster: EmbeddedCluster) -> list[Any]:
    listed = msgspec.json.decode(await cluster.client.request("GET", "/api/v1/namespaces/default/pods"))
    return [pod["spec"].get("schedulingGroup") for pod in listed["items"]]


async def test_gang_gets_a_workload_and_a_group(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=read_gates(GATES)):
        await create(cluster.client, manifest(**GANG))
        await kcr_clock.advance(5)
        (workload,) = await cluster.client.list(Workload, "default")
        (group,) = await cluster.client.list(PodGroup, "default")
        assert await groups_of_pods(cluster) == [{"podGroupName": group.metadata.name}] * 3
        assert ("WorkloadCreated", f"Created Workload {workload.metadata.name} for Job pi") in await events_of(
            cluster.client
        )
        await finished(cluster.client)
        await cluster.client.delete(Job, Key("default", "pi"), propagation="Background")
        await kcr_clock.advance(30)
        assert await cluster.client.list(Workload, "default") == ()
        assert await cluster.client.list(PodGroup, "default") == ()


async def test_gates_are_off_by_default(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, manifest(**GANG))
        await finished(cluster.client)
        assert await cluster.client.list(Workload, "default") == ()
        assert await groups_of_pods(cluster) == [None] * 3


async def test_suspended_gang_has_its_group_before_it_runs(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=read_gates(GATES)):
        await create(cluster.client, manifest(**GANG, suspend=True))
        await kcr_clock.advance(5)
        assert len(await cluster.client.list(PodGroup, "default")) == 1
        await cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"suspend": False}})
        await finished(cluster.client)
        assert None not in await groups_of_pods(cluster)


async def test_somebody_elses_workload_is_left_alone(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    reference = TypedLocalReference(api_group="batch", kind="Job", name="pi")
    theirs = Workload(spec=WorkloadSpec(controller_ref=reference))
    theirs = msgspec.structs.replace(
        theirs, metadata=msgspec.structs.replace(theirs.metadata, name="theirs", namespace="default")
    )
    async with job_controller(cluster, kcr_clock, feature_gates=read_gates(GATES)):
        await cluster.client.create(theirs)
        await create(cluster.client, manifest(**GANG))
        await finished(cluster.client)
        assert len(await cluster.client.list(Workload, "default")) == 1
        assert await cluster.client.list(PodGroup, "default") == ()
        assert await groups_of_pods(cluster) == [None] * 3


@pytest.mark.parametrize("kind", [Workload, PodGroup])
async def test_gang_with_two_workloads_or_groups_has_no_group(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock, kind: type[Workload | PodGroup]
) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=read_gates(GATES)):
        await create(cluster.client, manifest(**GANG, suspend=True))
        await kcr_clock.advance(5)
        (first,) = await cluster.client.list(kind, "default")
        metadata = {"name": "second", "namespace": "default", "ownerReferences": first.metadata.owner_references}
        second = msgspec.structs.replace(first, metadata=msgspec.convert(metadata, ObjectMeta))
        await cluster.client.create(second)
        await cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"suspend": False}})
        await finished(cluster.client)
        assert await groups_of_pods(cluster) == [None] * 3


async def test_job_that_is_no_gang_is_scheduled_as_ever(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=read_gates(GATES)):
        await create(cluster.client, manifest(parallelism=3, completions=3))
        await finished(cluster.client)
        assert await cluster.client.list(Workload, "default") == ()


async def test_size_of_a_gang_is_fixed(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # job-controller §35.7.
    await create(cluster.client, manifest(**GANG))
    with pytest.raises(InvalidError, match="cannot change parallelism for a Job referencing gang-scheduled PodGroup"):
        await cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"parallelism": 4, "completions": 4}})


@pytest.mark.parametrize("most", MOST_WRITES)
def test_crash_after_any_write_makes_no_pod_outside_the_group(most: int | None) -> None:
    # One workload, one group, and all pods in it.
    crash_after_writes(live, most)


@pytest.mark.soak
@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_makes_no_pod_outside_the_group(loss: Loss | None, most: int | None) -> None:
    lose_replies(live, most, loss=loss)


async def live(fault: WriteFault) -> int:
    """Run a gang in spite of a fault, and return the number of writes."""
    clock = VirtualClock()
    cluster = cluster_with_gangs(clock)

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return job_controller(cluster, clock, transport=transport, seed=seed, feature_gates=read_gates(GATES))

    async def is_over() -> bool:
        return await ended(cluster.client) is not None

    async with cluster:
        await create(cluster.client, manifest(**GANG))
        async with surviving(cluster.transport, fault, controller, is_over) as transport:
            await finished(cluster.client)
        groups = await cluster.client.list(PodGroup, "default")
        assert (len(groups), len(await cluster.client.list(Workload, "default"))) == (1, 1)
        assert await groups_of_pods(cluster) == [{"podGroupName": groups[0].metadata.name}] * 3
    return transport.writes
