"""The phases of a reflector: where it is, where a failure or the end of a stream takes it, and after which pause.

```
          ┌──────────── expired, or an error that a new list may heal ───────────┐
          ▼                                                                      │
        Empty ─▶ Streaming ─── initial events end ──▶ Watching ◀──▶ Listed ──────┘
                     └───▶ Listing ─── last page ──────────────────────▲
```
"""

from random import Random
from typing import NamedTuple

from kcr.api.meta import Object
from kcr.client.wire.transport import PAGE_SIZE
from kcr.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KcrError,
    NotFoundError,
    TransportError,
)

# A watch that ends sooner, without a single event, is a failure: no hot loop of watches (RF-18).
SHORT_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.8
_LONGEST_PAUSE_SECONDS = 30.0
_FORGOTTEN_AFTER_SECONDS = 120.0
# How often a list of a kind is tried that the server does not have.
_ABSENT_SECONDS = 5.0


class LostEventError(KcrError):
    """A watch has omitted an event, or sent one without a name: a relist is necessary."""


class NarrowedError(KcrError):
    """The watch was ended to be resumed with fewer slots."""


class Empty(Object):
    """The store is empty, or its version cannot be resumed: a list is necessary."""


class Streaming(Object):
    """The present state comes as events of a watch (WatchList); `open` once the server has begun to answer."""

    began: float
    open: bool = False
    events: int = 0


class Listing(Object):
    """The present state is read page by page."""

    continue_: str = ""
    limit: int = PAGE_SIZE
    pages: int = 0


class Listed(Object):
    """The store is right as of a version; no watch is open."""

    version: str


class Watching(Object):
    """A watch is open, and the store right as of its last event."""

    version: str
    began: float
    events: int = 0


Phase = Empty | Streaming | Listing | Listed | Watching


class Next(NamedTuple):
    """The next phase.

    Attributes:
        phase: The next phase.
        pause: Whether to back off before it.
    """

    phase: Phase
    pause: bool = True


def after_end(phase: Streaming | Watching, now: float) -> Next:
    """Return the next phase after the server has ended a stream regularly.

    A server that does not know WatchList may end it without having marked the end of the initial events; the
    list is the way then. Source: kubernetes/staging/src/k8s.io/client-go/tools/cache/reflector.go, watch (RF-17).
    """
    is_short = phase.events == 0 and now - phase.began < SHORT_SECONDS
    if isinstance(phase, Streaming):
        return Next(Listing(), pause=is_short)
    return Next(Listed(version=phase.version), pause=is_short)


def after_failure(phase: Phase, error: KcrError, now: float) -> Next:
    """Return the next phase after a failed request or stream.

    A connection that fails and a server that is busy change nothing: the same is tried again. Most other
    answers send a watch back to reading everything.

    Args:
        phase: Where the reflector was.
        error: An `ApiError`, a `TransportError`, a `LostEventError` or a `NarrowedError`.
        now: The loop's time.

    Source: kubernetes/staging/src/k8s.io/client-go/tools/cache/reflector.go, watch and watchList (RF-16, RF-17, RF-24).
    """
    is_passing = isinstance(error, TransportError) or (isinstance(error, ApiError) and error.code == 429)
    match phase:
        case Listed() if is_passing:
            return Next(phase)
        case Watching() if isinstance(error, NarrowedError):
            return Next(Listed(version=phase.version), pause=False)
        case Watching() if is_passing:
            return after_end(phase, now) if isinstance(error, TransportError) else Next(Listed(version=phase.version))
        case Streaming() if not is_passing and not isinstance(error, GoneError):
            return Next(Listing(), pause=False)
        case Listing(continue_=token) if token and isinstance(error, GoneError):
            # The pages took longer than the server remembers: all in one, once (RF-8).
            return Next(Listing(limit=0), pause=False)
    return Next(Empty())


def is_unsupported(error: KcrError) -> bool:
    """Return whether this answer to a WatchList request says that the server does not know it (RF-24)."""
    return isinstance(error, InvalidError | BadRequestError)


def in_words(error: KcrError) -> str:
    """Return the description of a failure for `Informer.not_synced_reason`."""
    match error:
        case ForbiddenError():
            return f"forbidden, list and watch are needed: {error}"
        case NotFoundError():
            return f"absent: {error}"
        case TransportError():
            return f"unreachable: {error}"
    return str(error)


class ReflectorBackoff:
    """Exponential backoff: pauses that double up to 30 s, each lengthened by chance up to twofold.

    They start again after two minutes without one, and after a watch has delivered something: a server that was
    away for a while several times is asked as soon each time.

    Source: kubernetes/staging/src/k8s.io/client-go/tools/cache/reflector.go, NewReflectorWithOptions (RF-3). There
    only the two minutes count.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = _FIRST_PAUSE_SECONDS
        self._last = float("-inf")
        # Whether a watch has delivered something since the last failure, and whether since then a relist has
        # followed a 410 at once.
        self._delivered = True
        self._relisted_at_once = False

    def note_event(self) -> None:
        """Note that a watch has delivered something: the pauses start again."""
        if not self._delivered:
            self._delivered, self._relisted_at_once = True, False
            self._next = _FIRST_PAUSE_SECONDS

    def pause_after(self, error: KcrError | None, now: float) -> float:
        """Return the seconds to wait after a failure, or after a watch that ended at once without an error."""
        self._delivered = False
        if isinstance(error, GoneError) and not self._relisted_at_once:
            # A relist ends the gap, as after a restart of the server: the store is old, and to wait makes it older.
            self._relisted_at_once = True
            return 0.0
        if isinstance(error, NotFoundError):
            # Steady, for a definition may be installed at any time, and its controllers wait for it.
            return _ABSENT_SECONDS
        wanted = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
        return max(self.pause(now), wanted)

    def pause(self, now: float) -> float:
        """Return the seconds to wait, at this time of the loop."""
        if now - self._last >= _FORGOTTEN_AFTER_SECONDS:
            self._next = _FIRST_PAUSE_SECONDS
        self._last = now
        seconds = self._next * (1.0 + self._random.random())
        self._next = min(self._next * 2, _LONGEST_PAUSE_SECONDS)
        return seconds
