"""Polling assertions, on whatever loop the test runs."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from kcr.annotations import NotNegative
from kcr.arguments import checked
from kcr.errors import NotFoundError

T = TypeVar("T")

POLL_SECONDS = 0.05


@overload
async def eventually(check: Callable[[], Awaitable[T]], *, seconds: float = 30) -> T: ...
@overload
async def eventually(check: Callable[[], T], *, seconds: float = 30) -> T: ...
@checked
async def eventually(check: Callable[[], Any], *, seconds: NotNegative = 30) -> Any:
    """Poll until `check` returns something true, and return that.

    A check that raises AssertionError or NotFoundError does not hold yet. It may be a coroutine function.

    Raises:
        AssertionError: The last one raised by the check, or one that names it, after `seconds` of the loop's time.
    """
    loop = asyncio.get_running_loop()
    limit = loop.time() + seconds
    while True:
        failure: Exception | None = None
        try:
            answer = check()
            if inspect.isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            last = repr(answer)
        except (AssertionError, NotFoundError) as error:
            failure, last = error, str(error)
        if loop.time() >= limit:
            name = getattr(check, "__name__", repr(check))
            raise AssertionError(f"{name}: not fulfilled after {seconds} s: {last}") from failure
        await asyncio.sleep(POLL_SECONDS)


@checked
async def consistently(check: Callable[[], Any], *, seconds: NotNegative = 5) -> None:
    """Poll for so many seconds of the loop's time, and require that `check` returns something true every time.

    It may be a coroutine function. Its exceptions are raised at once.

    Raises:
        AssertionError: It returned something false; the message says when.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (passed := loop.time() - began) <= seconds:
        answer = check()
        if inspect.isawaitable(answer):
            answer = await answer
        if not answer:
            name = getattr(check, "__name__", repr(check))
            raise AssertionError(f"{name}: no longer fulfilled after {passed:.3g} s: {answer!r}")
        await asyncio.sleep(POLL_SECONDS)
