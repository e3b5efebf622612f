"""Real processes: `kcr` as a user starts it, with its output in files and a home of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.options import ServiceAccounts
from tests.e2e.processes import ROOT, Running, Serve, Start
from tests.kit.environment import setting
from tests.kit.harness import job_controller


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """Nothing of the developer's own: no kubeconfig, an empty home. `kcr dev` serves the version of the other tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KCR_", "KUBE", "XDG_"))}
    home = tmp_path / "home"
    home.mkdir()
    version = setting("KCR_KUBERNETES_VERSION")
    return {**kept, "HOME": str(home), **({"KCR_DEV_KUBERNETES_VERSION": version} if version else {})}


@pytest.fixture
def kcr(tmp_path: Path, environment: Mapping[str, str]) -> Start:
    """Start `kcr`, or a Python program, with arguments, and kill what is left of it at the end."""
    count = 0

    @asynccontextmanager
    async def start(
        *arguments: str, terminal: int | None = None, folder: Path = ROOT, program: str = "", **variables: str
    ) -> AsyncIterator[Running]:
        nonlocal count
        count += 1
        out, err = tmp_path / f"{count}.out", tmp_path / f"{count}.err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            command = (sys.executable, program) if program else (str(Path(sys.executable).with_name("kcr")),)
            process = await asyncio.create_subprocess_exec(
                *command, *arguments,
                cwd=folder, env={**environment, **variables}, stdout=stdout,
                stderr=stderr if terminal is None else terminal,
            )  # fmt: skip
        try:
            yield Running(process, out, err)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return start


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serve a cluster from this process, and give its kubeconfig: for tests of clients, not of `kcr dev`.

    It takes the options of `EmbeddedCluster`, and is there at once: `kcr dev` takes half a second to start. As there,
    namespaces have their accounts; with `jobs` the Job controller runs.
    """

    @asynccontextmanager
    async def serving(*, jobs: bool = False, **options: Any) -> AsyncIterator[Path]:
        accounts: ServiceAccounts = "tokens" if options.get("authorization") == "rbac" else "accounts"
        async with EmbeddedCluster(**options, service_accounts=accounts) as cluster, AsyncExitStack() as stack:
            if jobs:
                await stack.enter_async_context(job_controller(cluster, SystemClock()))
            path = tmp_path / "cluster.kubeconfig"
            path.write_text((await cluster.serve()).kubeconfig)
            yield path

    return serving
