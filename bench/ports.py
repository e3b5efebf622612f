"""`python -m bench ports`: what 10,000 connections that say nothing cost a process, port by port, and what stays.

A program with metrics, probes and a webhook, and `kcr dev`. Meanwhile and afterwards each port must answer.
"""

import argparse
import asyncio
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import aiohttp
import psutil

from bench.jobs_server import embedded_server
from bench.kcm import Budget, rows
from bench.measures import Figures
from kcr.serving.ports.certificate import self_signed

CONNECTIONS, SMALL = 10_000, 200
START_SECONDS = 30.0
# How long they stay, how long a process has to give memory back, and how often it is looked at.
HOLD_SECONDS, REST_SECONDS, STEP_SECONDS = 5.0, 60.0, 0.2
GROWN, LEFT, ANSWER = "MB more at most", "MB left after a minute", "answer meanwhile, ms at most"
BUDGETS: Mapping[str, Budget] = {
    GROWN: Budget(40, is_ratio=False),
    LEFT: Budget(1, is_ratio=False),
    ANSWER: Budget(1000, is_ratio=False),
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
        webhooks, metrics, probes, api = (free_port() for _ in range(4))
        environment = {
            "KUBECONFIG": str(kubeconfig), "BENCH_PORT": str(webhooks), "BENCH_BLOCK": str(folder / "none"),
            "BENCH_CERTIFICATE": str(certificate), "KCR_METRICS_BIND_ADDRESS": f"127.0.0.1:{metrics}",
            "KCR_HEALTH_PROBE_BIND_ADDRESS": f"127.0.0.1:{probes}",
        }  # fmt: skip
        program = await stack.enter_async_context(started((sys.executable, "-m", "bench.kcr_webhook"), environment))
        kcr = str(Path(sys.executable).with_name("kcr"))
        command = (
            kcr,
            "dev",
            "--port",
            str(api),
            "--runtime",
            "simulated",
            "--no-debug-page",
            "--kubeconfig",
            str(folder / "dev"),
        )
        cluster = await stack.enter_async_context(started(command, {}))
        ports = [
            Port("metrics", program, f"http://127.0.0.1:{metrics}/metrics"),
            Port("probes", program, f"http://127.0.0.1:{probes}/healthz"),
            Port("webhooks", program, f"https://127.0.0.1:{webhooks}/validate--v1-configmap"),
            Port("kcr dev", cluster, f"https://127.0.0.1:{api}/livez"),
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


async def measure(port: Port, count: int, rest: float) -> Figures:
    """Return what silent connections to a port cost its process.

    Args:
        port: The port.
        count: How many there are.
        rest: How many seconds the process has afterwards.
    """
    now = asyncio.get_running_loop().time
    for _ in range(10):  # what a process needs for its first answers is not theirs
        await answer_ms(port)
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
    await asyncio.sleep(rest)
    left = port.process.memory_info().rss - before
    return {GROWN: (most - before) / 1e6, LEFT: left / 1e6, ANSWER: slowest}


async def measure_all(count: int, rest: float) -> None:
    """Measure all ports, and print the rows of each."""
    with tempfile.TemporaryDirectory(prefix="kcr-") as name:
        async with the_ports(Path(name)) as ports:
            for port in ports:
                print(f"ports ({port.name}; {count:,} connections that say nothing)", flush=True)
                print("\n".join(rows(BUDGETS, [await measure(port, count, rest)], [])), flush=True)


def main(arguments: Sequence[str]) -> None:
    """Measure all ports."""
    parser = argparse.ArgumentParser(
        prog="python -m bench ports", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="few connections: does it run at all?")
    count, rest = (SMALL, 1.0) if parser.parse_args(arguments).small else (CONNECTIONS, REST_SECONDS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(measure_all(count, rest))
