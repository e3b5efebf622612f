"""`patterns/`: five ways to give each pod of a Job its own work (seed 001)."""

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.clock import SystemClock
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.process.container_mounts import detect_namespaces
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import Document, read_documents
from tests.kit.harness import conditions, ended, finished, job_controller, pods_of
from tests.kit.observers import observing_pods

PATTERNS = "examples/patterns"
POD_PER_ITEM = "patterns/queue-pod-per-item/job.yaml"
VARIABLE = "patterns/queue-variable/job.yaml"
STATIC = "patterns/indexed-static/job.yaml"
TEMPLATE = "patterns/expansion/job-template.yaml"
POD_TO_POD = "patterns/pod-to-pod/job.yaml"
ITEMS = ("apple", "banana", "cherry", "damson", "elder")
INDEX = "batch.kubernetes.io/job-completion-index"
COMPLETE = ("Complete", "CompletionsReached")


def pattern(path: str, queue: str = "") -> tuple[Document, ...]:
    """The objects of a pattern; its workers ask the queue at this address."""
    documents = read_documents(f"examples/{path}")
    if queue:
        spec = documents[-1].manifest["spec"]["template"]["spec"]
        (address,) = spec["containers"][0]["env"]
        address["value"] = queue
    return documents


@asynccontextmanager
async def queue_server() -> AsyncIterator[str]:
    """Run the queue of the examples, and give its address."""
    program = [sys.executable, f"{PATTERNS}/queue_server.py", "0", *ITEMS]
    server = await asyncio.create_subprocess_exec(*program, stdout=PIPE, stderr=DEVNULL)
    assert server.stdout is not None
    try:
        yield (await server.stdout.readline()).decode().strip()
    finally:
        server.kill()
        await server.wait()


async def printed(cluster: EmbeddedCluster, job: str) -> dict[str, list[str]]:
    """What each pod of a Job has printed, by the pod's name."""
    path = Pod.resource.path("default")
    names = [pod.metadata.name for pod in await pods_of(cluster.client, job)]
    return {name: (await cluster.client.request("GET", f"{path}/{name}/log")).decode().split() for name in names}


@pytest.fixture
def expanded(tmp_path: Path) -> Path:
    """The Jobs that the script makes of its template, which is a Job itself but for its names."""
    (template,) = read_documents(f"examples/{TEMPLATE}")
    assert template.manifest["metadata"]["name"] == "expansion-$ITEM"
    jobs = tmp_path / "jobs.yaml"
    jobs.write_bytes(subprocess.check_output(["sh", f"{PATTERNS}/expansion/expand.sh", *ITEMS]))
    return jobs


@pytest.mark.kcr_virtual
async def test_each_item_gets_one_pod(kcr_clock: VirtualClock) -> None:
    # Examples row 21.
    queue, done = deque(ITEMS), dict[str, str]()

    def take(pod: KubeletPod, container: str, attempt: int) -> RunResult:
        done[pod.metadata.name] = queue.popleft()
        return RunResult(run_for=5)

    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=take) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, pattern(POD_PER_ITEM))
        job = await finished(cluster.client, "queue-pod-per-item")
        pods = await pods_of(cluster.client, "queue-pod-per-item")
    assert job.status.succeeded == len(ITEMS)
    assert sorted(done.values()) == sorted(ITEMS)
    assert {pod.metadata.name for pod in pods} == set(done)


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_pods_print_the_item_each_has_taken() -> None:
    # Examples row 21; the commands really run.
    async with (
        queue_server() as address,
        EmbeddedCluster(runtime="process") as cluster,
        job_controller(cluster, SystemClock()),
    ):
        await apply(cluster.client, pattern(POD_PER_ITEM, address))
        await finished(cluster.client, "queue-pod-per-item", seconds=50)
        lines = await printed(cluster, "queue-pod-per-item")
    assert sorted(lines.values()) == [[item.upper()] for item in ITEMS]


