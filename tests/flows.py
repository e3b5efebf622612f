"""A scenario of the Job controller as a flow: lived through undisturbed, with a crash after each of the
controller's writes, and with the reply to each of them lost.

```python
@flow()
async def test_job_completes(world: World) -> None:
    await world.create(parallelism=2, completions=2)
    await world.until("A2")
    ...
```

The cluster has no node: as in upstream's integration tests the flow itself reports how the pods fare. A flow
asserts what must hold whatever happens to the controller; order and times are asked for when `world.undisturbed`.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest

from controllers.job.conditions import COMPLETE, FAILED, INTERIM, is_finished
from controllers.job.pods import TRACKING_FINALIZER, has_ended, is_active, is_tracked
from kcr.api.batch import Job
from kcr.api.conditions import find, is_true
from kcr.api.core import Event, Pod
from kcr.api.meta import Key, Resource, controller_of, whole_seconds
from kcr.client import Client, Request, Response, Transport
from kcr.embedded import EmbeddedCluster
from kcr.informer import Handler, Informer
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock, VirtualLoop
from tests.harness import LateWatches, job_controller, manifest

# What holds pods whose Job was created with `held`.
HOLD = "example.com/hold"
INDEX = "batch.kubernetes.io/job-completion-index"
PATIENCE_SECONDS = 1200.0

R = TypeVar("R", bound=Resource)


class Trouble(NamedTuple):
    """What happens to the controller: the number of a write, from 1; 0 for nothing."""

    crash_after: int = 0
    lost_reply: int = 0


class Setting(NamedTuple):
    """What a flow runs in.

    Attributes:
        options: The controller's options.
        late: How many seconds its watches lag, by plural.
        collects: Whether dependents of deleted objects are collected; a flow without is faster.
    """

    options: Mapping[str, Any]
    late: Mapping[str, float]
    collects: bool


Flow = Callable[..., Awaitable[None]]
NO_TROUBLE = Trouble()


class Seen(Handler[R]):
    """Every object there ever was of one kind, in its last state, by uid and in the order in which they came."""

    def __init__(self) -> None:
        self.all: dict[str, R] = {}
        self.gone: set[str] = set()

    def on_add(self, obj: R, initial: bool) -> None:
        self.all[obj.metadata.uid] = obj

    def on_update(self, old: R, new: R) -> None:
        self.all[new.metadata.uid] = new

    def on_delete(self, obj: R) -> None:
        self.gone.add(obj.metadata.uid)

    @property
    def there(self) -> list[R]:
        return [obj for uid, obj in self.all.items() if uid not in self.gone]


class SeenPods(Seen[Pod]):
    """Notes as well how many were active at once, at most."""

    def __init__(self) -> None:
        super().__init__()
        self.most_active = 0

    def on_add(self, obj: Pod, initial: bool) -> None:
        super().on_add(obj, initial)
        self.most_active = max(self.most_active, sum(map(is_active, self.there)))


class SeenJobs(Seen[Job]):
    """Notes as well all that a Job has been, and what must not become of it."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Job] = []
        self.wrongs: list[str] = []

    def on_update(self, old: Job, new: Job) -> None:
        super().on_update(old, new)
        self.history.append(new)
        for kind in (COMPLETE, FAILED, *INTERIM.values()):
            if is_true(old.status.conditions, kind) and not is_true(new.status.conditions, kind):
                self.wrongs.append(f"{kind} was taken back")
        if is_finished(old) and old.status != new.status:
            self.wrongs.append("the status changed after the end")
        if new.status.failed < old.status.failed:
            self.wrongs.append(f"failures fell from {old.status.failed} to {new.status.failed}")


