"""A program with a webhook, as a process: its certificate, its port, and its end."""

import asyncio
import base64
import json
import os
import random
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from kcr.api.core import Namespace, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.webhook_configurations import KEY, Mutating, configuration

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

PROGRAM = """
import asyncio
import sys
import time
from pathlib import Path

import kcr
from kcr.api.core import ConfigMap, Namespace

FOLDER = Path(sys.argv[1])


class Webhook:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._namespaces = manager.store(Namespace)

    async def validate_create(self, obj: ConfigMap, request: kcr.WebhookRequest) -> list[str]:
        await asyncio.sleep(float(obj.data.get("sleep", "0")))
        namespace = await self._client.get(Namespace, kcr.Key("", "default"))
        assert self._namespaces.get(namespace.key) is not None
        assert self._namespaces.by_index("field:metadata.name", "default")
        return [namespace.metadata.name]


class Blocker:
    async def run(self) -> None:
        while True:
            while not (FOLDER / "block").exists():
                await asyncio.sleep(0.02)
            (FOLDER / "block").unlink()
            (FOLDER / "blocked").touch()
            time.sleep(2)
            (FOLDER / "blocked").unlink()


def setup(manager: kcr.Manager) -> None:
    manager.add_webhook(ConfigMap, Webhook(manager))
    manager.add(Blocker())


kcr.run(setup, args=[], log_level="info")
"""
PATH = "/validate--v1-configmap?timeout=10s"


class Program(NamedTuple):
    """A program, and its ports."""

    process: asyncio.subprocess.Process
    port: int
    probes: int
    cluster: EmbeddedCluster

    async def is_ready(self) -> bool:
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://127.0.0.1:{self.probes}/readyz") as response:
                    return response.status == 200
            except aiohttp.ClientConnectionError:
                return False

    async def is_unready(self) -> bool:
        return not await self.is_ready()

    async def trust(self) -> ssl.SSLContext:
        """Return what the API server trusts, by the configuration."""
        webhooks = (await self.cluster.client.get(Mutating, Key("", "web"))).get("webhooks")
        assert "caBundle" in webhooks[0]["clientConfig"]
        bundle = base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode()
        return ssl.create_default_context(cadata=bundle)

    async def review(self, session: aiohttp.ClientSession, **data: str) -> dict[str, Any]:
        """Call the webhook as the API server calls a Service."""
        kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": data}
        request = {
            "uid": "1", "kind": kind, "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "operation": "CREATE", "object": obj, "userInfo": {},
        }  # fmt: skip
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        async with session.post(
            f"https://127.0.0.1:{self.port}{PATH}", json=body, server_hostname="web.team.svc"
        ) as response:
            found: dict[str, Any] = json.loads(await response.read())
            assert response.status == 200, found
            answer: dict[str, Any] = found["response"]
            return answer


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@asynccontextmanager
async def program(folder: Path, **variables: str) -> AsyncIterator[Program]:
    """Run the program on a cluster until it is ready; it makes its certificate."""
    async with EmbeddedCluster(random=random.Random(0), runtime=None) as cluster:
        (folder / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        (folder / "program.py").write_text(PROGRAM)
        await cluster.client.create_manifest(Mutating, configuration())
        await cluster.client.create(Namespace(metadata=ObjectMeta(name="team")))
        port, probes = free_port(), free_port()
        options = {
            "KUBECONFIG": str(folder / "kubeconfig"), "KCR_WEBHOOK_HOST": "127.0.0.1", "KCR_WEBHOOK_PORT": str(port),
            "KCR_WEBHOOK_SERVICE_NAME": "web", "KCR_WEBHOOK_SERVICE_NAMESPACE": "team",
            "KCR_HEALTH_PROBE_BIND_ADDRESS": f"127.0.0.1:{probes}", "KCR_WEBHOOK_SHUTDOWN_DELAY": "1s", **variables,
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(folder / "program.py"), str(folder), env={**os.environ, **options}
        )
        made = Program(process, port, probes, cluster)
        try:
            await eventually(made.is_ready, seconds=60)
            await eventually(made.trust, seconds=60)
            yield made
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_reviews_are_answered_while_the_loop_of_the_program_is_blocked(tmp_path: Path) -> None:  # WH-13
    async with program(tmp_path) as running:
        connector = aiohttp.TCPConnector(ssl=await running.trust())
        async with aiohttp.ClientSession(connector=connector) as session:
            answer = await running.review(session)
            assert (answer["allowed"], answer["warnings"]) == (True, ["default"])
            (tmp_path / "block").touch()
            await eventually((tmp_path / "blocked").exists, seconds=10)
            began, answers = time.perf_counter(), 0
            while (tmp_path / "blocked").exists():
                assert (await running.review(session))["warnings"] == ["default"]
                answers += 1
            # One after another, and none has waited for the loop.
            assert answers > 10, time.perf_counter() - began


@pytest.mark.soak
async def test_deleted_secret_is_made_again_and_no_review_fails(tmp_path: Path) -> None:  # WH-11
    async with program(tmp_path) as running:
        before = await running.cluster.client.get(Secret, KEY)
        await running.cluster.client.delete(Secret, KEY)
        connector = aiohttp.TCPConnector(ssl=await running.trust(), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            for _ in range(10):
                assert (await running.review(session))["allowed"]

        async def is_back() -> bool:
            found = await running.cluster.client.list(Secret, "team")
            return any(secret.key == KEY and secret.data == before.data for secret in found)

        await eventually(is_back, seconds=20)


@pytest.mark.soak
async def test_program_that_ends_serves_on_while_it_is_not_ready(tmp_path: Path) -> None:  # WH-12
    async with program(tmp_path) as running:
        connector = aiohttp.TCPConnector(ssl=await running.trust(), force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
            # It runs for longer than the delay, and ends all the same.
            slow = group.create_task(running.review(session, sleep="2"))
            await running.review(session)
            running.process.send_signal(signal.SIGTERM)
            await eventually(running.is_unready)
            assert (await running.review(session))["allowed"]
            assert (await slow)["allowed"]
        assert await running.process.wait() == 0
        with pytest.raises(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as other:
                await other.get(f"http://127.0.0.1:{running.port}")
