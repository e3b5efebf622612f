"""Runnables: long-lived components that are started and stopped together in groups."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from threading import get_ident
from typing import Any, Protocol, TypeVar

from kcr.errors import LeadershipLostError, leaves
from kcr.log import get_logger

R = TypeVar("R", bound="Runnable")

# Begins something, and ends it.
Phase = Callable[[], AbstractAsyncContextManager[None]]

_log = get_logger()


class Runnable(Protocol):
    """A long-lived part of the process."""

    async def run(self) -> None:
        """Do its work until cancelled."""
        ...


class RunnableGroup:
    """Runs runnables for as long as the context lives; those added meanwhile start at once.

    All run in the context in which the group began: a reconcile that adds one lends it neither its log fields nor its
    trace.

    Source: controller-runtime/pkg/manager/runnable_group.go.
    """

    def __init__(self, name: str, on_failure: Callable[[Exception], object] = lambda error: None) -> None:
        """Make a group; it runs for as long as its context lives.

        Args:
            name: Names its tasks.
            on_failure: Called with the exception of a runnable, before the others are stopped.
        """
        self._name = name
        self._on_failure = on_failure
        # Components that wait for the context to begin.
        self._waiting: list[tuple[Callable[[], Awaitable[None]], str]] = []
        self._group: asyncio.TaskGroup | None = None
        self._context = contextvars.Context()
        self._over = False
        self._thread = 0

    def __bool__(self) -> bool:
        """Return whether it runs, or there are runnables to start."""
        return self._group is not None or bool(self._waiting)

    def add(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a component.

        Args:
            run: Runs it until cancelled.
            name: Names its task.

        Raises:
            RuntimeError: The context has ended, or this is another thread.
        """
        if self._over:
            raise RuntimeError(f"{self._name} {name}: the manager is stopping")
        if self._thread not in (0, get_ident()):
            raise RuntimeError(f"{self._name} {name}: add it before the manager runs, or on its thread")
        if self._group is None:
            self._waiting.append((run, name))
        else:
            self._group.create_task(self._run(run, name), name=f"{self._name} {name}", context=self._context.copy())

    async def _run(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        """Run a component, name it in its exception, and report that."""
        try:
            await run()
        except Exception as error:
            error.add_note(f"component {name}")
            self._on_failure(error)
            raise
        except SystemExit as error:
            # The event loop ends at once, and with it the process.
            _log.error("component ends the process", component=name, error=f"SystemExit: {error}", exc_info=error)
            raise

    async def __aenter__(self) -> None:
        """Start the added components."""
        self._thread = get_ident()
        self._group, self._context = await asyncio.TaskGroup().__aenter__(), contextvars.copy_context()
        waiting, self._waiting = self._waiting, []
        for run, name in waiting:
            self.add(run, name)

    async def __aexit__(self, *raised: Any) -> None:
        """Stop everything if the body failed or was cancelled; else wait until all has ended."""
        self._over = True
        if self._group is not None:
            await self._group.__aexit__(*raised)


@asynccontextmanager
async def running(component: R, wait_ready: Callable[[], Awaitable[None]]) -> AsyncIterator[R]:
    """Run a component for as long as the context lives, which begins when it is ready.

    The context's exception is raised unchanged, otherwise the component's: a task group would wrap either in a group
    of exceptions, which no caller expects from its own `assert`.

    Args:
        component: Runs until cancelled.
        wait_ready: Returns when it is ready.
    """
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(component.run(), name=type(component).__name__)
            try:
                await wait_ready()
                yield component
            except Exception as error:
                failure = error
            finally:
                task.cancel()
    except BaseExceptionGroup as caught:
        failure = failure or caught.exceptions[0]
    if failure is not None:
        raise failure


@contextmanager
def first_failure() -> Iterator[None]:
    """Raise the first of the errors that the body fails with as it is, out of its group, and log the others.

    Every write of a process that has lost its Lease fails: that is one error.
    """
    failure: BaseException | None = None
    try:
        yield
    except BaseExceptionGroup as group:
        failure, *others = leaves(group)
        for other in others:
            if isinstance(other, LeadershipLostError) and isinstance(failure, LeadershipLostError):
                continue
            _log.error("additional error during shutdown", error=str(other), exc_info=other)
    if failure is not None:
        # Here and not above, so that the group is not its context.
        raise failure