class Door:
    """The way to the server; notes what the server finds invalid."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.invalid: list[str] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self._inner.send(request) as response:
            if response.status == 422:
                self.invalid.append((await response.read()).decode())
            yield response


class World:
    """A cluster without a node, a Job controller, and all that a flow may do to its Jobs and pods.

    Attributes:
        clock: The time.
        client: An admin's client, which nothing ever happens to.
        faults: What goes wrong between the controller and the server.
        jobs: All Jobs there ever were.
        pods: All pods there ever were.
        began: When the flow began.
        undisturbed: Whether the controller lives through the flow without trouble.
    """

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, trouble: Trouble, setting: Setting) -> None:
        self.clock = clock
        self.client: Client = cluster.client
        self.jobs, self.pods = SeenJobs(), SeenPods()
        self.began = clock.now()
        self.undisturbed = trouble == NO_TROUBLE
        self._cluster = cluster
        self._trouble = trouble
        self._setting = setting
        self.door = Door(cluster.transport)
        self.faults = FaultyTransport(LateWatches(self.door, Random(3), setting.late))
        # The wires of all controllers there were; the last one's may live.
        self._wires = [CrashingTransport(self.faults)]
        self._wanted, self._up = asyncio.Event(), asyncio.Event()

    # The controller.

    @property
    def writes(self) -> int:
        """How many writes the controller has sent, in all its lives."""
        return sum(wire.writes for wire in self._wires)

    async def run(self) -> None:
        """Run the controller until cancelled; after a crash it starts anew at once."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wanted.wait()
                wire = self._next_wire()
                # In a task of its own: what a dead process still does by itself keeps nobody waiting.
                group.create_task(self._live(wire))
                await wire.crashed.wait()
                self._up.clear()

    def _next_wire(self) -> CrashingTransport:
        before, wire = self.writes, CrashingTransport(self.faults)
        self._wires.append(wire)
        if self._trouble.crash_after > before:
            wire.crash_after(self._trouble.crash_after - before)
        if self._trouble.lost_reply > before:
            wire.lose_reply(self._trouble.lost_reply - before)
        return wire

    async def _live(self, wire: CrashingTransport) -> None:
        lives = len(self._wires)
        async with job_controller(self._cluster, self.clock, transport=wire, seed=lives, **self._setting.options):
            self._up.set()
            await wire.crashed.wait()

    async def start(self) -> None:
        """Start the controller."""
        self._wanted.set()
        await self._up.wait()

    async def crash(self) -> None:
        """Let the controller die where it stands; it stays away until `start`."""
        await self._up.wait()
        self._wanted.clear()
        self._wires[-1].crash_after(0)
        await self.clock.settle()

    async def restart(self) -> None:
        """Let the controller die where it stands, and come again."""
        await self.crash()
        await self.start()

    # The user.

    async def create(self, name: str = "pi", *, held: bool = False, **spec: Any) -> Job:
        """Create a Job; its pods are held by a finalizer of somebody else's if so wished."""
        job = manifest(name, **spec)
        if held:
            job["spec"]["template"]["metadata"]["finalizers"] = [HOLD]
        return await self.client.create_manifest(Job, job, "default")

    async def patch(self, name: str = "pi", **spec: Any) -> Job:
        """Change the spec of a Job, fields by their names on the wire."""
        return await self.client.merge_patch(Job, Key("default", name), {"spec": spec})

    async def delete(self, name: str = "pi", propagation: str = "Background") -> None:
        """Delete a Job."""
        await self.client.delete(Job, Key("default", name), propagation=propagation)

    async def delete_pods(self, pods: Iterable[Pod]) -> None:
        """Delete pods; without a node they are gone at once if nothing holds them."""
        for pod in pods:
            await self.client.delete(Pod, pod.key, uid=pod.metadata.uid)

    async def release(self, pods: Iterable[Pod]) -> None:
        """Take the finalizer of `held` off pods."""
        for pod in pods:
            patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [HOLD]}}
            await self.client.strategic_patch(Pod, pod.key, patch)

    # The scheduler and the kubelet.

    async def bind(self, *pods: Pod) -> None:
        """Give pods a node: from now on they go only when the kubelet says so."""
        for pod in pods:
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata.name}, "target": target}
            path = Pod.resource.path(pod.metadata.namespace, pod.metadata.name, "binding")
            await self.client.request("POST", path, msgspec.json.encode(binding))

    async def kill(self, pods: Iterable[Pod]) -> None:
        """Let the kubelet confirm that pods are gone."""
        for pod in pods:
            await self.client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)

    async def ready(self, *pods: Pod) -> None:
        """Report that pods run and are ready."""
        for pod in pods:
            states = [{"name": container.name, "ready": True} for container in pod.spec.containers]
            await self._report(pod, "Running", ("Ready", "True"), [_running(state) for state in states])

    async def succeed(self, *pods: Pod) -> None:
        """Report that pods have ended well."""
        for pod in pods:
            await self.end(pod, "Succeeded", 0)

    async def fail(self, *pods: Pod, exit_code: int = 1, condition: str = "") -> None:
        """Report that pods have failed, all of their containers with this code."""
        for pod in pods:
            await self.end(pod, "Failed", exit_code, condition=condition)

    async def end(self, pod: Pod, phase: str, exit_code: int, *, condition: str = "") -> None:
        """Report that a pod has ended."""
        states = [self.ended(container.name, exit_code) for container in pod.spec.containers]
        conditions = [("Ready", "False"), *([(condition, "True")] if condition else [])]
        await self._report(pod, phase, conditions[-1], states)

    async def restarted(self, pod: Pod, restarts: int) -> None:
        """Report that the containers of a running pod have been restarted so often, in all."""
        states = [{"name": container.name, "restartCount": restarts} for container in pod.spec.containers]
        await self._report(pod, "Running", ("Ready", "False"), [_running(state) for state in states])

    def ended(self, container: str, exit_code: int) -> dict[str, Any]:
        """Return the status of a container that ended just now."""
        end = {"exitCode": exit_code, "finishedAt": _written(self.clock)}
        return {"name": container, "state": {"terminated": end}}

    async def _report(self, pod: Pod, phase: str, condition: tuple[str, str], states: list[dict[str, Any]]) -> None:
        kind, status = condition
        said = {"type": kind, "status": status, "lastTransitionTime": _written(self.clock)}
        filled = [{"image": "busybox", "imageID": "", "ready": False, "restartCount": 0} | state for state in states]
        await self.report(pod, {"phase": phase, "conditions": [said], "containerStatuses": filled})

    async def report(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Change the status of a pod, fields by their names on the wire."""
        await self.client.strategic_patch(Pod, pod.key, {"status": status}, subresource="status")

    # What can be seen.

    def job(self, name: str = "pi") -> Job:
        """Return the Job of this name, or the last one there was."""
        return next(job for job in reversed(self.jobs.all.values()) if job.metadata.name == name)

    def pods_of(self, job: Job | None = None) -> list[Pod]:
        """Return the pods of a Job that are there, in the order in which they came."""
        uid = (job or self.job()).metadata.uid
        return [pod for pod in self.pods.there if (owner := controller_of(pod.metadata)) and owner.uid == uid]

    def active(self, index: int | None = None) -> list[Pod]:
        """Return the Job's active pods, those of one index if it is given, in the order in which they came."""
        return [pod for pod in self.pods_of() if is_active(pod) and index in (None, index_of(pod))]

    def numbers(self) -> dict[str, int]:
        """Return how many pods the Job has: there, ended, held by our finalizer; and how many were ever made."""
        there = self.pods_of()
        return {
            "there": len(there),
            "ended": sum(map(has_ended, there)),
            "tracked": sum(map(is_tracked, there)),
            "made": len(self.pods.all),
        }

    async def events(self) -> list[tuple[str, str]]:
        """Return the events about Jobs, reason and message, in the order in which they came."""
        found = await self.client.list(Event, "default", fields="involvedObject.kind=Job")
        found = tuple(sorted(found, key=lambda event: event.first_timestamp or self.clock.now()))
        return [(event.reason, event.message) for event in found]

    # Waiting.

    async def until(self, counts: str | None = None, *, seconds: float = PATIENCE_SECONDS, **wanted: Any) -> Job:
        """Wait until the Job's counters are these, in the words of job-controller §0: `A2 F1`, all others 0.

        Other fields of the status are named, and so are `there`, `made`…: see `numbers`.
        """

        def holds() -> bool:
            if counts is not None and counts_of(self.job()) != _wanted(counts):
                return False
            numbers, status = self.numbers(), self.job().status
            return all(
                (numbers[name] if name in numbers else getattr(status, name)) == value for name, value in wanted.items()
            )

        await self.wait(holds, f"{counts} {wanted}", seconds=seconds)
        return self.job()

    async def wait(self, check: Callable[[], bool], wish: str = "", *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something holds."""
        try:
            await self.clock.run_until(check, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"not in {seconds} s: {wish}; the last status: {self.describe()}") from None

    async def ends(self, kind: str, reason: str, message: str = "", *, seconds: float = PATIENCE_SECONDS) -> Job:
        """Wait until the Job has ended; see how, and that the interim condition says the same."""
        await self.wait(lambda: is_finished(self.job()), kind, seconds=seconds)
        job = self.job()
        kinds = (COMPLETE, FAILED, *INTERIM.values())
        last = [c for c in job.status.conditions if c.status == "True" and c.type in kinds]
        assert [(c.type, c.reason) for c in last] == [(INTERIM[kind], reason), (kind, reason)], self.describe()
        assert {condition.message for condition in last if message} <= {message}
        await self.clock.advance(5)
        return self.job()

    async def interim(self, kind: str, reason: str) -> Job:
        """Wait until an interim condition holds; the terminal one must not hold yet."""
        await self.wait(lambda: is_true(self.job().status.conditions, kind), kind)
        found = find(self.job().status.conditions, kind)
        assert found is not None
        assert found.reason == reason
        assert not is_finished(self.job())
        return self.job()

    async def stays(self, counts: str, *, seconds: float = 60) -> None:
        """Let time pass, and see that the Job is as said at the end, and has not ended."""
        await self.clock.advance(seconds)
        assert counts_of(self.job()) == _wanted(counts), self.describe()
        assert not is_finished(self.job())

    def describe(self) -> str:
        """Return the Job's status and its pods in few words."""
        if not self.jobs.all:
            return "no Job"
        status = self.job().status
        held = [f"{c.type}={c.status} ({c.reason})" for c in status.conditions]
        pods = [f"{pod.metadata.name} {pod.status.phase} {pod.metadata.finalizers}" for pod in self.pods_of()]
        return f"{sorted(counts_of(self.job()))} {held} {pods} {len(self.pods.all)} pods were made"

    def check(self) -> None:
        """See that nothing happened that never may, and that no pod is held for a Job that is over."""
        assert not self.jobs.wrongs
        assert not self.door.invalid
        over = {uid for uid, job in self.jobs.all.items() if is_finished(job) or uid in self.jobs.gone}
        for pod in self.pods.there:
            owner = controller_of(pod.metadata)
            if owner is not None and owner.uid in over and owner.api_version == "batch/v1":
                managed = self.jobs.all[owner.uid].spec.managed_by
                assert managed is not None or TRACKING_FINALIZER not in pod.metadata.finalizers, self.describe()


def counts_of(job: Job) -> set[str]:
    """Return the counters that are not 0, in the words of job-controller §0."""
    status = job.status
    numbers = {"A": status.active, "R": status.ready, "T": status.terminating, "S": status.succeeded}
    return {f"{letter}{number}" for letter, number in (numbers | {"F": status.failed}).items() if number}


def _wanted(counts: str) -> set[str]:
    return {count for count in counts.split() if count[1:] != "0"}


def index_of(pod: Pod) -> int | None:
    """Return a pod's completion index, or None when it has none."""
    text = pod.metadata.annotations.get(INDEX)
    return None if text is None else int(text)


def _running(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "state": {"running": {}}}


def _written(clock: VirtualClock) -> str:
    return whole_seconds(clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")


async def live_through(flow: Flow, trouble: Trouble, setting: Setting, arguments: Mapping[str, Any]) -> World:
    """Run a flow once, and check what must hold in all of them."""
    clock, error = VirtualClock(), None
    made = EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=setting.collects)
    async with made as cluster, asyncio.TaskGroup() as group:
        world = World(cluster, clock, trouble, setting)
        jobs, pods = Informer(cluster.client, Job, random=Random(7)), Informer(cluster.client, Pod, random=Random(8))
        jobs.add_handler(world.jobs)
        pods.add_handler(world.pods)
        tasks = [group.create_task(each.run()) for each in (jobs, pods, world)]
        await jobs.wait_synced()
        await pods.wait_synced()
        await world.start()
        try:
            await flow(world, **arguments)
            await clock.advance(10)
            world.check()
        except (AssertionError, LookupError, ValueError) as wrong:
            # Raised below: a task group would wrap it.
            error = wrong
        for task in tasks:
            task.cancel()
    if error is not None:
        error.add_note(f"{trouble}, {world.writes} writes, calls: {[call for call in world.faults.calls if call.name]}")
        raise error
    return world


def _run(flow: Flow, trouble: Trouble, setting: Setting, arguments: Mapping[str, Any]) -> World:
    # A loop of its own for each run, so that each starts from the same beginning.
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live_through(flow, trouble, setting, arguments))


def flow(
    *,
    options: Mapping[str, Any] | None = None,
    late: Mapping[str, float] | None = None,
    collects: bool = False,
    soak: bool = False,
) -> Callable[[Flow], Callable[..., None]]:
    """Make a test of a flow: undisturbed, with a crash after every write, with every reply lost.

    Args:
        options: See `Setting`.
        late: See `Setting`.
        collects: See `Setting`.
        soak: Whether it has so many pods that the disturbed runs belong into `make soak`.
    """
    setting = Setting(options or {}, late or {}, collects)
    marks = [pytest.mark.soak, pytest.mark.timeout(0)] if soak else [pytest.mark.timeout(60)]

    def test_of(lived: Flow) -> Callable[..., None]:
        def test(trouble: str, **arguments: Any) -> None:
            writes = _run(lived, NO_TROUBLE, setting, arguments).writes
            for number in range(1, writes + 1) if trouble != "nothing" else ():
                _run(lived, Trouble(**{trouble: number}), setting, arguments)

        test.__name__, test.__doc__, test.__module__ = lived.__name__, lived.__doc__, lived.__module__
        own = list(inspect.signature(lived).parameters.values())[1:]
        troubles = inspect.Parameter("trouble", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([troubles, *own])  # type: ignore[attr-defined]  # what pytest reads
        rows = [
            pytest.param("nothing", id="undisturbed"),
            pytest.param("crash_after", id="crashes", marks=marks),
            pytest.param("lost_reply", id="lost", marks=marks),
        ]
        whole: Callable[..., None] = pytest.mark.parametrize("trouble", rows)(test)
        return whole

    return test_of
