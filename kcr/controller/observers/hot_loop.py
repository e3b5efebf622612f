"""Hot loops: a key that is reconciled over and over, because of writes or because its reconciler asks for that.

Two writers that each set a field to a value of their own enqueue the key endlessly, and so do a reconciler that creates
an object and a program that deletes it. So does one reconciler that creates another object each time, whose every write
differs from the one before, such as a time in a status, or that returns `requeue_after=0`. None of them fails, so no
error shows the loop.

While all is well, it costs one counter per key. Only a key that is reconciled `MOST_RECONCILES` times within
`WINDOW_SECONDS` has its changes recorded, for as long as it takes. The managedFields of the object that is found, which
no store keeps, are listed a few times, before and after a reconcile: the owners of the field are its writers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.managed_fields import ManagedObjectList
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.client.wire.transport import target
from kcr.controller.observers import Observer, ReconcileRun
from kcr.controller.observers.breaker import Breaker
from kcr.controller.observers.recording import HotLoop, Path, Recording
from kcr.errors import KcrError
from kcr.informer import Handler, Informer, InformerHandle
from kcr.informer.handlers import Registration
from kcr.log import get_logger
from kcr.workqueue.delaying import MIN_DELAY_SECONDS

MOST_RECONCILES = 100
WINDOW_SECONDS = 60.0
# A key whose line was written, or that had nothing to say, is left alone for so long.
SILENT_SECONDS = 600.0
# The keys whose changes are recorded at a time.
_KEYS = 10
# How often the owners of a field are read, half of them before a reconcile and half after one.
_LOOKS = 4
_MAX_FIELDS = 5
# How long the worker waits for them: no timeout of a reconcile counts here.
_LOOK_SECONDS = 2.0

_BY_TURNS = (
    "hot loop: two writers change a field by turns",
    "let one of them own the field: see who else sets it, and leave it out of the other's writes",
)
# The same, when the server names one writer only, or none.
_BY_ONE_NAME = (
    "hot loop: one writer changes a field to and fro",
    "see why it alternates, and whether two programs write under its name: each needs a field manager of its own",
)
_TO_AND_FRO = (
    "hot loop: a field changes to and fro",
    "see who sets it, and let one of them own it: the others leave it out of their writes",
)
_BY_ITSELF = (
    "hot loop: each write enqueues the key again",
    "write only when something else differs",
)
# The same, when a predicate drops the writes.
_BY_ITSELF_DROPPABLE = (
    _BY_ITSELF[0],
    f"{_BY_ITSELF[1]}, or watch with predicate=kcr.generation_changed",
)
_RECREATED = (
    "hot loop: objects are deleted and created again",
    "see who deletes them, as in the audit log of the API server, and let one program decide whether they exist; the "
    "garbage collector deletes objects whose owner reference names no object in their namespace",
)
_CREATED = (
    "hot loop: each reconcile creates another object",
    "look for the object before you create one, or create it under a name of its own",
)
_BY_REQUEUE = (
    "hot loop: each reconcile requeues its key at once",
    "return requeue_after with the seconds to wait, or watch what the reconciler waits for; None stands for never",
)

_log = get_logger()


class HotLoopFinding(NamedTuple):
    """A hot loop of a key, as logged.

    Attributes:
        event: The kind of loop: `hot loop: two writers change a field by turns`.
        place: The fields, their object and its writers; empty for a reconciler that asks for its key at once.
        remedy: The remedy.
    """

    event: str
    place: str
    remedy: str


class _Source(NamedTuple):
    informer: Informer[Any] | InformerHandle[Any]
    map_to: Callable[[Any], Iterable[Key]]

    @property
    def is_closed(self) -> bool:
        return isinstance(self.informer, InformerHandle) and self.informer.is_closed


class HotLoops(Observer):
    """Finds the hot loops of one controller; shared by its workers."""

    def __init__(self, client: Client | None, breaker: Breaker | None = None) -> None:
        """Begin to count.

        Args:
            client: Lists managedFields; None leaves the writers out.
            breaker: Slows the keys whose reconciles write; None to slow none.
        """
        self._client, self._breaker = client, breaker
        self._writes: Mapping[Key, float] = {} if breaker is None else breaker.writes
        self._sources: list[_Source] = []
        # The reconciles of the present window.
        self._counts: dict[Key, int] = {}
        # Those of them that asked for their key at once.
        self._requeues: dict[Key, int] = {}
        self._window_end = 0.0
        self._recordings: dict[Key, Recording] = {}
        self._silent_until: dict[Key, float] = {}
        # The logged loops of keys that are silent since.
        self._findings: dict[Key, HotLoopFinding] = {}
        # Invariant: there are some only while something is recorded.
        self._registrations: list[Registration[Any]] = []

    def watch(self, informer: Informer[Any] | InformerHandle[Any], map_to: Callable[[Any], Iterable[Key]]) -> None:
        """Record the changes of these objects too, for the keys that they enqueue."""
        self._sources = [*self._open_sources(), _Source(informer, map_to)]
        # They would keep the informers of closed handles alive.
        self._registrations = [one for one in self._registrations if not one.is_removed]

    def _open_sources(self) -> list[_Source]:
        return [source for source in self._sources if not source.is_closed]

    def finding(self, key: Key, now: float) -> HotLoopFinding | None:
        """Return the hot loop of a key that is slowed, or in the last ten minutes, or None; callable from any thread.

        Args:
            key: The key.
            now: The time of the controller's loop.
        """
        if self._breaker is not None and (slowed := self._breaker.slowed.get(key)) is not None:
            return HotLoopFinding(*slowed)
        return self._findings.get(key) if self._silent_until.get(key, 0.0) > now else None

    def begin(self, run: ReconcileRun) -> Awaitable[None] | None:
        """Count one reconcile; of a hot key the owners of its field are read before it."""
        key, now = run.key, run.began
        if now >= self._window_end:
            self._begin_window(now)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        is_rare = count < MOST_RECONCILES and not self._recordings
        return None if is_rare or not self._is_hot(key, count, now) else self._inspect(key)

    def end(self, run: ReconcileRun) -> Awaitable[None] | None:
        """Count a reconcile that asks for its key again at once; of a hot key the owners are read after it as well."""
        if self._writes and self._breaker is not None and run.key in self._writes:
            found = self._findings.get(run.key)
            is_endless = found is not None and found.event in (_CREATED[0], _RECREATED[0])
            self._breaker.end(run, found, is_endless=is_endless)
        if run.outcome == "requeue_after" and isinstance(run.detail, float) and run.detail <= MIN_DELAY_SECONDS:
            self._note_requeue(run.key)
        return self._inspect(run.key) if run.key in self._recordings and run.outcome != "cancelled" else None

    def _is_hot(self, key: Key, count: int, now: float) -> bool:
        """Return whether the changes of a key are being recorded."""
        if key in self._recordings:
            return True
        if count < MOST_RECONCILES or key in self._silent_until or len(self._recordings) >= _KEYS:
            return False
        self._recordings[key] = Recording(now, key)
        if not self._registrations:
            self._registrations = [
                source.informer.add_handler(_Recorder(self._recordings, source.map_to))
                for source in self._open_sources()
            ]
        return True

    def _begin_window(self, now: float) -> None:
        self._window_end = now + WINDOW_SECONDS
        self._counts.clear()
        self._requeues.clear()
        self._silent_until = {key: until for key, until in self._silent_until.items() if until > now}
        self._findings = {key: found for key, found in self._findings.items() if key in self._silent_until}
        for key, recording in tuple(self._recordings.items()):
            if now - recording.began >= WINDOW_SECONDS:
                self._end(key, now)

    def _end(self, key: Key, now: float) -> None:
        self._recordings.pop(key, None)
        self._silent_until[key] = now + SILENT_SECONDS
        if not self._recordings:
            for registration in self._registrations:
                registration.remove()
            self._registrations = []

    def _note_requeue(self, key: Key) -> None:
        count = self._requeues[key] = self._requeues.get(key, 0) + 1
        if count < MOST_RECONCILES or key in self._silent_until:
            return
        event, remedy = _BY_REQUEUE
        self._findings[key] = HotLoopFinding(event, "", remedy)
        _log.warning(event, reconciles=count, within_seconds=WINDOW_SECONDS, remedy=remedy)
        self._end(key, asyncio.get_running_loop().time())

    async def _inspect(self, key: Key) -> None:
        """Read once who owns the field of a finding, and log it when that was read often enough.

        It is called before and after a reconcile: each of two writers owns the field when it has written.
        """
        recording = self._recordings.get(key)
        if recording is None or recording.finding is None:
            return
        finding = recording.finding
        recording.looks += 1
        with suppress(KcrError, msgspec.DecodeError, TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                recording.writers |= await self._owners(finding)
        if recording.looks < _LOOKS or self._recordings.get(key) is not recording:
            return
        now = asyncio.get_running_loop().time()
        if recording.follows_others:
            self._end(key, now)
            return
        subject, (event, remedy) = finding.subject, _words(finding, len(recording.writers))
        name, writers = f"{subject.kind.resource.display} {subject.key}", sorted(recording.writers)
        fields = [_spell(path) for path in finding.fields[:_MAX_FIELDS]]
        by = f" by {', '.join(writers)}" if writers else ""
        place = f"{', '.join(fields)} of {name}" if fields else name
        self._findings[key] = HotLoopFinding(event, f"{place}{by}", remedy)
        _log.warning(
            event,
            object=name,
            **{what: found for what, found in (("fields", fields), ("writers", writers)) if found},
            reconciles=self._counts.get(key, 0),
            within_seconds=WINDOW_SECONDS,
            remedy=remedy,
        )
        self._end(key, now)

    async def _owners(self, finding: HotLoop) -> set[str]:
        """Return the managers of the fields just now. A list, because the controller has the right to that for sure."""
        if self._client is None:
            return set()
        kind, key = finding.subject
        path = target(kind.resource.path(key.namespace), {"fieldSelector": f"metadata.name={key.name}"})
        found = codec.decode(ManagedObjectList, await self._client.request("GET", path))
        entries = [entry for item in found.items for entry in item.metadata.managed_fields]
        # Of an object that was created again, its creator and all others.
        paths = finding.fields or ((),)
        return {entry.manager for entry in entries if any(_owns(entry.fields_v1, path) for path in paths)}


class _Recorder(Handler[Any]):
    """Records the changes of one kind for the keys that they enqueue."""

    def __init__(self, recordings: Mapping[Key, Recording], map_to: Callable[[Any], Iterable[Key]]) -> None:
        self._recordings = recordings
        self._map_to = map_to

    def on_add(self, obj: Resource, initial: bool) -> None:
        """Record a creation."""
        for recording in () if initial else self._of(obj):
            recording.created(type(obj), obj)

    def on_update(self, old: Resource, new: Resource) -> None:
        """Record a change."""
        for recording in self._of(new):
            recording.add(type(new), old, new)

    def on_delete(self, obj: Resource, final_state_unknown: bool) -> None:
        """Record a deletion."""
        for recording in self._of(obj):
            recording.deleted(type(obj), obj)

    def _of(self, obj: Resource) -> list[Recording]:
        keys: Iterable[Key] = ()
        # The handler that enqueues the key reports exceptions of a user's mapping function.
        with suppress(Exception):
            keys = tuple(self._map_to(obj))
        return [self._recordings[key] for key in keys if key in self._recordings]


def _words(finding: HotLoop, writers: int) -> tuple[str, str]:
    """Return the event and the remedy of a log line, by how many writers are known."""
    if not finding.fields:
        return _CREATED if finding.form == "created" else _RECREATED
    if finding.form == "by itself":
        return _BY_ITSELF_DROPPABLE if finding.is_droppable else _BY_ITSELF
    return _TO_AND_FRO if writers == 0 else _BY_ONE_NAME if writers == 1 else _BY_TURNS


def _owns(fields: Mapping[str, Any], path: Path) -> bool:
    """Return whether a set of fields has a path, or a part of its value such as one item of a list.

    Source: structured-merge-diff/fieldpath/serialize.go, the format FieldsV1.
    """
    for name in path:
        if f"f:{name}" not in fields:
            return False
        fields = fields[f"f:{name}"]
        if not fields:
            return True
    return True


def _spell(path: Path) -> str:
    return "".join(f".{name}" if name.isidentifier() else f"[{name!r}]" for name in path).removeprefix(".")
