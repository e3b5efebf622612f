import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kcr.api.core import Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.programs import PROGRAM, with_own_options

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60), pytest.mark.asyncio]


OPERATED = """
import asyncio
from collections.abc import AsyncIterator

import kcr
from kcr.api.core import Namespace
from kcr.controller import any_of, generation_changed, labels_changed
from prometheus_client import Counter


class Greeter:
    def __init__(self, manager: kcr.Manager) -> None:
        self.own_writes = kcr.OwnWrites()
        self._client = manager.client
        self._store = manager.store(Namespace)
        self._greeted = Counter("namespaces_greeted_total", "Greetings.", registry=manager.metrics.registry)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        found = self._store.get(key)
        if found is not None and "greeted" not in found.metadata.labels:
            written = await self._client.merge_patch(Namespace, key, {"metadata": {"labels": {"greeted": "yes"}}})
            self.own_writes.wrote(key, self._store, written)
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
        watches=[kcr.watch(Namespace, predicate=any_of(generation_changed, labels_changed)), kcr.channel(every_hour())],
        own_writes=greeter.own_writes, reconcile_timeout=60,
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


# Says which namespaces it works in.
SELECTING = """
import asyncio

import kcr


class Look:
    def __init__(self, manager: kcr.Manager) -> None:
        self._manager = manager

    async def run(self) -> None:
        changing = self._manager.namespaces
        print(f"fixed: {self._manager.namespace}" if changing is None else changing.labels, flush=True)
        await asyncio.Event().wait()


kcr.run(lambda manager: manager.add(Look(manager)), namespaces=kcr.Namespaces(labels="team=blue"))
"""


# Calls a service outside of the cluster.
BILLED = """
import sys

import aiohttp

import kcr
from kcr.api.core import Namespace


class Billing:
    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if key.name == "default":
            async with aiohttp.ClientSession(raise_for_status=True) as session:
                await session.get(sys.argv[1])
        return kcr.Result()


def setup(manager: kcr.Manager) -> None:
    manager.add_controller("billing", Billing(), watches=[kcr.watch(Namespace)])


