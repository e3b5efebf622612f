"""Adaptive pressure: one limit of requests in flight, which follows the load of the API server; and retries.

`kcr.client.wire.congestion` decides; here requests wait, and are counted. While nothing is wrong a request costs two
additions and no await. `RateLimit` limits the rate in addition. The policy of retries is entered only after a failure
that may be retried (ST-40).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import Meta

from kcr.annotations import Positive
from kcr.arguments import checked
from kcr.client.loops import HomeLoop, PerLoop
from kcr.client.wire.congestion import (
    CALM,
    MOST,
    SLOW_SECONDS,
    Congestion,
    failed,
    is_overload,
    is_slow,
    may_send,
    sent,
    slowed,
    succeeded,
    usual_seconds,
)
from kcr.client.wire.decoding import UNEXPECTED_RESPONSE
from kcr.client.wire.transport import Request
from kcr.errors import ApiError, KcrError, TransportError
from kcr.log import about_no_object, get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.tokenbucket import TokenBucket

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

# How long a request waits for its turn while the server refuses everything.
PATIENCE_SECONDS = 30.0
# So many requests of an event loop may wait to be sent again.
RETRIES_AT_ONCE = 2
# Where the usual latency begins.
_USUAL_SECONDS = 0.05
# Shorter waits for the rate limit are not logged.
_TOLD_SECONDS = 0.05

# How long one call may take, its retries included; the caller decides about longer waits.
CALL_SECONDS = 30.0
_TRIES = 10
# A read whose connection failed is sent again this often; the pauses double from the first on.
_CONNECTION_TRIES = 3
_FIRST_PAUSE_SECONDS = 0.1
# A pause is up to so much longer, lest all that were refused at once come back at once.
_JITTER = 0.2

_log = get_logger("kcr.client")


class Pressure:
    """Limits the requests in flight of a process; watches are exempt.

    The limit is 100 while all is well. It falls when the server answers with 429, 502, 503 or 504, does not answer, or
    takes ten times as long as usual, and rises with each success. When twenty requests in a row have failed, only
    probes are sent, about one a second; a success ends that. Requests that wait are sent in the order in which they
    came. One that has waited for 30 s while the server refuses everything raises TransportError, and was not sent.

    Each event loop has a limit of its own: webhooks, which have a loop of their own, never wait for reconciles.
    """

    def __init__(self, *, random: Random | None = None) -> None:
        """Start without pressure.

        Args:
            random: Spreads probes and retries; None for the same in each process, as tests need it.
        """
        self.random: Random = random or Random(0)
        self._places = PerLoop(lambda: Places(self.random))

    def here(self) -> "Places":
        """Return the places of the running event loop."""
        return self._places.here()

    @property
    def limit(self) -> int:
        """How many requests may be in flight; 1 while only probes are sent."""
        return min((places.limit for places in self._places.all()), default=int(MOST))

    @property
    def in_flight(self) -> int:
        """How many requests are in flight."""
        return sum(places.in_flight for places in self._places.all())

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return sum(places.waiting for places in self._places.all())

    def remark(self) -> str:
        """Return a remark on the limit for `/readyz?verbose`; an empty string without pressure."""
        if self.limit >= MOST:
            return ""
        return f"the API server is overloaded or away: at most {self.limit} requests in flight, {self.waiting} wait"


class Places:
    """The places for requests of one event loop.

    Invariant: a request that is sent has a place, which `leave` gives back. As long as requests wait, a new one waits
    behind them.

    Attributes:
        in_flight: How many requests have a place.
    """

    def __init__(self, random: Random) -> None:
        self.in_flight: int = 0
        self._random = random
        self._now = asyncio.get_running_loop().time
        self._known: Congestion = CALM
        self._usual = _USUAL_SECONDS
        # One future for each request that waits, in their order; its result is the moment at which it got its place.
        self._turns: deque[asyncio.Future[float]] = deque()
        # The timer for the next probe, and the moment for which it is set: it may have none itself, or fire before it.
        self._alarm: asyncio.Handle | None = None
        self._alarm_at = float("-inf")
        self._error: BaseException | None = None
        self._lines = RateLimitedLogger(_log)
        # Since when requests wait for the server, and how many have; None while none does.
        self._began: float | None = None
        self._waited = 0
        self._retries = 0

    @property
    def limit(self) -> int:
        """How many requests may be in flight; 1 while only probes are sent."""
        return 1 if self._known.pause_seconds else int(self._known.limit)

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return len(self._turns)

    def enter(self) -> float | None:
        """Take a place and return the time, or return None when the request has to wait for one."""
        if self._known is CALM and self.in_flight < MOST and not self._turns:
            self.in_flight += 1
            return self._now()
        return None

    async def wait(self, request: Request) -> float:
        """Wait for a place, and return the time at which it was free.

        Raises:
            TransportError: The server has refused everything for too long. The request was not sent.
        """
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        # From here on the turn is given back, whatever happens.
        try:
            self._admit()
            if not turn.done():
                self._waited += 1
                self._tell()
            while not turn.done():
                await asyncio.wait((turn,), timeout=PATIENCE_SECONDS)
                if not turn.done() and self._known.pause_seconds:
                    path = request.target.partition("?")[0]
                    raise TransportError(
                        f"{request.method} {path}: not sent, the API server has refused everything for "
                        f"{PATIENCE_SECONDS:.0f} s: {self._error}"
                    )
        except BaseException:
            if turn.done():
                # It got its place in the moment in which it was cancelled.
                self.in_flight -= 1
                self._admit()
            else:
                self._turns.remove(turn)
            raise
        return turn.result()

    @asynccontextmanager
    async def place(self, request: Request) -> AsyncIterator["Place"]:
        """Hold a place for as long as the context lives, for a request whose answer the caller reads."""
        sent_at = self.enter()
        place = Place(await self.wait(request) if sent_at is None else sent_at, self._now)
        try:
            yield place
        except BaseException as error:
            self.leave(place.sent_at, error, place.seconds)
            raise
        self.leave(place.sent_at, place.refusal, place.seconds)

    @contextmanager
    def retrying(self) -> Iterator[bool]:
        """Count a request that waits to be sent again, and yield whether it may: too many put workers to sleep."""
        self._retries += 1
        try:
            yield self._retries <= RETRIES_AT_ONCE
        finally:
            self._retries -= 1

    def leave(self, sent_at: float, error: BaseException | None = None, seconds: float | None = None) -> None:
        """Give a place back.

        Args:
            sent_at: The time that `enter` or `wait` has returned.
            error: How the request failed; None for an answer, whatever it was. A cancelled one counts when it was slow.
            seconds: How long the answer took; None for until now.
        """
        self.in_flight -= 1
        now, known = self._now(), self._known
        if seconds is None:
            seconds = now - sent_at
        if error is not None and is_overload(error):
            self._error = error
            retry_after = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
            spread = self._random.random()
            self._learn(failed(known, sent_at, now, retry_after, usual=self._usual, spread=spread))
        elif seconds > SLOW_SECONDS and is_slow(seconds, self._usual):
            self._usual = usual_seconds(self._usual, seconds)
            self._learn(slowed(known, sent_at, now))
        elif error is None or isinstance(error, ApiError):
            self._usual = usual_seconds(self._usual, seconds)
            if known is not CALM:
                self._learn(succeeded(known, sent_at, now))
        if self._turns:
            self._admit()

    def _admit(self, due: float = float("-inf")) -> None:
        """Give free places to the requests that wait, and come back for the next probe.

        Args:
            due: The moment that has come, although the loop's time may be a little before it.
        """
        now = self._now()
        while self._turns and may_send(self._known, self.in_flight, max(now, due)):
            self.in_flight += 1
            self._known = sent(self._known, now, self._random.random())
            self._turns.popleft().set_result(now)
        probe_at = self._known.next_probe
        if self._turns and self._known.pause_seconds and (self._alarm is None or self._alarm_at != probe_at):
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = probe_at
            self._alarm = asyncio.get_running_loop().call_at(probe_at, self._probe)

    def _probe(self) -> None:
        self._alarm = None
        self._admit(self._alarm_at)

    def _learn(self, known: Congestion) -> None:
        before, self._known = self._known, known
        if known is CALM and self._began is not None:
            seconds = round(max(0.0, before.failed_at - self._began), 1)
            about_no_object(_log.info, "API server takes requests again", seconds=seconds, waited=self._waited)
            self._began, self._waited, self._error = None, 0, None

    def _tell(self) -> None:
        """Log that requests wait for the server, once until they do not any more."""
        if self._known is CALM or self._began is not None:
            return
        now = self._now()
        left_out = self._lines.left_out
        message = "API server is overloaded or away, limiting requests in flight"
        error = str(self._error or "answers are slow")
        about_no_object(self._lines.warning, now, message, limit=self.limit, error=error)
        if self._lines.left_out <= left_out:
            self._began, self._waited = now, 1


class Place:
    """The place of one request whose answer its caller reads, for as long as that takes.

    Attributes:
        sent_at: When the request got its place.
        seconds: How long its answer took; None before it comes.
        refusal: The error that its answer stands for; None for none.
    """

    def __init__(self, sent_at: float, now: Callable[[], float]) -> None:
        self.sent_at = sent_at
        self.seconds: float | None = None
        self.refusal: ApiError | None = None
        self._now = now

    def answered(self, refusal: ApiError | None) -> None:
        """Note the answer."""
        self.seconds, self.refusal = self._now() - self.sent_at, refusal


class RateLimit:
    """A token bucket on the loop's time. Requests that wait are sent in the order in which they came.

    Each event loop has a bucket of its own: webhooks, which have a loop of their own, never wait for reconciles.

    Each that waits for longer than 50 ms is logged, with the controller and the key that its reconcile is about.
    """

    @checked
    def __init__(
        self,
        qps: Positive,
        burst: Annotated[int, Meta(ge=1)],
        *,
        on_wait: Callable[[str, float], None] | None = None,
    ) -> None:
        """Start with a full bucket.

        Args:
            qps: How many requests per second in the long run; above zero.
            burst: How many may be sent at once after a pause; at least one.
            on_wait: Called for every request, with its method and the seconds it has waited, which may be 0.
        """
        self._on_wait = on_wait
        self._buckets = PerLoop(lambda: TokenBucket(qps, burst))
        self._home = HomeLoop()

    async def wait(self, method: str = "") -> None:
        """Return when the next request may be sent.

        Args:
            method: The request's, such as `GET`; only `on_wait` asks for it.
        """
        now = asyncio.get_running_loop().time
        began = now()
        seconds = self._buckets.here().reserve(began)
        if seconds > _TOLD_SECONDS:
            _log.debug("waited due to client-side throttling", seconds=round(seconds, 3))
        if seconds > 0:
            await asyncio.sleep(seconds)
        if self._on_wait is not None:
            self._home.call(self._on_wait, method, now() - began)


async def with_retries(request: Request, send: Callable[[Request], Awaitable[T]]) -> T:
    """Send a request, and again where that is safe; see `send_again`."""
    began = asyncio.get_running_loop().time()
    try:
        return await send(request)
    except (ApiError, TransportError) as error:
        return await send_again(request, send, error, began)


async def send_again(
    request: Request,
    send: Callable[[Request], Awaitable[T]],
    first: ApiError | TransportError,
    began: float,
    pressure: Pressure | None = None,
) -> T:
    """Send a request that has failed again, where that is safe; raise its error where it is not.

    429 and 5xx are tried up to ten times when the answer names a time to wait, for the server promises then
    that it did nothing. A proxy's promise counts for GET only, and so does a failed connection: any other method may
    have done its work.

    Args:
        request: The request.
        send: Sends it once, and waits for a place of its own each time.
        first: The error of the first try.
        began: When the first try began; all have to end within 30 s.
        pressure: Spreads the pauses, and has a budget of them: beyond it the error is raised, so that no more workers
            sleep. Their keys are delayed then, and others have their turn. None for neither.
    """
    if pause(request, first, 1) is None:
        raise first
    deadline = began + CALL_SECONDS
    if pressure is None:
        return await _again(request, send, first, deadline, None)
    with pressure.here().retrying() as is_within_budget:
        if not is_within_budget:
            raise first
        return await _again(request, send, first, deadline, pressure.random)


def pause(request: Request, error: BaseException | None, tries: int) -> float | None:
    """Return how many seconds to wait before the next try, or None when there is none.

    Args:
        request: The request.
        error: How the last try failed.
        tries: How often it has been sent.
    """
    match error:
        case ApiError() if error.has_cause(UNEXPECTED_RESPONSE) and request.method != "GET":
            return None
        case ApiError() if error.retry_after_seconds > 0 and (error.code == 429 or error.code >= 500):
            return error.retry_after_seconds if tries < _TRIES else None
        case TransportError() if request.method == "GET":
            return _FIRST_PAUSE_SECONDS * 2 ** (tries - 1) if tries < _CONNECTION_TRIES else None
    return None


async def _again(
    request: Request, send: Callable[[Request], Awaitable[T]], first: KcrError, deadline: float, random: Random | None
) -> T:
    # Imported when something fails: most processes never need it.
    import tenacity  # noqa: PLC0415  # see above

    now = asyncio.get_running_loop().time

    def error_of(state: "RetryCallState") -> BaseException:
        return (state.outcome.exception() if state.outcome else None) or first

    def wait(state: "RetryCallState") -> float:
        seconds = pause(request, error_of(state), state.attempt_number) or 0.0
        return seconds * (1 + random.random() * _JITTER) if random is not None else seconds

    def is_over(state: "RetryCallState") -> bool:
        seconds = pause(request, error_of(state), state.attempt_number)
        return seconds is None or now() + seconds >= deadline

    # The plain call before this policy was its first attempt.
    past, sent = [first], 1

    async def attempt() -> T:
        nonlocal sent
        if past:
            raise past.pop()
        sent += 1
        return await send(request._replace(resend_count=sent - 1))

    policy = tenacity.AsyncRetrying(sleep=asyncio.sleep, wait=wait, stop=is_over, reraise=True)
    answer: T = await policy(attempt)
    return answer
