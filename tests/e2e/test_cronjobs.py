"""CronJobs as a user meets them: `kcr dev`, `kcr run` and kubectl."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]


def hello(tmp_path: Path) -> str:
    """The example with a shorter schedule, so that the test is fast."""
    path = tmp_path / "hello.yaml"
    text = Path("examples/hello-cron.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("*/1 * * * *", "@every 1s"), encoding="utf-8")
    return str(path)


async def test_runs_are_shown_as_they_come(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", hello(tmp_path)) as dev:
        await eventually(lambda: "Complete in" in dev.err, seconds=60)
        assert await dev.stop() == 0
    assert re.search(r"^hello-\d+-\w+ \| Hello from the Kubernetes cluster$", dev.out, re.MULTILINE)
    assert re.search(r"^  - cronjob/hello: SuccessfulCreate: Created job hello-\d+$", dev.err, re.MULTILINE)
    assert re.search(r"^job hello-\d+: Complete in \d+s: 1/1 succeeded$", dev.err, re.MULTILINE)
    assert "get cronjobs,jobs,pods" in dev.err


@pytest.mark.soak
async def test_cronjob_alone_is_nothing_to_wait_for(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", hello(tmp_path), "--wait") as dev:
        assert await dev.end() == 2
    line = dev.err.splitlines()[-1]
    assert line.startswith("kcr: a CronJob never ends, and --wait needs a Job to wait for: name its file with -f")


@pytest.mark.soak
async def test_wait_ends_with_the_jobs_and_not_with_the_cronjob(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", "examples/hello-cron.yaml", "-f", "examples/hello-job.yaml", "--wait") as dev:
        assert await dev.end() == 0, dev.err
    assert "Hello world!" in dev.out


@pytest.mark.soak
async def test_kcr_run_takes_over_all_three_controllers(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "--no-controllers", "-f", hello(tmp_path)) as dev:
        path = str(await dev.kubeconfig())
        arguments = ("run", "--controllers", "cronjob,job,ttl", "--take-over", "--kubeconfig", path)
        async with kcr(*arguments, KCR_CRONJOB_TIME_ZONE="Europe/Rome") as run:
            async with HttpTransport(load_config(path)) as transport:
                client = Client(transport)

                async def succeeded() -> bool:
                    assert run.process.returncode is None, run.err
                    return (await client.get(CronJob, Key("default", "hello"))).status.last_successful_time is not None

                await eventually(succeeded, seconds=60)
                # On a slow machine a later run may have ended before an earlier one.
                assert 1 in [job.status.succeeded for job in await client.list(Job, "default")]
            assert await run.stop() == 0, run.err
            assert "Traceback" not in run.err


@pytest.mark.soak
@NEEDS_KUBECTL
async def test_kubectl_follows_and_steers_a_cronjob(kcr: Start, tmp_path: Path, environment: Mapping[str, str]) -> None:
    async with kcr("dev", "-f", hello(tmp_path)) as dev:
        kubectl = Kubectl(await dev.kubeconfig(), environment)
        await eventually(lambda: "Complete in" in dev.err, seconds=60)
        patch = '{"spec":{"suspend":true,"successfulJobsHistoryLimit":1}}'
        assert await kubectl("patch cronjob hello -p", patch) == "cronjob.batch/hello patched\n"
        assert await kubectl("create job --from=cronjob/hello now") == "job.batch/now created\n"
        await kubectl("wait --for=condition=complete job/now --timeout=60s")
        assert "Hello from the Kubernetes cluster" in await kubectl("logs job/now")

        async def kept(*names: str) -> bool:
            return (await kubectl("get jobs -o name")).split() == [*names]

        # Jobs made by hand count as well, and the older one goes.
        await eventually(lambda: kept("job.batch/now"), seconds=30)
        name, schedule, *_, suspend, active, last, _age = re.split(
            r" {3,}", (await kubectl("get cronjobs --no-headers")).strip()
        )
        assert (name, schedule, suspend, active) == ("hello", "@every 1s", "True", "0")
        assert re.fullmatch(r"\d+s|\d+m\d*s?", last)
        told = await kubectl("describe cronjob hello")
        assert "SuccessfulCreate" in told
        assert "SawCompletedJob" in told
        await kubectl("delete cronjob hello")
        await eventually(kept, seconds=30)
