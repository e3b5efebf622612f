"""`python -m bench indexed`: one Indexed Job, as large as it may be, in one process and in virtual time.

Server, controller and a node whose pods end at once share the process; nothing waits, so what is measured is work.
The cost of a sync is that of its own steps, without the requests that it sends: it should follow the pods that
changed, and not grow with the Job. Memory is what can be reached from the store of pods.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from itertools import pairwise
from random import Random
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import msgspec

from bench.jobs_load import job
from bench.jobs_requests import CountingTransport
from kcr.api.batch import Job
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.app.logs import configure_logs
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Controller, Reconciler, Result
from kcr.controllers.job.controller import Options, setup
from kcr.informer import Handler
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import NodeAgent
from kcr_devcluster.cluster.scheduling import scheduler
from kcr_devcluster.testing.loop import VirtualClock, VirtualLoop

NAME = "large"
BANDS = 10
# Where memory is looked at, as parts of all pods.
LOOKS = (0.1, 0.5, 1.0)
MOST, SMALL = (100_000, 1_000), (200, 20)


class Timed:
    """A reconciler whose own steps are timed; what other tasks do while it waits is theirs.

    Attributes:
        syncs: How many there were.
        seconds: CPU time of all their steps.
    """

    def __init__(self, inner: Reconciler) -> None:
        self.syncs = 0
        self.seconds = 0.0
        self._inner = inner

    async def reconcile(self, key: Key) -> Result:
        """Reconcile, and take the time."""
        self.syncs += 1
        return await _Steps(self._inner.reconcile(key), self)


class _Steps:
    def __init__(self, work: Coroutine[Any, Any, Result], account: Timed) -> None:
        self._work = work
        self._account = account

    def __await__(self) -> Generator[Any, Any, Result]:
        step, value = self._work.send, None
        while True:
            began = time.process_time()
            try:
                awaited = step(value)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self._account.seconds += time.process_time() - began
            try:
                step, value = self._work.send, (yield awaited)
            except BaseException as error:
                step, value = self._work.throw, error


class TimingManager(Manager):
    """A manager that times the Job controller's reconciler."""

    def __init__(self, client: Client, clock: Clock, random: Random) -> None:
        super().__init__(client, clock=clock, random=random)
        self.timed: dict[str, Timed] = {}

    def add_controller(self, name: str, reconciler: Reconciler, **options: Any) -> Controller:
        """Add a controller, and time it."""
        self.timed[name] = Timed(reconciler)
        return super().add_controller(name, self.timed[name], **options)


class Mark(NamedTuple):
    """What was spent up to a moment.

    Attributes:
        pods: How many pods had been counted.
        syncs: How many syncs there had been.
        sync_seconds: CPU time of their steps.
        changes: How many requests about pods the controller had sent.
        seconds: CPU time of the process, without that of looking at memory and of collections at the marks.
    """

    pods: int
    syncs: int
    sync_seconds: float
    changes: int
    seconds: float


class Watcher(Handler[Job]):
    """Follows the Job, and marks each tenth of its way.

    Attributes:
        marks: The marks, the first of them at the start.
        bytes_per_pod: What the store held at each look, by the number of pods in it.
        ended: Done when the Job has ended.
    """

    def __init__(self, manager: TimingManager, transport: CountingTransport, completions: int) -> None:
        self.marks: list[Mark] = []
        self.bytes_per_pod: dict[int, float] = {}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._manager = manager
        self._transport = transport
        self._completions = completions
        self._looking_seconds = 0.0

    def on_add(self, obj: Job, initial: bool) -> None:
        """Mark the start."""
        self._mark(0)

    def on_update(self, old: Job, new: Job) -> None:
        """Mark a tenth, look at memory, or hear of the end."""
        done = new.status.succeeded
        if done >= self._completions * len(self.marks) / BANDS:
            self._mark(done)
        self._look()
        over = any(
            (condition := find_condition(new.status.conditions, kind)) is not None and condition.status == "True"
            for kind in ("Complete", "Failed")
        )
        if over and not self.ended.done():
            self.ended.set_result(None)

    def _mark(self, pods: int) -> None:
        # Full collections would look at all the server holds as well, which is no part of a controller.
        began = time.process_time()
        gc.collect()
        gc.freeze()
        self._looking_seconds += time.process_time() - began
        timed = self._manager.timed["job"]
        changes = sum(
            n for (verb, resource), n in self._transport.sent.items() if resource == "pods" and verb != "LIST"
        )
        seconds = time.process_time() - self._looking_seconds
        self.marks.append(Mark(pods, timed.syncs, timed.seconds, changes, seconds))

    def _look(self) -> None:
        store = self._manager.store(Pod)
        if len(self.bytes_per_pod) < len(LOOKS) and len(store) >= self._completions * LOOKS[len(self.bytes_per_pod)]:
            began = time.process_time()
            self.bytes_per_pod[len(store)] = reachable(store) / len(store)
            self._looking_seconds += time.process_time() - began


