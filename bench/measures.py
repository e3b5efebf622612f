"""The measurements. Each returns its figures by name and is run in a process of its own."""

import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import chain
from random import Random
from typing import Any

import psutil

import kcr
from bench.pods import end_of_initial_events, events, objects
from bench.wire import Canned
from kcr.api import codec
from kcr.api.core import Pod
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.informer import Handler, Informer
from kcr.workqueue import WorkQueue

Figures = dict[str, float]


UNTYPED = kcr.unstructured("v1", "Pod", plural="pods")


class Counting(Handler[Any]):
    """Puts the owner's key into a queue, as controllers do, and says when it has seen enough."""

    def __init__(self, wanted: int) -> None:
        self.queue: WorkQueue[Key] = WorkQueue()
        self.enough = asyncio.Event()
        self._left = wanted

    def on_add(self, obj: Resource, initial: bool) -> None:
        self._count(obj)

    def on_update(self, old: Resource, new: Resource) -> None:
        self._count(new)

    def _count(self, pod: Resource) -> None:
        self.queue.add(Key(pod.metadata.namespace, pod.metadata.owner_references[0].name))
        self._left -= 1
        if not self._left:
            self.enough.set()


async def _load(
    transport: Canned, wanted: int, beside: Callable[[], Any] | None = None, *, kind: type[Any] = Pod
) -> tuple[float, Informer[Any]]:
    """Run an informer until its handler has seen enough; return the CPU seconds that took."""
    informer = Informer(Client(transport), kind, random=Random(0))
    handler = Counting(wanted)
    informer.add_handler(handler)
    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run())]
        if beside is not None:
            tasks.append(group.create_task(beside()))
        await handler.enough.wait()
        used = time.process_time() - began
        for task in tasks:
            task.cancel()
    return used, informer


def throughput(size: int) -> Figures:
    """Watch events per CPU second: decoded, stored, indexed, handed on; beside json and kubernetes-asyncio."""
    bodies = objects(size)
    updates = [body.replace(b'"resourceVersion":"', b'"resourceVersion":"9') for body in bodies]
    adds = [*events("ADDED", bodies), end_of_initial_events(size)]
    changes = list(events("MODIFIED", updates))
    used_adds, _ = asyncio.run(_load(Canned([], adds), size))
    used_both, _ = asyncio.run(_load(Canned([], [*adds, *changes]), 2 * size))
    began = time.process_time()
    store: dict[str, Any] = {}
    for line in changes:
        event = json.loads(line)
        store[event["object"]["metadata"]["name"]] = event["object"]
    plain = time.process_time() - began
    return {
        "kcr, changes": size / max(used_both - used_adds, 1e-9),
        "kcr, initial state": size / used_adds,
        "json.loads into a dict": size / plain,
        "kubernetes-asyncio models": _models_per_second(changes[:500]),
    }


def _models_per_second(lines: list[bytes]) -> float:
    bodies = [json.dumps(json.loads(line)["object"]).encode() for line in lines]
    began = time.process_time()
    as_models(bodies)
    return len(lines) / (time.process_time() - began)


def cached(size: int) -> Figures:
    """Resident bytes per cached pod: growth of a process of its own."""
    sizes = {
        "kcr, typed": size,
        "kcr, unstructured": size,
        "plain dict (json)": min(size, 5000),
        "kubernetes-asyncio models": min(size, 2000),
    }
    # A new process each, so that no measure reuses the memory of another.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        return {name: pool.submit(_grown, name, count).result() for name, count in sizes.items()}


def _grown(name: str, size: int) -> float:
    keep = KEEPERS[name]
    keep(objects(50))
    bodies = objects(size)
    gc.collect()
    before = psutil.Process().memory_info().rss
    kept = keep(bodies)
    gc.collect()
    grown: int = psutil.Process().memory_info().rss - before
    assert kept is not None
    return grown / size


