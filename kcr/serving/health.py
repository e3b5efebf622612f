"""Health checks: named, answered as by Kubernetes' own components; and one of the event loop.

Liveness fails when a restart would help; readiness, while the controllers do not work. No liveness check may depend
on the API server: an outage would restart every controller without mending anything.
"""

import asyncio
import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from time import monotonic, sleep  # noqa: TID251  # the sampling thread has no loop
from typing import NamedTuple

from prometheus_client import Histogram

from kcr.errors import described
from kcr.log import get_logger
from kcr.stacks import loop_calls

_log = get_logger("kcr.health")

# Returns the fault in a few words; an empty string when the check passes. Called on the event loop; never waits.
Check = Callable[[], str]

LOOK_SECONDS = 0.1
# A lag beyond the first is logged; beyond the second, within the memory, it fails the check.
LATE_SECONDS = 0.1
STUCK_SECONDS = 5.0
MEMORY_SECONDS = 30.0
# At most one such log line in so many seconds, and one of a lag twice as long.
QUIET_SECONDS = 10.0


class ProbeResult(NamedTuple):
    """The answer to a probe."""

    status: int
    text: str


class Health:
    """The checks behind `/healthz` and `/livez`, which are the same, and `/readyz`."""

    def __init__(self) -> None:
        live: dict[str, Check] = {}
        self._checks: Mapping[str, dict[str, Check]] = {"healthz": live, "livez": live, "readyz": {}}
        # The one check that counts for readiness; empty for all.
        self._only_ready = ""
        # `str` is the remark that says nothing.
        self._remarks: dict[str, Check] = {}

    def add_live(self, name: str, check: Check) -> None:
        """Add a liveness check, or replace it: when it fails for long, the process is restarted."""
        self._checks["livez"][name] = check

    def add_ready(self, name: str, check: Check, *, remark: Check | None = None) -> None:
        """Add a readiness check, or replace it: while it fails, the process does not do its work.

        Args:
            name: Names the check.
            check: Returns the failure, or an empty string.
            remark: Returns the remark of `/readyz?verbose` on a passing check, such as a watch that has just begun to
                fail; an empty string for none.
        """
        self._checks["readyz"][name] = check
        self._remarks[name] = remark or str

    def limit_ready(self, name: str) -> None:
        """Let readiness depend on one check alone, such as that of webhooks that the caches wait for; "" for all."""
        self._only_ready = name

    def remove_ready(self, name: str) -> None:
        """Remove a readiness check."""
        self._checks["readyz"].pop(name, None)
        self._remarks.pop(name, None)

    def not_ready(self) -> tuple[str, ...]:
        """Return the readiness checks that fail, as `name: reason`; to be called on the event loop."""
        failing = ((name, _run_check(check)) for name, check in self._checks["readyz"].items())
        return tuple(f"{name}: {why}" for name, why in failing if why)

    def answer(self, path: str, query: Mapping[str, Iterable[str]]) -> ProbeResult | None:
        """Answer a probe, or None when there is nothing at this path.

        A path is `/readyz` or, for one check alone, `/readyz/its-name`. The query may hold `verbose`, which lists
        every check, and `exclude`, which skips the checks of these names. Failures are always listed with their
        reasons: upstream withholds these, but here they name the remedy.

        Source: apiserver/pkg/server/healthz/healthz.go, handleRootHealth; controller-runtime/pkg/healthz/healthz.go.
        """
        probe, _, name = path.removeprefix("/").partition("/")
        checks = self._checks.get(probe)
        if checks is None:
            return None
        checks = checks or {"ping": lambda: ""}
        if self._only_ready and probe == "readyz":
            checks = {self._only_ready: checks[self._only_ready]}
        if not name:
            return _all(probe, checks, query, self._remarks)
        if name not in checks:
            return None
        why = _run_check(checks[name])
        return ProbeResult(500, f"{name} failed: {why}\n") if why else ProbeResult(200, "ok")


def _all(
    probe: str, checks: Mapping[str, Check], query: Mapping[str, Iterable[str]], remarks: Mapping[str, Check]
) -> ProbeResult:
    excluded = set(query.get("exclude", ()))
    lines, failed = list[str](), False
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif why := _run_check(check):
            lines.append(f"[-]{name} failed: {why}")
            failed = True
        else:
            remark = _run_check(remarks.get(name, str))
            lines.append(f"[+]{name} ok: {remark}" if remark else f"[+]{name} ok")
    if unknown := sorted(excluded - checks.keys()):
        lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
    if failed:
        return ProbeResult(500, "\n".join((*lines, f"{probe} check failed\n")))
    return ProbeResult(200, "\n".join((*lines, f"{probe} check passed\n")) if "verbose" in query else "ok")


