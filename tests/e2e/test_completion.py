"""What a shell completes when the cluster refuses to tell names."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio]

MESSAGE = 'namespaces is forbidden: User "ci" cannot list resource "namespaces" in API group "" at the cluster scope'
REFUSAL = {
    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
    "message": MESSAGE, "details": {"kind": "namespaces"},
}  # fmt: skip


@pytest_asyncio.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig of a server that refuses everything."""

    async def refuse(_: web.BaseRequest) -> web.Response:
        return web.json_response(REFUSAL, status=403)

    runner = web.ServerRunner(web.Server(refuse))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = {
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {}}],
        "current-context": "a",
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config), encoding="utf-8")
    yield file
    await runner.cleanup()


@pytest.mark.soak
async def test_missing_right_completes_nothing_and_says_nothing(kubeconfig: Path) -> None:
    program = str(Path(sys.executable).with_name("kubectl_complete-kcr"))
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        program, "wait", "-n", "", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment
    )
    assert await process.communicate() == (b":4\n", b"")
