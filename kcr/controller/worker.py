"""Worker: takes keys from the queue and reconciles them: get → gates → reconcile → outcome → observers.

The order is a safety property. The outcome is applied before the observers see the end, so that no observer that fails
loses a retry; and `done` comes last, so that a key that was added meanwhile is reconciled again after all of that.
"""

import asyncio
import random
import types
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence

from structlog.contextvars import bind_contextvars

from kcr.api.meta import Key, is_key
from kcr.client.context import WRITE_CONTEXT, WriteContext
from kcr.controller.gates import Gate, GateDecision
from kcr.controller.observers import Observer, ReconcileRun
from kcr.controller.observers.journal import ReconcileJournal
from kcr.controller.outcome import Outcomes
from kcr.controller.reconcile import Reconciler, requeue_seconds
from kcr.errors import KcrError, QueueClosedError
from kcr.log import context_setters
from kcr.workqueue import WorkQueue

_ADMIT, _DROP = GateDecision.ADMIT, GateDecision.DROP


class Worker:
    """Reconciles keys, one after the other, until its queue is shut down and empty; several tasks may run it.

    Contract: a reconcile that fails is retried with exponential backoff, after a `RetryLater` when that says; a
    `TerminalError` is not; after a success the backoff is reset. A key that is retried or requeued keeps its priority.
    Nothing that a reconciler raises or returns ends the worker: `sys.exit` in one is a failure as well.
    """

    def __init__(  # noqa: PLR0913  # the stations of a key, all by name
        self,
        controller: str,
        queue: WorkQueue[Key],
        reconciler: Reconciler,
        *,
        context_of: Callable[[Key], WriteContext],
        gates: Iterable[Gate],
        outcomes: Outcomes,
        observers: Sequence[Observer],
        journal: ReconcileJournal,
        random: random.Random,
    ) -> None:
        """Make a worker.

        Args:
            controller: The controller's name, for the logs.
            queue: The keys.
            reconciler: Reconciles one of them.
            context_of: Returns on whose behalf the reconcile of a key writes.
            gates: Decide, in this order, whether a key is reconciled.
            outcomes: Requeues and retries keys.
            observers: See the reconciles; the first is the outermost.
            journal: Has the keys that workers hold; it is one of the observers.
            random: Makes the ids of the reconciles.
        """
        self._controller = controller
        self._queue = queue
        self._reconciler = reconciler
        self._context_of = context_of
        # Bound methods, and only of the observers that override them: a key costs microseconds, and each call counts.
        self._checks = tuple(gate.check for gate in gates)
        self._begins = tuple(one.begin for one in observers if type(one).begin is not Observer.begin)
        # They nest.
        self._ends = tuple(one.end for one in reversed(observers) if type(one).end is not Observer.end)
        self._outcomes = outcomes
        self._journal = journal
        self._random = random
        # Of the key that is being processed: each task has values of its own.
        self._bind_namespace, self._bind_name, self._bind_id = context_setters("namespace", "name", "reconcile_id")

    async def run(self) -> None:
        """Process keys until the queue is shut down and empty."""
        # A worker is a task of its own, so this context is that of its reconciles' log lines.
        bind_contextvars(controller=self._controller)
        task, running, now = asyncio.current_task(), self._journal.running, asyncio.get_running_loop().time
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            running[key] = task
            # From here to `done` no other worker gets this key.
            try:
                if (run := self._admit(key, now())) is not None:
                    await self._process(run, now)
            except Exception as error:
                # No failure of a reconcile gets here: something around it is broken, such as a rate limiter.
                error.add_note(f"controller {self._controller}, key {key}")
                raise
            finally:
                del running[key]
                self._queue.done(key)
            # A reconcile that never awaits would block the event loop for as long as there are keys.
            await _next_turn()

    def _admit(self, key: Key, now: float) -> ReconcileRun | None:
        """Return the run of a key that all gates admit; None when one defers or drops it."""
        if not is_key(key):
            self._outcomes.refuse(key)
            return None
        run = ReconcileRun(key, f"{self._random.getrandbits(64):016x}", now)
        self._bind_namespace(key.namespace)
        self._bind_name(key.name)
        self._bind_id(run.id)
        try:
            for check in self._checks:
                decision = check(key)
                if decision is not _ADMIT:
                    if decision is _DROP:
                        self._outcomes.drop(key)
                        self._journal.forget(key)
                    return None
        except KcrError as error:
            # It counts as a failed reconcile, of which there is nothing to observe.
            self._outcomes.fail(run, error)
            run.ended = now
            self._journal.end(run)
            return None
        return run

    async def _process(self, run: ReconcileRun, now: Callable[[], float]) -> None:
        WRITE_CONTEXT.set(self._context_of(run.key))
        for begin in self._begins:
            if (pending := begin(run)) is not None:
                await pending
                run.began = now()
        after: list[Awaitable[None]] = []
        # Invariant: an outcome is applied once for each reconcile that was not cancelled, and then the observers end.
        try:
            result = await self._reconciler.reconcile(run.key)
            requeue_after = requeue_seconds(result, self._random)
        except asyncio.CancelledError as error:
            if _is_stopping():
                raise
            # A task that this reconcile waited for was cancelled: a failure of the reconcile, not our shutdown.
            self._outcomes.fail(run, error)
        except (Exception, SystemExit) as error:  # the one place where every failure of a reconcile is handled
            self._outcomes.fail(run, error)
        else:
            self._outcomes.succeed(run, requeue_after, result.priority)
        finally:
            run.ended = now()
            for end in self._ends:
                if (pending := end(run)) is not None:
                    after.append(pending)
            # The traceback of an error refers to this frame, and so to the run: a cycle.
            run.error, run.causes = None, ()
        # Outside of the reconcile: neither its timeout nor its span, duration or metrics count this.
        for pending in after:
            await pending


def _is_stopping() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    """Let the event loop take a turn: `asyncio.sleep(0)` without the coroutine around its `yield`."""
    yield
