"""The state of a process and of its controllers: keys, running reconciles, and those that have ended.

Everything is read from copies of the manager's data, so it may be done in any thread while the program's loop runs.
With ten thousand keys that takes some milliseconds: only the keys that are shown become values of their own.
"""

import asyncio
import heapq
import importlib.metadata
import math
import os
import platform
import re
import resource
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from kcr.api.durations import human_duration
from kcr.api.meta import Key
from kcr.controller import Controller
from kcr.controller.observers.journal import EndedReconcile
from kcr.scopes.sharding.shards import shown
from kcr.serving.debug.sources import StateSources, WatchedKind, retried
from kcr.serving.debug.state import (
    ControllerState,
    DebugState,
    DroppedState,
    ErrorGroup,
    InformerState,
    KeyState,
    LeadershipState,
    LoopState,
    ProcessState,
    RunningState,
    RunState,
    ShardingState,
    SlowKey,
)
from kcr.serving.ports import ProgramLoop
from kcr.stacks import await_stack, loop_calls

# How much of each is shown.
RECENT, SLOWEST, RUNS_OF_KEY, DROPPED = 30, 10, 20, 100
_FRAMES = 3

# How many groups are shown, and how many keys of each.
MAX_GROUPS, MAX_EXAMPLES = 20, 5

# The differences between errors of one kind: quotations, paths and namespace/name, and words with digits, which are
# numbers, uids, versions, times and generated names.
_VARYING = re.compile(
    r'"[^"\n]*+"|\'[^\'\n]*+\''
    r"|(?<![\w./-])(?:[\w.-]*+/[\w./-]++|(?=[A-Za-z_.-]*+\d)[\w.-]++)"
)
_PLACEHOLDER = "…"


