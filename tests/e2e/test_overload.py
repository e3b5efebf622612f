"""What the servers of real processes do with what they cannot serve: `kcr dev`, and the ports of `kcr run`."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from kcr.testing import eventually
from tests.e2e.processes import Running, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

OVERSIZED: list[dict[str, str]] = [{f"X-{number}": "a" for number in range(200)}, {"X-Long": "a" * 9_000}]
# What asyncio's server and ours say when descriptors run out. A connection without TLS is ours at once.
EXHAUSTED = ("cannot accept connections, retrying", "too many connections, closing new ones")


class Server(NamedTuple):
    """A server of a process, and what it takes to be let in."""

    run: Running
    url: str
    headers: dict[str, str]

    async def get(self, path: str, headers: dict[str, str] | None = None, seconds: float = 30) -> tuple[int, str]:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self.url + path, headers=self.headers | (headers or {}), ssl=False) as answer,
        ):
            return answer.status, await answer.text()

    def lines(self) -> list[Any]:
        """The lines of the log; all of them are JSON."""
        return [json.loads(line) for line in self.run.err.splitlines() if line.startswith("{")]

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines()]


Serving = Callable[..., AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def dev_server(kcr: Start, *arguments: str, **variables: str) -> AsyncIterator[Server]:
    async with kcr("dev", "--log-format", "json", *arguments, **variables) as dev:
        config = yaml.safe_load((await dev.kubeconfig()).read_text(encoding="utf-8"))
        token = config["users"][0]["user"]["token"]
        yield Server(dev, config["clusters"][0]["cluster"]["server"], {"Authorization": f"Bearer {token}"})


@asynccontextmanager
async def metrics_server(kcr: Start, *arguments: str, **variables: str) -> AsyncIterator[Server]:
    async with (
        kcr("dev", "--no-controllers") as dev,
        kcr(
            "run", "--kubeconfig", str(await dev.kubeconfig()), "--metrics-bind-address", "127.0.0.1:0",
            "--log-format", "json", *arguments, **variables,
        ) as run,
    ):  # fmt: skip

        def address() -> str:
            assert run.process.returncode is None, run.err
            said = [json.loads(line) for line in run.err.splitlines() if line.startswith("{")]
            return next((str(line["address"]) for line in said if line["event"] == "listening"), "")

        yield Server(run, f"http://{await eventually(address)}", {})


SERVERS = [pytest.param(dev_server, "/version", id="dev"), pytest.param(metrics_server, "/metrics", id="metrics")]
# A plugin whose presence breaks one page of each server, and whose callback raises.
FAULTY = """
import asyncio
from prometheus_client.registry import Collector
from kcr_devcluster.apiserver.http import discovery

class Broken(Collector):
    def describe(self):
        return []
    def collect(self):
        raise ZeroDivisionError("no such number")

def setup(manager):
    manager.metrics.registry.register(Broken())
    discovery.version = lambda: 1 / 0
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
"""


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    """Install the plugin, and return the PYTHONPATH it is on."""
    site = tmp_path / "site"
    about = site / "faulty-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[kcr.controllers]\nfaulty = faulty:setup\n", encoding="utf-8")
    (site / "faulty.py").write_text(FAULTY, encoding="utf-8")
    return str(site)


@pytest.mark.parametrize(("serving", "path"), SERVERS)
@pytest.mark.soak
async def test_internal_error_is_a_status_and_one_line(kcr: Start, faulty: str, serving: Serving, path: str) -> None:
    async with serving(kcr, "--controllers", "faulty", PYTHONPATH=faulty) as server:
        code, body = await server.get(path)
        assert (code, json.loads(body)["kind"], json.loads(body)["code"]) == (500, "Status", 500)
        assert server.run.process.returncode is None
        callback, request = (line for line in server.lines() if line["level"] == "error")
        assert callback["event"].startswith("Exception in callback")
        assert request["event"] == f"GET {path} failed"
        assert all("ZeroDivisionError" in line["exception"] for line in (callback, request))
        assert "Logging error" not in server.run.err
        assert await server.run.stop() == 0, server.run.err


@pytest.mark.parametrize(("serving", "path"), SERVERS)
@pytest.mark.soak
async def test_oversized_headers_are_431(kcr: Start, serving: Serving, path: str) -> None:
    async with serving(kcr) as server:
        for headers in OVERSIZED:
            code, body = await server.get(path, headers)
            assert (code, json.loads(body)["kind"], json.loads(body)["code"]) == (431, "Status", 431)
        lines = [line for line in server.lines() if line["event"] == "request refused"]
        assert [(line["level"], line["code"], "exception" in line) for line in lines] == [("warning", 431, False)] * 2
        assert (await server.get(path))[0] == 200


@pytest.mark.parametrize(("serving", "path"), SERVERS)
@pytest.mark.soak
async def test_exhausted_descriptors_are_survived(kcr: Start, serving: Serving, path: str) -> None:
    async with serving(kcr) as server, AsyncExitStack() as idle:
        hard = resource.prlimit(server.run.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(server.run.process.pid, resource.RLIMIT_NOFILE, (256, hard))
        address = urlsplit(server.url)
        for _ in range(300):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            idle.callback(writer.close)

        def complaints() -> list[str]:
            return [event for event in server.events() if event.startswith(EXHAUSTED)]

        await eventually(complaints)
        with pytest.raises((aiohttp.ClientError, TimeoutError)):
            await server.get(path, seconds=1)
        await idle.aclose()

        async def served() -> bool:
            try:
                return (await server.get(path, seconds=5))[0] == 200
            except (aiohttp.ClientError, TimeoutError):
                return False

        await eventually(served)
        assert len(complaints()) == 1
        assert [line for line in server.lines() if "exception" in line] == []
        assert await server.run.stop() == 0, server.run.err
