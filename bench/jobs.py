"""`python -m bench jobs`: a Job controller, any, on an API server, any: how fast, at what cost, with which requests.

The controller is a process of its own; its command line is given by `--command`. The server is an embedded one over
HTTPS in another process, or the one that `--kubeconfig` names, which must let `/metrics` be read. Pods end as soon as
the bench hears of them. Without options: kcr's controller on the embedded server, in all shapes, beside its budgets.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Self

import psutil

from bench.jobs_controller import KUBECONFIG, READY_FILE, Controller, Usage, kcr_run, usage
from bench.jobs_load import LABEL, Load, in_parallel
from bench.jobs_requests import CountingTransport, read_page
from bench.jobs_server import embedded_server
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.app.process import fast_loop
from kcr.client import Client, HttpTransport, load_config
from kcr.client.wire.transport import target
from kcr.errors import leaves

# The controller may take so long for its first Job, and for all of a shape.
FIRST_SECONDS = 60.0
SHAPE_SECONDS = 1800.0
# All has been written when nothing was asked for so long.
QUIET_SECONDS = 2.0
# What the life of a Job is made of. A server counts watches when they end, so they tell nothing.
RESOURCES = ("pods", "jobs", "events", "cronjobs")


class Shape(NamedTuple):
    """So many Jobs of so many pods; one after the other, or all at once."""

    jobs: int
    pods: int
    one_by_one: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `100x10`, or `100x1s` for Jobs one after the other."""
        jobs, _, pods = text.removesuffix("s").partition("x")
        return cls(int(jobs), int(pods), text.endswith("s"))

    def __str__(self) -> str:
        return f"{self.jobs:,} Jobs of {self.pods:,} pods, {'one after the other' if self.one_by_one else 'at once'}"


SHAPES = (Shape(100, 1, True), Shape(100, 10), Shape(500, 1))
SMALL = (Shape(3, 1, True), Shape(3, 3))

# Bare requests to measure by, and how many at a time.
YARDSTICK, HANDS = 1000, 20
BARE = "bare request, ms of CPU"
P50, PER_POD, CPU = "create to Complete, p50 ms", "requests per pod", "controller CPU, ms per pod"
BUDGETS: Mapping[tuple[Shape, str], float] = {
    (SHAPES[0], P50): 60,
    (SHAPES[1], PER_POD): 3.2,
    (SHAPES[1], CPU): 1.5,
}


class Server(NamedTuple):
    """The server under load; `process` is None when the benchmark did not start it."""

    kubeconfig: Path
    transport: CountingTransport
    client: Client
    process: psutil.Process | None

    async def asked(self) -> Counter[tuple[str, str]]:
        """Return what others than the bench have asked so far about Jobs, pods and events."""
        counts = read_page((await self.client.request("GET", "/metrics")).decode())
        counts.subtract(self.transport.sent)
        return Counter({
            about: count
            for about, count in counts.items()
            if about[0] != "WATCH" and about[1].partition("/")[0] in RESOURCES and count > 0
        })  # fmt: skip

    async def quiet(self) -> Counter[tuple[str, str]]:
        """Return the same once it changes no more."""
        counts = await self.asked()
        while True:
            await asyncio.sleep(QUIET_SECONDS)
            before, counts = counts, await self.asked()
            if counts == before:
                return counts


class Snapshot(NamedTuple):
    """The state of things at one moment."""

    controller: Usage
    server: Usage
    asked: Counter[tuple[str, str]]

    @classmethod
    async def take(cls, server: Server, controller: Controller) -> Self:
        """Take one when all is quiet."""
        asked = await server.quiet()
        controller.check()
        own = usage(server.process) if server.process is not None else Usage(0, 0, 0)
        return cls(controller.usage, own, asked)


@asynccontextmanager
async def the_server(options: argparse.Namespace, folder: Path) -> AsyncIterator[Server]:
    """Give the server of a shape: a new one, or the one that was named."""
    if options.kubeconfig:
        async with connected(Path(options.kubeconfig), None) as server:
            yield server
        return
    async with embedded_server(folder) as (kubeconfig, process), connected(kubeconfig, process) as server:
        yield server


@asynccontextmanager
async def connected(kubeconfig: Path, process: psutil.Process | None) -> AsyncIterator[Server]:
    """Give a server that runs already; `process` is None when the benchmark did not start it."""
    async with HttpTransport(load_config(str(kubeconfig))) as wire:
        transport = CountingTransport(wire)
        yield Server(kubeconfig, transport, Client(transport), process)


@asynccontextmanager
async def played(server: Server, namespace: str) -> AsyncIterator[tuple[Load, str]]:
    """Play the node for Jobs of one label; they are deleted in the end."""
    label = f"b{token_hex(4)}"
    load = Load(server.client, namespace, label)
    async with asyncio.TaskGroup() as group:
        playing = group.create_task(load.run())
        yield load, label
        playing.cancel()
    if server.process is None:
        for kind in (Job, Pod):
            query = {"labelSelector": f"{LABEL}={label}"}
            await server.client.request("DELETE", target(kind.resource.path(namespace), query))