def reachable(root: object) -> int:
    """Return the bytes of all values that can be reached from one, each counted once; code counts nothing."""
    seen: set[int] = set()
    left, total = [root], 0
    while left:
        value = left.pop()
        if id(value) not in seen and not isinstance(value, _CODE):
            seen.add(id(value))
            total += sys.getsizeof(value)
            left.extend(_parts(value))
    return total


_CODE = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)
_LEAVES = (str, bytes, int, float, type(None))


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, _LEAVES):
        return ()
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, tuple | list | set | frozenset | deque):
        return value
    slots = [getattr(value, name, None) for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", {}).values()]


async def measure(completions: int, parallelism: int, *, indexed: bool) -> tuple[Watcher, dict[str, Any]]:
    """Run the Job to its end; return what was seen, and the Job's status."""
    clock, random = VirtualClock(), Random(0)
    async with (
        EmbeddedCluster(clock=clock, random=random, runtime=None, gc=False) as cluster,
        asyncio.TaskGroup() as group,
    ):
        scheduler.setup(cluster.manager)
        transport = CountingTransport(cluster.transport)
        manager = TimingManager(Client(transport), clock, random)
        setup(manager, Options(take_over=True))
        watcher = Watcher(manager, transport, completions)
        manager.informer(Job).add_handler(watcher)
        node = NodeAgent(cluster.client, clock=clock, random=random, fast=True)
        tasks = [group.create_task(node.run()), group.create_task(manager.run())]
        await manager.wait_ready()
        manifest = job(NAME, parallelism, label=NAME, indexed=indexed)
        manifest["spec"]["completions"] = completions
        await cluster.client.create_manifest(Job, manifest, "default")
        await watcher.ended
        answer = json.loads(await cluster.client.request("GET", Job.resource.path("default", NAME)))
        for task in tasks:
            task.cancel()
    return watcher, answer["status"]


def show(watcher: Watcher, status: Mapping[str, Any], completions: int) -> bool:
    """Print what was seen; return whether the Job has ended as it should."""
    print("       pods   syncs  ms per sync  changes per sync  µs per change  process, ms per pod")
    for before, mark in pairwise(watcher.marks):
        syncs, changes = max(1, mark.syncs - before.syncs), max(1, mark.changes - before.changes)
        seconds, all_seconds = mark.sync_seconds - before.sync_seconds, mark.seconds - before.seconds
        print(
            f"  {mark.pods:>9,} {syncs:>7,} {seconds / syncs * 1e3:>12.2f} {changes / syncs:>17.1f}"
            f" {seconds / changes * 1e6:>14.1f} {all_seconds / (mark.pods - before.pods) * 1e3:>20.2f}"
        )
    for pods, size in watcher.bytes_per_pod.items():
        print(f"  bytes per cached pod, {pods:>7,} of them {size:>8,.0f}")
    conditions = [one["type"] for one in status.get("conditions", ()) if one["status"] == "True"]
    indexes, succeeded = status.get("completedIndexes"), status.get("succeeded", 0)
    print(f"  {', '.join(conditions)}; succeeded {succeeded:,}; completedIndexes {indexes}")
    return "Complete" in conditions and succeeded == completions and indexes == f"0-{completions - 1}"


def main(arguments: Sequence[str]) -> None:
    """Measure, and print it; exit code 1 when the Job does not end as it should."""
    parser = argparse.ArgumentParser(
        prog="python -m bench indexed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--completions", type=int, metavar="N", help=f"default {MOST[0]:,}")
    parser.add_argument("--parallelism", type=int, metavar="N", help=f"default {MOST[1]:,}")
    parser.add_argument("--plain", action="store_true", help="a NonIndexed Job instead, for comparison")
    parser.add_argument("--small", action="store_true", help="a small Job: does it run at all?")
    options = parser.parse_args(arguments)
    configure_logs(None, "warning")
    usual = SMALL if options.small else MOST
    completions, parallelism = options.completions or usual[0], options.parallelism or usual[1]
    mode = "NonIndexed" if options.plain else "Indexed"
    print(f"indexed ({mode}, {completions:,} completions, parallelism {parallelism:,})", flush=True)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        watcher, status = runner.run(measure(completions, parallelism, indexed=not options.plain))
    if not show(watcher, status, completions) and not options.plain:
        sys.exit(1)
