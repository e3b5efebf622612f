"""The commands and manifests of the guide on Jobs at scale do as its text says."""

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.app.logs import configure_logs
from kcr.cli.main import exit_code_of
from kcr.controllers.cronjob.decisions.directives import offset_of
from kcr.feature_gates import read_gates
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit import cronjob_harness
from tests.kit.documents import ROOT, blocks, files
from tests.kit.harness import conditions, create, finished, job_controller, manifest, pods_of, ttl_controller
from tests.kit.open_manager import explanation_of
from tests.kit.scheduling import change_node
from tests.kit.served_cluster import served_cluster

GUIDE = ROOT / "docs" / "guide" / "jobs-at-scale.md"
CONSOLE = [line for block in blocks(GUIDE) if block.language == "console" for line in block.text.splitlines()]
TABLES = [line for line in CONSOLE if line.startswith(("kcr jobs", "kcr cronjobs"))]
EVENTS = [line for line in CONSOLE if line.startswith("kcr events")]
COMMANDS = [line for line in CONSOLE if line.startswith(("kcr rerun", "kcr run-now"))]
FILES = {name: yaml.safe_load(text) for name, text in files(GUIDE).items()}


def test_every_block_is_run_by_a_test() -> None:
    assert sorted(CONSOLE) == sorted(TABLES + EVENTS + COMMANDS)
    manifests = {block.file for block in blocks(GUIDE) if block.language != "console"}
    assert manifests == {"start-deadline.yaml", "failures.yaml", "gang.yaml", "restart-rules.yaml", "spread.yaml"}


@pytest.mark.kcr_virtual
async def test_job_whose_image_is_missing_fails(kcr_clock: VirtualClock) -> None:
    missing = RunResult(image_error="ErrImagePull")
    cluster = EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: missing)
    async with cluster, job_controller(cluster, kcr_clock):
        await create(cluster.client, FILES["start-deadline.yaml"])
        job = await finished(cluster.client, "typo", seconds=660)
    assert conditions(job)[-1] == ("Failed", "PodsNeverStarted")
    assert "cause image: " in job.status.conditions[-1].message


@pytest.mark.kcr_virtual
async def test_failing_job_retries_soon_and_stays_longer_with_two_pods(kcr_clock: VirtualClock) -> None:
    cluster = EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(exit_code=1))
    async with cluster, ttl_controller(cluster, kcr_clock, with_jobs=True):
        await create(cluster.client, FILES["failures.yaml"])
        # 2, 4, 8 and 16 seconds of backoff.
        job = await finished(cluster.client, "flaky", seconds=40)
        assert (conditions(job)[-1], job.status.failed) == (("Failed", "BackoffLimitExceeded"), 5)
        await kcr_clock.advance(660)
        assert len(await pods_of(cluster.client, "flaky")) == 2
        sooner = {"metadata": {"annotations": {"kcr.dev/ttl-after-failure": "12m"}}}
        await cluster.client.merge_patch(Job, job.key, sooner)
        await kcr_clock.advance(120)
        assert await cluster.client.list(Job, "default") == ()


@pytest.mark.kcr_virtual
async def test_training_is_restarted_in_its_pod(kcr_clock: VirtualClock) -> None:
    cluster = EmbeddedCluster(
        clock=kcr_clock, random=Random(0), on_run=lambda pod, name, attempt: RunResult(exit_code=0 if attempt else 42)
    )
    async with cluster, job_controller(cluster, kcr_clock):
        await create(cluster.client, FILES["restart-rules.yaml"])
        job = await finished(cluster.client, "training")
        (pod,) = await pods_of(cluster.client, "training")
    assert (job.status.succeeded, job.status.failed) == (1, 0)
    assert pod.status.container_statuses[0].restart_count == 1


@pytest.mark.kcr_virtual
async def test_gang_starts_when_there_is_room_for_all(kcr_clock: VirtualClock) -> None:
    gates = read_gates("GenericWorkload=true,WorkloadWithJob=true")
    cluster = EmbeddedCluster(clock=kcr_clock, random=Random(0), gangs=True, kubernetes_version="1.37")
    async with cluster, job_controller(cluster, kcr_clock, feature_gates=gates) as manager:
        await kcr_clock.advance(1)
        await change_node(cluster.client, "kcr-node-0", {"allocatable": {"cpu": "3"}}, status=True)
        await create(cluster.client, FILES["gang.yaml"])
        await kcr_clock.advance(5)
        reasons = (await explanation_of(manager, "job", Key("default", "training"))).reasons
        assert f"`{reasons[0]}`" in GUIDE.read_text()
        await change_node(cluster.client, "kcr-node-0", {"allocatable": {"cpu": "4"}}, status=True)
        assert (await finished(cluster.client, "training")).status.succeeded == 4


@pytest.mark.kcr_virtual
async def test_nightly_job_starts_within_its_window_and_its_lost_run_is_announced() -> None:
    clock = VirtualClock(datetime(2026, 3, 23, 1, tzinfo=UTC))
    cluster = EmbeddedCluster(clock=clock, random=Random(0), runtime=None)
    async with cluster, cronjob_harness.cronjob_controller(cluster, clock):
        cron = await cronjob_harness.create(cluster.client, FILES["spread.yaml"])
        await clock.advance(3600)
        (job,) = await cronjob_harness.jobs_of(cluster.client, "nightly")
        events = await cronjob_harness.events_of(cluster.client, "nightly")
    scheduled = datetime(2026, 3, 23, 1, 30, tzinfo=UTC)
    started = job.metadata.creation_timestamp
    assert started is not None
    assert timedelta() <= started - scheduled - offset_of(cron) <= timedelta(seconds=1)
    assert job.metadata.name == f"nightly-{int(scheduled.timestamp()) // 60}"
    assert [reason for reason, _ in events] == ["ClockChange", "SuccessfulCreate"]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_commands_of_the_guide_create_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix: dict[str, Any] = {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    configure_logs(None, "critical")
    with served_cluster(tmp_path) as served:
        client = served.cluster.client
        served.call(create(client, manifest("pi")))
        served.call(create(client, manifest("matrix", **matrix, annotations={"sim.kcr.dev/by-index": "1=1"})))
        served.call(cronjob_harness.create(client, cronjob_harness.manifest("hello")))
        for name in ("pi", "matrix"):
            served.call(finished(client, name))
        monkeypatch.setenv("KUBECONFIG", str(served.kubeconfig))
        monkeypatch.setenv("HOME", str(tmp_path))
        for line in TABLES:
            assert exit_code_of(shlex.split(line)[1:]) == 0
        assert "matrix" in capsys.readouterr().out
        for line in EVENTS:
            assert exit_code_of(shlex.split(line)[1:]) == 0
        shown = capsys.readouterr().out
        assert " Pod/pi-" in shown
        assert '"reason":"FailedIndexes"' in shown
        for line in COMMANDS:
            program, *arguments = shlex.split(line)
            assert (program, exit_code_of(arguments)) == ("kcr", 0)
    configure_logs("json", "debug")
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["job.batch/pi-rerun-1 created", "job.batch/matrix-rerun-1 created"]
    assert printed[2].startswith("job.batch/hello-m")
