"""`python -m bench shards`: what each of several replicas does under sharding, beside a single one that does all.

Both have the same Jobs on an embedded server over HTTPS in another process, first in one namespace and then in a
hundred with similar names. The single one runs before and after the several, and they are compared with its mean, so
that a machine whose speed drifts does not decide. Replicas are also stopped and started: a hand-over lasts from
SIGTERM, or from the moment at which the former holder begins it, until the next one reconciles the shard's keys.

The budgets hold at a rate of Jobs that a single replica keeps up with (`--rate`). Without one the API server is the
limit: then a single replica is busy and reads many events at once, while several are idle most of the time and read
events that arrive alone, which cost twice as much.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from bench.jobs import SHAPE_SECONDS, Server, connected, show
from bench.jobs_controller import Usage
from bench.jobs_load import MAKERS, Load, in_parallel, job
from bench.jobs_server import embedded_server
from bench.shards_replica import ShardReplica, handovers
from kcr.api.batch import Job
from kcr.api.coordination import Lease
from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.api.slots import shard_of, slot_of
from kcr.app.process import fast_loop
from kcr.clock import SystemClock
from kcr.errors import leaves
from kcr.scopes.sharding.leases import GROUP_LABEL, overview

NAME = "kcr-controller-manager"
LABEL = "shards"
SETTLE_SECONDS = 60.0
ROUNDS = 3
IDLE_SECONDS = 5.0
BUDGET_JOBS = 2000
CPU, WATCHED, MEMORY = "CPU seconds", "MB watched", "MB resident"
# Of each replica beside the single one, and the sum of all.
BUDGETS = {"most CPU, of a single one's": 0.32, "most watched, of a single one's": 0.30, "sum of CPU": 1.25}


class Size(NamedTuple):
    """The load, and how many replicas share it by how many shards; `rate` is in Jobs per second, 0 for all at once."""

    jobs: int
    pods: int
    replicas: int
    shards: int
    rate: float = 0.0


class Cost(NamedTuple):
    """What a replica has used for the load: CPU seconds, bytes read from watches; bytes in memory, and their growth.

    `idle` is the CPU seconds that it uses in a second without any load.
    """

    cpu_seconds: float
    watched: float
    resident: float
    grown: float
    idle: float
    reconciles: float
    requests: float

    @classmethod
    def mean(cls, costs: Sequence[Self]) -> Self:
        """Return the mean of some."""
        return cls(*map(fmean, zip(*costs, strict=True)))


class Snapshot(NamedTuple):
    """The usage of a replica at one moment."""

    usage: Usage
    watched: float
    reconciles: float
    requests: float

    @classmethod
    async def take(cls, replica: ShardReplica) -> Self:
        """Take one."""
        replica.process.check()
        page = await replica.metrics()
        return cls(
            replica.process.usage,
            total(page, "kcr_client_streamed_bytes_total"),
            total(page, "controller_runtime_reconcile_total"),
            total(page, "rest_client_requests_total"),
        )


def total(page: str, name: str) -> float:
    """Return the sum of the series of a counter in a page of metrics."""
    families = text_string_to_metric_families(page)
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


@asynccontextmanager
async def served(folder: Path, namespaces: Sequence[str]) -> AsyncIterator[Server]:
    """Give a server with some namespaces."""
    async with (
        embedded_server(folder, is_sharded=True) as (kubeconfig, process),
        connected(kubeconfig, process) as server,
    ):
        for name in namespaces:
            if name != "default":
                await server.client.create(Namespace(metadata=ObjectMeta(name=name)))
        yield server


async def shares(server: Server) -> list[int]:
    """Return how many shards each replica holds."""
    leases = await server.client.list(Lease, "default", labels=f"{GROUP_LABEL}={NAME}")
    return [len(one.shards) for one in overview(leases, SystemClock().now()).replicas if one.shards]


async def settled(server: Server, replicas: Sequence[ShardReplica], shards: int) -> None:
    """Wait until replicas hold all shards in fair shares, and reconcile them."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            counts = await shares(server)
            active = sum([len(one.active()) for one in replicas])
            if len(counts) == len(replicas) and sum(counts) == active == shards and max(counts) - min(counts) <= 1:
                return
            await asyncio.sleep(0.05)


