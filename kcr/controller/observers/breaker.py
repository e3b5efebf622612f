"""Breaker: slows a key whose reconciles repeat their own writes without end.

Each key has a token bucket. A reconcile whose writes only repeat contents that it wrote before, times aside, takes a
token: another writer undoes them, or it writes the time at every turn. One with new contents takes a fifth. One that
writes an object for the first time takes none, for it makes progress, unless the hot loop is known that makes objects
without end. Writes that change nothing do not count, nor do reconciles that fail: those have a backoff. So a key
without own writes is never slowed.

Once the bucket is empty, such a reconcile is followed by no other for `SLOW_SECONDS`. The key is free again when there
was none for `CALM_SECONDS`. Contents are compared only of keys that have taken `_WARM` tokens.

Source: crossplane/internal/circuit; there events count, whoever causes them.
"""

import asyncio
import contextvars
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.meta import Key, Resource
from kcr.client.context import WriteTracker, WritingClient
from kcr.controller.gates import EventSink
from kcr.controller.observers import ReconcileRun
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics

SLOW_SECONDS, CALM_SECONDS = 10.0, 60.0
# A bucket holds the tokens of so many minutes.
_MINUTES = 5
_WARM = 20
_NEW_CONTENT = 0.2
# How many objects of a key are compared, and contents of each; the oldest give way.
_OBJECTS, _CONTENTS = 1000, 64
_TIME = re.compile(rb'"\d{4}-\d\d-\d\dT[^"]{3,30}"')

_EVENT = "hot loop: own writes are repeated"
_SLOWED = f"slowed to one reconcile in {SLOW_SECONDS:.0f} s"
_REMEDY = "see who undoes or causes these writes, and write only what differs"

_log = get_logger()


class _Written(msgspec.Struct, gc=False):
    """An object that a key's reconciles write: its last version, and its contents."""

    version: str = ""
    contents: dict[int, None] = {}


class _Pace(msgspec.Struct, gc=False):
    """The tokens that a key has taken, as of a moment; its objects, and while it is slowed a timer."""

    at: float
    taken: float = 0.0
    objects: dict[tuple[type[Resource], Key], _Written] = {}
    timer: asyncio.TimerHandle | None = None