def as_store(bodies: list[bytes]) -> Any:
    """Load pods into an informer's store."""
    lines = chain(events("ADDED", bodies), [end_of_initial_events(len(bodies))])
    return asyncio.run(_load(Canned([], lines), len(bodies)))[1]


def as_unstructured(bodies: list[bytes]) -> Any:
    """Load pods into an informer's store, as a kind without a class."""
    lines = chain(events("ADDED", bodies), [end_of_initial_events(len(bodies))])
    return asyncio.run(_load(Canned([], lines), len(bodies), kind=UNTYPED))[1]


def as_dicts(bodies: list[bytes]) -> Any:
    """Load pods as the standard library does."""
    return [json.loads(body) for body in bodies]


def as_models(bodies: list[bytes]) -> Any:
    """Load pods as kubernetes-asyncio does."""
    from kubernetes_asyncio.client import ApiClient, Configuration, V1Pod  # noqa: PLC0415  # 0.25 s and 39 MB

    # Without its HTTP pool, which wants a loop.
    client: Any = ApiClient.__new__(ApiClient)
    client.configuration = Configuration()
    return [client._ApiClient__deserialize(json.loads(body), V1Pod) for body in bodies]


KEEPERS: dict[str, Callable[[list[bytes]], Any]] = {
    "kcr, typed": as_store,
    "kcr, unstructured": as_unstructured,
    "plain dict (json)": as_dicts,
    "kubernetes-asyncio models": as_models,
}


def queue(size: int) -> Figures:
    """Work queue operations per CPU second: one is an add, a get and a done."""

    async def work(count: int) -> float:
        keys = [Key("default", str(number)) for number in range(1000)]
        hands: WorkQueue[Key] = WorkQueue()
        began = time.process_time()
        for _ in range(count // len(keys)):
            for key in keys:
                hands.add(key)
            for _ in keys:
                hands.done(await hands.get())
        return time.process_time() - began

    async def plain(count: int) -> float:
        hands: asyncio.Queue[int] = asyncio.Queue()
        began = time.process_time()
        for _ in range(count // 1000):
            for number in range(1000):
                hands.put_nowait(number)
            for _ in range(1000):
                await hands.get()
                hands.task_done()
        return time.process_time() - began

    return {"kcr": size / asyncio.run(work(size)), "asyncio.Queue, no dedup": size / asyncio.run(plain(size))}


def stalls(size: int) -> Figures:
    """The longest time in milliseconds that the loop stood still while so many pods were loaded, and after."""
    bodies = objects(size)
    lines = [*events("ADDED", bodies), end_of_initial_events(size)]
    return {
        "WatchList": _longest_stall(Canned([], lines), size),
        "pages of 500": _longest_stall(Canned(bodies, (), streams=False), size),
        "full collection with all cached": _collection(lines, size),
    }


def _longest_stall(transport: Canned, size: int) -> float:
    longest = 0.0

    async def watch_the_loop() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    with suppress(asyncio.CancelledError):
        asyncio.run(_load(transport, size, watch_the_loop))
    return longest * 1000


def _collection(lines: list[bytes], size: int) -> float:
    # What was there before is put aside: it is what the pods cost that counts.
    gc.collect()
    gc.freeze()
    _, informer = asyncio.run(_load(Canned([], lines), size))
    gc.collect()
    began = time.perf_counter()
    gc.collect()
    took = time.perf_counter() - began
    assert informer.store.get(Key("default", "")) is None
    return took * 1000


_DECODERS: tuple[tuple[str, Callable[[bytes], Any]], ...] = (
    ("kcr, typed", lambda body: codec.decode(Pod, body)),
    ("kcr, unstructured", lambda body: codec.decode(UNTYPED, body)),
    ("json.loads", json.loads),
)


def decode(size: int) -> Figures:
    """Microseconds to decode one pod."""
    bodies = objects(size)
    results = {}
    for name, load in _DECODERS:
        began = time.process_time()
        for body in bodies:
            load(body)
        results[name] = (time.process_time() - began) / size * 1e6
    return results
