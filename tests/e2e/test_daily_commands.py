"""`kcr wait`, `kcr logs` and what a shell completes, beside `kcr dev`."""

import asyncio
import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.processes import Running, Serve, Start

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


async def completed(*words: str, kubeconfig: Path) -> list[str]:
    """Return what kubectl is told to complete the last word with."""
    program = str(Path(sys.executable).with_name("kubectl_complete-kcr"))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        program, *words, stdout=asyncio.subprocess.PIPE, env=environment
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().split()


async def test_exit_code_of_wait_tells_how_jobs_ended(kcr: Start, tmp_path: Path) -> None:
    file = jobs(
        tmp_path,
        _JOB.format(name="good", count=1, script="exit 0"),
        _JOB.format(name="bad", count=1, script="exit 3"),
        _JOB.format(name="endless", count=1, script="exec sleep 1000"),
    )
    async with kcr("dev", "-f", file) as dev:
        config = str(await dev.kubeconfig())
        async with kcr("wait", "job/good", "jobs.batch/good", KUBECONFIG=config) as run:
            assert await ended(run) == (0, ["job.batch/good complete"])
        async with kcr("wait", "job/good", "job/bad", KUBECONFIG=config) as run:
            code, (good, bad) = await ended(run)
            assert (code, good) == (1, "job.batch/good complete")
            assert bad.startswith("job.batch/bad failed: BackoffLimitExceeded: ")
        async with kcr("wait", "job/endless", "job/bad", "--timeout", "3s", KUBECONFIG=config) as run:
            assert (await run.end(), run.out.count("\n")) == (124, 1)
            assert "kcr: timed out waiting for job.batch/endless: Running" in run.err
            assert run.err.endswith(": see what it waits for: kcr explain -n default job/endless\n")
        patch = {"status": {"conditions": [{"type": "Failed", "message": "\x1b[2J forged"}]}}
        kubectl = await asyncio.create_subprocess_exec(
            "kubectl", "--kubeconfig", config, "patch", "job", "bad", "--subresource=status", "-p", json.dumps(patch),
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert await kubectl.wait() == 0
        async with kcr("wait", "job/bad", KUBECONFIG=config) as run:
            assert await ended(run) == (1, [r"job.batch/bad failed: BackoffLimitExceeded: \x1b[2J forged"])
            assert run.err.endswith(r"BackoffLimitExceeded: \x1b[2J forged" + "\n")
        async with kcr("wait", "job/absent", KUBECONFIG=config) as run:
            assert await ended(run) == (1, [])
            assert (
                run.err
                == 'kcr: jobs.batch "absent" not found: name its namespace with -n, or see `kubectl get jobs -A`\n'
            )


async def test_refusal_is_one_line_with_the_remedy(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    async with serve(authorization="rbac") as path:
        config = str(path)
        async with kcr("kubeconfig", "create", "--service-account", "default/default", KUBECONFIG=config) as run:
            assert await run.end() == 0
        own = tmp_path / "own.kubeconfig"
        own.write_text(run.out, encoding="utf-8")
        for command in ("explain", "wait", "logs"):
            async with kcr(command, "job/pi", KUBECONFIG=str(own)) as run:
                assert await ended(run) == (1, [])
                assert run.err.count("\n") == 1
                assert 'jobs.batch "pi" is forbidden' in run.err
                assert "grant it with a Role or ClusterRole, or use another identity" in run.err


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


@pytest.mark.soak
async def test_shell_completes_names_of_the_cluster(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", jobs(tmp_path, _JOB.format(name="good", count=1, script="exit 0"))) as dev:
        config = await dev.kubeconfig()
        await eventually(lambda: "good" in dev.err)

        async def completes(*words: str, to: str) -> bool:
            return await completed(*words, kubeconfig=config) == [to, ":4"]

        # On a busy machine the cluster may not answer in the two seconds that a shell waits.
        await eventually(partial(completes, "wait", "job/g", to="job/good"))
        await eventually(partial(completes, "explain", "namespace/kube-s", to="namespace/kube-system"))
        await eventually(partial(completes, "logs", "-n", "kube-s", to="kube-system"))
        await eventually(partial(completes, "run", "--controllers", "job,c", to="job,cronjob"))
    assert await completed("wait", "job/g", kubeconfig=config) == [":4"]
