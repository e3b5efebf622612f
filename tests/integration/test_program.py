import asyncio
import json
import os
import sys
from pathlib import Path

import aiohttp
import pytest

from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.embedded import EmbeddedCluster
from kcr.testing import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio]

PROGRAM = """
import kcr
from kcr.api.core import Namespace


class Greeter:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"greeted": "yes"}}})
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller("greeter", Greeter(manager), watches=[kcr.watch(Namespace)])


kcr.run(setup)
"""


OPERATED = """
import asyncio
from collections.abc import AsyncIterator

import kcr
from kcr.api.core import Namespace
from kcr.controller import any_of, generation_changed, labels_changed
from prometheus_client import Counter


class Greeter:
    def __init__(self, manager: kcr.Manager) -> None:
        self.parking = kcr.Parking()
        self._client = manager.client
        self._store = manager.store(Namespace)
        self._greeted = Counter("namespaces_greeted_total", "Greetings.", registry=manager.metrics.registry)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        found = self._store.get(key)
        if found is not None and "greeted" not in found.metadata.labels:
            written = await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"greeted": "yes"}}})
            self.parking.wrote(key, self._store, written.metadata.resource_version)
            self._greeted.inc()
        return kcr.Result()


async def every_hour() -> AsyncIterator[kcr.Key]:
    while True:
        yield kcr.Key("", "default")
        await asyncio.sleep(3600)


def setup(manager: kcr.Manager) -> None:
    greeter = Greeter(manager)
    manager.health.add_ready("words", lambda: "")
    manager.add_controller(
        "greeter", greeter,
        watches=[kcr.watch(Namespace, when=any_of(generation_changed, labels_changed)), kcr.channel(every_hour())],
        parking=greeter.parking, reconcile_seconds=60,
    )


kcr.run(setup, metrics_bind_address="127.0.0.1:0", health_probe_bind_address="127.0.0.1:0")
"""

# Says how many objects a full collection passes over, and how many come before a young one.
COLLECTED = """
import asyncio
import gc

import kcr


class Look:
    async def run(self) -> None:
        print(gc.get_freeze_count(), gc.get_threshold()[0], flush=True)
        await asyncio.Event().wait()


kcr.run(lambda manager: manager.add(Look()))
"""


async def start(kubeconfig: Path, program: str = PROGRAM) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_program_of_thirty_lines_is_a_controller(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        address = await cluster.serve()
        (tmp_path / "kubeconfig").write_text(address.kubeconfig)
        process = await start(tmp_path / "kubeconfig")
        try:
            await cluster.client.create(Namespace(metadata=ObjectMeta(name="team")))

            async def greeted() -> bool:
                return "greeted" in (await cluster.client.get(Namespace, "team")).metadata.labels

            await eventually(greeted)
        finally:
            process.terminate()
        _, stderr = await process.communicate()
        assert process.returncode == 0, stderr.decode()
        assert b"Traceback" not in stderr


async def test_program_without_configuration_ends_with_one_line(tmp_path: Path) -> None:
    process = await start(tmp_path / "missing")
    _, stderr = await process.communicate()
    assert process.returncode == 1
    (line,) = stderr.decode().splitlines()
    assert "missing" in line


async def test_program_is_operated_through_its_ports(tmp_path: Path) -> None:  # CM-25, CM-50, CM-52
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", OPERATED)
        assert process.stderr is not None
        addresses: dict[str, str] = {}
        while len(addresses) < 2:
            line = await process.stderr.readline()
            assert line, "the program has ended"
            said = json.loads(line)
            if said["event"] == "listening":
                addresses[said["what"]] = said["address"]
        async with aiohttp.ClientSession() as session:

            async def read(what: str, path: str) -> str:
                async with session.get(f"http://{addresses[what]}{path}") as answer:
                    return await answer.text()

            async def is_ready() -> bool:
                return "[+]words ok" in await read("probes", "/readyz?verbose")

            async def has_greeted() -> bool:
                return "namespaces_greeted_total 4.0" in await read("metrics", "/metrics")

            await eventually(is_ready)
            await eventually(has_greeted)
        process.terminate()
        await process.communicate()
        assert process.returncode == 0


async def test_collector_passes_over_what_was_imported(tmp_path: Path) -> None:  # design: no stall over 20 ms
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", COLLECTED)
        assert process.stdout is not None
        frozen, young = map(int, (await process.stdout.readline()).split())
        process.terminate()
        await process.communicate()
        assert frozen > 50_000
        assert young > 10_000
