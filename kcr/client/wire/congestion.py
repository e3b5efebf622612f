"""Congestion control: the limit of requests in flight, computed from the answers of the API server; values alone.

The limit follows TCP's congestion window: additive increase, multiplicative decrease, once per round trip, and slow
start after a pause. A server that refuses everything is probed only, one request at a time, with growing pauses: the
half-open state of a circuit breaker.

The result of a request that was sent before the last decrease, or before the pause, is news of the time before: it
changes neither.

Source: RFC 5681, sections 3.1 and 3.2; the decrease is smaller, for here no queue keeps the server busy meanwhile.
"""

from typing import NamedTuple

from kcr.errors import ApiError, TransportError

# Between these the limit moves. The least still lets small requests pass a slow list.
MOST, LEAST = 100.0, 4.0
# Latency alone is a weak sign: the slow part may be a webhook that no one else uses.
LEAST_WHEN_SLOW = 20.0
DECREASE = 0.9
# So many failures in a row are no rejections of a part: with half of all rejected, one in a million runs is so long.
# Where few requests are sent, few failures are enough when they last. They have to last for some answers' time in any
# case: a full server's rejections come back before the answers to the requests that it has admitted.
MANY_FAILURES, FEW_FAILURES, FAILING_SECONDS, FAILING_ANSWERS = 20, 4, 1.0, 3.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 1.0
# So long after the last failure the limit is the highest again.
CALM_SECONDS = 10.0
# An answer is slow when it takes so long, and so many times as long as usual.
SLOW_SECONDS, SLOW_FACTOR = 1.0, 10.0
# A new answer weighs so much in the usual latency.
_WEIGHT = 0.001
# The codes of a server that is overloaded or away, and of proxies in front of it.
_OVERLOADED = frozenset({429, 502, 503, 504})


class Congestion(NamedTuple):
    """The observed load of the server, all times by the loop's clock.

    Attributes:
        limit: How many requests may be in flight, rounded down.
        threshold: Below it the limit grows by one per success (slow start), beyond by one per round trip.
        changed_at: When the limit was last decreased, or the pause began.
        failed_at: When a request last failed, or was slow enough to lower the limit.
        failures: How many have failed since the last success.
        failing_since: When the first of these failed.
        pause_seconds: The pause after the next probe; 0 while the server does its work.
        next_probe: When the next request may be sent in a pause.
    """

    limit: float = MOST
    threshold: float = MOST
    changed_at: float = float("-inf")
    failed_at: float = float("-inf")
    failures: int = 0
    failing_since: float = float("-inf")
    pause_seconds: float = 0.0
    next_probe: float = float("-inf")


CALM = Congestion()


def may_send(known: Congestion, in_flight: int, now: float) -> bool:
    """Return whether one more request may be sent."""
    return now >= known.next_probe if known.pause_seconds else in_flight < int(known.limit)


def sent(known: Congestion, now: float, spread: float) -> Congestion:
    """Return the state once a request is sent: a probe is followed by a pause twice as long as the one before.

    Args:
        known: The state before.
        now: The present moment.
        spread: Between 0 and 1, at random: lengthens the pause by up to a half.
    """
    if not known.pause_seconds:
        return known
    longer = min(known.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
    return known._replace(pause_seconds=longer, next_probe=now + known.pause_seconds * (1 + spread / 2))


def succeeded(known: Congestion, sent_at: float, now: float) -> Congestion:
    """Return the state after an answer: a success, or a refusal for another reason than load."""
    is_news = sent_at > known.changed_at
    if known.pause_seconds:
        # Slow start: all others wait for this moment.
        return known._replace(limit=LEAST, failures=0, pause_seconds=0.0, changed_at=now) if is_news else known
    if now - known.failed_at >= CALM_SECONDS:
        return CALM
    if not is_news:
        return known._replace(failures=0)
    limit = known.limit + (1 if known.limit < known.threshold else 1 / known.limit)
    return CALM if limit >= MOST else known._replace(limit=limit, failures=0)


def failed(
    known: Congestion, sent_at: float, now: float, retry_after: float, *, usual: float, spread: float
) -> Congestion:
    """Return the state after a request that the server had no place for, or did not answer.

    Args:
        known: The state before.
        sent_at: When the request was sent.
        now: The present moment.
        retry_after: So many seconds the server asks to wait; 0 when it does not say. The request itself is sent again
            after that in any case. A server that refuses everything means all requests.
        usual: How long answers usually take.
        spread: Between 0 and 1, at random: lengthens a pause by up to a half.
    """
    is_news = sent_at > known.changed_at
    if known.pause_seconds:
        return known._replace(failed_at=now, next_probe=max(known.next_probe, now + retry_after)) if is_news else known
    since = known.failing_since if known.failures else now
    known = known._replace(failures=known.failures + 1, failing_since=since, failed_at=now)
    seconds = now - since
    is_pause = known.failures >= (MANY_FAILURES if seconds < FAILING_SECONDS else FEW_FAILURES)
    if is_pause and seconds >= min(usual * FAILING_ANSWERS, FAILING_SECONDS):
        first = max(FIRST_PAUSE_SECONDS * (1 + spread / 2), retry_after)
        return known._replace(
            threshold=max(LEAST, known.limit / 2), changed_at=now, pause_seconds=FIRST_PAUSE_SECONDS * 2,
            next_probe=now + first,
        )  # fmt: skip
    return _decreased(known, now, LEAST) if is_news else known


def slowed(known: Congestion, sent_at: float, now: float) -> Congestion:
    """Return the state after a slow answer; see `is_slow`."""
    if known.pause_seconds:
        return succeeded(known, sent_at, now)
    if sent_at <= known.changed_at or known.limit <= LEAST_WHEN_SLOW:
        return known._replace(failures=0)
    return _decreased(known._replace(failures=0, failed_at=now), now, LEAST_WHEN_SLOW)


def _decreased(known: Congestion, now: float, least: float) -> Congestion:
    limit = max(least, known.limit * DECREASE)
    return known._replace(limit=limit, threshold=limit, changed_at=now)


def is_slow(seconds: float, usual: float) -> bool:
    """Return whether an answer took far longer than usual."""
    return seconds > SLOW_SECONDS and seconds > usual * SLOW_FACTOR


def usual_seconds(usual: float, seconds: float) -> float:
    """Return how long answers usually take, now that one took so long.

    A thousand times longer than usual is usual as well after some thousand answers: then it is no sign of load.
    """
    return usual + (min(seconds, usual * 2) - usual) * _WEIGHT


def is_overload(error: BaseException) -> bool:
    """Return whether an error means that the server is overloaded or away."""
    return isinstance(error, TransportError) or (isinstance(error, ApiError) and error.code in _OVERLOADED)
