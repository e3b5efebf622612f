"""The operator as a process that can crash, and its line to the API server, on which the faults of a plan happen."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from random import Random

from structlog.contextvars import get_contextvars

from kcr.app.plugins import Setup, attach
from kcr.client import Client, Request, Response, Transport
from kcr.clock import Clock
from kcr.controller import Controller
from kcr.errors import ServerError, TooManyRequestsError, TransportError
from kcr.manager import Manager
from kcr.testing.source import refusal
from kcr_devcluster.calls import Call, call_of
from kcr_devcluster.testing.crash import CrashingTransport
from kcr_devcluster.testing.explore.history import Step
from kcr_devcluster.testing.explore.plans import Plan
from kcr_devcluster.testing.explore.recorder import ACTOR, OPERATOR, OTHER, Recorder
from kcr_devcluster.testing.explore.states import TOUCHED

# How long a crashed operator is down, and how late a late reply comes.
RESTART_SECONDS = 2.0
LATE_SECONDS = 10.0
# An operator that ends by itself so often is not started again.
_MOST_EXITS = 5
_READS = frozenset({"get", "list", "watch"})
# Writes that no fault happens at: they say nothing about what the operator has achieved.
_SIDE = frozenset({"events", "leases"})
_SPOKEN = {
    "crash-before": "crash before it",
    "crash-after": "crash after it",
    "reply-lost": "done, the reply is lost",
    "reply-late": f"done, the reply comes {LATE_SECONDS:.0f} s late",
    "changed": "another client changes the object before it",
    "429": "refused: too many requests",
    "500": "refused: internal error",
    "503": "refused: unavailable",
}
_REFUSALS = {
    "429": TooManyRequestsError(429, "TooManyRequests", "explore: too many requests", retry_after_seconds=1),
    "500": ServerError(500, "InternalError", "explore: internal error"),
    "503": ServerError(503, "ServiceUnavailable", "explore: unavailable"),
}


def is_write(call: Call) -> bool:
    """Return whether a request is a write that faults may happen at."""
    return call.verb not in _READS and bool(call.resource[2]) and call.resource[2] not in _SIDE


class Line:
    """The way of one process of the operator to the server."""

    def __init__(self, inner: CrashingTransport, plan: Plan, recorder: Recorder) -> None:
        self._inner, self._plan, self._recorder = inner, plan, recorder

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request, with the fault that the plan has for it."""
        call = call_of(request.method, request.target)
        bound = get_contextvars()
        if (run := bound.get("reconcile_id")) is not None and call.verb != "watch":
            self._recorder.requests[str(bound.get("controller")), str(run)] += 1
        if not is_write(call) or self._inner.crashed.is_set():
            return self._inner.send(request)
        return self._write(request, call)

    @asynccontextmanager
    async def _write(self, request: Request, call: Call) -> AsyncIterator[Response]:
        steps, what = self._recorder.steps, described(request, call)
        self._recorder.writes.append(f"{call.verb} {self._recorder.names.stable(what)}")
        number = len(self._recorder.writes)
        fault = self._plan.kinds_at(number)
        who = str(get_contextvars().get("controller") or OPERATOR)
        if fault == "changed" and call.name:
            await self._touch(request, call)
        place = len(steps)
        steps.append(Step(now(), who, call.verb, what, 0, _SPOKEN.get(fault, ""), number))
        if fault == "crash-before":
            self._inner.crash_after(0)
        if (error := _REFUSALS.get(fault)) is not None:
            await asyncio.sleep(0)
            steps[place] = steps[place]._replace(status=error.code)
            yield refusal(error)
            return
        async with self._inner.send(request) as response:
            steps[place] = steps[place]._replace(status=response.status)
            if call.verb == "create" and response.status < 300:
                steps[place] = steps[place]._replace(what=described(request, call, await response.read()))
            if fault == "reply-lost":
                raise TransportError(f"{request.method} {request.target}: the reply was lost")
            if fault == "crash-after":
                self._inner.crash_after(0)
                await asyncio.get_running_loop().create_future()
            if fault == "reply-late":
                await asyncio.sleep(LATE_SECONDS)
            yield response

    async def _touch(self, request: Request, call: Call) -> None:
        """Change an annotation of the object, as another client would just before."""
        path = request.target.partition("?")[0].removesuffix(f"/{call.subresource}" if call.subresource else "\0")
        body = json.dumps({"metadata": {"annotations": {TOUCHED: str(len(self._recorder.writes))}}}).encode()
        headers = {"content-type": "application/merge-patch+json", "accept": "application/json"}
        touch = Request("PATCH", f"{path}?fieldManager=another", headers, body)
        with acting(OTHER):
            async with self._inner.send(touch) as response:
                await response.read()


