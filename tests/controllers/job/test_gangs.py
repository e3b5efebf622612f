"""Jobs whose pods are scheduled all or none (job-controller §35)."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any, cast

import msgspec
import pytest
import pytest_asyncio

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.api.scheduling import PodGroup, TypedLocalReference, Workload, WorkloadSpec
from kcr.cluster import EmbeddedCluster
from kcr.cluster.node import Outcome
from kcr.errors import InvalidError
from kcr.testing import CrashingTransport, VirtualClock
from kcr.testing.answers import LOSSES, Loss
from tests.kit.harness import create, events_of, finished, job_controller, manifest

pytestmark = pytest.mark.virtual

GATES = "GenericWorkload=true,WorkloadWithJob=true"
GANG: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


@pytest_asyncio.fixture
async def cluster(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    def run(*_: object) -> Outcome:
        return Outcome(run_for=30)

    async with EmbeddedCluster(clock=clock, random=Random(0), gangs=True, on_run=run) as running:
        yield running


async def groups_of_pods(cluster: EmbeddedCluster) -> list[Any]:
    listed = msgspec.json.decode(await cluster.client.request("GET", "/api/v1/namespaces/default/pods"))
    return [pod["spec"].get("schedulingGroup") for pod in listed["items"]]


async def test_gang_gets_a_workload_and_a_group(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    async with job_controller(cluster, clock, feature_gates=GATES):
        await create(cluster.client, manifest(**GANG))
        await clock.advance(5)
        (workload,) = await cluster.client.list(Workload, "default")
        (group,) = await cluster.client.list(PodGroup, "default")
        assert await groups_of_pods(cluster) == [{"podGroupName": group.metadata.name}] * 3
        assert ("WorkloadCreated", f"Created Workload {workload.metadata.name} for Job pi") in await events_of(
            cluster.client
        )
        await finished(cluster.client)
        await cluster.client.delete(Job, Key("default", "pi"), propagation="Background")
        await clock.advance(30)
        assert await cluster.client.list(Workload, "default") == ()
        assert await cluster.client.list(PodGroup, "default") == ()


async def test_gates_are_off_by_default(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    async with job_controller(cluster, clock):
        await create(cluster.client, manifest(**GANG))
        await finished(cluster.client)
        assert await cluster.client.list(Workload, "default") == ()
        assert await groups_of_pods(cluster) == [None] * 3


async def test_suspended_gang_has_its_group_before_it_runs(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    async with job_controller(cluster, clock, feature_gates=GATES):
        await create(cluster.client, manifest(**GANG, suspend=True))
        await clock.advance(5)
        assert len(await cluster.client.list(PodGroup, "default")) == 1
        await cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"suspend": False}})
        await finished(cluster.client)
        assert None not in await groups_of_pods(cluster)


async def test_somebody_elses_workload_is_left_alone(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    reference = TypedLocalReference(api_group="batch", kind="Job", name="pi")
    theirs = Workload(spec=WorkloadSpec(controller_ref=reference))
    theirs = msgspec.structs.replace(
        theirs, metadata=msgspec.structs.replace(theirs.metadata, name="theirs", namespace="default")
    )
    async with job_controller(cluster, clock, feature_gates=GATES):
        await cluster.client.create(theirs)
        await create(cluster.client, manifest(**GANG))
        await finished(cluster.client)
        assert len(await cluster.client.list(Workload, "default")) == 1
        assert await cluster.client.list(PodGroup, "default") == ()
        assert await groups_of_pods(cluster) == [None] * 3


async def test_job_that_is_no_gang_is_scheduled_as_ever(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    async with job_controller(cluster, clock, feature_gates=GATES):
        await create(cluster.client, manifest(parallelism=3, completions=3))
        await finished(cluster.client)
        assert await cluster.client.list(Workload, "default") == ()


async def test_size_of_a_gang_is_fixed(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # job-controller §35.7.
    await create(cluster.client, manifest(**GANG))
    with pytest.raises(InvalidError, match="cannot change parallelism for a Job referencing gang-scheduled PodGroup"):
        await cluster.client.merge_patch(Job, Key("default", "pi"), {"spec": {"parallelism": 4, "completions": 4}})


@pytest.mark.parametrize("trouble", ["crash", *LOSSES])
async def test_no_pod_is_made_outside_the_group(cluster: EmbeddedCluster, clock: VirtualClock, trouble: str) -> None:
    # Whatever write the process dies after, or whatever reply is lost: one workload, one group, and all pods in it.
    for number in range(1, 8):
        transport = CrashingTransport(cluster.transport)
        if trouble == "crash":
            transport.crash_after(number)
        else:
            transport.lose_reply(number, cast("Loss", trouble))
        async with job_controller(cluster, clock, transport=transport, feature_gates=GATES):
            await create(cluster.client, manifest(**GANG))
            await clock.advance(5)
            transport.crash_after(0)
        async with job_controller(cluster, clock, feature_gates=GATES):
            await finished(cluster.client)
            groups = await cluster.client.list(PodGroup, "default")
            assert (len(groups), len(await cluster.client.list(Workload, "default"))) == (1, 1)
            assert await groups_of_pods(cluster) == [{"podGroupName": groups[0].metadata.name}] * 3
            await cluster.client.delete(Job, Key("default", "pi"), propagation="Foreground")
            await clock.advance(60)
