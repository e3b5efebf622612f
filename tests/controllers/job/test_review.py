"""What a Job gets although something it does not need goes wrong."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.errors import ForbiddenError, ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions, counters, create, finished, job_controller, manifest, pods_of, read

KEY = Key("default", "pi")
FOREVER = {"sim.kcr.dev/run-for": "forever"}


def refuse_pods(faults: FaultyTransport, code: str) -> None:
    """Let every creation of a pod fail: some webhook does not answer."""
    rule = faults.on("create", Pod)
    match code:
        case "403":
            rule.fail(ForbiddenError)
        case "500":
            rule.fail(ServerError)
        case _:
            rule.lose_request()


# A refusal, the server's own failure, and silence: the last two leave open whether the pod was made.
failing = pytest.mark.parametrize("code", ["403", "500", "cut"])


@failing
@pytest.mark.kcr_virtual
async def test_deadline_holds_while_no_pod_can_be_made(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, code: str
) -> None:
    # job-controller §24.
    faults = FaultyTransport(kcr_cluster.transport)
    refuse_pods(faults, code)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(kcr_cluster.client, manifest(activeDeadlineSeconds=40))
        await kcr_clock.advance(42)
        assert conditions(await read(kcr_cluster.client))[-1] == ("Failed", "DeadlineExceeded")


@failing
@pytest.mark.kcr_virtual
async def test_ended_pods_are_counted_while_none_can_be_made(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, code: str
) -> None:
    # job-controller §10: a failing creation does not prevent the status update.
    faults = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        await create(
            kcr_cluster.client, manifest(parallelism=2, completions=4, annotations={"sim.kcr.dev/run-for": "10s"})
        )
        await kcr_clock.advance(5)
        (pod, _) = await pods_of(kcr_cluster.client)
        refuse_pods(faults, code)
        await kcr_cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        await kcr_clock.advance(30)
        assert counters(await read(kcr_cluster.client)) == (0, 0, 0, 1, 1)
        faults.heal()
        job = await finished(kcr_cluster.client, seconds=120)
    assert (job.status.succeeded, job.status.failed) == (4, 1)


@failing
@pytest.mark.kcr_virtual
async def test_suspension_is_met_and_job_goes_while_no_pod_can_be_made(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, code: str
) -> None:
    # job-controller §§25, 28.
    client, faults = kcr_cluster.client, FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock, transport=faults):
        for name in ("rests", "goes"):
            await create(client, manifest(name, parallelism=2, annotations=FOREVER))
        await kcr_clock.advance(5)
        refuse_pods(faults, code)
        for name in ("rests", "goes"):
            await client.merge_patch(Job, Key("default", name), {"spec": {"parallelism": 3}})
        await kcr_clock.advance(5)
        await client.merge_patch(Job, Key("default", "rests"), {"spec": {"suspend": True}})
        await kcr_clock.advance(5)
        job = await read(client, "rests")
        assert (conditions(job), job.status.active) == ([("Suspended", "JobSuspended")], 0)
        await client.delete(Job, Key("default", "goes"), propagation="Foreground")
        await kcr_clock.advance(60)
        assert [job.key.name for job in await client.list(Job, "default")] == ["rests"]
        assert await pods_of(client, "goes") == ()