def described(request: Request, call: Call, answer: bytes = b"") -> str:
    """Return the object that a request writes, as `websites.example.dev default/shop/status`.

    Args:
        request: The request.
        call: The same, as verb and resource.
        answer: The body of the answer, which has the name of an object that was created.
    """
    group, _, plural = call.resource
    namespace = ""
    steps = request.target.partition("?")[0].split("/")
    if "namespaces" in steps[:-2] and plural != "namespaces":
        namespace = steps[steps.index("namespaces") + 1]
    metadata = _metadata(answer) or ({} if call.name else _metadata(request.body))
    name = call.name or metadata.get("name") or f"{metadata.get('generateName', '')}*"
    place = "/".join(filter(None, (namespace, name, call.subresource)))
    return f"{plural}.{group} {place}" if group else f"{plural} {place}"


def _metadata(body: bytes) -> Mapping[str, str]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    metadata = found.get("metadata") if isinstance(found, dict) else None
    return metadata if isinstance(metadata, dict) else {}


@contextmanager
def acting(actor: str) -> Iterator[None]:
    """Write as somebody else for a while."""
    token = ACTOR.set(actor)
    try:
        yield
    finally:
        ACTOR.reset(token)


def now() -> float:
    """Return the seconds of virtual time."""
    return asyncio.get_running_loop().time()


class Operator:
    """The operator: one process after the other, each with fresh memory.

    Attributes:
        ready: Set while its stores are synced and its workers run.
        ready_since: When it became so last.
        has_webhooks: Whether it serves webhooks.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        setups: Callable[[], Mapping[str, Setup]],
        plan: Plan,
        recorder: Recorder,
    ) -> None:
        """Prepare to run it.

        Args:
            transport: The way to the server.
            clock: The source of time.
            setups: Returns the functions that attach its controllers.
            plan: What goes wrong.
            recorder: Notes what happens.
        """
        self._transport, self._clock, self._setups = transport, clock, setups
        self._plan, self._recorder = plan, recorder
        self._manager: Manager | None = None
        self._exits = 0
        self.ready: asyncio.Event = asyncio.Event()
        self.ready_since: float = 0.0
        self.has_webhooks: bool = False

    async def run(self) -> None:
        """Run one process after the other until cancelled."""
        # A process that has crashed may take a while to end, and the next one does not wait for it.
        async with asyncio.TaskGroup() as group:
            for number in itertools.count(1):
                await self._live(group, number)
                self._say(f"restarts {RESTART_SECONDS:.0f} s later, with fresh memory")
                await asyncio.sleep(RESTART_SECONDS)

    async def _live(self, group: asyncio.TaskGroup, number: int) -> None:
        """Run one process until it crashes."""
        process = CrashingTransport(self._transport)
        client = Client(Line(process, self._plan, self._recorder))
        manager = self._manager = Manager(client, clock=self._clock, random=Random(number))
        attach(self._setups(), manager, {}, take_over=True)
        self.has_webhooks = bool(manager.webhooks.paths)
        tasks = [group.create_task(self._run(manager, process)), group.create_task(self._get_ready(manager))]
        try:
            await process.crashed.wait()
        finally:
            self.ready.clear()
            for controller in manager.controllers.values():
                controller.skip_grace_period()
            for task in tasks:
                task.cancel()

    async def _get_ready(self, manager: Manager) -> None:
        await manager.wait_ready()
        self.ready_since = now()
        self.ready.set()

    async def _run(self, manager: Manager, process: CrashingTransport) -> None:
        try:
            await manager.run()
        except Exception as error:
            self._exits += 1
            if self._exits >= _MOST_EXITS or not self._plan.faults:
                raise
            self._say(f"ends: {type(error).__name__}: {error}")
            process.crash_after(0)

    def _say(self, text: str) -> None:
        self._recorder.steps.append(Step(now(), OPERATOR, "", text))

    @property
    def is_idle(self) -> bool:
        """Whether no key waits for a worker or is being processed."""
        queues = [one.queue.snapshot() for one in self._controllers()]
        return not any(queue.queued or queue.processing for queue in queues)

    def failing(self) -> dict[str, str]:
        """Return the last error of each key whose last reconcile has failed."""
        return {
            f"{one.name} {key}": run.text for one in self._controllers() for key, run in one.journal.failing.items()
        }

    def _controllers(self) -> Collection[Controller]:
        return () if self._manager is None else self._manager.controllers.values()


def in_context(actor: str) -> Context:
    """Return a context in which tasks write as somebody."""
    context = copy_context()
    context.run(ACTOR.set, actor)
    return context
