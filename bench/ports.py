"""`python -m bench ports`: what 10,000 connections that say nothing cost a process, port by port, and what stays.

A program with metrics, probes (which also serve `debug`) and a webhook, and `kcr dev`. Each port must answer meanwhile.
Then come health checks of TCP, which connect and close, and slow clients, which send a request byte by byte.
"""

import argparse
import asyncio
import os
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil

from bench.budgets import Budget, show
from bench.jobs_server import embedded_server
from bench.measures import Figures
from kcr.serving.ports.certificate import self_signed

# Connections that say nothing, which are also the health checks; and slow clients.
CONNECTIONS, SLOW = 10_000, 500
SMALL = 200, 20
# So many answers warm a process up: what they need is not theirs who come later.
WARM_UP = 100
START_SECONDS = 30.0
# How long they stay, how long a process has to give memory back, and how often it is looked at.
HOLD_SECONDS, REST_SECONDS, STEP_SECONDS = 5.0, 60.0, 0.2
GROWN, LEFT, ANSWER = "MB more at most", "MB left after a minute", "answer meanwhile, ms at most"
LEFT_CHECKS, SLOWEST = "MB left of health checks", "slow clients are cut after, s"
CHECKS_REST_SECONDS, SLOW_SECONDS = 10.0, 60.0
BUDGETS: Mapping[str, Budget] = {
    GROWN: Budget(40, is_ratio=False),
    # None, to the steps in which an allocator takes and gives.
    LEFT: Budget(2, is_ratio=False),
    ANSWER: Budget(1000, is_ratio=False),
    LEFT_CHECKS: Budget(1, is_ratio=False),
    SLOWEST: Budget(30, is_ratio=False),
}


class Port(NamedTuple):
    """A port of a process, and a URL that it answers."""

    name: str
    process: psutil.Process
    url: str

    @property
    def number(self) -> int:
        """Where it listens."""
        return int(self.url.split(":")[2].partition("/")[0])


def free_port() -> int:
    """Return a port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@asynccontextmanager
async def started(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[psutil.Process]:
    """Run a program for as long as the context lives."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def the_ports(folder: Path) -> AsyncIterator[list[Port]]:
    """Give all ports, which answer."""
    async with AsyncExitStack() as stack:
        kubeconfig, _ = await stack.enter_async_context(embedded_server(folder))
        certificate = folder / "both.pem"
        certificate.write_bytes(self_signed(datetime.now(UTC)))  # noqa: TID251  # valid for a client of today
        webhooks, metrics, probes, api, page = (free_port() for _ in range(5))
        environment = {
            "KUBECONFIG": str(kubeconfig), "BENCH_PORT": str(webhooks), "BENCH_BLOCK": str(folder / "none"),
            "BENCH_CERTIFICATE": str(certificate), "KCR_METRICS_BIND_ADDRESS": f"127.0.0.1:{metrics}",
            "KCR_HEALTH_PROBE_BIND_ADDRESS": f"127.0.0.1:{probes}",
        }  # fmt: skip
        program = await stack.enter_async_context(started((sys.executable, "-m", "bench.kcr_webhook"), environment))
        kcr = str(Path(sys.executable).with_name("kcr"))
        command = (
            kcr, "dev", "--port", str(api), "--debug-port", str(page), "--runtime", "simulated",
            "--kubeconfig", str(folder / "dev"),
        )  # fmt: skip
        cluster = await stack.enter_async_context(started(command, {}))
        ports = [
            Port("metrics", program, f"http://127.0.0.1:{metrics}/metrics"),
            Port("probes", program, f"http://127.0.0.1:{probes}/healthz"),
            Port("webhooks", program, f"https://127.0.0.1:{webhooks}/validate--v1-configmap"),
            Port("kcr dev", cluster, f"https://127.0.0.1:{api}/livez"),
            Port("debug page of kcr dev", cluster, f"http://127.0.0.1:{page}/debug/kcr"),
        ]
        for port in ports:
            async with asyncio.timeout(START_SECONDS):
                while await answer_ms(port) is None:  # noqa: ASYNC110  # another process says when
                    await asyncio.sleep(STEP_SECONDS)
        yield ports


