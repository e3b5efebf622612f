"""The guides' programs and manifests do what their text says."""

import asyncio
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.clock import SystemClock
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files
from tests.kit.harness import conditions, create, finished, job_controller, pods_of, ttl_controller

GUIDE = ROOT / "docs" / "guide" / "programs-in-jobs.md"
FILES = files(GUIDE)
# What the tests below run.
RUN = {"count_words.py", "with_lock.py", "resumable.py", "with-exec.yaml", "exit-codes.yaml", "with-ttl.yaml"}


async def start(folder: Path, program: str, *arguments: str) -> asyncio.subprocess.Process:
    (folder / program).write_text(FILES[program])
    return await asyncio.create_subprocess_exec(
        sys.executable, program, *arguments, cwd=folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def run(folder: Path, program: str, *arguments: str) -> tuple[int | None, str]:
    process = await start(folder, program, *arguments)
    out, err = await process.communicate()
    return process.returncode, (out + err).decode()


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILES[name])
    return found


async def log_of(cluster: EmbeddedCluster, pod: Pod) -> str:
    return (await cluster.client.request("GET", f"/api/v1/namespaces/default/pods/{pod.metadata.name}/log")).decode()


def test_every_block_is_run_by_a_test() -> None:
    assert {block.file for block in blocks(GUIDE)} == RUN


def test_map_of_the_guide_has_every_page() -> None:
    folder = ROOT / "docs" / "guide"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [guide.name for guide in folder.glob("[a-z]*.md") if f"({guide.name})" not in index] == []
    assert "(docs/guide/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.asyncio
async def test_second_start_finds_the_result_and_leaves_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("to be or not to be")
    assert await run(tmp_path, "count_words.py", "text", "result") == (0, "counted 6 words\n")
    assert await run(tmp_path, "count_words.py", "text", "result") == (0, "an earlier start has done it\n")
    assert (tmp_path / "result").read_text() == "6\n"
    assert set(os.listdir(tmp_path)) == {"count_words.py", "text", "result"}


@pytest.mark.asyncio
async def test_lock_keeps_the_second_out_and_ends_with_its_holder(tmp_path: Path) -> None:
    holder = "import fcntl, time; file = open('ledger', 'a'); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); "
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"{holder} time.sleep(60)", cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    assert first.stdout is not None
    await first.stdout.readline()
    code, text = await run(tmp_path, "with_lock.py", "ledger")
    assert (code, text) == (1, "another pod is at work; the Job tries again later\n")
    first.kill()
    await first.wait()
    assert await run(tmp_path, "with_lock.py", "ledger") == (0, "")
    assert (tmp_path / "ledger").read_text().startswith("written by ")


@pytest.mark.asyncio
async def test_program_told_to_stop_goes_on_where_it_was(tmp_path: Path) -> None:
    first = await start(tmp_path, "resumable.py", "checkpoint")
    assert first.stdout is not None
    assert await first.stdout.readline() == b"begins at step 0\n"
    first.terminate()
    assert await first.wait() == 143
    done = int((tmp_path / "checkpoint").read_text())
    assert done < 100
    assert await run(tmp_path, "resumable.py", "checkpoint") == (0, f"begins at step {done}\n")
    assert (tmp_path / "checkpoint").read_text() == "100"


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_program_in_place_of_its_shell_hears_the_signal() -> None:
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, manifest("with-exec.yaml"))

        async def greeted() -> bool:
            pods = await pods_of(cluster.client, "with-exec")
            return bool(pods) and pods[0].status.phase == "Running" and "hello" in await log_of(cluster, pods[0])

        await eventually(greeted, seconds=30)
        (pod,) = await pods_of(cluster.client, "with-exec")
        # Where the pod goes, so does its log: a finalizer keeps both.
        keep = {"metadata": {"finalizers": [*pod.metadata.finalizers, "example.dev/keep"]}}
        await cluster.client.merge_patch(Pod, pod.key, keep)
        await cluster.client.merge_patch(Job, Key("default", "with-exec"), {"spec": {"suspend": True}})

        async def ended() -> bool:
            status = (await cluster.client.get(Pod, Key("default", pod.key.name))).status
            state = status.container_statuses[0].state.terminated
            return state is not None and state.exit_code == 143

        await eventually(ended, seconds=15)
        assert await log_of(cluster, pod) == "hello\ntold to stop\n"
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": []}})


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_exit_code_that_no_retry_helps_fails_the_job_at_once() -> None:
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create(cluster.client, manifest("exit-codes.yaml"))
        job = await finished(cluster.client, "exit-codes", seconds=50)
        (pod,) = await pods_of(cluster.client, "exit-codes")
        assert await log_of(cluster, pod) == "no number: x\n"
    assert conditions(job)[-1] == ("Failed", "PodFailurePolicy")
    assert job.status.failed == 1


@pytest.mark.kcr_virtual
async def test_finished_job_and_its_pod_stay_for_ten_minutes(kcr_clock: VirtualClock) -> None:
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster,
        ttl_controller(cluster, kcr_clock, with_jobs=True),
    ):
        await create(cluster.client, manifest("with-ttl.yaml"))
        await finished(cluster.client, "with-ttl")
        await kcr_clock.advance(590)
        assert len(await pods_of(cluster.client, "with-ttl")) == 1
        await kcr_clock.advance(30)
        assert await pods_of(cluster.client, "with-ttl") == ()
        assert await cluster.client.list(Job) == ()
