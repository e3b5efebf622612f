"""Rules of a `FaultyTransport`: which requests or watch events, and the fault that happens to them."""

import asyncio
import random as randomness
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

from kcr.annotations import Count, NotNegative
from kcr.api.meta import Resource
from kcr.arguments import checked, refuse
from kcr.errors import ApiError, ConflictError, ServerError, TooManyRequestsError
from kcr.testing.fakes import made
from kcr_devcluster.calls import Verb
from kcr_devcluster.testing.losses import LOSSES, Loss

# What a rule is for, beside the verbs of the API: every write, or each event of a watch.
Subject = Literal[Verb, "write", "event", ""]
# What `draw` chooses from.
Drawn = Literal[
    "delay", "lose_request", "lose_reply", "arrive_late", "409", "429", "500", "503", "page 404", "page 502", "repeat",
    "cut", "freeze",
]  # fmt: skip
How = Literal["error", "half", "end"]
Change = Callable[[dict[str, Any]], object]
_READS = frozenset({"get", "list", "watch"})
_CHANGED = frozenset({"create", "update", "patch", "event", "write", ""})
_STREAMS = frozenset({"", "list", "watch"})


class Fail(NamedTuple):
    """Answer with an error in place of the server."""

    error: ApiError

    def __str__(self) -> str:
        return str(self.error.code)


class Delay(NamedTuple):
    """Let a request or an event wait."""

    seconds: Callable[[], float]

    def __str__(self) -> str:
        return "delay"


class Then(NamedTuple):
    """Await another client's action first."""

    act: Callable[[], Awaitable[object]]

    def __str__(self) -> str:
        return "then"


class LoseRequest(NamedTuple):
    """Do not execute a request; 0 for no answer, else the page of a proxy."""

    page: int = 0

    def __str__(self) -> str:
        return f"page {self.page}" if self.page else "lose_request"


class LoseReply(NamedTuple):
    """Execute a request, and lose its reply."""

    loss: Loss

    def __str__(self) -> str:
        return f"lose_reply {self.loss}"


class ArriveLate(NamedTuple):
    """Deliver a request later, whether its sender waits or not."""

    seconds: Callable[[], float]
    cut_after: float | None
    answered: bool

    def __str__(self) -> str:
        return "arrive_late"


class Freeze(NamedTuple):
    """Silence a watch."""

    after: Callable[[], int]

    def __str__(self) -> str:
        return "freeze"


class Cut(NamedTuple):
    """End a watch."""

    after: Callable[[], int]
    how: How

    def __str__(self) -> str:
        return "cut" if self.how == "error" else f"cut {self.how}"


class Repeat(NamedTuple):
    """Send each line of a watch, or an event, twice."""

    def __str__(self) -> str:
        return "repeat"


class Lag(NamedTuple):
    """Let the lines of a watch arrive late, in their order."""

    seconds: Callable[[], float]

    def __str__(self) -> str:
        return "lag"


class Drop(NamedTuple):
    """Lose an event without a sign."""

    def __str__(self) -> str:
        return "drop"


class Edit(NamedTuple):
    """Change the object of a request or an event."""

    change: Change

    def __str__(self) -> str:
        return "change"


class Draw(NamedTuple):
    """Draw another fault for each request or event."""

    among: tuple[Drawn, ...]

    def one(self, verb: str, random: randomness.Random) -> "Fault":
        """Return the fault of one request or event.

        Args:
            verb: That of the request; `event` for an event.
            random: The source of randomness.
        """
        suited = self.suited(verb)
        # Each loss is a fault of its own: what an operator fears most comes most often.
        suited += ["lose_reply"] * (len(LOSSES) - 1) if "lose_reply" in suited else []
        return _drawn(random.choice(suited), verb, random)

    def suited(self, verb: str) -> list[Drawn]:
        """Return the names of those that suit a request or event."""
        return [name for name in _SUITED.get(verb, _OF_WRITES) if not self.among or name in self.among]