@pytest.mark.kcr_virtual
async def test_no_pod_is_made_once_the_queue_is_empty(kcr_clock: VirtualClock) -> None:
    # Examples row 22: one worker finds the queue empty while the other still has an item.
    runs = iter([RunResult(run_for=10), RunResult(run_for=15)])
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: next(runs)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, pattern(VARIABLE))
        await kcr_clock.advance(13)
        assert await ended(cluster.client, "queue-variable") is None
        job = await finished(cluster.client, "queue-variable")
    assert (job.spec.completions, job.status.succeeded, len(seen.phases)) == (None, 2, 2)


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_few_pods_drain_the_whole_queue() -> None:
    # Examples row 22; the commands really run.
    async with (
        queue_server() as address,
        EmbeddedCluster(runtime="process") as cluster,
        job_controller(cluster, SystemClock()),
    ):
        await apply(cluster.client, pattern(VARIABLE, address))
        job = await finished(cluster.client, "queue-variable", seconds=50)
        lines = await printed(cluster, "queue-variable")
    assert job.spec.completions is None
    assert len(lines) == 2 < len(ITEMS)
    assert sorted(line for done in lines.values() for line in done) == [item.upper() for item in ITEMS]


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_each_index_does_its_own_item() -> None:
    # Examples row 23; the commands really run.
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await apply(cluster.client, pattern(STATIC))
        job = await finished(cluster.client, "indexed-static", seconds=50)
        pods = await pods_of(cluster.client, "indexed-static")
        lines = await printed(cluster, "indexed-static")
    assert job.status.completed_indexes == "0-2"
    done = {pod.metadata.annotations[INDEX]: lines[pod.metadata.name] for pod in pods}
    assert done == {"0": ["APPLE"], "1": ["BANANA"], "2": ["CHERRY"]}


@pytest.mark.kcr_virtual
async def test_failed_index_does_its_item_again(kcr_clock: VirtualClock) -> None:
    # Examples row 23.
    items: dict[str, Any] = pattern(STATIC)[0].manifest["data"]
    done: list[str] = []

    def work(pod: KubeletPod, container: str, attempt: int) -> RunResult:
        done.append(items[pod.metadata.annotations[INDEX]])
        return RunResult(run_for=5, exit_code=int(done == ["apple"]))

    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=work) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, pattern(STATIC))
        job = await finished(cluster.client, "indexed-static")
    assert (job.status.completed_indexes, job.status.failed) == ("0-2", 1)
    assert sorted(done) == ["apple", "apple", "banana", "cherry"]


@pytest.mark.kcr_virtual
async def test_one_job_per_item_from_one_template(kcr_clock: VirtualClock, expanded: Path) -> None:
    # Examples row 24.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=5)) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, read_documents(str(expanded)))
        for item in ITEMS:
            job = await finished(cluster.client, f"expansion-{item}")
            assert (conditions(job)[-1], job.status.succeeded) == (COMPLETE, 1)
        assert len(await cluster.client.list(Job, "default", labels="jobgroup=expansion")) == len(ITEMS)
        path = f"{Job.resource.path('default')}?labelSelector=jobgroup%3Dexpansion&propagationPolicy=Background"
        await cluster.client.request("DELETE", path)
        await kcr_clock.advance(5)
        assert await cluster.client.list(Job, "default") == ()
        assert await cluster.client.list(Pod, "default") == ()


@pytest.mark.kcr_virtual
async def test_all_members_run_side_by_side(kcr_clock: VirtualClock) -> None:
    # Examples row 25.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=30)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, pattern(POD_TO_POD))
        await eventually(lambda: seen.most_active == 3, seconds=10)
        listed = msgspec.json.decode(await cluster.client.request("GET", Pod.resource.path("default")))
        job = await finished(cluster.client, "pod-to-pod")
    assert (job.status.succeeded, len(seen.phases)) == (3, 3)
    specs = sorted((pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in listed["items"])
    assert specs == [(f"pod-to-pod-{index}", "peers") for index in range(3)]


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_members_find_each_other_by_name(tmp_path: Path) -> None:
    # Examples row 25; the commands really run, and find names where there are mount namespaces.
    has_namespaces = (await detect_namespaces(tmp_path)).kind
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await apply(cluster.client, pattern(POD_TO_POD))
        if not has_namespaces:

            async def is_warned() -> bool:
                events = await cluster.client.list(Event, "default")
                return any("no mount namespaces here" in one.message for one in events if one.type == "Warning")

            await eventually(is_warned, seconds=30)
            return
        job = await finished(cluster.client, "pod-to-pod", seconds=50)
        lines = await printed(cluster, "pod-to-pod")
    assert job.status.succeeded == 3
    assert sorted(sorted(words[2::3]) for words in lines.values()) == [["0", "1"], ["0", "2"], ["1", "2"]]
