"""What a scenario runs in: a cluster without a node, and a Job controller that may crash at any write."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from kcr.api.batch import COMPLETE, COMPLETION_INDEX, FAILED, Job, is_finished
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import Event, Pod
from kcr.api.meta import Resource, controller_of
from kcr.api.pods import is_active, is_terminal
from kcr.client import Request, Response
from kcr.controllers.job.decisions.lifecycle import INTERIM
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.manager import Manager
from kcr.metrics import Metrics
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.crash import NO_FAULT, WriteFault
from tests.kit.fake_node import FakeNode
from tests.kit.harness import job_controller
from tests.kit.observers import JobObserver, PodObserver
from tests.kit.older_server import OldestSchema
from tests.kit.transports import ObservedTransport, late_watches
from tests.kit.user_actions import UserActions

PATIENCE_SECONDS = 1200.0


class Setting(NamedTuple):
    """What a scenario runs in.

    Attributes:
        options: The controller's options.
        late: How many seconds its watches lag, by plural.
        collects: Whether dependents of deleted objects are collected; a scenario without is faster.
    """

    options: Mapping[str, Any]
    late: Mapping[str, float]
    collects: bool


class Simulation(UserActions, FakeNode):
    """A cluster without a node, a Job controller, and all that a scenario may do and see.

    Attributes:
        faults: What goes wrong between the controller and the server.
        jobs: All Jobs there ever were.
        pods: All pods there ever were.
        began: When the scenario began.
        undisturbed: Whether the controller runs without a fault.
    """

    # The kubelet needs the time only.
    clock: VirtualClock

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, fault: WriteFault, setting: Setting) -> None:
        super().__init__(cluster.client, clock)
        self.jobs, self.pods = JobObserver(), PodObserver()
        self.began = clock.now()
        self.undisturbed = fault == NO_FAULT
        self._cluster = cluster
        self._fault = fault
        self._setting = setting
        self._oldest = OldestSchema(cluster.transport)
        # The statuses that the server refused as invalid.
        self._invalid: list[str] = []
        server = ObservedTransport(self._oldest, after=self._note_invalid)
        self._network = late_watches(server, Random(3), setting.late)
        self._held: dict[type[Resource], asyncio.Event] = {}
        self.faults = FaultyTransport(self._network)
        # The wires of all controllers there were; the last one's may live.
        self._wires = [CrashingTransport(self.faults)]
        self._metrics: Metrics
        # The controller's, of its present life.
        self.manager: Manager
        self._wanted, self._up = asyncio.Event(), asyncio.Event()

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
                # In a task of its own: what a dead process still does by itself delays no other task.
                group.create_task(self._live(wire))
                await wire.crashed.wait()
                self._up.clear()

    def _next_wire(self) -> CrashingTransport:
        before, wire = self.writes, CrashingTransport(self.faults)
        self._wires.append(wire)
        self._fault.strike(wire, before)
        return wire

    async def _live(self, wire: CrashingTransport) -> None:
        lives, options = len(self._wires), self._setting.options
        async with job_controller(self._cluster, self.clock, transport=wire, seed=lives, **options) as manager:
            self._metrics, self.manager = manager.metrics, manager
            self._up.set()
            await wire.crashed.wait()

    async def start(self) -> None:
        """Start the controller, if it does not live; it is there when this returns unless a watch is withheld."""
        self._wanted.set()
        if not self._held:
            await self._up.wait()

    async def crash(self) -> None:
        """Let the controller die where it stands; it stays away until `start`."""
        self._wanted.clear()
        self._wires[-1].crash_after(0)
        await self.clock.settle()

    async def restart(self) -> None:
        """Let the controller die where it stands, and come again."""
        await self.crash()
        await self.start()

    def withhold(self, kind: type[Resource]) -> None:
        """Let the controller hear nothing more of a kind; one that starts meanwhile waits."""
        self._held[kind] = released = asyncio.Event()
        self._network.on("event", kind).then(released.wait)

    def let_through(self, kind: type[Resource]) -> None:
        """Let the controller hear of a kind again, of what it missed first."""
        self._held.pop(kind).set()

    async def _note_invalid(self, request: Request, response: Response) -> None:
        if response.status == 422 and "/jobs/" in request.target:
            self._invalid.append((await response.read()).decode())

    def counted(self, name: str, **labels: str) -> float:
        """Return a counter of the controller's, of its present life."""
        return self._metrics.registry.get_sample_value(f"job_controller_{name}_total", labels) or 0

    def fleet(self) -> dict[tuple[str, str], float]:
        """Return how many Jobs the controller counts in its present life, by state and cause."""
        found = [metric for metric in self._metrics.registry.collect() if metric.name == "kcr_jobs"]
        return {(one.labels["state"], one.labels["cause"]): one.value for metric in found for one in metric.samples}

    def delays(self, step: str) -> tuple[float, float]:
        """Return how many delays of ended pods were observed, and their sum in seconds, in its present life."""
        value, labels = self._metrics.registry.get_sample_value, {"step": step}
        name = "kcr_job_end_delay_seconds"
        return value(f"{name}_count", labels) or 0, value(f"{name}_sum", labels) or 0

    def errors(self) -> float:
        """Return how many passes over a Job have failed in the controller's present life."""
        found = self._metrics.registry.get_sample_value(
            "controller_runtime_reconcile_errors_total", {"controller": "job"}
        )
        return found or 0

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
            "ended": sum(map(is_terminal, there)),
            "tracked": sum(map(is_tracked, there)),
            "made": len(self.pods.all),
        }

    async def events(self) -> list[tuple[str, str]]:
        """Return the events about Jobs, reason and message, in the order in which they came."""
        found = await self.client.list(Event, "default", fields="involvedObject.kind=Job")
        found = tuple(sorted(found, key=lambda event: int(event.metadata.resource_version)))
        return [(event.reason, event.message) for event in found]

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

    async def wait(self, check: Callable[[], bool], what: str = "", *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until something holds."""
        try:
            await self.clock.run_until(check, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"not in {seconds} s: {what}; the last status: {self.describe()}") from None

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
        await self.wait(lambda: is_condition_true(self.job().status.conditions, kind), kind)
        found = find_condition(self.job().status.conditions, kind)
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
        assert not self._invalid
        assert not self._oldest.unknown
        over = {uid for uid, job in self.jobs.all.items() if is_finished(job) or uid in self.jobs.gone}
        for pod in self.pods.there:
            owner = controller_of(pod.metadata)
            if owner is not None and owner.uid in over and owner.api_version == "batch/v1":
                managed = self.jobs.all[owner.uid].spec.managed_by
                assert managed is not None or not is_tracked(pod), self.describe()


def counts_of(job: Job) -> set[str]:
    """Return the counters that are not 0, in the words of job-controller §0."""
    status = job.status
    numbers = {"A": status.active, "R": status.ready, "T": status.terminating, "S": status.succeeded}
    return {f"{letter}{number}" for letter, number in (numbers | {"F": status.failed}).items() if number}


def _wanted(counts: str) -> set[str]:
    return {count for count in counts.split() if count[1:] != "0"}


def index_of(pod: Pod) -> int:
    """Return a pod's completion index, or -1 when it has none."""
    return int(pod.metadata.annotations.get(COMPLETION_INDEX, -1))