async def answer_ms(port: Port) -> float | None:
    """Return how many milliseconds a port takes to answer whatever it says, on a new connection; None if it is shut."""
    now = asyncio.get_running_loop().time
    began = now()
    try:
        async with aiohttp.ClientSession() as session, session.get(port.url, ssl=False) as response:
            await response.read()
    except aiohttp.ClientConnectionError:
        return None
    return (now() - began) * 1000


async def cut_seconds(port: Port) -> float:
    """Return how many seconds a port bears a client that begins a request and sends a byte of it each second."""
    now = asyncio.get_running_loop().time
    tls = None
    if port.url.startswith("https"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    began = now()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(SLOW_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port.number, ssl=tls)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nSlow: ")
            while not reader.at_eof():
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await reader.read(1000)
                writer.write(b"a")
    return now() - began


async def measure(port: Port, count: int, slow: int, rest: float) -> Figures:
    """Return what silent connections to a port cost its process, and health checks, and how soon slow ones are cut.

    Args:
        port: The port.
        count: How many are silent, and how many health checks there are.
        slow: How many are slow.
        rest: How many seconds the process has after the silent ones.
    """
    for _ in range(WARM_UP):
        await answer_ms(port)
    before = port.process.memory_info().rss
    grown, slowest = await _silent(port, count)
    await asyncio.sleep(rest)
    after = port.process.memory_info().rss
    for _ in range(count):
        socket.create_connection(("127.0.0.1", port.number)).close()
    await asyncio.sleep(min(rest, CHECKS_REST_SECONDS))
    checked = port.process.memory_info().rss
    async with asyncio.TaskGroup() as group:
        cut = [group.create_task(cut_seconds(port)) for _ in range(slow)]
    return {
        GROWN: grown / 1e6, LEFT: (after - before) / 1e6, ANSWER: slowest, LEFT_CHECKS: (checked - after) / 1e6,
        SLOWEST: max(one.result() for one in cut),
    }  # fmt: skip


async def _silent(port: Port, count: int) -> tuple[float, float]:
    """Return how many bytes more a process takes at most, and how many milliseconds the slowest answer."""
    now = asyncio.get_running_loop().time
    before = most = port.process.memory_info().rss
    slowest = 0.0
    silent: list[socket.socket] = []
    try:
        until = now() + HOLD_SECONDS
        while len(silent) < count or now() < until:
            for _ in range(min(100, count - len(silent))):
                silent.append(socket.create_connection(("127.0.0.1", port.number)))
                until = now() + HOLD_SECONDS
            if len(silent) % (count // 10) == 0:
                slowest = max(slowest, await answer_ms(port) or float("inf"))
            most = max(most, port.process.memory_info().rss)
            await asyncio.sleep(STEP_SECONDS if len(silent) == count else 0)
    finally:
        for one in silent:
            one.close()
    return most - before, slowest


async def measure_all(*, is_small: bool) -> None:
    """Measure all ports, and print the rows of each."""
    (count, slow), rest = (SMALL, 1.0) if is_small else ((CONNECTIONS, SLOW), REST_SECONDS)
    with tempfile.TemporaryDirectory(prefix="kcr-") as name:
        async with the_ports(Path(name)) as ports:
            for port in ports:
                print(f"ports ({port.name}; {count:,} connections that say nothing, {slow} slow clients)", flush=True)
                show(BUDGETS, [await measure(port, count, slow, rest)], is_small=is_small)


def main(arguments: Sequence[str]) -> None:
    """Measure all ports."""
    parser = argparse.ArgumentParser(
        prog="python -m bench ports", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="few connections: does it run at all?")
    is_small = parser.parse_args(arguments).small
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(measure_all(is_small=is_small))