class ControllerReader:
    """A controller at one moment."""

    def __init__(self, controller: Controller, now: float, stores: Mapping[int, str], thread: int) -> None:
        """Copy the controller's state.

        Args:
            controller: The controller.
            now: The loop's time.
            stores: The objects of stores, by the identity of the store.
            thread: Where the program's loop runs.
        """
        own_writes, journal = controller.own_writes, controller.journal
        self._controller = controller
        self._now = now
        self._stores = stores
        self._thread = thread
        self._queue = retried(controller.queue.snapshot)
        self._failing = journal.failing.copy()
        self._running = journal.running.copy()
        self._runs = retried(lambda: journal.runs)
        self._deferred = retried(lambda: own_writes.deferred) if own_writes is not None else {}
        self._paused = frozenset(retried(lambda: controller.paused))
        self._parked = controller.parked
        self._waiting = retried(lambda: controller.waits.texts(now))

    def state(self, max_keys: int) -> ControllerState:
        """Return the controller, with so many keys at most."""
        controller, ready, shown = self._controller, self._queue.ready, self._first_keys(max_keys)
        since = self._queue.queued_since
        return ControllerState(
            name=controller.name,
            kinds=tuple(kind.display for kind in controller.kinds),
            workers=controller.metrics.workers,
            queued={str(priority): count for priority, count in sorted(Counter(ready.values()).items(), reverse=True)},
            delayed=len(self._queue.delays),
            deferred=len(self._deferred),
            paused=len(self._paused),
            failing=len(self._failing),
            oldest_queued_seconds=self._age(min((since[key] for key in ready if key in since), default=self._now)),
            results={str(outcome): count for outcome, count in controller.metrics.results.copy().items()},
            running=self._running_states(),
            keys=tuple(map(self.key_state, shown)),
            keys_left_out=len(self._known) - len(shown),
            errors=error_groups({key: str(run.detail) for key, run in self._failing.items()}),
            slowest=self._slowest(),
            recent=tuple(map(self._run_state, islice(reversed(self._runs), RECENT))),
            is_sharded=controller.is_sharded,
            parked=len(self._parked),
            dropped=tuple(self._dropped_states()),
        )

    def key_state(self, key: Key) -> KeyState:
        """Return where one key is."""
        queue, failure, parked = self._queue, self._failing.get(key), self._parked.get(key)
        delay, queued_since = queue.delays.get(key), queue.queued_since.get(key)
        return KeyState(
            key=str(key),
            phase=self._phase(key),
            retries=self._controller.queue.retries(key) if parked is None else parked.failures,
            priority=queue.queued.get(key, 0),
            queued_seconds=None if queued_since is None else self._age(queued_since),
            due_seconds=None if delay is None else max(0.0, delay.deadline - self._now),
            reasons=tuple(map(str, queue.reasons_of(key))),
            error=failure.text if failure is not None else "" if parked is None else parked.error,
            waits_for=tuple(self._waits_for(key)),
        )

    def runs_of(self, key: Key) -> tuple[RunState, ...]:
        """Return the last reconciles of a key, the newest first."""
        return tuple(islice((self._run_state(run) for run in reversed(self._runs) if run.key == key), RUNS_OF_KEY))

    def unconfirmed(self, key: Key) -> tuple[str, ...]:
        """Return the writes for a key that were not answered."""
        own_writes = self._controller.own_writes
        return retried(lambda: own_writes.unconfirmed(key)) if own_writes is not None else ()

    def _phase(self, key: Key) -> str:
        queue = self._queue
        places: tuple[tuple[str, Collection[Key]], ...] = (
            ("processing", queue.processing), ("queued", queue.queued), ("deferred", self._deferred),
            ("paused", self._paused), ("parked", self._parked), ("delayed", queue.delays), ("waiting", self._waiting),
        )  # fmt: skip
        phase = next((phase for phase, keys in places if key in keys), "idle")
        return "backoff" if phase == "delayed" and queue.is_in_backoff(key) else phase

    def _waits_for(self, key: Key) -> Iterator[str]:
        yield from self._waiting.get(key, ())
        for late in self._deferred.get(key, ()):
            kind = self._stores.get(id(late.store), "a store")
            yield f"{kind}: version {late.version}, the store has {late.progress.resource_version}"

    @cached_property
    def _known(self) -> set[Key]:
        queue = self._queue
        waits = {*self._deferred, *self._paused, *self._parked, *self._waiting, *queue.delays}
        return {*self._failing, *queue.processing, *queue.queued, *waits}

    def _first_keys(self, count: int) -> list[Key]:
        """Return so many keys: those in trouble first, and of these the ones that are in it most."""
        queue, retries = self._queue, self._controller.queue.retries
        ranks = (
            (self._parked, lambda key: -self._parked[key].failures),
            (self._failing, lambda key: -retries(key)),
            (self._deferred, lambda key: 0),
            (queue.processing, lambda key: queue.processing_since.get(key, 0.0)),
            (queue.queued, lambda key: queue.queued_since.get(key, 0.0)),
            (self._paused, lambda key: 0),
            (self._waiting, lambda key: 0),
            (queue.delays, lambda key: queue.delays[key].deadline),
        )  # fmt: skip
        found: dict[Key, None] = {}
        for keys, rank in ranks:
            if len(found) < count:
                left = (key for key in keys if key not in found)
                found.update(dict.fromkeys(heapq.nsmallest(count - len(found), left, key=rank)))
        return list(found)

    def _dropped_states(self) -> Iterator[DroppedState]:
        dropped = self._controller.dropped
        last: dict[tuple[str, str], list[str]] = {}
        for at, place, key, before, after in reversed(retried(lambda: tuple(dropped.last))):
            texts = last.setdefault(place, [])
            if len(texts) < DROPPED:
                what = "created" if not before else "deleted" if not after else f"{before}→{after}"
                texts.append(f"{key} {what}, {human_duration(timedelta(seconds=self._age(at)))} ago")
        for (kind, predicate), count in dropped.counts.copy().items():
            texts = last.get((kind, predicate), [])
            yield DroppedState(kind=kind, predicate=predicate, count=count, last=tuple(texts))

    def _running_states(self) -> tuple[RunningState, ...]:
        since, reasons = self._queue.processing_since, self._queue.processing_reasons
        states = [
            RunningState(
                key=str(key),
                seconds=self._age(since.get(key, self._now)),
                at=_place(task, self._thread) if task is not None else "",
                reasons=tuple(map(str, self._queue.reasons_of(key) if key in reasons else ())),
            )
            for key, task in self._running.items()
        ]
        return tuple(sorted(states, key=lambda state: -state.seconds))

    def _slowest(self) -> tuple[SlowKey, ...]:
        seconds: dict[Key, list[float]] = {}
        for run in self._runs:
            seconds.setdefault(run.key, []).append(run.seconds)
        slowest = heapq.nlargest(SLOWEST, seconds.items(), key=lambda one: max(one[1]))
        return tuple(SlowKey(key=str(key), seconds=max(taken), runs=len(taken)) for key, taken in slowest)

    def _run_state(self, run: EndedReconcile) -> RunState:
        return RunState(
            key=str(run.key),
            seconds_ago=self._age(run.ended),
            seconds=run.seconds,
            outcome=run.outcome,
            text=run.text,
        )

    def _age(self, time: float) -> float:
        return max(0.0, self._now - time)


def _place(task: asyncio.Task[Any], thread: int) -> str:
    if getattr(task.get_coro(), "cr_running", False):
        return loop_calls(sys._current_frames().get(thread), _FRAMES)
    return await_stack(task, _FRAMES)


