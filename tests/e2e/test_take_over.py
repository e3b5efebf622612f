"""`kcr run --controllers job,ttl --take-over` with one worker, told everything by the environment."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping

import aiohttp
import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import NotFoundError
from kcr.testing import eventually
from tests.e2e.processes import Running, Serve, Start
from tests.kit.harness import create, finished, manifest

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