async def run(server: Server, namespaces: Sequence[str], size: Size) -> None:
    """Have all Jobs done, spread over the namespaces."""
    load, now = Load(server.client, "", LABEL), asyncio.get_running_loop().time
    began = now()

    async def make(number: str) -> None:
        if size.rate:
            await asyncio.sleep(began + int(number) / size.rate - now())
        manifest = job(f"job-{number}", size.pods, label=LABEL, indexed=False)
        await server.client.create_manifest(Job, manifest, namespaces[int(number) % len(namespaces)])

    async with asyncio.TaskGroup() as group:
        playing = group.create_task(load.run())
        async with asyncio.timeout(SHAPE_SECONDS):
            await in_parallel(map(str, range(size.jobs)), MAKERS, make)
            for number in range(size.jobs):
                await load.ends.wait(f"job-{number}")
        playing.cancel()
    wrong = sum(count != size.pods for count in load.ends.succeeded.values())
    if wrong:
        raise RuntimeError(f"{wrong} Jobs count their pods wrong")


async def largest_share(server: Server) -> float:
    """Return the part of all Jobs that the replica with most of them has reconciled."""
    leases = await server.client.list(Lease, "default", labels=f"{GROUP_LABEL}={NAME}")
    shards = overview(leases, SystemClock().now()).shards
    jobs = await server.client.list(Job)
    counts = Counter(shards[shard_of(slot_of(one.metadata), len(shards))].holder for one in jobs)
    return max(counts.values()) / len(jobs)


