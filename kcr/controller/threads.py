"""Blocking code in threads: for libraries that have no asyncio, called from a reconciler with `kcr.in_thread`.

- **Deadline.** With `timeout` the caller gets a `ThreadTimeoutError` when the time is over. Nothing can stop a thread
  from outside: the function runs on, abandoned, so give the library a timeout of its own, shorter than this one.
- **Cancellation.** A caller that is cancelled, by `reconcile_timeout` or the end of the program, is cancelled at once,
  and the function runs on, abandoned. A loop in it may ask `is_abandoned()`, and end early. Its result is dropped; an
  exception is logged.
- **One call for a key.** A function that was abandoned may still write. So as long as it runs, another call with the
  same `key` is refused with a `ThreadBusyError`: the reconcile fails and is retried with backoff.
- **A bound.** While `MOST_ABANDONED` calls are abandoned and running, every call is refused so: a library that hangs
  does not fill the process with threads. Calls that are awaited are bounded by the controller's workers.
- **Context.** The function sees the context variables of its caller: log lines carry the key, spans have their parent.
- **Exit.** The threads are daemons: one that hangs does not keep the process from ending. A call that must not be cut
  in the middle has to be repeatable, as after any crash.
- **Tests.** Virtual time knows no threads: there the function is called on the event loop, and takes no time.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar, TypeVarTuple

from kcr.annotations import shown
from kcr.arguments import checked, refuse, seconds_of
from kcr.errors import KcrError, described
from kcr.log import get_logger

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

MOST_ABANDONED = 64

_log = get_logger()


class ThreadTimeoutError(KcrError):
    """A function in a thread took longer than its caller allows; it runs on, abandoned."""


class ThreadBusyError(KcrError):
    """A call was refused, because one that was abandoned for the same key still runs, or too many do."""


class _Call:
    """One call of a function in a thread."""

    def __init__(self, name: str, key: Hashable) -> None:
        self.name = name
        self.key = key
        self.is_abandoned = False


# The calls that were abandoned and still run. Changed on event loops and in threads, one operation at a time.
_abandoned: set[_Call] = set()
_current: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("kcr_thread_call", default=None)


def is_abandoned() -> bool:
    """Return whether the caller of this function, which runs in a thread of `kcr.in_thread`, waits no more."""
    call = _current.get()
    return call is not None and call.is_abandoned


@checked
async def in_thread(
    function: Callable[[*Arguments], T],
    *args: *Arguments,
    timeout: timedelta | float | None = None,
    key: Hashable = None,
) -> T:
    """Call a blocking function in a thread, and return its result; the event loop continues meanwhile.

    ```python
    zone = await kcr.in_thread(dns.create_zone, website.spec.domain, key=key, timeout=30)
    ```

    The function is not stopped when the time is over or the caller is cancelled, since no thread can be: it is
    abandoned and runs on. Keyword arguments are given with `functools.partial`.

    Args:
        function: The function. It must not use stores, clients and other objects of the event loop.
        args: Its arguments.
        timeout: A `timedelta`, or a number of seconds; None for no limit.
        key: While a call with this key is abandoned and still runs, other calls with it are refused: the key that is
            reconciled, for functions that write. None for functions that only read.

    Raises:
        ThreadTimeoutError: The time is over.
        ThreadBusyError: The call was refused, and not begun.
        TypeError: The timeout is no time.
        Exception: The exception of the function.
    """
    if inspect.iscoroutinefunction(function):
        refuse(f"in_thread: function is {shown(function)}: await it, or give it a function that blocks")
    seconds, loop = seconds_of(timeout, "timeout"), asyncio.get_running_loop()
    if getattr(loop, "runs_threads_inline", False):
        return contextvars.copy_context().run(_result_of, function, args)
    name = getattr(function, "__qualname__", repr(function))
    _refuse(name, key)
    call, answer = _Call(name, key), loop.create_future()
    context = contextvars.copy_context()
    context.run(_current.set, call)
    body = (loop, answer, call, context, function, args)
    threading.Thread(target=_run, args=body, name=f"in_thread {name}", daemon=True).start()
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            result, error = await answer
    except TimeoutError as late:
        raise ThreadTimeoutError(f"{name} took longer than {seconds} s in its thread, and runs on") from late
    finally:
        if not answer.done() or answer.cancelled():
            call.is_abandoned = True
            _abandoned.add(call)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]  # that of the function


def _refuse(name: str, key: Hashable) -> None:
    running = tuple(_abandoned.copy())
    earlier = next((call for call in running if key is not None and call.key == key), None)
    if earlier is not None:
        raise ThreadBusyError(f"{name} is not called for {key}: {earlier.name} was abandoned for it, and still runs")
    if len(running) >= MOST_ABANDONED:
        remedy = "give the library a timeout"
        raise ThreadBusyError(f"{name} is not called: {len(running)} abandoned calls still run: {remedy}")


def _run(
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[Any],
    call: _Call,
    context: contextvars.Context,
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    outcome: tuple[Any, BaseException | None]
    try:
        outcome = context.run(_result_of, function, args), None
    except BaseException as error:  # the caller raises it again
        outcome = None, error
    # The loop is closed when the program has ended.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, answer, call, outcome, context=context)


def _result_of(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    result = function(*args)
    if inspect.iscoroutine(result):
        refuse(f"in_thread: function returned {shown(result)}: await it, or give it a function that blocks")
    return result


def _settle(answer: asyncio.Future[Any], call: _Call, outcome: tuple[Any, BaseException | None]) -> None:
    if not answer.done():
        answer.set_result(outcome)
        return
    _abandoned.discard(call)
    error = outcome[1]
    if error is None:
        _log.info("abandoned call ended", function=call.name)
    else:
        _log.warning("abandoned call failed", function=call.name, error=described(error))