Disturbance = Freeze | Cut | Repeat | Lag
Fault = Fail | Delay | Then | LoseRequest | LoseReply | ArriveLate | Disturbance | Drop | Edit
_OF_READS: tuple[Drawn, ...] = (
    "delay", "lose_request", "lose_reply", "429", "500", "503", "page 404", "page 502",
)  # fmt: skip
_OF_WRITES: tuple[Drawn, ...] = (*_OF_READS, "arrive_late", "409")
_SUITED: Mapping[str, tuple[Drawn, ...]] = {
    **dict.fromkeys(_READS, _OF_READS), "event": ("delay", "repeat", "cut", "freeze"),
}  # fmt: skip
_ERRORS: Mapping[str, type[ApiError]] = {"409": ConflictError, "429": TooManyRequestsError, "500": ServerError}
# The replies of a watch have no end that could be waited for.
_STREAM_LOSSES: tuple[Loss, ...] = ("silence", "404", "502")
# How long drawn delays are at most, in seconds: of a request, of one that arrives when its sender is gone, of an event.
_DELAY, _LATE, _EVENT_DELAY = 3.0, 5.0, 10.0


def _drawn(name: Drawn, verb: str, random: randomness.Random) -> Fault:
    """Return a fault of a name, with what it draws itself."""
    match name:
        case "delay":
            return Delay(chosen(random.random() * (_EVENT_DELAY if verb == "event" else _DELAY)))
        case "lose_reply":
            return LoseReply(random.choice(_STREAM_LOSSES if verb == "watch" else LOSSES))
        case "arrive_late":
            return ArriveLate(chosen(random.random() * _LATE), 0.0, True)
        case "repeat":
            return Repeat()
        case "cut":
            return Cut(lambda: 0, random.choice(("error", "half", "end")))
        case "freeze":
            return Freeze(lambda: 0)
        case "lose_request" | "page 404" | "page 502":
            return LoseRequest(int(name.partition(" ")[2] or 0))
    error = _ERRORS.get(name) or ApiError(503, "ServiceUnavailable", "the server is currently unable to handle it")
    return Fail(made(error, 0.0))


def chosen(seconds: float | Callable[[], float]) -> Callable[[], float]:
    """Return a function that is called for each request or line."""
    return seconds if callable(seconds) else lambda: seconds


def _counted(count: int | Callable[[], int]) -> Callable[[], int]:
    return count if callable(count) else lambda: count


class Selector:
    """Requests or events, as `FaultyTransport.on` is told.

    Attributes:
        verb: The verb; `event` for events, `write` for all writes, empty for all requests.
        met: How many it has taken.
        window: From when to when it takes some, by the loop's time.
        is_over: Whether it takes none any more.
        fault: What goes wrong with those that it takes; None as long as its rule does not say so.
    """

    def __init__(
        self, verb: Subject, kind: type[Resource] | None, nth: int, chance: float, name: str, most: int
    ) -> None:
        self.verb: Subject = verb
        self.met: int = 0
        self.window: tuple[float, float] = (float("-inf"), float("inf"))
        self.is_over: bool = False
        self.fault: Fault | Draw | None = None
        self._resource = None if kind is None else (kind.resource.group, kind.resource.version, kind.resource.plural)
        self._nth, self._chance, self._name, self._most = nth, chance, name, most
        self._matched = 0

    def __str__(self) -> str:
        """Return it as messages name it."""
        return ", ".join(filter(None, (self.verb, "" if self._resource is None else self._resource[2], self._name)))

    def takes(self, verb: str, resource: tuple[str, str, str], name: str, random: randomness.Random) -> bool:
        """Return whether this request or event is one of them; called once for each.

        Args:
            verb: That of the request; `event` for an event.
            resource: Group, version and plural.
            name: That of the object.
            random: The source of randomness.
        """
        if self.is_over or not self._fits(verb) or self._name not in ("", name):
            return False
        if self._resource not in (None, resource) or (self._most and self.met >= self._most):
            return False
        start, end = self.window
        if not start <= asyncio.get_running_loop().time() < end:
            return False
        if isinstance(self.fault, Draw) and not self.fault.suited(verb):
            return False
        self._matched += 1
        taken = self._nth in (0, self._matched) and (self._chance >= 1.0 or random.random() < self._chance)
        self.met += taken
        return taken

    def fault_of(self, verb: str, random: randomness.Random) -> Fault:
        """Return the fault of a request or event that it has taken; a rule that says none is refused.

        Args:
            verb: That of the request; `event` for an event.
            random: The source of randomness.
        """
        if self.fault is None:
            refuse(f"FaultyTransport: on({self}) has no action: call one, such as .fail(kcr.ConflictError)")
        return self.fault.one(verb, random) if isinstance(self.fault, Draw) else self.fault

    def _fits(self, verb: str) -> bool:
        if self.verb == "write":
            return verb not in _READS and verb != "event"
        return self.verb == verb or (self.verb == "" and verb != "event")


