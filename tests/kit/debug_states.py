"""States of processes as the debug port shows them: well, with 1,000 keys in trouble, with a blocked loop."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kcr.serving.debug.state import (
    ControllerState,
    DebugState,
    ErrorGroup,
    InformerState,
    KeyDetail,
    KeyState,
    LeadershipState,
    LoopState,
    ProcessState,
    RunningState,
    RunState,
    SlowKey,
)

NOW = datetime(2026, 5, 4, 3, 12, 9, tzinfo=UTC)
QUOTA = 'pods "…" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=200, limited: pods=200'
REFUSED = "POST /api/v1/namespaces/…/pods: connection refused"
WEBHOOK = 'admission webhook "policy.example.com" denied the request: image is not signed'


def process_state(**changes: Any) -> ProcessState:
    values: dict[str, Any] = {
        "command": "kcr run",
        "version": "0.1.0",
        "python": "3.12.4",
        "pid": 1,
        "now": NOW,
        "uptime_seconds": 97_400,
        "server": "https://10.96.0.1:443",
        "memory_bytes": 148 << 20,
        "not_ready": (),
    }
    return ProcessState(**{**values, **changes})


def loop_state(**changes: Any) -> LoopState:
    values: dict[str, Any] = {"lag_seconds": 0.002, "max_lag_seconds": 0.031, "blocked_at": "", "tasks": 42}
    return LoopState(**{**values, **changes})


def informer_state(kind: str, objects: int, **changes: Any) -> InformerState:
    values: dict[str, Any] = {
        "kind": kind,
        "namespaces": (),
        "is_synced": True,
        "objects": objects,
        "resource_version": "918273",
        "last_event_seconds_ago": 0.4,
        "counts": {"lists": 1, "watches": 28, "relists": 0, "errors": 0},
        "last_error": "",
    }
    return InformerState(**{**values, **changes})


def key_state(key: str, phase: str = "idle", **changes: Any) -> KeyState:
    values: dict[str, Any] = {
        "key": key,
        "phase": phase,
        "retries": 0,
        "priority": 0,
        "queued_seconds": None,
        "due_seconds": None,
        "reasons": ("Job updated",),
        "error": "",
        "waits_for": (),
    }
    return KeyState(**{**values, **changes})


def run_state(key: str, outcome: str = "success", text: str = "", **changes: Any) -> RunState:
    return RunState(**{"key": key, "seconds_ago": 1.4, "seconds": 0.018, "outcome": outcome, "text": text, **changes})


def controller_state(**changes: Any) -> ControllerState:
    values: dict[str, Any] = {
        "name": "job",
        "kinds": ("jobs.batch", "pods"),
        "workers": 10,
        "queued": {"0": 0},
        "delayed": 3,
        "deferred": 0,
        "paused": 0,
        "failing": 0,
        "oldest_queued_seconds": 0,
        "results": {"success": 48_210, "requeue_after": 912, "error": 17},
        "running": (),
        "keys": (),
        "keys_left_out": 0,
        "errors": (),
        "slowest": tuple(SlowKey(key=f"etl/nightly-{i:02}", seconds=2.1 / (i + 1), runs=9 - i) for i in range(4)),
        "recent": tuple(run_state(f"etl/nightly-{i:02}", seconds_ago=0.3 + 1.7 * i) for i in range(6)),
    }
    return ControllerState(**{**values, **changes})


def debug_state(*controllers: ControllerState, **changes: Any) -> DebugState:
    values: dict[str, Any] = {
        "process": process_state(),
        "loop": loop_state(),
        "leadership": LeadershipState(
            lease="kcr-system/kcr",
            identity="kcr-6b9f-x2k4f",
            holder="kcr-6b9f-x2k4f",
            is_leading=True,
            renewed_seconds_ago=1.1,
        ),
        "informers": (informer_state("jobs.batch", 1_912), informer_state("pods", 12_480)),
        "controllers": controllers or (controller_state(),),
    }
    return DebugState(**{**values, **changes})


def _keys_in_trouble() -> Iterator[KeyState]:
    """Yield 700 keys in backoff with three errors, 180 that are queued, 40 deferred and 80 delayed."""
    for i in range(700):
        error = (
            QUOTA.replace("…", f"render-{i:04}-0", 1)
            if i < 520
            else REFUSED.replace("…", "web")
            if i < 660
            else WEBHOOK
        )
        phase = "backoff" if i % 7 else "queued"
        yield key_state(
            f"{'render' if i < 520 else 'web'}/frame-{i:04}",
            phase,
            retries=3 + i % 9,
            error=error,
            due_seconds=4.0 + i % 240 if phase == "backoff" else None,
            queued_seconds=None if phase == "backoff" else 41.0 - i / 20,
            reasons=("retry",),
        )
    for i in range(180):
        priority = -100 if i % 3 == 0 else 0
        yield key_state(
            f"etl/load-{i:03}",
            "queued",
            queued_seconds=38 - i / 6,
            priority=priority,
            reasons=("Pod deleted", "resync"),
        )
    for i in range(40):
        waits = (f"pods: version {918_273 + i}, the store has {918_102 + i}",)
        yield key_state(f"etl/merge-{i:02}", "deferred", waits_for=waits, due_seconds=0.4, reasons=("Pod updated",))
    for i in range(80):
        yield key_state(f"batch/later-{i:02}", "delayed", due_seconds=30 + i * 11.0, reasons=("requeue after",))


def in_trouble(**changes: Any) -> DebugState:
    """Return the state of a process with 1,000 keys in trouble."""
    keys = tuple(_keys_in_trouble())
    at = (
        "reconciler.py:88 reconcile > actions.py:212 create_pods > transport.py:148 send",
        "reconciler.py:91 reconcile > status.py:77 patch_status > transport.py:148 send",
    )
    job = controller_state(
        queued={"0": 220, "-100": 60},
        delayed=680,
        deferred=40,
        paused=2,
        failing=700,
        oldest_queued_seconds=41.3,
        results={"success": 48_210, "requeue_after": 912, "error": 31_877},
        running=tuple(
            RunningState(key=f"render/frame-{i:04}", seconds=12.6 - i * 1.2, at=at[i % 2], reasons=("retry",))
            for i in range(10)
        ),
        keys=keys,
        keys_left_out=0,
        errors=tuple(
            ErrorGroup(text=text, keys=count, examples=tuple(key.key for key in keys[start : start + 3]))
            for text, count, start in ((QUOTA, 520, 0), (REFUSED, 140, 520), (WEBHOOK, 40, 660))
        ),
        recent=tuple(
            run_state(keys[i].key, "error" if i % 4 else "success", keys[i].error if i % 4 else "", seconds_ago=0.1 * i)
            for i in range(20)
        ),
    )
    cronjob = controller_state(
        name="cronjob",
        kinds=("cronjobs.batch", "jobs.batch"),
        workers=5,
        slowest=(),
        recent=(),
        results={"success": 812, "requeue_after": 4_100, "error": 0},
    )
    watch_error = 'watch pods: 403 Forbidden: pods is forbidden: User "kcr" cannot watch resource "pods"'
    informers = (
        informer_state("cronjobs.batch", 24),
        informer_state("jobs.batch", 1_912),
        informer_state(
            "pods",
            12_480,
            last_event_seconds_ago=73.0,
            last_error=watch_error,
            counts={"lists": 3, "watches": 91, "relists": 2, "errors": 57},
        ),
    )
    values: dict[str, Any] = {"informers": informers, "process": process_state(memory_bytes=412 << 20)}
    return debug_state(cronjob, job, **{**values, **changes})


def key_detail(key: str, controller: str = "job") -> KeyDetail:
    """Return what a controller knows of a key that fails."""
    error = QUOTA.replace("…", "render-0003-0", 1)
    return KeyDetail(
        controller=controller,
        state=key_state(key, "backoff", retries=6, due_seconds=38.2, error=error, reasons=("retry",)),
        runs=tuple(run_state(key, "error", error, seconds_ago=2.0 ** (i + 2), seconds=0.042) for i in range(6)),
        unconfirmed=("create pods render/render-0003-0-x2k4f",),
        explanation={
            "code": "Waiting",
            "headline": "waits 38s before it creates pods again",
            "wanted": "10 completions, 4 pods at a time",
            "present": "6 succeeded, 0 active, 0 failed",
            "steps": [
                {"text": "it tries again", "at": "2026-05-04T03:12:47Z"},
                {"text": "4 pods are created", "at": None},
            ],
            "reasons": ["the quota compute of the namespace allows 200 pods, and there are 200"],
            "remedies": ["raise the quota: kubectl -n render edit resourcequota compute"],
        },
        explanation_error="",
    )