class Breaker(WriteTracker):
    """The breakers of one controller's keys.

    Attributes:
        writes: The tokens of running reconciles, as far as they have written.
        slowed: The slowed keys, each with event, place and remedy; it may be read in any thread.
    """

    def __init__(
        self, per_minute: float, slow: Callable[[Key, float, str], None], *, controller: str,
        find: Callable[[Key], Resource | None], metrics: ControllerMetrics, recorder: Callable[[], EventSink | None],
    ) -> None:  # fmt: skip
        """Know of no writes.

        Args:
            per_minute: The tokens that a key gets.
            slow: Defers a key for some seconds, and says why.
            controller: Its name, for the log.
            find: Returns the object of a key; None when no store shows one.
            metrics: Where slowed keys are counted.
            recorder: Returns what records a warning about the object of a slowed key; None for no events.
        """
        self.writes: dict[Key, float] = {}
        self.slowed: dict[Key, tuple[str, str, str]] = {}
        # The objects of a key are known before its bucket is empty.
        self._per_second, self._burst = per_minute / 60, max(per_minute * _MINUTES, _WARM + 1)
        self._slow, self._controller, self._find = slow, controller, find
        self._metrics, self._recorder = metrics, recorder
        self._paces: dict[Key, _Pace] = {}
        # The size at which keys that are long calm are dropped. It doubles, so that a key costs a constant.
        self._sweep_at = 64

    def wrote(
        self, owner: Key, client: WritingClient, kind: type[Resource], key: Key, obj: Resource | None, *,
        is_new: bool = False,
    ) -> None:  # fmt: skip
        """Count a write, and the object in its answer; None of a deletion."""
        pace = self._paces.get(owner)
        tokens = 1.0 if pace is None or pace.taken < _WARM else _tokens(pace, kind, key, obj)
        if tokens is not None and not client.is_dry_run:
            self.writes[owner] = min(tokens, self.writes.get(owner, 1.0))

    def deleted(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Count an accepted deletion."""
        self.wrote(owner, client, kind, key, None)

    def end(self, run: ReconcileRun, found: tuple[str, str, str] | None, *, is_endless: bool) -> None:
        """Take the tokens of a reconcile that has written and ended, and slow its key when there are no more.

        Args:
            run: The reconcile.
            found: The event, place and remedy of the key's hot loop, as far as it is known.
            is_endless: Whether that makes objects without end.
        """
        key, now, tokens = run.key, run.ended, self.writes.pop(run.key)
        if run.outcome in ("error", "cancelled"):
            return
        if (pace := self._paces.get(key)) is None:
            self._sweep(now)
            pace = self._paces[key] = _Pace(now)
        tokens = 1.0 if is_endless else tokens
        pace.taken = max(0.0, pace.taken - (now - pace.at) * self._per_second) + tokens
        pace.at = now
        if not tokens or (pace.timer is None and pace.taken < self._burst):
            return
        if pace.timer is None:
            self._trip(key, pace, found)
        else:
            pace.timer.cancel()
        # An empty context: it must not log in the name of a reconcile.
        pace.timer = asyncio.get_running_loop().call_later(
            CALM_SECONDS, self.forget, key, context=contextvars.Context()
        )
        self._slow(key, SLOW_SECONDS, self.slowed[key][0])

    def forget(self, key: Key) -> None:
        """Free a key: it is calm, or another replica's."""
        pace = self._paces.pop(key, None)
        if pace is not None and pace.timer is not None:
            pace.timer.cancel()
            del self.slowed[key]
            self._metrics.slowed = len(self.slowed)
            _log.info("no longer slowed", controller=self._controller, namespace=key.namespace, name=key.name)

    def _trip(self, key: Key, pace: _Pace, found: tuple[str, str, str] | None) -> None:
        if found is None:
            kind, written = next(reversed(pace.objects))
            found = _EVENT, f"{kind.resource.display} {written}", _REMEDY
        event, place, remedy = f"{found[0]}, {_SLOWED}", *found[1:]
        self.slowed[key] = event, place, remedy
        self._metrics.slowed = len(self.slowed)
        _log.warning(event, object=place, remedy=remedy)
        obj = self._find(key)
        if obj is not None and (recorder := self._recorder()) is not None:
            recorder.event(obj, "Warning", "ReconcileSlowed", f"{event}: {place}; {remedy}")

    def _sweep(self, now: float) -> None:
        if len(self._paces) >= self._sweep_at:
            self._paces = {
                key: pace
                for key, pace in self._paces.items()
                if pace.timer is not None or pace.taken > (now - pace.at) * self._per_second
            }
            self._sweep_at = 2 * len(self._paces) + 64


def _tokens(pace: _Pace, kind: type[Resource], key: Key, obj: Resource | None) -> float | None:
    """Return how much of a token a write takes; None when it changed nothing."""
    version, content = "", 0
    if obj is not None:
        version = obj.metadata.resource_version
        metadata = replace(obj.metadata, resource_version="", generation=0, uid="")
        content = hash(_TIME.sub(b"", codec.encode(replace(obj, metadata=metadata))))
    known = pace.objects.get((kind, key))
    if known is None:
        known = pace.objects[kind, key] = _Written()
        _cut(pace.objects, _OBJECTS)
    elif version and known.version == version:
        return None
    is_first, is_repeat = not known.contents, content in known.contents
    known.version, known.contents[content] = version, None
    _cut(known.contents, _CONTENTS)
    return 0.0 if is_first else 1.0 if is_repeat else _NEW_CONTENT


def _cut(kept: dict[Any, Any], most: int) -> None:
    if len(kept) > most:
        del kept[next(iter(kept))]