def _run_check(check: Check) -> str:
    try:
        return check()
    except (Exception, SystemExit) as error:
        # A check that raises has failed, and the others are still answered.
        return described(error)


class LoopMonitor:
    """Measures the lag of the event loop, and logs the blocking line.

    One blocking call stops every watch, probe and reconcile. Nothing on the loop can find it while it lasts, so a
    thread samples the stack of the loop's thread. It sleeps until the loop may be late, and is never woken.
    """

    name = "event loop"

    def __init__(self, lag: Histogram) -> None:
        """Make a monitor; `lag` observes every measurement."""
        self._lag = lag
        # The longest lag that is remembered, and until when.
        self._worst = 0.0
        self._forget_at = 0.0
        # Until when no line of a lag below the second is logged, by whether it names a place.
        self._quiet = {True: (-math.inf, 0.0), False: (-math.inf, 0.0)}
        # When the loop measured last, in its time, and how late it was then; and its thread.
        self._measured_at = math.inf
        self._late = 0.0
        self._watched = 0
        # When the loop measured last, in the system's time, which the thread reads.
        self._heartbeat = 0.0
        self._over = False
        # The sampled stack; written by the thread while the loop is blocked, so that both never access it at once.
        self._place = ""

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        self._measured_at, self._heartbeat, self._watched = loop.time(), monotonic(), threading.get_ident()
        threading.Thread(target=self._sample_loop_thread, args=(self._watched,), name=self.name, daemon=True).start()
        self._next = loop.call_later(LOOK_SECONDS, self._measure, loop)
        try:
            await loop.create_future()
        finally:
            self._over = True
            self._next.cancel()

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        now, self._heartbeat = loop.time(), monotonic()
        late = max(0.0, now - self._measured_at - LOOK_SECONDS)
        # A timer costs less than a task that sleeps. It is set first: a failing log must not end the measurements.
        self._next = loop.call_later(LOOK_SECONDS, self._measure, loop)
        self._note(late, now)

    def check(self) -> str:
        """Return an empty string, or that the loop was stuck a moment ago."""
        if self._worst < STUCK_SECONDS or asyncio.get_running_loop().time() >= self._forget_at:
            return ""
        return f"the event loop was stuck for {self._worst:.1f} s"

    def lag(self, now: float) -> float:
        """Return by how many seconds the loop is late just now, at its time `now`; to be called in any thread."""
        return max(self._late, now - self._measured_at - LOOK_SECONDS)

    def max_lag(self, now: float) -> float:
        """Return by how many seconds it was late at most in the last half minute; to be called in any thread."""
        return max(self.lag(now), self._worst if now < self._forget_at else 0.0)

    def blocked_at(self, now: float) -> str:
        """Return the lines at which the loop is when it is late; empty when it is not. To be called in any thread."""
        if now - self._measured_at - LOOK_SECONDS < LATE_SECONDS:
            return ""
        return _place(self._watched) or "in C code, or without a CPU"

    def _note(self, late: float, now: float) -> None:
        self._lag.observe(late)
        self._late, self._measured_at = late, now
        if late >= self._worst or now >= self._forget_at:
            self._worst, self._forget_at = late, now + MEMORY_SECONDS
        place, self._place = self._place, ""
        until, below = self._quiet[bool(place)]
        if late <= LATE_SECONDS or (now < until and late < below):
            return
        self._quiet[bool(place)] = now + QUIET_SECONDS, 2 * late
        # Without a place there is nothing to correct: a machine that people work on is busy at times.
        log = _log.warning if place else _log.info
        log("event loop was blocked", seconds=round(late, 3), where=place or "in C code, or without a CPU")

    def _sample_loop_thread(self, watched: int) -> None:
        """Sample the stack of the loop's thread whenever a measurement is late, and log it when it stays away."""
        # The measurements after which the loop was late, and stuck.
        sampled = logged = 0.0
        while not self._over:
            last = self._heartbeat
            late = monotonic() - last - LOOK_SECONDS
            if late >= LATE_SECONDS and sampled != last:
                sampled, self._place = last, _place(watched)
            if late >= LATE_SECONDS + STUCK_SECONDS and logged != last:
                # It may never come back to log this by itself.
                logged = last
                _log.warning("event loop is blocked", seconds=STUCK_SECONDS, where=_place(watched) or "in C code")
            sleep(max(LATE_SECONDS - late, LOOK_SECONDS))


def _place(thread: int) -> str:
    """Return the innermost lines of a thread's stack outside asyncio, the innermost last; empty when it only waits."""
    return loop_calls(sys._current_frames().get(thread))