kcr.run(setup, args=[])
"""


PARSING = with_own_options('kcr.run(setup, args=[], namespace="nope")')
# Its reconciles take longer than a shutdown waits for them.
BUSY = PROGRAM.replace(
    "await self._client.merge_patch", 'print("busy", flush=True); await asyncio.sleep(3600)  # '
).replace("import kcr\n", "import asyncio\nimport kcr\n", 1)


async def start(
    kubeconfig: Path, program: str = PROGRAM, *arguments: str, **variables: str
) -> asyncio.subprocess.Process:
    path = kubeconfig.with_name("greeter.py")
    path.write_text(program)
    return await asyncio.create_subprocess_exec(
        sys.executable, str(path), *arguments, env={**os.environ, "KUBECONFIG": str(kubeconfig), **variables},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def said(process: asyncio.subprocess.Process, event: str) -> dict[str, Any]:
    """Read the log until a line of this event."""
    assert process.stderr is not None
    while line := await process.stderr.readline():
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"the program has ended and never said {event!r}")


async def test_program_of_thirty_lines_is_a_controller(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        address = await cluster.serve()
        (tmp_path / "kubeconfig").write_text(address.kubeconfig)
        process = await start(tmp_path / "kubeconfig")
        try:
            await cluster.client.create(Namespace(metadata=ObjectMeta(name="team")))

            async def greeted() -> bool:
                return "greeted" in (await cluster.client.get(Namespace, Key("", "team"))).metadata.labels

            await eventually(greeted)
        finally:
            process.terminate()
        _, stderr = await process.communicate()
        assert process.returncode == 0, stderr.decode()
        assert b"Traceback" not in stderr


async def test_program_is_operated_through_its_ports(tmp_path: Path) -> None:  # CM-25, CM-50, CM-52
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", OPERATED)
        addresses: dict[str, str] = {}
        while len(addresses) < 2:
            line = await said(process, "listening")
            addresses[line["what"]] = line["address"]
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


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request with 500, as a service that is broken."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.soak
async def test_broken_service_is_a_warning_and_no_panic(tmp_path: Path) -> None:  # CM-6
    async with EmbeddedCluster(runtime=None) as cluster, await asyncio.start_server(refuse, "127.0.0.1", 0) as service:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        url = f"http://127.0.0.1:{service.sockets[0].getsockname()[1]}/"
        process = await start(tmp_path / "kubeconfig", BILLED, url)
        first, second = [await said(process, "reconcile failed") for _ in range(2)]
        process.terminate()
        await process.communicate()
    assert {(line["level"], line["name"], line["retries"]) for line in (first, second)} == {
        ("warning", "default", 1), ("warning", "default", 2),
    }  # fmt: skip
    assert "ClientResponseError: 500" in first["error"]
    assert 'greeter.py", line 14, in reconcile' in first["exception"]
    assert "exception" not in second


@pytest.mark.soak
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


@pytest.mark.soak
async def test_program_reads_options_before_variables_before_arguments(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        ready = tmp_path / "ready"
        process = await start(
            tmp_path / "kubeconfig", OPERATED, "--metrics-bind-address", "0", "--ready-file", str(ready),
            KCR_METRICS_BIND_ADDRESS="no address", KCR_HEALTH_PROBE_BIND_ADDRESS="localhost:0",
        )  # fmt: skip
        line = await said(process, "listening")
        assert line["what"] == "probes"
        assert line["address"].startswith("localhost:")
        await eventually(ready.exists)
        process.terminate()
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param((), "team=blue", id="keyword", marks=pytest.mark.soak),
        pytest.param(("--namespace-selector=team=red",), "team=red", id="option"),
        pytest.param(("--namespace=a",), "fixed: a", id="names", marks=pytest.mark.soak),
    ],
)
async def test_namespaces_of_an_option_win_over_those_of_the_keyword(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", SELECTING, *options)
        assert process.stdout is not None
        assert (await process.stdout.readline()).decode().strip() == words
        process.terminate()
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.soak
async def test_namespace_that_does_not_exist_is_said(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", PARSING)
        line = await said(process, "cluster check failed")
        assert (line["level"], line["check"]) == ("warning", "namespace")
        assert line["finding"] == '"nope" does not exist, nothing is reconciled: create it, or name another'
        await said(process, "ready: caches are synced, workers run")
        process.terminate()
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.soak
async def test_program_beside_the_clone_finds_the_library(tmp_path: Path) -> None:
    # A clone that is called `kcr`, in the folder of the program: for Python a namespace package of that name.
    (tmp_path / "kcr").symlink_to(Path(__file__).parents[2], target_is_directory=True)
    process = await start(tmp_path / "missing", PROGRAM, "--help")
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    assert stdout.startswith(b"Usage: greeter.py")


async def test_failure_of_the_programs_own_is_one_line(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        program = PROGRAM.replace(
            "    manager.add_controller", "    raise LookupError('no key')\n    manager.add_controller"
        )
        process = await start(tmp_path / "kubeconfig", program)
        _, stderr = await process.communicate()
        assert process.returncode == 1
        (line,) = stderr.decode().splitlines()
        assert line.startswith("greeter.py: LookupError: no key at greeter.py:")
        assert "--" not in line


@pytest.mark.soak
async def test_program_begins_before_its_kind_is_installed(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        program = PROGRAM.replace(
            "def setup",
            'class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):\n    pass\n\n\ndef setup',
        ).replace("watch(Namespace)", "watch(Website)")
        process = await start(tmp_path / "kubeconfig", program)
        assert process.stderr is not None
        lines = [await process.stderr.readline()]
        while b"controller waits for kinds" not in (line := lines[-1]):
            assert line, b"".join(lines)
            lines.append(await process.stderr.readline())
        assert b"websites.example.dev" in line
        assert b"install their CustomResourceDefinitions" in line
        process.terminate()
        _, stderr = await process.communicate()
        assert process.returncode == 0, stderr


@pytest.mark.soak
async def test_setup_of_a_program_may_have_options_of_its_own(tmp_path: Path) -> None:
    program = PROGRAM.replace(
        "def setup(manager: kcr.Manager)",
        "import msgspec\n\n\nclass Options(msgspec.Struct, frozen=True):\n    greeting: int = 1\n\n\n"
        "def setup(manager: kcr.Manager, options: Options)",
    )
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", program, KCR_GREETING="hello")
        _, stderr = await process.communicate()
        assert process.returncode == 2
        assert stderr.decode() == "greeter.py: KCR_GREETING: its value is not a whole number\n"


@pytest.mark.soak
async def test_asynchronous_setup_is_refused(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", PROGRAM.replace("def setup", "async def setup"))
        _, stderr = await process.communicate()
        assert process.returncode == 1
        assert stderr.decode().startswith("greeter.py: the program: its setup is an async function: write `def setup(")


async def test_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        (tmp_path / "kubeconfig").write_text((await cluster.serve()).kubeconfig)
        process = await start(tmp_path / "kubeconfig", BUSY, KCR_LOG_LEVEL="debug")
        assert process.stdout is not None
        assert await process.stdout.readline() == b"busy\n"
        process.terminate()
        # From now on it waits for the reconcile.
        await said(process, "controller stops")
        process.send_signal(signal.SIGINT)
        await process.communicate()
        assert process.returncode == 128 + signal.SIGINT
