"""The state of a process, built from copies of its manager's data; callable from any thread."""

import asyncio
import importlib.metadata
import math
import os
import platform
import resource
import sys
from pathlib import Path

from kcr.scopes.sharding.shards import shown
from kcr.serving.debug.keys import ControllerReader
from kcr.serving.debug.sources import StateSources, WatchedKind, retried
from kcr.serving.debug.state import DebugState, InformerState, LeadershipState, LoopState, ProcessState, ShardingState
from kcr.serving.ports import ProgramLoop


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
