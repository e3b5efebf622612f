"""The state of a process as `/debug/kcr/state` shows it: values without behaviour, camelCase in JSON.

Times are ages in seconds at the moment `process.now`, so that no reader needs a clock that agrees with this one.
"""

from datetime import datetime

import msgspec


class _Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the state."""


class ProcessState(_Value, frozen=True, kw_only=True):
    """The process.

    Attributes:
        command: The running command: `kcr run`, `kcr dev`, or the program's name.
        version: The version of kcr.
        python: The version of Python.
        pid: The process id.
        now: The time at which all this was read.
        uptime_seconds: How long the process has run.
        server: The API server's address; empty for one in this process.
        memory_bytes: Resident memory.
        not_ready: The readiness checks that fail, as `name: reason`; empty when it is ready. When the event loop is
            blocked, those of before.
    """

    command: str
    version: str
    python: str
    pid: int
    now: datetime
    uptime_seconds: float
    server: str
    memory_bytes: int
    not_ready: tuple[str, ...]


class LoopState(_Value, frozen=True, kw_only=True):
    """The event loop.

    Attributes:
        lag_seconds: How late it is just now.
        max_lag_seconds: The most in the last 30 s.
        blocked_at: Where it is, when it has been late for 100 ms or more; empty otherwise.
        tasks: How many tasks it has.
    """

    lag_seconds: float
    max_lag_seconds: float
    blocked_at: str
    tasks: int


class LeadershipState(_Value, frozen=True, kw_only=True):
    """Leader election.

    Attributes:
        lease: Namespace and name of the Lease.
        identity: Who this replica is.
        holder: Who leads, as far as this replica has seen; empty for no replica.
        is_leading: Whether this replica leads.
        renewed_seconds_ago: When the Lease was last renewed; None before that was seen.
    """

    lease: str
    identity: str
    holder: str
    is_leading: bool
    renewed_seconds_ago: float | None


class InformerState(_Value, frozen=True, kw_only=True):
    """An informer.

    Attributes:
        kind: The watched kind, as `kubectl` spells the resource: `jobs.batch`.
        namespaces: The namespaces it watches; empty for all.
        is_synced: Whether its store has the first list.
        objects: How many objects its store has.
        resource_version: The version its store has reached.
        last_event_seconds_ago: When the last watch event came; None before the first.
        counts: How often lists, watches, relists and errors happened, by name.
        last_error: Why it does not work just now; empty when it does.
    """

    kind: str
    namespaces: tuple[str, ...]
    is_synced: bool
    objects: int
    resource_version: str
    last_event_seconds_ago: float | None
    counts: dict[str, int]
    last_error: str


class RunState(_Value, frozen=True, kw_only=True):
    """A reconcile that has ended.

    Attributes:
        key: The key, as `namespace/name`.
        seconds_ago: When it ended.
        seconds: How long it took.
        outcome: `success`, `requeue_after`, `error` or `cancelled`.
        text: The error, or the request of the reconcile: `requeue after 5 s`.
    """

    key: str
    seconds_ago: float
    seconds: float
    outcome: str
    text: str


class RunningState(_Value, frozen=True, kw_only=True):
    """A reconcile that is running.

    Attributes:
        key: The key.
        seconds: For how long it has been running.
        at: The line at which it is or waits, the innermost last.
        reasons: Why its key was queued.
    """

    key: str
    seconds: float
    at: str
    reasons: tuple[str, ...]


class KeyState(_Value, frozen=True, kw_only=True):
    """A key that waits or has failed.

    Attributes:
        key: The key.
        phase: `queued`, `processing`, `delayed` (until a time that a reconcile asked for), `backoff` (until its next
            retry), `deferred` (until a store shows this process's own writes), `waiting` (for an object), `paused`,
            `parked` (no longer retried), or `idle`.
        retries: How often it has failed in a row.
        priority: Of a queued key; 0 otherwise.
        queued_seconds: For how long it has been queued; None when it is not.
        due_seconds: The seconds until it is queued; None when it has no delay.
        reasons: Why it is queued or delayed, the oldest first.
        error: The error of the last reconcile; empty when it succeeded.
        waits_for: Of a deferred key the missing versions: `pods: version 42, the store has 40`; of a waiting one the
            object, and the time that is left; empty otherwise.
    """

    key: str
    phase: str
    retries: int
    priority: int
    queued_seconds: float | None
    due_seconds: float | None
    reasons: tuple[str, ...]
    error: str
    waits_for: tuple[str, ...]


class ErrorGroup(_Value, frozen=True, kw_only=True):
    """Keys that fail for the same reason.

    Attributes:
        text: The error, without the names in which the errors differ.
        keys: How many keys.
        examples: Some of them.
    """

    text: str
    keys: int
    examples: tuple[str, ...]


class SlowKey(_Value, frozen=True, kw_only=True):
    """A key whose reconciles took long.

    Attributes:
        key: The key.
        seconds: The longest of its recent reconciles.
        runs: How many recent reconciles there were.
    """

    key: str
    seconds: float
    runs: int


class DroppedState(_Value, frozen=True, kw_only=True):
    """The watch events of a kind that a predicate has dropped.

    Attributes:
        kind: The kind.
        predicate: The predicate.
        count: How many.
        last: The last of them, the newest first, each with its object, versions and age.
    """

    kind: str
    predicate: str
    count: int
    last: tuple[str, ...]


class ControllerState(_Value, frozen=True, kw_only=True):
    """A controller and its queue.

    Attributes:
        name: Its name.
        kinds: The watched kinds, as `kubectl` spells the resources; the first is the kind of its keys.
        workers: How many keys it reconciles at a time.
        queued: Keys that wait for a worker, by priority as text.
        delayed: How many keys are added later, those in backoff among them.
        deferred: How many keys wait for a store.
        paused: How many objects are paused.
        failing: How many keys have failed and not succeeded since.
        oldest_queued_seconds: For how long the first of the queued keys has waited; 0 when none is queued.
        results: Reconciles by result.
        running: The running reconciles, the longest first.
        keys: The keys that wait or have failed, those in trouble first; at most so many as was asked for.
        keys_left_out: How many more there are.
        errors: The failing keys by error, most first.
        slowest: The slowest keys, the slowest first.
        recent: The last reconciles, the newest first.
        is_sharded: Whether, under sharding, it reconciles a share of the keys; else all where the first shard is held.
        parked: How many keys are no longer retried, because they have failed too often.
        dropped: The watch events that predicates have dropped.
    """

    name: str
    kinds: tuple[str, ...]
    workers: int
    queued: dict[str, int]
    delayed: int
    deferred: int
    paused: int
    failing: int
    oldest_queued_seconds: float
    results: dict[str, int]
    running: tuple[RunningState, ...]
    keys: tuple[KeyState, ...]
    keys_left_out: int
    errors: tuple[ErrorGroup, ...]
    slowest: tuple[SlowKey, ...]
    recent: tuple[RunState, ...]
    is_sharded: bool = True
    parked: int = 0
    dropped: tuple[DroppedState, ...] = ()


class ShardingState(_Value, frozen=True, kw_only=True):
    """The shards of a replica.

    Attributes:
        lease: Namespace and base name of the Leases.
        identity: The name of this replica in them.
        shards: How many shards there are.
        phases: The phase of each shard that it holds, by number.
        held: The held shards as text: `0-3, 7`; empty for none.
        moves: How many shards it has taken, released and abandoned.
        last_handover_seconds: How long the last shard that it took waited for its caches.
    """

    lease: str
    identity: str
    shards: int
    phases: dict[int, str]
    held: str
    moves: dict[str, int]
    last_handover_seconds: float


class DebugState(_Value, frozen=True, kw_only=True):
    """The state of a process.

    Attributes:
        process: The process.
        loop: Its event loop.
        leadership: Leader election; None without it.
        sharding: The shards that it holds; None without sharding.
        informers: Its informers, by kind.
        controllers: Its controllers, by name.
    """

    process: ProcessState
    loop: LoopState
    leadership: LeadershipState | None
    informers: tuple[InformerState, ...]
    controllers: tuple[ControllerState, ...]
    sharding: ShardingState | None = None


class HotLoopState(_Value, frozen=True, kw_only=True):
    """A hot loop of a key.

    Attributes:
        event: The kind of loop: `hot loop: two writers change a field by turns`.
        place: The fields, their object and its writers; empty when the reconciler asks for its key at once.
        remedy: The remedy.
    """

    event: str
    place: str
    remedy: str


class KeyDetail(_Value, frozen=True, kw_only=True):
    """All that one controller knows of one key, as `/debug/kcr/key` shows it.

    Attributes:
        controller: The controller's name.
        state: Where the key is.
        runs: The last reconciles of the key, the newest first.
        unconfirmed: Writes that were sent and not answered: `create pods default/pi-0-x2k4f`.
        explanation: The reconciler's explanation (`kcr.api.explanation.Explanation`, by field); None when it has no
            such method.
        explanation_error: Why there is no explanation: `the event loop is blocked: …`; empty when there is one.
        hot_loop: Its hot loop in the last ten minutes; None without one.
        plugin: The plugin that has added the controller, as `--controllers` names it; empty for a program of one's own.
    """

    controller: str
    state: KeyState
    runs: tuple[RunState, ...]
    unconfirmed: tuple[str, ...]
    explanation: dict[str, object] | None
    explanation_error: str
    hot_loop: HotLoopState | None = None
    plugin: str = ""
