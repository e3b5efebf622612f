"""Lifecycle hooks and probes of running containers, and their effect on the containers' state."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import NamedTuple, Protocol

from kcr.api.meta import Key
from kcr_devcluster.cluster.node.containers import Running, Stop
from kcr_devcluster.cluster.node.pod_state import PodState
from kcr_devcluster.cluster.node.pods import KubeletContainer, Lifecycle, LifecycleHandler, termination_grace_period
from kcr_devcluster.cluster.node.probes.handlers import HandlerTarget, RunHandler
from kcr_devcluster.cluster.node.probes.prober import Prober, probes_of
from kcr_devcluster.cluster.node.probes.results import HandlerResult, ProbeType, event_of, grace_period, kill_message

# The time that a container has left to end when its preStop hook took the whole grace period.
# Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, minimumGracePeriodInSeconds.
MIN_GRACE_SECONDS = 2.0


class RecordEvent(Protocol):
    """Records an event about a pod, or one of its containers."""

    def __call__(
        self, state: PodState, reason: str, message: str, *, warning: bool = False, container: str = ""
    ) -> None:
        """Record the event."""
        ...


class _Run(NamedTuple):
    """One run of a container of a pod."""

    state: PodState
    name: str
    target: HandlerTarget

    def running(self) -> Running | None:
        """Return the state of the run; None when it is over."""
        state = self.state.containers[self.name].state
        return state if isinstance(state, Running) and state.run is self.target.run else None


class ContainerLifecycle:
    """Runs hooks and probes, each in a task that ends with its container's run. It changes nothing but `Running`."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        run_handler: RunHandler | None,
        record: RecordEvent,
        schedule_sync: Callable[[Key], None],
    ) -> None:
        """Make it.

        Args:
            group: Owns the tasks.
            run_handler: Runs a handler; None where containers have neither ports nor commands.
            record: Records events.
            schedule_sync: Has a pod synced.
        """
        self._group = group
        self._run_handler = run_handler
        self._record = record
        self._schedule_sync = schedule_sync
        # By run.
        self._tasks: dict[object, set[asyncio.Task[None]]] = {}

    def begin(self, state: PodState, name: str) -> None:
        """Begin with a run that has just been started: its postStart hook, then its probes."""
        record = state.containers[name]
        container, running = record.spec, record.state
        if self._run_handler is None or not isinstance(running, Running) or not _is_accompanied(container):
            return
        hooks, probes = container.lifecycle or Lifecycle(), probes_of(container)
        running = running._replace(
            in_post_start=hooks.post_start is not None,
            pre_stop="none" if hooks.pre_stop is None else "pending",
            has_started="Startup" not in probes,
            is_probed_ready="Readiness" not in probes,
        )
        state.containers[name] = record._replace(state=running)
        if hooks.post_start is not None or probes:
            run = _Run(state, name, HandlerTarget(running.run, container, state.ip))
            self._start(run, self._accompany(run, running.since, hooks.post_start, self._run_handler))

    def run_pre_stop(self, state: PodState, name: str) -> None:
        """Begin with the preStop hook of a container."""
        record = state.containers[name]
        hook, running = (record.spec.lifecycle or Lifecycle()).pre_stop, record.state
        if self._run_handler is not None and hook is not None and isinstance(running, Running):
            run = _Run(state, name, HandlerTarget(running.run, record.spec, state.ip))
            state.containers[name] = record._replace(state=running._replace(pre_stop="running"))
            self._start(run, self._pre_stop(run, hook, self._run_handler))

    def abandon_pre_stop(self, state: PodState, name: str) -> None:
        """Stop waiting for the preStop hook of a container, which then has a last moment to end."""
        record = state.containers[name]
        if isinstance(record.state, Running):
            self.end(record.state.run)
            self._end_pre_stop(_Run(state, name, HandlerTarget(record.state.run, record.spec, state.ip)))

    def end(self, run: object) -> None:
        """End all that accompanies a run."""
        for task in self._tasks.pop(run, ()):
            task.cancel()

    def close(self) -> None:
        """End all that accompanies any run."""
        for run in tuple(self._tasks):
            self.end(run)

    def _start(self, run: _Run, work: Coroutine[None, None, None]) -> None:
        self._tasks.setdefault(run.target.run, set()).add(self._group.create_task(work))

    async def _accompany(
        self, run: _Run, since: float, post_start: LifecycleHandler | None, run_handler: RunHandler
    ) -> None:
        if post_start is not None:
            result = await run_handler(post_start, run.target)
            if result.outcome in ("failure", "unknown"):
                self._fail_post_start(run)
                return
            self._update(run, in_post_start=False)
        await Prober(run.target, since, run_handler, _Observer(run, self)).run()

    def _fail_post_start(self, run: _Run) -> None:
        self._record(run.state, "FailedPostStartHook", "PostStartHook failed", warning=True, container=run.name)
        self.stop(run, termination_grace_period(run.state.pod), "FailedPostStartHook")

    async def _pre_stop(self, run: _Run, hook: LifecycleHandler, run_handler: RunHandler) -> None:
        result = await run_handler(hook, run.target)
        if result.outcome in ("failure", "unknown"):
            self._record(run.state, "FailedPreStopHook", "PreStopHook failed", warning=True, container=run.name)
        self._end_pre_stop(run)

    def _end_pre_stop(self, run: _Run) -> None:
        running, state = run.running(), run.state
        earliest = asyncio.get_running_loop().time() + MIN_GRACE_SECONDS
        if state.termination is not None:
            state.termination = state.termination._replace(kill_at=max(state.termination.kill_at, earliest))
        if running is not None and running.stop is not None:
            self._update(run, stop=running.stop._replace(kill_at=max(running.stop.kill_at, earliest)))
        self._update(run, pre_stop="done")

    def stop(self, run: _Run, grace: float, message: str, *, restart: bool = False) -> None:
        """End one run, unless its pod ends anyway."""
        kill_at = asyncio.get_running_loop().time() + grace
        self._update(run, in_post_start=False, stop=Stop(kill_at, message, restart))

    def note_run(self, run: _Run, kind: ProbeType, result: HandlerResult) -> None:
        """Record the event that follows from one run of a probe, if any."""
        if (event := event_of(kind, result)) is not None:
            self._record(run.state, *event, warning=True, container=run.name)

    def note_change(self, run: _Run, kind: ProbeType, succeeds: bool) -> None:
        """Apply a change of a probe's state: set readiness or start of the container, or stop the run."""
        if kind == "Readiness":
            self._update(run, is_probed_ready=succeeds)
        elif succeeds:
            self._update(run, has_started=True)
        else:
            pod, container = run.state.pod, run.target.container
            policy = container.restart_policy or pod.spec.restart_policy
            message = kill_message(kind, run.name, policy)
            self.stop(run, grace_period(kind, pod, container), message, restart=policy != "Never")

    def _update(self, run: _Run, **changes: object) -> None:
        """Change the state of a run that is not over, and have its pod synced."""
        if (running := run.running()) is not None:
            record = run.state.containers[run.name]
            changed = running._replace(**changes)  # type: ignore[arg-type]  # by name and type, above
            run.state.containers[run.name] = record._replace(state=changed)
            self._schedule_sync(run.state.pod.key)


def _is_accompanied(container: KubeletContainer) -> bool:
    """Return whether a container has any hook or probe; most have none."""
    return bool(container.lifecycle or container.startup_probe or container.liveness_probe or container.readiness_probe)


class _Observer:
    """Passes on the reports of one run's prober."""

    def __init__(self, run: _Run, lifecycle: ContainerLifecycle) -> None:
        self._run = run
        self._lifecycle = lifecycle

    @property
    def is_terminating(self) -> bool:
        return self._run.state.termination is not None

    def on_run(self, kind: ProbeType, result: HandlerResult) -> None:
        self._lifecycle.note_run(self._run, kind, result)

    def on_change(self, kind: ProbeType, succeeds: bool) -> None:
        self._lifecycle.note_change(self._run, kind, succeeds)
