"""The debug pages: how soon they answer while the event loop is busy, and what they cost when no one asks."""

import asyncio
import logging
import random
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from prometheus_client import CollectorRegistry, Histogram

from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress
from kcr.api.meta import Key
from kcr.controller import Controller, ControllerOptions, OwnWrites, Result
from kcr.controller.observers import ReconcileRun
from kcr.controller.observers.journal import ReconcileJournal
from kcr.metrics import Metrics
from kcr.serving.debug.access import DebugOptions
from kcr.serving.debug.snapshot import ControllerReader
from kcr.serving.debug.sources import StateSources
from kcr.serving.health import Health, LoopMonitor
from kcr.serving.observability import serve_probes
from kcr.testing import eventually
from kcr.workqueue import ItemExponential, WorkQueue

_REQUESTS = 100
_MANY_KEYS = 10_000
# Asks as a browser does, from another process, and prints the seconds that each answer took.
_ASKS = """
import http.client, sys, time
host, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("GET", "/debug/kcr/state")
    assert connection.getresponse().read()
    print(time.perf_counter() - began)
    connection.close()
    time.sleep(0.02)
"""


class _Failing:
    """A reconciler that computes for a while, and fails."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds

    async def reconcile(self, key: Key) -> Result:
        end = time.perf_counter() + self._seconds
        while time.perf_counter() < end:
            sum(range(100))
        raise ValueError(f"{key}: webhook answered {hash(key)}")


class _Idle:
    async def reconcile(self, key: Key) -> Result:
        return Result()


@asynccontextmanager
async def _running(
    reconciler: _Failing | _Idle, keys: int, delay: float, own_writes: OwnWrites | None = None
) -> AsyncIterator[Controller]:
    metrics = Metrics()
    queue = WorkQueue[Key](ItemExponential(delay, delay), metrics=metrics.queue("bench"))
    options = ControllerOptions(workers=4, queue=queue, own_writes=own_writes or False)
    controller = Controller("bench", reconciler, options, random=random.Random(0), metrics=metrics)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        for number in range(keys):
            controller.queue.add(Key("default", f"website-{number}"))
        yield controller
        task.cancel()


async def _answers(keys: int) -> list[float]:
    """Return how long answers took, in seconds, while failing keys keep the loop busy all the time."""
    sources, addresses = StateSources(Health()), list[str]()
    sources.options = DebugOptions(on_listening=addresses.append)
    monitor = sources.monitor = LoopMonitor(Histogram("lag", "", registry=CollectorRegistry()))
    # Retries come sooner than the loop can serve them.
    async with _running(_Failing(0.002), keys, 0.1) as controller, asyncio.TaskGroup() as group:
        sources.controllers["bench"] = controller
        monitoring = group.create_task(monitor.run())
        async with serve_probes(BindAddress("127.0.0.1", 0), sources, MAX_CONNECTIONS):
            asking = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _ASKS, addresses[0], str(_REQUESTS), stdout=subprocess.PIPE
            )
            out, _ = await asking.communicate()
        monitoring.cancel()
    return sorted(map(float, out.split()))


async def _state_seconds(keys: int) -> tuple[float, float]:
    """Return the CPU seconds of the first state with so many keys in backoff, and of a later one.

    The first groups the errors, and the others find them grouped.
    """
    async with _running(_Failing(), keys, 3600.0) as controller:
        await eventually(lambda: len(controller.journal.failing) == keys, seconds=60)
        took = []
        for _ in range(5):
            began = time.process_time()
            ControllerReader(controller, asyncio.get_running_loop().time(), {}, 0).state(200)
            took.append(time.process_time() - began)
    return took[0], statistics.median(took[1:])


async def _reconcile_seconds(count: int, own_writes: OwnWrites | None = None) -> float:
    async with _running(_Idle(), count, 1.0, own_writes) as controller:
        began = time.process_time()
        await eventually(lambda: controller.metrics.results["success"] == count, seconds=60)
        return time.process_time() - began


def _journal_seconds(count: int) -> float:
    """Return the CPU seconds that the journal takes of so many reconciles."""
    journal, key, task = ReconcileJournal(), Key("default", "website"), None
    run = ReconcileRun(key, "", 0.0, 1.0, "success")

    def one() -> None:
        journal.running[key] = task
        journal.end(run)
        del journal.running[key]

    return timeit.timeit(one, timer=time.process_time, number=count)


def debug(size: int) -> dict[str, float]:
    """Milliseconds: of answers with so many keys in trouble, of a state, and of a thousand reconciles."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    answers = asyncio.run(_answers(size))
    first, later = asyncio.run(_state_seconds(_MANY_KEYS))
    return {
        "answer while the loop is busy, p50": 1000 * statistics.median(answers),
        "answer while the loop is busy, p99": 1000 * answers[int(0.99 * (len(answers) - 1))],
        f"CPU of a state, {_MANY_KEYS:,} failing": 1000 * later,
        "CPU of the first of them": 1000 * first,
        "CPU of 1,000 reconciles that do nothing": 1000 * asyncio.run(_reconcile_seconds(50_000)) / 50,
        "the same with own writes": 1000 * asyncio.run(_reconcile_seconds(50_000, OwnWrites())) / 50,
        "of these, the journal": 1000 * _journal_seconds(50_000) / 50,
    }
