"""`kcr run` as a process of its own, against the cluster of `kcr dev --no-controllers`."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from kcr.testing import eventually
from tests.e2e.processes import ROOT, Serve, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]


async def test_two_processes_run_a_job_over_https(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "--no-controllers", "-f", "examples/pi-python.yaml", "--wait") as dev:
        kubeconfig = await dev.kubeconfig()
        # The command that it prints.
        command = f"kcr run --take-over --kubeconfig {kubeconfig}"
        await eventually(lambda: command in dev.err)
        async with kcr(*command.split()[1:]) as run:
            assert await dev.end() == 0, dev.err + run.err
            assert dev.out.startswith("3.14159265358979")
            assert "take_over is set: all Jobs are reconciled" in run.err


async def test_guide_tries_it_with_the_option_that_decides() -> None:
    text = (ROOT / "docs/guide/install.md").read_text(encoding="utf-8")
    assert "`kcr dev --no-controllers --kubeconfig dev.kubeconfig -f examples/pi-python.yaml`" in text
    assert "`kcr run --take-over --kubeconfig dev.kubeconfig`" in text


RULE = "only Jobs with spec.managedBy kcr.dev/job-controller are reconciled; kcr run --take-over does all"


@pytest.mark.soak
async def test_run_rehearses_production_without_the_option(kcr: Start, tmp_path: Path) -> None:
    manifests = []
    for name, spec in (("shared", {"managedBy": "kcr.dev/job-controller"}), ("plain", {})):
        container = {"name": "c", "image": "busybox", "command": ["true"]}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        manifests.append(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": name},
                "spec": {**spec, "template": template},
            }
        )
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump_all(manifests))
    async with kcr("dev", "--no-controllers", "-f", str(tmp_path / "jobs.yaml")) as dev:
        kubeconfig = str(await dev.kubeconfig())
        async with kcr("run", "--kubeconfig", kubeconfig, "--log-format", "json") as run:
            await eventually(lambda: "job shared: Complete" in dev.err, seconds=60)
            line = next(json.loads(one) for one in run.err.splitlines() if "ignoring jobs" in one)
            assert (line["count"], line["level"]) == (1, "info")
            assert line["reason"] == f"take_over is not set: {RULE}"
            assert "job plain: Complete" not in dev.err


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ttl", "cronjob"])
async def test_controller_that_replaces_the_clusters_own_says_so_on_every_server(
    kcr: Start, serve: Serve, name: str
) -> None:
    async with serve() as path, kcr("run", "--controllers", name, "--kubeconfig", str(path)) as run:
        assert await run.end() == 1
        assert f"controller '{name}' cannot share a cluster" in run.err
        assert "kcr run --take-over" in run.err


async def test_ready_file_stands_while_it_works(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    async with serve() as kubeconfig:
        ready.unlink()
        async with kcr("run", KCR_KUBECONFIG=str(kubeconfig), KCR_READY_FILE=str(ready)) as run:
            await eventually(ready.exists)
            await run.ready()
            async with asyncio.timeout(5):
                assert await run.stop() == 0, run.err
            assert not ready.exists()
            assert "Traceback" not in run.err


async def test_stop_is_quick_when_the_server_is_gone(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    async with AsyncExitStack() as server:
        kubeconfig = str(await server.enter_async_context(serve()))
        async with kcr("run", "--kubeconfig", kubeconfig, "--ready-file", str(ready)) as run:
            await eventually(ready.exists)
            await server.aclose()
            async with asyncio.timeout(5):
                assert await run.stop() == 0, run.err


async def test_wrong_token_is_one_line(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    async with serve() as good:
        config = yaml.safe_load(good.read_text(encoding="utf-8"))
        config["users"][0]["user"]["token"] = "wrong"
        path = tmp_path / "wrong"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        async with kcr("run", "--kubeconfig", str(path)) as run:
            assert await run.end() == 1
            assert run.err.count("\n") == 1
            assert "renew the credentials in" in run.err
            assert str(path) in run.err


@pytest.mark.soak
async def test_unreachable_server_is_one_line(kcr: Start, serve: Serve) -> None:
    async with serve() as path:
        pass
    async with kcr("run", "--kubeconfig", str(path)) as run:
        assert await run.end() == 1
        assert run.err.count("\n") == 1
        assert run.err.startswith("kcr: cannot reach the API server https://127.0.0.1:")


async def test_embedded_cluster_is_not_loaded() -> None:
    code = "import sys, kcr.cli.run; sys.exit(any(name.startswith('kcr_devcluster') for name in sys.modules))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT)
    assert await process.wait() == 0


@pytest.mark.soak
async def test_dry_run_changes_nothing_and_takes_no_lease(kcr: Start) -> None:
    async with kcr("dev", "--no-controllers", "-f", "examples/pi-python.yaml") as dev:
        kubeconfig = str(await dev.kubeconfig())
        options = (
            "--take-over",
            "--kubeconfig",
            kubeconfig,
            "--dry-run=server",
            "--leader-elect",
            "--log-format",
            "json",
        )
        async with kcr("run", *options) as run:
            await run.ready()
            await eventually(lambda: '"dry run: accepted, not stored"' in run.err)
            assert await run.stop() == 0
        assert "/pods/pi-" in run.err
        assert "leases" not in run.err
        assert "Started container" not in dev.err