async def measure(options: argparse.Namespace, shape: Shape) -> dict[str, float]:
    """Run one shape with a controller that has seen one Job before, and return the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with the_server(options, folder) as server:
            controller = Controller(options.command, server.kubeconfig, folder)
            async with played(server, options.namespace) as (load, label), controller:
                await first(load, label, controller, options)
                before = await Snapshot.take(server, controller)
                await run(load, label, shape, controller, options)
                after = await Snapshot.take(server, controller)
                bare = await yardstick(server.client)
            found = figures(shape, load, before, after)
            return found | {BARE: bare, "controller CPU per pod to that": found[CPU] / bare} | life_of(controller)


async def yardstick(client: Client) -> float:
    """Return the CPU milliseconds of a bare request of this process, now: it grows with what else the machine does."""
    began = time.process_time()
    await in_parallel(map(str, range(YARDSTICK)), HANDS, lambda _: client.server_version())
    return (time.process_time() - began) / YARDSTICK * 1000


async def first(load: Load, label: str, controller: Controller, options: argparse.Namespace) -> None:
    """Have one Job of one pod done: then the controller works, whoever it is."""
    await run(load, f"{label}-{token_hex(2)}-first", Shape(1, 1), controller, options, FIRST_SECONDS)


async def run(
    load: Load,
    label: str,
    shape: Shape,
    controller: Controller,
    options: argparse.Namespace,
    seconds: float = SHAPE_SECONDS,
) -> None:
    """Run the Jobs of a shape to their ends."""
    names = [f"{label}-{number}" for number in range(shape.jobs)]
    load.ends.at.clear()
    try:
        async with asyncio.timeout(seconds):
            await load.make(names, shape.pods, indexed=options.indexed, one_by_one=shape.one_by_one)
    except TimeoutError:
        left = shape.jobs - len(load.ends.at)
        words = f"{left} of {shape.jobs} Jobs are not complete after {seconds:g} s: {controller.last_words}"
        raise RuntimeError(words) from None


def figures(shape: Shape, load: Load, before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Return what a shape has shown."""
    pods = shape.jobs * shape.pods
    ends = load.ends.at
    took = max(ends.values()) - min(load.began_at[name] for name in ends)
    lives = sorted((end - load.began_at[name]) * 1000 for name, end in ends.items())
    asked = after.asked - before.asked
    wrong = sum(load.ends.succeeded[name] != shape.pods for name in ends)
    found = {
        "pods per second": pods / took,
        "Jobs per second": shape.jobs / took,
        P50: lives[len(lives) // 2],
        "create to Complete, p99 ms": lives[int(len(lives) * 0.99)],
        CPU: (after.controller.cpu_seconds - before.controller.cpu_seconds) / pods * 1000,
        "server CPU, ms per pod": (after.server.cpu_seconds - before.server.cpu_seconds) / pods * 1000,
        "controller, MB before": before.controller.resident / 1e6,
        "controller, MB at most": after.controller.peak / 1e6,
        PER_POD: asked.total() / pods,
    }
    found |= {f"  {verb} {resource}": count / pods for (verb, resource), count in sorted(asked.items())}
    return found | {"pods too many": asked["POST", "pods"] - pods, "Jobs that count wrong": wrong}


def life_of(controller: Controller) -> dict[str, float]:
    """Return how a controller began and ended."""
    ready = {} if controller.ready_seconds is None else {"ready after, s": controller.ready_seconds}
    return ready | {"ended after SIGTERM, s": controller.end_seconds}


def show(found: Mapping[str, float], budgets: Mapping[str, float]) -> None:
    """Print figures, each beside its budget if it has one."""
    for what, figure in found.items():
        limit = budgets.get(what)
        verdict = "" if limit is None else f"   budget {limit:g}{'' if figure <= limit else ': OVER'}"
        print(f"  {what:<34} {figure:>14,.2f}{verdict}", flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m bench jobs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--command", default=kcr_run("job"), metavar="COMMAND",
        help=f"the controller; {KUBECONFIG} stands for the server's, {READY_FILE}, if there, for a file that it makes "
        "once it is ready. Default: %(default)s",
    )  # fmt: skip
    made.add_argument("--kubeconfig", metavar="FILE", help="an API server; an embedded one by default")
    made.add_argument("--namespace", default="default", help="where the Jobs are; it must exist (default: %(default)s)")
    made.add_argument(
        "--shape", action="append", type=Shape.parse, metavar="JOBSxPODS[s]",
        help="so many Jobs of so many pods, at once or (s) one after the other; may be repeated "
        "(default: 100x1s, 100x10, 500x1)",
    )  # fmt: skip
    made.add_argument("--indexed", action="store_true", help="Indexed Jobs")
    made.add_argument("--small", action="store_true", help="small shapes: does it run at all?")
    return made


def main(arguments: Sequence[str]) -> None:
    """Measure what was asked for, and print it."""
    options = parser().parse_args(arguments)
    try:
        _measure_all(options)
    except* RuntimeError as errors:
        sys.exit("\n".join(f"bench: {error}" for error in leaves(errors)))


def _measure_all(options: argparse.Namespace) -> None:
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        for shape in options.shape or (SMALL if options.small else SHAPES):
            print(f"jobs ({shape}{', Indexed' if options.indexed else ''})", flush=True)
            found = runner.run(measure(options, shape))
            show(found, {what: limit for (one, what), limit in BUDGETS.items() if one == shape})
