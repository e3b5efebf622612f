"""Slow start: many writes in batches of one, two, four and so on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar, cast

from kcr.annotations import Count
from kcr.arguments import awaited, checked
from kcr.dependents.create import AlteredObjectError, QuotaExceededError
from kcr.errors import ApiError, KcrError, NotFoundError, ServerError, TransportError, is_namespace_ending

T = TypeVar("T")


class Failure(NamedTuple):
    """A failed call, with its number and error; it may have taken effect, see `Attempts.undone`."""

    number: int
    error: ApiError | TransportError | AlteredObjectError | QuotaExceededError


class Attempts(NamedTuple, Generic[T]):
    """The results of the calls.

    Attributes:
        done: The results of the successful calls, in order.
        failures: Those that failed, in the order of their calls.
        skipped: How many were never tried.
    """

    done: tuple[T, ...]
    failures: tuple[Failure, ...]
    skipped: int

    @property
    def undone(self) -> int:
        """How many calls certainly changed nothing: not tried, or refused. Expectations are lowered by so many.

        A call that failed without a response, or with the server's own failure, may have taken effect.
        """
        errors = [failure.error for failure in self.failures]
        return self.skipped + sum(isinstance(one, ApiError) and not isinstance(one, ServerError) for one in errors)

    @property
    def error(self) -> KcrError | None:
        """The first error that needs a retry; None if there is none, also where objects are missing.

        A deletion of an object that does not exist has nothing to do, nor has a create in a terminating namespace.
        """
        errors = (failure.error for failure in self.failures)
        return next((e for e in errors if not isinstance(e, NotFoundError) and not is_namespace_ending(e)), None)


@checked
async def slow_start(count: int, call: Callable[[int], Awaitable[T]], *, initial: Count = 1) -> Attempts[T]:
    """Make `count` calls in concurrent batches that double in size, and stop after a batch with a failure.

    So a quota that is used up costs one refused request and not a thousand. A call that fails cancels none
    of its siblings.

    Args:
        count: How many calls to make; zero or less for none.
        call: Makes one call; gets its index, from 0.
        initial: The size of the first batch; `count` makes all calls at once.

    Source: kubernetes/pkg/controller/job/job_controller.go, manageJob.
    """
    return await call_in_batches(count, call, initial)


async def call_in_batches(count: int, call: Callable[[int], Awaitable[T]], initial: int) -> Attempts[T]:
    """Do the same without a check of the arguments, which would cost each reconcile."""
    done: list[T] = []
    failures: list[Failure] = []
    begun, size = 0, max(initial, 1)
    while begun < count and not failures:
        end = min(begun + size, count)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_attempt(call, index)) for index in range(begun, end)]
        for task in tasks:
            outcome = task.result()
            if isinstance(outcome, Failure):
                failures.append(outcome)
            else:
                done.append(outcome)
        begun, size = end, size * 2
    return Attempts(tuple(done), tuple(failures), max(0, count - begun))


async def _attempt(call: Callable[[int], Awaitable[T]], index: int) -> T | Failure:
    try:
        return cast("T", await awaited(call(index), "slow_start: call"))
    except (ApiError, TransportError, AlteredObjectError) as error:
        return Failure(index, error)