def error_groups(errors: Mapping[Key, str]) -> tuple[ErrorGroup, ...]:
    """Return the failing keys by error, most keys first: a thousand keys that fail alike are one line.

    Two errors are alike when they differ in names, numbers, uids and versions only. An error of one key alone has its
    own words.
    """
    groups: dict[str, list[Key]] = {}
    for key, text in errors.items():
        groups.setdefault(_without_names(text, key.name), []).append(key)
    most = sorted(groups.items(), key=lambda group: -len(group[1]))[:MAX_GROUPS]
    return tuple(
        ErrorGroup(
            text=text if len(keys) > 1 else errors[keys[0]],
            keys=len(keys),
            examples=tuple(str(key) for key in keys[:MAX_EXAMPLES]),
        )
        for text, keys in most
    )


# The page asks every few seconds, and a key that fails does so for the same reason again.
@lru_cache(maxsize=16_384)
def _without_names(text: str, name: str) -> str:
    text = _VARYING.sub(_PLACEHOLDER, text)
    # A name without digits that is not quoted. A pattern for each name would take a hundred times as long.
    return _without_word(text, name) if name in text else text


def _without_word(text: str, word: str) -> str:
    parts = text.split(word)
    joined = parts[0]
    for before, after in pairwise(parts):
        is_word = not before[-1:].isalnum() and not after[:1].isalnum()
        joined += (_PLACEHOLDER if is_word else word) + after
    return joined


class StateReader:
    """Reads the state of a process."""

    def __init__(self, sources: StateSources, program: ProgramLoop) -> None:
        self._sources = sources
        self._program = program

    def state(self, now: float, max_keys: int, not_ready: tuple[str, ...]) -> DebugState:
        """Return the state.

        Args:
            now: The time of the program's loop. (A loop that is blocked does not know.)
            max_keys: How many keys of each controller at most.
            not_ready: The readiness checks that fail.
        """
        sources = self._sources
        names = sorted(sources.controllers.copy())
        return DebugState(
            process=self._process(now, not_ready),
            loop=self._loop_state(now),
            leadership=self._leadership(),
            sharding=self._sharding(),
            informers=tuple(informer_state(name, one, now) for name, one in sorted(sources.informers.copy().items())),
            controllers=tuple(self.controller(name, now).state(max_keys) for name in names),
        )

    def controller(self, name: str, now: float) -> ControllerReader:
        """Return the reader of one controller."""
        sources = self._sources
        return ControllerReader(sources.controllers[name], now, sources.store_names(), self._program.thread)

    def _process(self, now: float, not_ready: tuple[str, ...]) -> ProcessState:
        return ProcessState(
            command=self._sources.command,
            version=importlib.metadata.version("kcr"),
            python=platform.python_version(),
            pid=os.getpid(),
            now=self._sources.clock.now(),
            uptime_seconds=now - self._program.began,
            server=self._sources.options.server,
            memory_bytes=resident_bytes(),
            not_ready=not_ready,
        )

    def _loop_state(self, now: float) -> LoopState:
        monitor, tasks = self._sources.monitor, len(retried(lambda: asyncio.all_tasks(self._program.loop)))
        if monitor is None:
            return LoopState(lag_seconds=0.0, max_lag_seconds=0.0, blocked_at="", tasks=tasks)
        return LoopState(
            lag_seconds=monitor.lag(now),
            max_lag_seconds=monitor.max_lag(now),
            blocked_at=monitor.blocked_at(now),
            tasks=tasks,
        )

    def _leadership(self) -> LeadershipState | None:
        elector = self._sources.elector
        if elector is None:
            return None
        spec = elector.lease.spec if elector.lease is not None else None
        renewed = spec.renew_time if spec is not None else None
        return LeadershipState(
            lease=str(elector.config.key),
            identity=elector.config.identity,
            holder=spec.holder_identity if spec is not None else "",
            is_leading=elector.leads,
            renewed_seconds_ago=None if renewed is None else (self._sources.clock.now() - renewed).total_seconds(),
        )

    def _sharding(self) -> ShardingState | None:
        shards = self._sources.shards
        if shards is None:
            return None
        held = shards.held
        return ShardingState(
            lease=str(shards.config.key),
            identity=shards.config.identity,
            shards=shards.count,
            phases={number: held[number].phase.value for number in sorted(held)},
            held=shown(held),
            moves=dict(shards.moves),
            last_handover_seconds=shards.last_handover_seconds,
        )


def informer_state(name: str, watched: WatchedKind, now: float) -> InformerState:
    """Return the state of an informer."""
    informer = watched.informer
    last = informer.last_event_time
    return InformerState(
        kind=name,
        namespaces=tuple(sorted(one.namespace for one in watched.selections if one.namespace)),
        is_synced=informer.store.synced,
        objects=len(informer.store),
        resource_version=str(informer.store.resource_version),
        last_event_seconds_ago=max(0.0, now - last) if math.isfinite(last) else None,
        counts=dict(informer.counts),
        last_error=informer.last_error if informer.store.synced else informer.not_synced_reason,
    )


def resident_bytes() -> int:
    """Return the resident memory of this process; where that cannot be read, its highest so far."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