class Rule:
    """What goes wrong with the requests or events of `FaultyTransport.on`; one of the methods says it."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector
        self._fault: Fault | Draw | None = None

    @property
    def met(self) -> int:
        """How many requests or events it has been applied to."""
        return self._selector.met

    @checked
    def during(self, start: NotNegative, end: NotNegative) -> "Rule":
        """Apply the rule from `start` to before `end` only, in seconds of the loop's time from now; return the rule."""
        if end <= start:
            raise ValueError(f"during: end is {end:g}: give it more than start, {start:g}")
        try:
            moment = asyncio.get_running_loop().time()
        except RuntimeError:
            raise RuntimeError("during: no loop runs whose time could be read: call it in the coroutine") from None
        self._selector.window = (moment + start, moment + end)
        return self

    def lift(self) -> None:
        """Remove the rule. Watches that it has silenced stay so until their reader closes them."""
        self._selector.is_over = True

    @checked
    def fail(self, error: type[ApiError] | ApiError, *, retry_after_seconds: NotNegative = 0.0) -> None:
        """Answer with an error; the request does not reach the server."""
        self._refuse_event("fail")
        self._selector.fault = Fail(made(error, retry_after_seconds))

    @checked
    def delay(self, seconds: NotNegative | Callable[[], float]) -> None:
        """Delay the request before it reaches the server; or the event, and with it those behind it.

        Args:
            seconds: By how much; a function is called for each.
        """
        self._selector.fault = Delay(chosen(seconds))

    @checked
    def then(self, act: Callable[[], Awaitable[object]]) -> None:
        """Await a callback first: another client's action just before the request or the event arrives.

        What waits there holds a watch back: `on("event", Pod).then(released.wait)`, with an `asyncio.Event`.
        """
        self._selector.fault = Then(act)

    @checked
    def lose_request(self, page: Count = 0) -> None:
        """Lose the request before it reaches the server: it is not executed.

        Args:
            page: The code of the page with which a proxy answers; 0 for no answer, which is a TransportError.
        """
        self._refuse_event("lose_request")
        self._selector.fault = LoseRequest(page)

    @checked
    def lose_reply(self, loss: Loss = "silence") -> None:
        """Lose the response of a request that was executed.

        Args:
            loss: The replacement: nothing, so that the caller gets a TransportError; a body that cannot be read
                (`cut`, `garbage`, `other`); or a proxy's page (`404`, `502`).
        """
        self._refuse_event("lose_reply")
        self._selector.fault = LoseReply(loss)

    @checked
    def arrive_late(
        self, seconds: NotNegative | Callable[[], float], *, cut_after: NotNegative | None = None, answered: bool = True
    ) -> None:
        """Let the request arrive late, whether its sender still waits or has ended: as behind a proxy.

        Args:
            seconds: How late; a function is called for each request.
            cut_after: After how many seconds the sender's connection is cut, which is a TransportError; None for never.
            answered: Whether the sender gets the answer if it waits so long; else it waits for its own timeout.
        """
        if self._selector.verb == "watch":
            raise ValueError('arrive_late: the rule is for requests to watch: take on("create", …)')
        self._refuse_event("arrive_late")
        self._selector.fault = ArriveLate(chosen(seconds), cut_after, answered)

    @checked
    def freeze(self, *, after: Count | Callable[[], int] = 0) -> None:
        """Silence a watch until its reader closes it: after so many lines, or from the event of the rule on.

        Args:
            after: After how many lines; a function is called for each watch.
        """
        self._refuse_other("freeze", after)
        self._selector.fault = Freeze(_counted(after))

    @checked
    def cut(self, *, after: Count | Callable[[], int] = 0, how: How = "error") -> None:
        """Cut the connection of a watch: after so many lines, or before the event of the rule.

        Args:
            after: After how many lines; a function is called for each watch.
            how: `error`; `half`, in the middle of the next line; or `end`, the orderly end of a server's timeout.
        """
        self._refuse_other("cut", after)
        self._selector.fault = Cut(_counted(after), how)

    def repeat(self) -> None:
        """Send each line of a watch, or the event, twice."""
        self._refuse_other("repeat")
        self._selector.fault = Repeat()

    @checked
    def lag(self, seconds: NotNegative | Callable[[], float]) -> None:
        """Let each line of a watch arrive late; their order stays, and no delay adds to the next.

        Args:
            seconds: How late; a function is called for each line.
        """
        if self._selector.verb == "event":
            raise ValueError('lag: the rule is for an event: take delay, or on("watch", …)')
        self._refuse_other("lag")
        self._selector.fault = Lag(chosen(seconds))

    def drop(self) -> None:
        """Lose the event without a sign, as a broken proxy does. The protocol has no such fault."""
        if self._selector.verb != "event":
            raise ValueError('drop: the rule is for requests: take on("event", …)')
        self._selector.fault = Drop()

    @checked
    def change(self, change: Change) -> None:
        """Change the object: of a write on its way to the server, as a mutating webhook does; or of an event.

        Args:
            change: Changes the decoded object in place; of a patch, the patch. Its result is ignored.
        """
        if self._selector.verb not in _CHANGED:
            raise ValueError(
                f'change: the rule is for requests to {self._selector.verb}: take on("create", …) or on("event", …)'
            )
        self._selector.fault = Edit(change)

    @checked
    def draw(self, *among: Drawn) -> None:
        """Draw a fault for each request or event: of all that suit it, or of those that are named.

        Args:
            among: The faults: methods of this class, a refusal (`409`, `429`, `500`, `503`), or the page of a proxy
                that does not execute the request (`page 404`, `page 502`). None suits what the rule is not for.
        """
        fault = Draw(among)
        if not any(map(fault.suited, (self._selector.verb,) if self._selector.verb else ("get", "create"))):
            verb = self._selector.verb
            subject, known = "events" if verb == "event" else f"requests to {verb}", ", ".join(Draw(()).suited(verb))
            raise ValueError(f"draw: none of {', '.join(among)} suits {subject}: take {known}")
        self._selector.fault = fault

    def _refuse_event(self, action: str) -> None:
        if self._selector.verb == "event":
            raise ValueError(f'{action}: the rule is for an event: take on("watch", …) or another verb')

    def _refuse_other(self, action: str, after: int | Callable[[], int] = 0) -> None:
        verb = self._selector.verb
        if verb == "event" and after:
            raise ValueError(f'{action}: after is for on("watch", …): choose an event with nth or chance')
        if verb not in _STREAMS and verb != "event":
            raise ValueError(f'{action}: the rule is for requests to {verb}: take on("watch", …)')
