"""`kcr wait` and `kcr logs`, beside `kcr dev`."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.processes import Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  completions: {count}
  parallelism: {count}
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: c, image: busybox, command: [sh, -c, '{script}']}}]
---
"""
# The higher the index, the earlier it ends: the order of the logs is not that of their ends.
_SLOW = "echo first; while ! test -e {gate}$JOB_COMPLETION_INDEX; do sleep 0.05; done; echo last"


def jobs(folder: Path, *texts: str) -> str:
    file = folder / "jobs.yaml"
    file.write_text("".join(texts), encoding="utf-8")
    return str(file)


async def ended(run: Running) -> tuple[int, list[str]]:
    return await run.end(), run.out.splitlines()


@pytest.mark.soak
async def test_wait_reports_a_job_that_is_deleted(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", jobs(tmp_path, _JOB.format(name="endless", count=1, script="exec sleep 1000"))) as dev:
        config = str(await dev.kubeconfig())
        async with kcr("wait", "job/endless", KUBECONFIG=config) as run:
            await eventually(lambda: "1 active" in run.err)
            kubectl = await asyncio.create_subprocess_exec(
                "kubectl", "--kubeconfig", config, "delete", "job", "endless", stdout=asyncio.subprocess.DEVNULL
            )
            assert await kubectl.wait() == 0
            assert await ended(run) == (1, ["job.batch/endless deleted"])


@pytest.mark.soak
async def test_logs_of_all_pods_come_by_index(kcr: Start, tmp_path: Path) -> None:
    gates = [tmp_path / f"gate-{index}" for index in range(3)]
    script = _SLOW.format(gate=tmp_path / "gate-")
    async with kcr("dev", "-f", jobs(tmp_path, _JOB.format(name="three", count=3, script=script))) as dev:
        config = str(await dev.kubeconfig())
        async with kcr("logs", "-f", "job/three", KUBECONFIG=config) as followed:

            def ends() -> list[str]:
                return [line.split("-")[1] for line in followed.out.splitlines() if line.endswith("last")]

            await eventually(lambda: followed.out.count("first") == 3)
            for gate in reversed(gates):
                before = len(ends())
                gate.touch()
                await eventually(partial(lambda count: len(ends()) == count, before + 1))
            assert (await followed.end(), ends()) == (0, ["2", "1", "0"])
        async with kcr("logs", "job/three", KUBECONFIG=config) as run:
            code, lines = await ended(run)
            assert (code, [line.split("-")[1] for line in lines]) == (0, ["0", "0", "1", "1", "2", "2"])
        async with kcr("logs", "job/three", "--tail", "1", "--no-prefix", KUBECONFIG=config) as run:
            assert await ended(run) == (0, ["last"] * 3)
        async with kcr("logs", "job/three", "-c", "nope", KUBECONFIG=config) as run:
            assert await ended(run) == (1, [])
            assert run.err.endswith("has no container 'nope': choose one of c\n")