async def cost(namespaces: Sequence[str], size: Size, *, moves: bool = False) -> tuple[list[Cost], float, list[float]]:
    """Return what each replica has used for the load, the largest share, and with `moves` how long hand-overs took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with served(folder, namespaces) as server, AsyncExitStack() as stack:
            shards = size.shards if size.replicas > 1 else 0
            made = [ShardReplica(folder / str(number), server.kubeconfig, shards) for number in range(size.replicas)]
            for one in made:
                await stack.enter_async_context(one)
            if shards:
                await settled(server, made, shards)
            rested = [one.process.usage for one in made]
            await asyncio.sleep(IDLE_SECONDS)
            before = [await Snapshot.take(one) for one in made]
            await run(server, namespaces, size)
            await server.quiet()
            after = [await Snapshot.take(one) for one in made]
            largest = await largest_share(server) if shards else 1.0
            took = await move(server, made, size, folder, stack) if moves else []
    costs = [
        Cost(
            then.usage.cpu_seconds - first.usage.cpu_seconds,
            then.watched - first.watched,
            then.usage.resident,
            then.usage.resident - first.usage.resident,
            (first.usage.cpu_seconds - idle.cpu_seconds) / IDLE_SECONDS,
            then.reconciles - first.reconciles,
            then.requests - first.requests,
        )
        for idle, first, then in zip(rested, before, after, strict=True)
    ]
    return costs, largest, took


async def move(
    server: Server, replicas: list[ShardReplica], size: Size, folder: Path, stack: AsyncExitStack
) -> list[float]:
    """Stop and start replicas, with all objects cached, and return how long each shard was without a holder."""
    running, stops, ended = list(replicas), [], []
    for turn in range(ROUNDS):
        leaving = running.pop(0)
        stops.append((SystemClock().now(), leaving))
        await leaving.stop()
        ended.append(leaving)
        await settled(server, running, size.shards)
        joining = ShardReplica(folder / f"later-{turn}", server.kubeconfig, size.shards)
        running.append(await stack.enter_async_context(joining))
        await settled(server, running, size.shards)
    return handovers([*ended, *running], stops)


def figures(alone: Sequence[Cost], several: Sequence[Cost]) -> dict[str, float]:
    """Return the figures of replicas beside the mean of those of a single one, `alone`."""
    single = Cost.mean(alone)
    found = {f"single, run {number}: {CPU}": one.cpu_seconds for number, one in enumerate(alone, 1)}
    found |= {f"single: {WATCHED}": single.watched / 1e6, f"single: {MEMORY}": single.resident / 1e6}
    for number, one in enumerate(several):
        found |= {f"replica {number}: {CPU}": one.cpu_seconds, f"replica {number}: {WATCHED}": one.watched / 1e6,
                  f"replica {number}: {MEMORY}": one.resident / 1e6}  # fmt: skip
    return found | {
        "single: reconciles": single.reconciles,
        "several: reconciles": sum(one.reconciles for one in several),
        "single: requests": single.requests,
        "several: requests": sum(one.requests for one in several),
        "single: idle, ms of CPU per second": single.idle * 1000,
        "several: idle, ms of CPU per second": max(one.idle for one in several) * 1000,
        "most CPU, of a single one's": max(one.cpu_seconds for one in several) / single.cpu_seconds,
        "most watched, of a single one's": max(one.watched for one in several) / single.watched,
        "most memory, of a single one's": max(one.resident for one in several) / single.resident,
        "most memory growth, of a single one's": max(one.grown for one in several) / max(single.grown, 1),
        "sum of CPU": sum(one.cpu_seconds for one in several) / single.cpu_seconds,
    }


async def measure(size: Size, namespaces: Sequence[str], *, moves: bool) -> dict[str, float]:
    """Run the load with one replica, with several, and with one again, and return the figures."""
    before, _, _ = await cost(namespaces, size._replace(replicas=1))
    several, largest, took = await cost(namespaces, size, moves=moves)
    after, _, _ = await cost(namespaces, size._replace(replicas=1))
    found = {**figures([*before, *after], several), "most Jobs, of all": largest}
    if took:
        took.sort()
        found |= {"hand-overs": len(took), "hand-over, p50 ms": took[len(took) // 2] * 1000,
                  "hand-over, max ms": took[-1] * 1000}  # fmt: skip
    return found


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m bench shards", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--jobs", type=int, default=200, metavar="N", help="Jobs (default: %(default)s; goal: 2000)")
    made.add_argument("--pods", type=int, default=10, metavar="N", help="pods of each Job (default: %(default)s)")
    made.add_argument("--replicas", type=int, default=4, metavar="N", help="replicas (default: %(default)s)")
    made.add_argument("--shards", type=int, default=8, metavar="N", help="shards (default: %(default)s)")
    made.add_argument("--rate", type=float, default=0.0, metavar="N", help="Jobs per second (default: all at once)")
    made.add_argument("--small", action="store_true", help="a small load and two replicas: does it run at all?")
    return made


def main(arguments: Sequence[str]) -> None:
    """Measure what was asked for, and print it."""
    options = parser().parse_args(arguments)
    size = (
        Size(6, 3, 2, 4)
        if options.small
        else Size(options.jobs, options.pods, options.replicas, options.shards, options.rate)
    )
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            for namespaces in (("default",), tuple(f"ns-{number:02}" for number in range(100))):
                print(
                    f"shards ({size.replicas} replicas, {size.shards} shards, {size.jobs:,} Jobs of {size.pods:,} pods "
                    f"in {len(namespaces)} namespace{'s' if len(namespaces) > 1 else ''})",
                    flush=True,
                )
                found = runner.run(measure(size, namespaces, moves=len(namespaces) == 1))
                # The shares of fewer Jobs are too uneven.
                show(found, BUDGETS if size.jobs >= BUDGET_JOBS else {})
    except* (RuntimeError, TimeoutError) as errors:
        sys.exit("\n".join(f"bench: {str(error) or 'the replicas do not settle'}" for error in leaves(errors)))
