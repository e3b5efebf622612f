"""What a controller asks of the API server: requests per pod, per Job and per idle hour, and bytes watched.

kcr's Job controller on the embedded cluster, in virtual time, so that the figures are the same in each run and an idle
hour takes a moment. Renewals of a Lease come on top: 1,800 per hour.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from kcr.api.batch import Job
from kcr.client import Client, Request, Response, Transport
from kcr.controllers.job.controller import Options, setup
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock, VirtualLoop

_PODS, _HOUR = 10, 3600.0


def politeness(size: int) -> dict[str, float]:
    """Return the figures.

    Args:
        size: How many pods, in Jobs of one and in Jobs of ten.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_measure(size))


async def _measure(size: int) -> dict[str, float]:
    clock = VirtualClock()
    async with EmbeddedCluster(clock=clock, random=Random(0), gc=False) as cluster:
        wire = _Counting(cluster.transport)
        manager = Manager(Client(wire), clock=clock, random=Random(1))
        setup(manager, Options(take_over=True))
        async with manager.running():
            one = await _run(cluster.client, clock, wire, jobs=size, pods=1)
            ten = await _run(cluster.client, clock, wire, jobs=size // _PODS, pods=_PODS)
            before = wire.asked["requests"]
            await clock.advance(_HOUR)
            idle = wire.asked["requests"] - before
    return {
        "requests per pod, Jobs of 10 pods": ten["requests"] / size,
        "requests per Job, Jobs of 10 pods": ten["requests"] / (size // _PODS),
        "requests per Job, Jobs of 1 pod": one["requests"] / size,
        "requests per idle hour": idle,
        "bytes watched per pod, Jobs of 10": ten["bytes"] / size,
        "bytes watched per pod, Jobs of 1": one["bytes"] / size,
    }


async def _run(client: Client, clock: VirtualClock, wire: "_Counting", *, jobs: int, pods: int) -> Counter[str]:
    """Run Jobs to their ends, and return the requests and the bytes watched meanwhile."""
    before = Counter(wire.asked)
    for number in range(jobs):
        await client.create_manifest(Job, _job(f"of-{pods}-{number}", pods), "default")
    # Events are written late.
    await clock.advance(120)
    ended = [job for job in await client.list(Job, "default") if job.status.completion_time is not None]
    assert len(ended) >= jobs, f"{jobs - len(ended)} Jobs are not complete"
    found = Counter(wire.asked)
    found.subtract(before)
    return found


def _job(name: str, pods: int) -> dict[str, object]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    template = {"metadata": {"annotations": {"sim.kcr.dev/run-for": "10s"}}, "spec": pod}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }  # fmt: skip


class _Counting:
    """Counts requests, watches among them, and the bytes that watches bring."""

    def __init__(self, inner: Transport) -> None:
        self.asked: Counter[str] = Counter()
        self._inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        self.asked["requests"] += 1
        async with self._inner.send(request) as response:
            yield _Counted(response, self.asked)


class _Counted:
    def __init__(self, inner: Response, asked: Counter[str]) -> None:
        self.status, self.headers = inner.status, inner.headers
        self._inner = inner
        self._asked = asked

    async def read(self) -> bytes:
        return await self._inner.read()

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._inner.lines():
            self._asked["bytes"] += len(line) + 1
            yield line
