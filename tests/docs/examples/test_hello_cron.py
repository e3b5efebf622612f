"""`hello-cron.yaml`: the greeting of seed 003, a Job a minute."""

import json
import re
from random import Random
from typing import Any

import pytest

from kcr.api.batch import CronJob
from kcr.api.core import Pod
from kcr.client import Request
from kcr.clock import SystemClock
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.cronjob_harness import (
    CREATED,
    TEN,
    at,
    change,
    create,
    cronjob_controller,
    events_of,
    listed,
    names_of,
    read,
    until,
)  # fmt: skip
from tests.kit.harness import example, job_controller, pods_of

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

# As the seed has it, but for its line breaks.
SEED = b"""\
apiVersion: batch/v1beta1
kind: CronJob
metadata:
  name: hello
spec:
  schedule: "*/1 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          containers:
          - name: hello
            image: busybox
            args:
            - /bin/sh
            - -c
            - date; echo Hello from the Kubernetes cluster
          restartPolicy: OnFailure
"""


def runs(seconds: float) -> RunResult:
    return RunResult(run_for=seconds)


async def row(cluster: EmbeddedCluster) -> list[Any]:
    """The cells of `kubectl get cronjobs`."""
    path = "/apis/batch/v1/namespaces/default/cronjobs"
    async with cluster.transport.send(Request("GET", path, TABLE)) as response:
        (one,) = json.loads(await response.read())["rows"]
    cells: list[Any] = one["cells"]
    return cells


@pytest.mark.kcr_virtual
async def test_hello_runs_every_minute_and_keeps_three() -> None:
    # Examples row 9; cronjob-controller rows 1 and 48.
    clock = VirtualClock(CREATED)
    async with (
        EmbeddedCluster(clock=clock, random=Random(0), on_run=lambda *_: runs(8)) as cluster,
        job_controller(cluster, clock),
        cronjob_controller(cluster, clock),
    ):
        await create(cluster.client, example("hello-cron"))
        await until(clock, at("10:00:02"))
        assert await names_of(cluster.client) == ["hello-29671800"]
        assert (await row(cluster))[:7] == ["hello", "*/1 * * * *", "<none>", "False", 1, "2s", "52s"]
        await until(clock, at("10:05:30"))
        assert await names_of(cluster.client) == ["hello-29671803", "hello-29671804", "hello-29671805"]
        assert (await row(cluster))[3:6] == ["False", 0, "30s"]
        # Pods go with their Jobs.
        assert len(await cluster.client.list(Pod, "default")) == 3
        await change(cluster.client, suspend=True)
        await until(clock, at("10:09:30"))
        assert (await row(cluster))[3:6] == ["True", 0, "4m30s"]


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("policy", "names"),
    [
        pytest.param("Forbid", ["hello-29671800"], id="19-forbid"),
        pytest.param("Replace", ["hello-29671802"], id="22-replace"),
        pytest.param("Allow", ["hello-29671800", "hello-29671801", "hello-29671802"], id="21-allow"),
    ],
)
async def test_policy_is_changed_while_a_run_is_under_way(policy: str, names: list[str]) -> None:
    # Examples row 9.
    clock = VirtualClock(CREATED)
    async with (
        EmbeddedCluster(clock=clock, random=Random(0), on_run=lambda *_: runs(600)) as cluster,
        job_controller(cluster, clock),
        cronjob_controller(cluster, clock),
    ):
        await create(cluster.client, example("hello-cron"))
        await until(clock, at("10:00:30"))
        await change(cluster.client, concurrencyPolicy=policy)
        await until(clock, at("10:02:50"))
        assert await listed(cluster.client) == names
        assert await names_of(cluster.client) == names
        assert not [told for told in await events_of(cluster.client) if told[0] == "UnexpectedJob"]


@pytest.mark.kcr_virtual
async def test_seed_manifest_in_v1beta1_is_accepted_with_warning() -> None:
    # Examples row 9; batch-api §1.1.
    clock = VirtualClock(CREATED)
    async with (
        EmbeddedCluster(clock=clock, random=Random(0), legacy_apis=True) as cluster,
        job_controller(cluster, clock),
        cronjob_controller(cluster, clock),
    ):
        path = "/apis/batch/v1beta1/namespaces/default/cronjobs"
        request = Request("POST", path, {"content-type": "application/yaml"}, SEED)
        async with cluster.transport.send(request) as response:
            assert response.status == 201
            assert "batch/v1beta1 CronJob is deprecated" in response.headers["warning"]
        await until(clock, at("10:00:01"))
        assert await names_of(cluster.client) == ["hello-29671800"]
        assert (await read(cluster.client)).status.last_schedule_time == TEN


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_hello_really_greets() -> None:
    # Examples row 9. The schedule is shortened, so that the test is fast.
    clock = SystemClock()
    async with (
        EmbeddedCluster(runtime="process") as cluster,
        job_controller(cluster, clock),
        cronjob_controller(cluster, clock),
    ):
        cron = example("hello-cron")
        cron["spec"]["schedule"] = "@every 1s"
        await create(cluster.client, cron)

        async def log() -> str:
            # The run of the last second of a minute may be the first, so that a second one follows.
            cron = await read(cluster.client)
            if cron.status.last_successful_time is None:
                return ""
            (job, *_) = await names_of(cluster.client)
            (pod,) = await pods_of(cluster.client, job)
            path = f"/api/v1/namespaces/default/pods/{pod.metadata.name}/log"
            return (await cluster.client.request("GET", path)).decode()

        assert re.search(r"\d\d:\d\d:\d\d.*\nHello from the Kubernetes cluster\n$", await eventually(log, seconds=50))
        await cluster.client.delete(CronJob, (await read(cluster.client)).key)
