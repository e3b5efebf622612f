"""One run of a scenario: a cluster of its own, the operator, and the faults of a plan, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec

from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.client import Client, Request, Response, Transport
from kcr.errors import ApiError
from kcr.stacks import await_stack
from kcr.testing.fakes import MadeUp
from kcr_devcluster.calls import call_of
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.clusters import setups_of, simulated_cluster
from kcr_devcluster.testing.explore.history import MOST_LINES, Step, told
from kcr_devcluster.testing.explore.line import NAMESPACE, described, is_write, now, place_of
from kcr_devcluster.testing.explore.options import ExploreOptions
from kcr_devcluster.testing.explore.outside import SCENARIO_TASK, ScenarioError, guarded
from kcr_devcluster.testing.explore.plans import DELETED, Plan
from kcr_devcluster.testing.explore.process import Operator, in_context
from kcr_devcluster.testing.explore.recorder import OPERATOR, SCENARIO, Recorder, Violation, name_of
from kcr_devcluster.testing.explore.states import RESULT, canonical, is_ignored
from kcr_devcluster.testing.loop import VirtualClock, VirtualLoop
from kcr_devcluster.testing.mutations import unchanged_stores

# Nothing is left to do once nothing has been written for so long: a pod may take 30 s to end.
QUIET_SECONDS = 60.0
# A key that fails for longer is left alone: its retries are minutes apart.
_FAILING_SECONDS = 300.0
# Afterwards the operator is watched for a resync of ten minutes.
IDLE_SECONDS = 700.0
_SETTLING_SECONDS = 7200.0
_SCENARIO_SECONDS = 43_200.0
_SUCCESS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'

Scenario = Callable[["World"], Awaitable[object]]


class UnsettledError(AssertionError):
    """The cluster does not settle."""


class World:
    """What a scenario acts on.

    Attributes:
        client: The client of a user; it may do everything.
        clock: The virtual time. `asyncio.sleep` passes it.
        namespace: An empty namespace for the objects of the scenario.
        cluster: The embedded cluster, for example for its nodes.
        users: The way of the client to the server.
    """

    def __init__(
        self, cluster: EmbeddedCluster, clock: VirtualClock, operator: Operator, recorder: Recorder, steps: int | None
    ) -> None:
        self._operator, self._recorder = operator, recorder
        self.cluster: EmbeddedCluster = cluster
        self.clock: VirtualClock = clock
        self.namespace: str = NAMESPACE
        self.users: Users = Users(cluster.transport, operator, recorder, steps)
        self.client: Client = Client(self.users, field_manager=SCENARIO)

    async def settled(self) -> None:
        """Wait until nothing is left to do: no key is queued or failing, and nothing was written for a minute.

        A key that still fails after five quiet minutes is not waited for.

        Raises:
            UnsettledError: The operator writes an object again and again, or something is written for two hours.
        """
        began = now()
        while True:
            await asyncio.sleep(1)
            if name := self._recorder.written_on_and_on:
                raise UnsettledError(f"the operator writes {name} again and again, and nothing else changes")
            moment = now()
            if moment > began + _SETTLING_SECONDS:
                raise UnsettledError("something is written for two hours: wait for a state with kcr.testing.eventually")
            if not self._operator.ready.is_set():
                continue
            quiet = moment - max(began, self._recorder.changed, self._operator.ready_since)
            is_done = self._operator.is_idle and not self._operator.failing()
            if quiet >= (QUIET_SECONDS if is_done else _FAILING_SECONDS):
                self._recorder.states.append(self._state())
                return

    def _state(self) -> dict[str, Any]:
        """Return the objects that the operator or the scenario has written, without what differs from run to run."""
        written = (one for one in self.cluster.storage.records() if one.metadata.uid in self._recorder.written)
        return canonical(written, self._recorder.names)


class Users:
    """The way of the scenario to the server.

    Attributes:
        over: Set when the scenario has made so many writes as it may, and is about to make another one.
    """

    def __init__(self, inner: Transport, operator: Operator, recorder: Recorder, steps: int | None) -> None:
        """Make the way.

        Args:
            inner: The way to the server.
            operator: Its webhooks are waited for.
            recorder: Notes the writes.
            steps: How many writes the scenario may make; None for all.
        """
        self.inner, self._operator, self._recorder, self._left = inner, operator, recorder, steps
        self.over: asyncio.Event = asyncio.Event()

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        call = call_of(request.method, request.target)
        return self._write(request) if is_write(call) else self.inner.send(request)

    @asynccontextmanager
    async def _write(self, request: Request) -> AsyncIterator[Response]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self.over.set()
                await asyncio.get_running_loop().create_future()
        if self._operator.has_webhooks:
            # Without them the write would be refused.
            await self._operator.ready.wait()
        call, steps = call_of(request.method, request.target), self._recorder.steps
        if call.verb == "delete" and call.name:
            self._recorder.delete(place_of(request, call), request)
        place, step = len(steps), Step(now(), SCENARIO, call.verb, described(request, call))
        steps.append(step)
        async with self.inner.send(request) as response:
            steps[place] = step._replace(status=response.status)
            gone = self._recorder.gone.get(described(request, call._replace(subresource="")))
            if response.status == 404 and gone is not None and self._operator.plan.has(DELETED):
                # The fault was early: as if this had come before it, so that the scenario goes on.
                yield MadeUp(200, _SUCCESS if call.verb == "delete" else gone)
            else:
                yield response


class Outcome(NamedTuple):
    """What came of a run.

    Attributes:
        steps: What happened.
        writes: Verb and object of each write of the operator.
        events: The watch events that have reached it.
        deletable: The numbers of its writes for an object that the scenario deletes later.
        scenario_writes: How many writes the scenario has made.
        states: The objects whenever the cluster had settled, without what differs from run to run; at the end with what
            the scenario has returned.
        violations: What was wrong on the way.
        is_cut_short: Whether the scenario has failed because of the fault.
        failing: The last error of each key that still fails.
        terminating: The objects that are being deleted for ever, and their finalizers.
        idle_steps: The operator's writes when nothing was left to do.
        peaks: How many children with the same owner, kind and content lived at the same time at most.
        most_requests: The most requests that a reconcile has taken, by controller.
    """

    steps: list[Step]
    writes: list[str]
    events: list[str]
    deletable: set[int]
    scenario_writes: int
    states: list[dict[str, Any]]
    violations: list[Violation]
    is_cut_short: bool
    failing: dict[str, str]
    terminating: dict[str, str]
    idle_steps: list[Step]
    peaks: dict[tuple[str, ...], int]
    most_requests: dict[str, int]


class Runs:
    """Runs a scenario, each time from the beginning."""

    def __init__(self, scenario: Scenario, setup: Any, options: ExploreOptions) -> None:
        self._scenario, self._setup, self._options = scenario, setup, options
        self._deletions: dict[str, Request] = {}
        self.count: int = 0

    def run(self, plan: Plan, steps: int | None = None) -> Outcome:
        """Run it once.

        Args:
            plan: What goes wrong.
            steps: How many writes of the scenario are made; None for all.

        Raises:
            ScenarioError: The scenario or the operator reaches out of virtual time.
            MutatedError: The operator has changed an object of a store in place.
            Exception: What the scenario raises without a fault.
        """
        self.count += 1
        # The store's objects of one run only: those of hundreds would be too many.
        with (
            unchanged_stores(),
            asyncio.Runner(loop_factory=VirtualLoop) as runner,
            guarded(runner.get_loop()),
        ):
            # What an operator leaves behind when it crashes is nothing to report.
            runner.get_loop().set_exception_handler(lambda *_: None)
            try:
                return runner.run(self._live(plan, steps))
            except BaseExceptionGroup as group:
                error: BaseException = group
                while isinstance(error, BaseExceptionGroup):
                    error = error.exceptions[0]
                raise error from None

    async def _live(self, plan: Plan, steps: int | None) -> Outcome:
        clock, options = VirtualClock(), self._options
        async with simulated_cluster(
            clock=clock, random=Random(0), kinds=options.kinds, controllers=options.controllers,
            finish_pods=options.finish_pods, deployments=options.deployments,
        ) as cluster:  # fmt: skip
            await cluster.client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
            await asyncio.sleep(1)
            recorder = Recorder(cluster.storage, options.invariants, self._deletions)
            operator = Operator(cluster.transport, clock, lambda: setups_of([self._setup]), plan, recorder)
            world = World(cluster, clock, operator, recorder, steps)
            async with asyncio.TaskGroup() as group:
                running = group.create_task(operator.run(), context=in_context(OPERATOR))
                await _first_of(operator.ready.wait(), running)
                returned = await self._play(group, world, recorder, plan)
                outcome = await self._end(world, operator, recorder, returned)
                running.cancel()
        return outcome

    async def _play(self, group: asyncio.TaskGroup, world: World, recorder: Recorder, plan: Plan) -> object:
        """Play the scenario to its end, and return what it returns."""

        async def play() -> object:
            try:
                return await self._scenario(world)
            except UnsettledError as error:
                recorder.violations.append(Violation("idle", str(error), recorder.written_on_and_on))
            except Exception as error:
                if not plan.faults:
                    history = "\n".join(told(recorder.steps, "", MOST_LINES))
                    error.add_note(f"without a fault, after these writes:\n{history}")
                    raise
                if plan.has(DELETED):
                    # What it expects of the object does not hold any more.
                    recorder.is_cut_short = True
                    return None
                if plan.has("namespace") and isinstance(error, ApiError):
                    return None
                text = f"the scenario fails: {type(error).__name__}: {error}".partition("\n")[0]
                recorder.violations.append(Violation("scenario", text))
            return None

        task = group.create_task(play(), context=in_context(SCENARIO), name=SCENARIO_TASK)
        over = group.create_task(world.users.over.wait())
        await asyncio.wait([task, over], timeout=_SCENARIO_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if over.done():
            task.cancel()
            return None
        over.cancel()
        if not task.done():
            where = await_stack(task)
            task.cancel()
            raise ScenarioError(
                f"explore: the scenario has not ended after twelve hours of virtual time: it waits at {where}"
            )
        return await task

    async def _end(self, world: World, operator: Operator, recorder: Recorder, returned: object) -> Outcome:
        """Wait until nothing is left to do, watch the idle operator, and return what came of the run."""
        try:
            await world.settled()
        except UnsettledError as error:
            recorder.violations.append(Violation("idle", str(error), recorder.written_on_and_on))
        place, changes = len(recorder.steps), recorder.own_changes
        if not recorder.violations:
            await asyncio.sleep(IDLE_SECONDS)
        is_idle = recorder.own_changes == changes
        for invariant in self._options.history_invariants:
            recorder.check(invariant, tuple(recorder.steps))
        records = [one for one in world.cluster.storage.records() if not is_ignored(one)]
        if returned is not None and recorder.states:
            recorder.states[-1][RESULT] = msgspec.to_builtins(returned)
        terminating = {
            name_of(one): ", ".join(one.metadata.finalizers)
            for one in records
            if one.metadata.deletion_timestamp is not None
            and (one.metadata.finalizers or one.kind.type.plural == "namespaces")
        }
        most: dict[str, int] = {}
        for (controller, _), count in recorder.requests.items():
            most[controller] = max(count, most.get(controller, 0))
        return Outcome(
            steps=recorder.steps,
            writes=recorder.writes,
            events=recorder.events,
            deletable=recorder.deletable,
            scenario_writes=sum(step.who == SCENARIO for step in recorder.steps),
            states=recorder.states,
            violations=recorder.violations,
            is_cut_short=recorder.is_cut_short,
            failing=operator.failing(),
            terminating=terminating,
            idle_steps=[] if is_idle else [one for one in recorder.steps[place:] if one.number],
            peaks=recorder.peaks,
            most_requests=most,
        )


async def _first_of(wanted: Awaitable[object], running: asyncio.Task[None]) -> None:
    """Wait for something while a task runs; raise the exception of the task."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_awaited(wanted))
        await asyncio.wait([waiting, running], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            waiting.cancel()
            await running


async def _awaited(wanted: Awaitable[object]) -> None:
    await wanted
