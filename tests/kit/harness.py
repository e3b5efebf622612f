"""The Job controller on an embedded cluster, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import yaml

from kcr.api.batch import Job
from kcr.api.conditions import is_true
from kcr.api.core import Event, Pod
from kcr.api.meta import Key
from kcr.client import Client, Request, Response, Transport
from kcr.clock import Clock
from kcr.cluster import EmbeddedCluster
from kcr.controllers.job.controller import Options, setup
from kcr.controllers.job.pods import is_active, is_tracked
from kcr.informer import Handler, Informer
from kcr.manager import Manager
from kcr.testing import eventually

EXAMPLES = "examples"


@asynccontextmanager
async def job_controller(
    cluster: EmbeddedCluster,
    clock: Clock,
    *,
    transport: Transport | None = None,
    seed: int | Random = 1,
    **options: Any,
) -> AsyncIterator[Manager]:
    """Run the Job controller for as long as the context lives; it ends as a process does that is told to.

    It reconciles all Jobs, as on an embedded cluster, unless `take_over` is false.
    """
    random = seed if isinstance(seed, Random) else Random(seed)
    manager = Manager(Client(transport or cluster.transport), clock=clock, random=random)
    setup(manager, Options(**{"take_over": True, **options}))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        try:
            await manager.wait_ready()
            yield manager
        finally:
            running.cancel()


def manifest(name: str = "pi", *, containers: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job whose pods never restart; fields of its spec by their names on the wire."""
    policy = spec.pop("restartPolicy", "Never")
    annotations = spec.pop("annotations", {})
    pod = {"restartPolicy": policy, "containers": containers or [{"name": "c", "image": "busybox"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "template": {"metadata": {"annotations": annotations}, "spec": pod}},
    }


def example(name: str) -> dict[str, Any]:
    """The Job in one of the manifests in examples/."""
    with open(f"{EXAMPLES}/{name}.yaml") as file:
        loaded: dict[str, Any] = yaml.safe_load(file)
    return loaded


async def create(client: Client, job: Mapping[str, Any]) -> Job:
    return await client.create_manifest(Job, job, "default")


async def read(client: Client, name: str = "pi") -> Job:
    return await client.get(Job, Key("default", name))


async def pods_of(client: Client, name: str = "pi") -> tuple[Pod, ...]:
    return await client.list(Pod, "default", labels=f"batch.kubernetes.io/job-name={name}")


async def events_of(client: Client, name: str = "pi") -> list[tuple[str, str]]:
    events = await client.list(Event, "default", fields=f"involvedObject.kind=Job,involvedObject.name={name}")
    return [(event.reason, event.message) for event in events]


def conditions(job: Job) -> list[tuple[str, str]]:
    """The conditions that hold, with their reasons."""
    return [(found.type, found.reason) for found in job.status.conditions if found.status == "True"]


def has_ended(job: Job) -> bool:
    return is_true(job.status.conditions, "Complete") or is_true(job.status.conditions, "Failed")


async def ended(client: Client, name: str = "pi") -> Job | None:
    """The Job once it has ended; for `eventually`."""
    job = await read(client, name)
    return job if has_ended(job) else None


def counters(job: Job) -> tuple[int, int | None, int | None, int, int]:
    """Active, ready, terminating, succeeded, failed."""
    status = job.status
    return status.active, status.ready, status.terminating, status.succeeded, status.failed


async def finished(client: Client, name: str = "pi", *, seconds: float = 600) -> Job:
    """Wait until a Job has ended, and return it."""
    job = await eventually(lambda: ended(client, name), seconds=seconds)
    assert job is not None
    return job


class Witness(Handler[Pod]):
    """Sees every pod there ever was, through a watch of its own."""

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}
        self.active: set[str] = set()
        self.most_active = 0

    def on_add(self, obj: Pod, initial: bool) -> None:
        self._see(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        self._see(new)

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        self.active.discard(obj.metadata.uid)

    def _see(self, pod: Pod) -> None:
        self.phases[pod.metadata.uid] = pod.status.phase
        (self.active.add if is_active(pod) else self.active.discard)(pod.metadata.uid)
        self.most_active = max(self.most_active, len(self.active))


@asynccontextmanager
async def witness(cluster: EmbeddedCluster) -> AsyncIterator[Witness]:
    """Watch all pods for as long as the context lives."""
    informer = Informer(cluster.client, Pod, random=Random(9))
    seen = Witness()
    informer.add_handler(seen)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.wait_synced()
        yield seen
        running.cancel()


class LateWatches:
    """A transport whose watches lag behind, each line for a time of its own; their order stays."""

    def __init__(self, inner: Transport, random: Random, seconds: Mapping[str, float]) -> None:
        """Delay the lines of the watches whose path ends in a key of `seconds`, by up to that long."""
        self._inner = inner
        self._random = random
        self._seconds = seconds

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        path, _, query = request.target.partition("?")
        most = self._seconds.get(path.rpartition("/")[2], 0.0) if "watch=" in query else 0.0
        async with self._inner.send(request) as response:
            yield _Late(response, self._random, most) if most else response


class _Late:
    def __init__(self, inner: Response, random: Random, most: float) -> None:
        self._inner = inner
        self._random = random
        self._most = most
        self.status = inner.status
        self.headers = inner.headers

    async def read(self) -> bytes:
        return await self._inner.read()

    async def lines(self) -> AsyncIterator[bytes]:
        # Lines are taken as they come and held back, so that one delay does not add to the next.
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes | None]]()

        async def take() -> None:
            async for line in self._inner.lines():
                waiting.put_nowait((loop.time() + self._random.random() * self._most, line))
            waiting.put_nowait((loop.time(), None))

        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            while True:
                due, line = await waiting.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if line is None:
                    return
                yield line


def nothing_left_behind(pods: tuple[Pod, ...]) -> bool:
    """Whether no pod is held by the tracking finalizer."""
    return not any(map(is_tracked, pods))
