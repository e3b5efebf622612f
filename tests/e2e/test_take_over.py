"""`kcr run --controllers job,ttl --take-over` with one worker, told everything by the environment."""

import asyncio
import json
import re
import signal
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import NotFoundError
from kcr.testing import eventually
from tests.e2e.processes import Running, Serve, Start
from tests.kit.harness import conditions, create, ended, finished, manifest, nothing_left_behind, pods_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

TUNED = {
    "KCR_CONTROLLERS": "job,ttl",
    "KCR_TAKE_OVER": "1",
    "KCR_WORKERS": "1",
    "KCR_LOG_FORMAT": "json",
    "KCR_METRICS_BIND_ADDRESS": "127.0.0.1:0",
    "KCR_JOB_POD_FAILURE_BACKOFF": "0.05",
    "KCR_MAX_JOB_POD_FAILURE_BACKOFF": "0.1",
    "KCR_SYNC_JOB_BATCH_PERIOD": "0",
    "KCR_MAX_UNCOUNTED_PODS": "2",
    "KCR_MAX_POD_CREATE_DELETE_PER_SYNC": "2",
}
SLOW = {"sim.kcr.dev/run-for": "60s"}
# How the names of upstream's counters begin.
PREFIX = "job_controller_"


async def metrics(run: Running) -> Mapping[str, float]:
    """Read all samples from the port that the log names, by series as written; those that are not there are 0."""

    def address() -> str:
        assert run.process.returncode is None, run.err
        said = [json.loads(line) for line in run.err.splitlines()]
        return next((str(line["address"]) for line in said if line["event"] == "listening"), "")

    url = f"http://{await eventually(address)}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return defaultdict(float, {series: float(value) for series, _, value in samples})


async def is_gone(client: Client, name: str) -> bool:
    try:
        await client.get(Job, Key("default", name))
    except NotFoundError:
        return True
    return False


@pytest.mark.soak
async def test_tunables_and_counters_are_those_of_the_environment(kcr: Start, serve: Serve) -> None:
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        async with (
            HttpTransport(load_config(kubeconfig)) as transport,
            kcr("run", KCR_KUBECONFIG=kubeconfig, **TUNED) as run,
        ):
            client = Client(transport)
            fails = [{"name": "c", "image": "busybox", "command": ["false"]}]
            works = [{"name": "c", "image": "busybox", "command": ["true"]}]
            await create(client, manifest("fails", containers=fails, backoffLimit=3))
            await create(client, manifest("works", containers=works, completions=5, parallelism=5))
            await create(client, manifest("other", containers=works, managedBy="example.com/x"))
            # With the usual delays it takes 70 seconds.
            failed = await finished(client, "fails", seconds=30)
            assert failed.status.failed == 4
            await finished(client, "works", seconds=30)
            await client.merge_patch(Job, failed.key, {"spec": {"ttlSecondsAfterFinished": 0}})
            await eventually(lambda: is_gone(client, "fails"), seconds=30)
            # The process may count a request after its effect was seen here.
            await eventually(lambda: counts_are_right(run))


async def counts_are_right(run: Running) -> bool:
    said = await metrics(run)
    assert said[f'{PREFIX}job_pods_finished_total{{completion_mode="NonIndexed",result="failed"}}'] == 4
    assert said[f'{PREFIX}job_pods_finished_total{{completion_mode="NonIndexed",result="succeeded"}}'] == 5
    assert said[f'{PREFIX}job_pods_creation_total{{reason="new",status="succeeded"}}'] == 6
    assert said[f'{PREFIX}jobs_by_external_controller_total{{controller_name="example.com/x"}}'] == 1
    assert said["ttl_after_finished_controller_job_deletion_duration_seconds_count"] == 1
    assert said['controller_runtime_max_concurrent_reconciles{controller="job"}'] == 1
    assert said['controller_runtime_max_concurrent_reconciles{controller="ttl_jobs_to_delete"}'] == 1
    names = {re.split(r"[{ ]", series)[0] for series in said}
    assert {f"{PREFIX}{name}" for name in ("job_syncs_total", "job_sync_duration_seconds_count")} <= names
    assert {f"{PREFIX}{name}_total" for name in ("jobs_finished", "terminated_pods_tracking_finalizer")} <= names
    return True


@pytest.mark.parametrize("lives", [3, pytest.param(8, marks=pytest.mark.soak)])
@pytest.mark.soak
async def test_worker_that_is_started_and_stopped_all_the_time_gets_done(
    kcr: Start, serve: Serve, tmp_path: Path, lives: int
) -> None:
    random, ready, took = Random(5), tmp_path / "ready", list[float]()
    now = asyncio.get_running_loop().time
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        tuned: dict[str, Any] = {**TUNED, "KCR_KUBECONFIG": kubeconfig, "KCR_READY_FILE": str(ready)}
        async with HttpTransport(load_config(kubeconfig)) as transport:
            client = Client(transport)
            sleeps = [{"name": "c", "image": "busybox", "command": ["sleep", "0.3"]}]
            await create(client, manifest(containers=sleeps, completions=40, parallelism=8, backoffLimit=0))
            for life in range(lives):
                async with kcr("run", **tuned) as run:
                    if life % 2:
                        # At any moment of its start, before it hears signals as well.
                        await asyncio.sleep(random.random())
                    else:
                        await eventually(ready.exists)
                        await asyncio.sleep(random.random() / 4)
                    began = now()
                    assert await run.stop() in (0, -signal.SIGTERM), run.err
                    took.append(now() - began)
                    assert "Traceback" not in run.err
                    # Killed before it could begin, it leaves no such file.
                    assert not ready.exists()
            async with kcr("run", **tuned):
                job = await finished(client, seconds=60)
            assert conditions(job)[-1] == ("Complete", "CompletionsReached")
            assert (job.status.succeeded, job.status.failed) == (40, 0)
            pods = await pods_of(client)
            assert len(pods) == 40
            assert nothing_left_behind(pods)
    # Others may use the machine as well: what counts is what it takes at best.
    assert min(took[::2]) < 1


@pytest.mark.soak
async def test_busy_worker_ends_within_a_second(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    ready, took = tmp_path / "ready", list[float]()
    now = asyncio.get_running_loop().time
    async with serve() as path:
        kubeconfig = str(path)
        async with HttpTransport(load_config(kubeconfig)) as transport:
            client = Client(transport)
            for life in range(3):
                # Its pods outlive the process, however late this one notices that it is ready.
                await create(client, manifest(f"big-{life}", completions=400, parallelism=400, annotations=SLOW))
                variables = {"KCR_KUBECONFIG": kubeconfig, "KCR_READY_FILE": str(ready)}
                async with kcr("run", "--take-over", "--workers", "1", **variables) as run:
                    await eventually(ready.exists)
                    await asyncio.sleep(0.1)
                    assert await ended(client, f"big-{life}") is None
                    began = now()
                    assert await run.stop() == 0, run.err
                    took.append(now() - began)
                if took[-1] < 1:
                    return
    pytest.fail(f"it took {took} s, at best")
