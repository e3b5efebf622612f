"""Jobs that say how they are scheduled (`spec.scheduling`, KEP-5547), with `scheduling.k8s.io/v1beta1`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kcr.api.batch import Job
from kcr.api.core import Event, Node
from kcr.api.meta import Key, ObjectMeta
from kcr.api.scheduling import (
    BasicSchedulingPolicy,
    BetaPodGroup,
    BetaWorkload,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    TypedLocalReference,
    WorkloadSpec,
)
from kcr.client import Client, Transport
from kcr.controllers.job.explanation import ManagedJob, explain_job
from kcr.feature_gates import read_gates
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import EVERY_LOSS, MOST_WRITES, WriteFault, crash_after_writes, lose_replies, surviving
from tests.kit.harness import create, ended, events_of, finished, job_controller, manifest, pods_of
from tests.kit.open_manager import explanation_of

pytestmark = pytest.mark.kcr_virtual

GATES = read_gates("GenericWorkload=true,WorkloadWithJob=true")
KEY = Key("default", "pi")
ONE_CPU = [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]


def served(clock: VirtualClock, **options: Any) -> EmbeddedCluster:
    wanted: dict[str, Any] = {"gangs": True, "kubernetes_version": "1.37", **options}
    return EmbeddedCluster(clock=clock, random=Random(0), on_run=lambda *_: RunResult(run_for=30), **wanted)


@pytest_asyncio.fixture
async def cluster(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with served(kcr_clock) as running:
        yield running


def gang(count: int = 3, size: int | None = None, **spec: Any) -> dict[str, Any]:
    policy = {"gang": {} if size is None else {"minCount": size}}
    return manifest(parallelism=count, completions=count, scheduling={"schedulingPolicy": policy}, **spec)


async def the_group(client: Client) -> BetaPodGroup:
    (group,) = await client.list(BetaPodGroup, "default")
    return group


async def groups_of_pods(client: Client) -> list[Any]:
    listed = msgspec.json.decode(await client.request("GET", "/api/v1/namespaces/default/pods"))
    return [pod["spec"].get("schedulingGroup") for pod in listed["items"]]


async def give_cpus(client: Client, cpus: str) -> None:
    (node,) = await client.list(Node)
    await client.merge_patch(Node, node.key, {"status": {"allocatable": {"cpu": cpus}}}, subresource="status")


def size_of(obj: BetaPodGroup | BetaWorkload) -> int:
    spec = obj.spec
    policy = (spec if isinstance(spec, PodGroupSpec) else spec.pod_group_templates[0]).scheduling_policy
    assert policy is not None and policy.gang is not None
    return policy.gang.min_count


async def test_gang_gets_a_workload_and_a_group(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, gang())
        await kcr_clock.advance(5)
        (workload,) = await cluster.client.list(BetaWorkload, "default")
        group = await the_group(cluster.client)
        assert (size_of(workload), size_of(group)) == (3, 3)
        assert group.spec.workload_ref is not None
        assert group.spec.workload_ref.workload_name == workload.metadata.name
        assert await groups_of_pods(cluster.client) == [{"podGroupName": group.metadata.name}] * 3
        assert [(one.type, one.status) for one in group.status.conditions] == [("PodGroupInitiallyScheduled", "True")]
        assert "WorkloadCreated" in [reason for reason, _ in await events_of(cluster.client)]
        await finished(cluster.client)
        await cluster.client.delete(Job, KEY, propagation="Background")
        await kcr_clock.advance(30)
        assert await cluster.client.list(BetaWorkload, "default") == ()
        assert await cluster.client.list(BetaPodGroup, "default") == ()


async def test_job_that_asks_for_nothing_has_a_basic_group(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, manifest(parallelism=2, completions=2))
        await finished(cluster.client)
        policy = (await the_group(cluster.client)).spec.scheduling_policy
        assert policy is not None and policy.gang is None and policy.basic is not None


async def test_gang_waits_for_room_for_all_and_explain_says_so(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=GATES) as manager:
        await kcr_clock.advance(1)
        await give_cpus(cluster.client, "2")
        await create(cluster.client, gang(containers=ONE_CPU))
        await kcr_clock.advance(5)
        assert [pod.spec.node_name for pod in await pods_of(cluster.client)] == [""] * 3
        text = "gang: 2 of 3 pods can be placed; waits for room: 0/1 nodes are available: 1 Insufficient cpu."
        assert (await explanation_of(manager, "job", KEY)).reasons[0] == text
        job = await cluster.client.get(ManagedJob, KEY)
        outside = await explain_job(cluster.client, job, await cluster.client.list(Event, "default"), kcr_clock.now())
        assert outside.reasons[0] == text
        (condition,) = (await the_group(cluster.client)).status.conditions
        assert (condition.status, condition.reason, f"gang: {condition.message}") == ("False", "Unschedulable", text)
        await give_cpus(cluster.client, "3")
        await kcr_clock.advance(1)
        assert {pod.spec.node_name for pod in await pods_of(cluster.client)} == {"kcr-node-0"}
        assert (await finished(cluster.client)).status.succeeded == 3


async def test_suspended_job_has_no_group_and_gets_another_one(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, gang())
        await kcr_clock.advance(5)
        first = await the_group(cluster.client)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        await kcr_clock.advance(40)
        assert await cluster.client.list(BetaPodGroup, "default") == ()
        assert len(await cluster.client.list(BetaWorkload, "default")) == 1
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": False}})
        await kcr_clock.advance(1)
        second = await the_group(cluster.client)
        assert second.metadata.uid != first.metadata.uid
        assert await groups_of_pods(cluster.client) == [{"podGroupName": second.metadata.name}] * 3
        await finished(cluster.client)


async def test_resumed_job_waits_for_the_end_of_its_last_group(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    assert cluster.node is not None
    cluster.node.on_run = lambda *_: RunResult(run_for=300, ignore_sigterm=True)
    async with job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, gang())
        await kcr_clock.advance(5)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        await kcr_clock.advance(2)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": False}})
        await kcr_clock.advance(10)
        # The pods of before take their grace period, and the finalizer holds their group.
        assert (await the_group(cluster.client)).metadata.deletion_timestamp is not None
        assert len(await pods_of(cluster.client)) == 3
        await kcr_clock.advance(30)
        assert (await the_group(cluster.client)).metadata.deletion_timestamp is None
        assert [pod.spec.node_name for pod in await pods_of(cluster.client)] == ["kcr-node-0"] * 3


async def test_job_created_suspended_gets_its_group_when_it_is_resumed(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, gang(suspend=True))
        await kcr_clock.advance(5)
        assert len(await cluster.client.list(BetaWorkload, "default")) == 1
        assert await cluster.client.list(BetaPodGroup, "default") == ()
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": False}})
        await finished(cluster.client)
        assert None not in await groups_of_pods(cluster.client)


def delegated() -> dict[str, Any]:
    """A Job whose parent has a Workload, and leaves the group to the controller of Jobs."""
    wanted = manifest(parallelism=2, completions=2)
    wanted["metadata"]["annotations"] = {"scheduling.k8s.io/group-template-name": "workers"}
    wanted["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "train", "uid": "u", "controller": True}
    ]
    return wanted


async def create_parents(client: Client, size: int) -> None:
    gang = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=size))
    templates = (
        PodGroupTemplate(name="leader", scheduling_policy=PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())),
        PodGroupTemplate(name="workers", scheduling_policy=gang),
    )
    about = TypedLocalReference(api_group="apps", kind="Deployment", name="train")
    spec = WorkloadSpec(controller_ref=about, pod_group_templates=templates)
    await client.create(BetaWorkload(metadata=ObjectMeta(name="train", namespace="default"), spec=spec))


async def test_group_of_a_job_is_made_of_the_template_that_its_parent_names(kcr_clock: VirtualClock) -> None:
    """Source: KEP-5547, managePodGroupOnly; KEP-6089, Downward Mapping Annotations."""
    async with served(kcr_clock, gc=False) as cluster:
        client = cluster.client
        await create_parents(client, 2)
        async with job_controller(cluster, kcr_clock, feature_gates=GATES):
            await create(client, delegated())
            await kcr_clock.advance(5)
            group = await the_group(client)
            assert size_of(group) == 2
            reference = group.spec.workload_ref
            assert reference is not None
            assert (reference.workload_name, reference.template_name) == ("train", "workers")
            assert [owner.kind for owner in group.metadata.owner_references] == ["Job"]
            assert await groups_of_pods(client) == [{"podGroupName": group.metadata.name}] * 2
            await finished(client)
            assert [one.metadata.name for one in await client.list(BetaWorkload)] == ["train"]


async def test_size_of_a_gang_follows_the_template_of_the_parent(kcr_clock: VirtualClock) -> None:
    async with served(kcr_clock, gc=False) as cluster:
        client = cluster.client
        await create_parents(client, 2)
        async with job_controller(cluster, kcr_clock, feature_gates=GATES):
            await create(client, delegated())
            await kcr_clock.advance(5)
            path = "/spec/podGroupTemplates/1/schedulingPolicy/gang/minCount"
            change = [{"op": "replace", "path": path, "value": 1}]
            await client.json_patch(BetaWorkload, Key("default", "train"), change)
            await client.merge_patch(Job, KEY, {"spec": {"parallelism": 1}})
            await kcr_clock.advance(5)
            assert size_of(await the_group(client)) == 1


@pytest.mark.parametrize("late", [False, True], ids=["no-workload", "workload-that-comes-late"])
async def test_job_without_a_template_is_scheduled_as_any_other(kcr_clock: VirtualClock, late: bool) -> None:
    async with served(kcr_clock, gc=False) as cluster, job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, delegated())
        await kcr_clock.advance(5)
        if late:
            await create_parents(cluster.client, 2)
        await finished(cluster.client)
        assert await groups_of_pods(cluster.client) == [None] * 2
        assert await cluster.client.list(BetaPodGroup) == ()


async def test_size_follows_the_job(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async def sizes() -> list[int]:
        (workload,) = await cluster.client.list(BetaWorkload, "default")
        return [size_of(workload), size_of(await the_group(cluster.client))]

    async with job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, gang(4, completionMode="Indexed"))
        await kcr_clock.advance(5)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"parallelism": 2, "completions": 2}})
        await kcr_clock.advance(5)
        assert await sizes() == [2, 2]
        await cluster.client.merge_patch(
            Job, KEY, {"spec": {"scheduling": {"schedulingPolicy": {"gang": {"minCount": 1}}}}}
        )
        await kcr_clock.advance(5)
        assert await sizes() == [1, 1]


async def test_older_version_is_used_where_there_is_no_newer_one(kcr_clock: VirtualClock) -> None:
    async with (
        served(kcr_clock, kubernetes_version="1.36") as cluster,
        job_controller(cluster, kcr_clock, feature_gates=GATES),
    ):
        await create(cluster.client, manifest(parallelism=2, completions=2, completionMode="Indexed"))
        await finished(cluster.client)
        (group,) = await cluster.client.list(PodGroup, "default")
        assert [(one.type, one.status) for one in group.status.conditions] == [("PodGroupScheduled", "True")]


async def test_server_without_either_version_holds_the_jobs(kcr_clock: VirtualClock) -> None:
    async with served(kcr_clock, gangs=False) as cluster, job_controller(cluster, kcr_clock, feature_gates=GATES):
        await create(cluster.client, manifest())
        await kcr_clock.advance(30)
        assert await pods_of(cluster.client) == ()


@pytest.mark.parametrize("most", MOST_WRITES)
def test_crash_after_any_write_makes_no_pod_outside_the_group(most: int | None) -> None:
    # One workload, one group, and all pods in it, though the Job is suspended and resumed.
    crash_after_writes(live, most)


@pytest.mark.soak
@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_makes_no_pod_outside_the_group(loss: Loss | None, most: int | None) -> None:
    lose_replies(live, most, loss=loss)


async def live(fault: WriteFault) -> int:
    """Run a gang that is suspended and resumed in spite of a fault, and return the number of writes."""
    clock = VirtualClock()
    cluster = served(clock)
    client = cluster.client

    def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return job_controller(cluster, clock, transport=transport, seed=seed, feature_gates=GATES)

    async def paused() -> bool:
        job = await client.get(Job, KEY)
        return bool(job.spec.suspend) and not await client.list(BetaPodGroup, "default")

    async def is_over() -> bool:
        # The next phase comes when the one before is done, crashed or not.
        job = await client.get(Job, KEY)
        if job.spec.suspend is not True and job.metadata.generation == 1 and (job.status.ready or 0) == 3:
            await client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        elif await paused():
            await client.merge_patch(Job, KEY, {"spec": {"suspend": False}})
        return await ended(client) is not None

    async with cluster:
        await create(client, gang())
        async with surviving(cluster.transport, fault, controller, is_over) as transport:
            await eventually(is_over, seconds=600)
        group = await the_group(client)
        assert len(await client.list(BetaWorkload, "default")) == 1
        assert (await client.get(Job, KEY)).status.succeeded == 3
        assert await groups_of_pods(client) == [{"podGroupName": group.metadata.name}] * 3
    return transport.writes
