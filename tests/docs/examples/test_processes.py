"""Examples that really run their commands, on the machine's clock."""

import asyncio
import shutil
from asyncio.subprocess import PIPE, STDOUT

import pytest

from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions, create, example, finished, job_controller, pods_of

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

PI_START = "3.14159265358979"


async def log_of(cluster: EmbeddedCluster, pod: str) -> str:
    return (await cluster.client.request("GET", f"/api/v1/namespaces/default/pods/{pod}/log")).decode()


async def test_pi_prints_2000_digits_and_keeps_its_pod() -> None:
    # Examples row 1 and note 6.
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, example("pi-python"))
        job = await finished(cluster.client, seconds=50)
        (pod,) = await pods_of(cluster.client)
        digits = (await log_of(cluster, pod.metadata.name)).strip()
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    assert len(digits) == 2001
    assert digits.startswith(PI_START)


async def test_hello_world_is_printed_and_the_job_completes() -> None:
    # Examples row 10.
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, example("hello-job"))
        job = await finished(cluster.client, "job-example", seconds=50)
        (pod,) = await pods_of(cluster.client, "job-example")
        assert await log_of(cluster, pod.metadata.name) == "Hello world!\n"
    assert conditions(job)[-1] == ("Complete", "CompletionsReached")
    # As the READMEs say of it: the retry that it allows is not needed.
    assert job.status.failed == 0
    assert pod.status.container_statuses[0].restart_count == 0


async def test_perl_that_cannot_fails_the_job_cleanly() -> None:
    # Examples note 6: a program that fails shows its exit code and its words.
    manifest = example("pi")
    manifest["spec"]["backoffLimit"] = 0
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["sh", "-c", "echo 'Can not use an undefined value' >&2; exit 9"]
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, manifest)
        job = await finished(cluster.client, seconds=50)
        (pod,) = await pods_of(cluster.client)
        log = await log_of(cluster, pod.metadata.name)
    end = pod.status.container_statuses[0].state.terminated
    assert end is not None
    assert (end.exit_code, end.reason, pod.status.phase) == (9, "Error", "Failed")
    assert log == "Can not use an undefined value\n"
    assert conditions(job)[-1] == ("Failed", "BackoffLimitExceeded")


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not on this machine")
async def test_perl_of_this_machine_ends_as_it_does_by_hand() -> None:
    manifest = example("pi")
    manifest["spec"]["backoffLimit"] = 0
    command = manifest["spec"]["template"]["spec"]["containers"][0]["command"]
    by_hand = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    said, _ = await by_hand.communicate()
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, manifest)
        job = await finished(cluster.client, seconds=50)
        (pod,) = await pods_of(cluster.client)
        log = await log_of(cluster, pod.metadata.name)
    end = pod.status.container_statuses[0].state.terminated
    assert end is not None
    assert end.exit_code == by_hand.returncode
    assert log == said.decode()
    assert conditions(job)[-1][0] == ("Failed" if by_hand.returncode else "Complete")
