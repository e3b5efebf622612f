"""Replay: a request that needs answers from outside, such as of webhooks, runs again when it has them.

Between reading an object and storing its new version nothing is awaited, so that no write loses a race. A step in
between whose answer must be awaited raises `PendingError`. `replay` awaits the answer, which is remembered by its
question, and runs the request again from the start. On the same objects the step asks the same question and has its
answer; of an object that has changed meanwhile it asks again, as upstream's GuaranteedUpdate tries again. The last run
has all answers and is one synchronous step.

Values that a request draws (uid, generated name, time) are remembered as well: a review must not change between runs.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from kcr.errors import KcrError
from kcr_devcluster.apiserver.protocol.responses import request_timeout

T = TypeVar("T")
# A request that is still not done after so many runs is given up: its object changes faster than webhooks answer.
_MOST_RUNS = 100


class PendingError(KcrError):
    """A request needs an answer that must be awaited: nothing has been stored.

    Attributes:
        resolve: Gets the answer and remembers it; after it, the request runs again from the start. It raises
            StatusError where the request fails.
    """

    def __init__(self, resolve: Callable[[], Awaitable[None]]) -> None:
        super().__init__("an answer is pending")
        self.resolve = resolve


class _Memory:
    """The answers and draws of the earlier runs of a request."""

    __slots__ = ("answers", "drawn", "ends", "position")

    def __init__(self, answers: dict[Hashable, Any]) -> None:
        self.answers = answers
        # The drawn values by their kind, in order.
        self.drawn: dict[str, list[Any]] = {}
        # How many of them this run has taken.
        self.position: dict[str, int] = {}
        # Called when the request ends, however it ends.
        self.ends: list[Callable[[], None]] = []


_memory: ContextVar[_Memory | None] = ContextVar("replay", default=None)


def answer_to(question: Hashable) -> Any:
    """Return the answer to a question, None where the request has none so far."""
    memory = _memory.get()
    return None if memory is None else memory.answers.get(question)


def remember(answers: Mapping[Hashable, Any]) -> None:
    """Remember answers by their questions until the request ends."""
    memory = _memory.get()
    if memory is not None:
        memory.answers.update(answers)


def drawn(what: str, draw: Callable[[], T]) -> T:
    """Return the value that the request drew at this place in its earlier runs, or draw it now.

    Args:
        what: The kind of value, such as `uid`; a request that draws several takes them in order.
        draw: Draws it.
    """
    memory = _memory.get()
    if memory is None:
        return draw()
    found, position = memory.drawn.setdefault(what, []), memory.position.get(what, 0)
    memory.position[what] = position + 1
    if position == len(found):
        found.append(draw())
    value: T = found[position]
    return value


def kept(what: str, make: Callable[[], T], release: Callable[[T], None]) -> T | None:
    """Return a value that the request keeps from run to run until it ends, such as reserved numbers.

    Args:
        what: The kind of value, as in `drawn`.
        make: Makes it in the first run.
        release: Takes it back when the request ends, however it ends.

    Returns:
        None where the request runs once: nothing else runs before it is done.
    """
    memory = _memory.get()
    if memory is None:
        return None
    ends = memory.ends

    def first() -> T:
        made = make()
        ends.append(lambda: release(made))
        return made

    return drawn(what, first)


@contextmanager
def suspended() -> Iterator[None]:
    """Let code that answers a request make requests of its own, and start tasks: these draw for themselves."""
    token = _memory.set(None)
    try:
        yield
    finally:
        _memory.reset(token)


async def replay(run: Callable[[], Awaitable[T]]) -> T:
    """Run a request until it has all answers it asks for, and return its result.

    Within another request, `run` is a part of it: only the part runs again.

    Raises:
        StatusError: The request fails, or 504: it needs new answers again and again.
    """
    outer = _memory.get()
    memory = _Memory({} if outer is None else outer.answers)
    token = _memory.set(memory)
    try:
        for _ in range(_MOST_RUNS):
            memory.position = {}
            try:
                return await run()
            except PendingError as error:
                pending = error
            # Not above: it would be the context of what a webhook raises.
            await pending.resolve()
    finally:
        _memory.reset(token)
        for end in memory.ends:
            end()
    raise request_timeout()
