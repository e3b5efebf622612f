"""The simulated container runtime: a run is a timer. Its outcome comes from a callback, annotations or a default."""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcr.api.batch import COMPLETION_INDEX
from kcr.api.durations import parse_duration
from kcr.api.meta import controller_of
from kcr_devcluster.cluster.node.commands import CommandError, CommandStreams, ContainerCommand
from kcr_devcluster.cluster.node.logs import Log, Logs
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.process.environment import is_idle_shell
from kcr_devcluster.cluster.node.runtime import Exit, OnExit, RunningContainer, StartDeferred

if TYPE_CHECKING:
    from kcr_devcluster.cluster.node.volumes.retries import MountRetries

PREFIX = "sim.kcr.dev/"
FOREVER = math.inf


class RunResult(NamedTuple):
    """The outcome of one run of a container. Times in seconds.

    Attributes:
        exit_code: Its exit code, unless something ends it first.
        run_for: How long it runs; `FOREVER` until something ends it.
        logs: Its output when it starts.
        reason: Of its end; empty for the usual word.
        message: Of its end.
        start_delay: How long it stays in ContainerCreating.
        ready_after: How long after its start it is ready.
        last_logs: Its output when it ends of its own accord.
        ignore_sigterm: Whether only SIGKILL ends it early.
        term_exit_code: Its exit code on SIGTERM.
        image_error: When given, the container waits with this reason and never starts.
    """

    exit_code: int = 0
    run_for: float = 0.0
    logs: str = ""
    reason: str = ""
    message: str = ""
    start_delay: float = 0.0
    ready_after: float = 0.0
    last_logs: str = ""
    ignore_sigterm: bool = False
    term_exit_code: int = 143
    image_error: str = ""


OnRun = Callable[[KubeletPod, str, int], RunResult | None]


def default_outcome(pod: KubeletPod, container: KubeletContainer) -> RunResult:
    """Return the default outcome: a Job's container succeeds, any other runs until its pod is deleted.

    A shell without a command ends at once.
    """
    owner = controller_of(pod.metadata)
    is_of_job = owner is not None and owner.kind == "Job"
    ends = is_of_job or is_idle_shell(container) or container in pod.spec.init_containers
    return RunResult(run_for=0.0 if ends and container.restart_policy != "Always" else FOREVER)


def annotated_outcome(pod: KubeletPod, container: str, attempt: int, otherwise: RunResult) -> RunResult:
    """Return the outcome that the pod's annotations describe, with the default for fields that they do not mention.

    Args:
        pod: The pod.
        container: The name; `sim.kcr.dev/run-for.main` holds for the container main alone.
        attempt: How often it has run before; a list of exit codes is used up one per run.
        otherwise: The default.

    Raises:
        ValueError: An annotation makes no sense; the message names it.
    """
    said = _script_annotations(pod.metadata.annotations, container)
    if not said:
        return otherwise
    changes: dict[str, object] = {}
    for name, text in said.items():
        if name not in _READERS:
            continue
        field, read = _READERS[name]
        try:
            changes[field] = read(text)
        except ValueError as error:
            raise ValueError(f"annotation {PREFIX}{name}: {error}") from error
    codes = said.get("exit-code")
    if codes is not None:
        changes["exit_code"] = _code_of(codes, attempt)
    by_index, index = said.get("by-index"), pod.metadata.annotations.get(COMPLETION_INDEX)
    if by_index is not None and index is not None:
        changes["exit_code"] = _code_by_index(by_index, index, otherwise.exit_code)
    return otherwise._replace(**changes)  # type: ignore[arg-type]  # the table below pairs fields with readers


def _script_annotations(annotations: Mapping[str, str], container: str) -> dict[str, str]:
    """Return the annotations that apply to a container, without prefix and suffix; its own override general ones."""
    general: dict[str, str] = {}
    own: dict[str, str] = {}
    for key, value in annotations.items():
        if not key.startswith(PREFIX):
            continue
        name, _, suffix = key.removeprefix(PREFIX).partition(".")
        if suffix == container:
            own[name] = value
        elif not suffix:
            general[name] = value
    return general | own


def _seconds(text: str) -> float:
    """Return the seconds of a duration such as `1m30s`, of a bare number, or of `forever`."""
    if text == "forever":
        return FOREVER
    try:
        seconds = float(text) if text[-1:].isdigit() else parse_duration(text) / 1e9
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"{text!r} is not a duration")
    return seconds


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def _code_of(codes: str, attempt: int) -> int:
    """Return the exit code of this run; the last one of a list applies to all further runs."""
    listed = codes.split(",")
    try:
        return int(listed[min(attempt, len(listed) - 1)])
    except ValueError:
        raise ValueError(f"annotation {PREFIX}exit-code: {codes!r} is not a list of numbers") from None


def _code_by_index(pairs: str, index: str, otherwise: int) -> int:
    try:
        codes = dict(pair.split("=") for pair in pairs.split(",") if pair)
        return int(codes.get(index, otherwise))
    except ValueError:
        raise ValueError(f"annotation {PREFIX}by-index: {pairs!r} is not a list of index=code") from None


_READERS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "start-delay": ("start_delay", _seconds),
    "run-for": ("run_for", _seconds),
    "ready-after": ("ready_after", _seconds),
    "reason": ("reason", str),
    "message": ("message", str),
    "termination-message": ("message", str),
    "logs": ("logs", str),
    "last-logs": ("last_logs", str),
    "ignore-sigterm": ("ignore_sigterm", _flag),
    "term-exit-code": ("term_exit_code", int),
    "image-error": ("image_error", str),
}


OutcomeOf = Callable[[KubeletPod, KubeletContainer, int], RunResult]


class SimulatedRun:
    """A run that ends when its time is over, or by a signal."""

    def __init__(self, outcome: RunResult, log: Log, on_exit: OnExit) -> None:
        self._outcome = outcome
        self._log = log
        self._on_exit = on_exit
        self._timer: asyncio.Handle | None = None
        self._over = False
        if not math.isinf(outcome.run_for):
            self._timer = asyncio.get_running_loop().call_later(outcome.run_for, self._end_of_itself)

    @property
    def ready_after_seconds(self) -> float:
        """How long after its start the container counts as ready."""
        return self._outcome.ready_after

    def terminate(self) -> None:
        """End the container, unless it ignores SIGTERM."""
        if not self._outcome.ignore_sigterm:
            self._end(Exit(self._outcome.term_exit_code))

    def kill(self) -> None:
        """End the container."""
        self._end(Exit(137))

    async def exec(self, command: ContainerCommand, streams: CommandStreams) -> int:
        """Refuse a command: there is nothing to run it in.

        Raises:
            CommandError: Always.
        """
        raise CommandError("containers are simulated here and run no commands")

    async def attach(self, streams: CommandStreams, *, stdin: bool) -> None:
        """Refuse to attach: there is nothing to attach to.

        Raises:
            CommandError: Always.
        """
        raise CommandError("containers are simulated here and have no standard input")

    def _end_of_itself(self) -> None:
        self._log.write(self._outcome.last_logs.encode())
        self._end(end_of(self._outcome))

    def _end(self, exit_: Exit) -> None:
        if self._over:
            return
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self._log.close()
        self._on_exit(exit_)


class SimulatedRuntime:
    """Runs containers as their outcomes say."""

    def __init__(
        self, logs: Logs, outcome_of: OutcomeOf, volumes: Callable[[], "MountRetries"], *, fast: bool = False
    ) -> None:
        """Make a runtime.

        Args:
            logs: Receives the output.
            outcome_of: Returns the outcome of a run; called once per run.
            volumes: Makes the check for the volumes of pods; called with the first pod that has some.
            fast: Whether a run of no length is over before it is reported as running.
        """
        self._logs = logs
        self._outcome_of = outcome_of
        self._fast = fast
        self._make_volumes = volumes
        self._volumes: MountRetries | None = None
        # Outcomes of runs whose start is delayed, by pod and container; asked for, not yet begun.
        self._delayed: dict[str, dict[str, RunResult]] = {}

    async def start(
        self, pod: KubeletPod, container: KubeletContainer, attempt: int, on_exit: OnExit
    ) -> RunningContainer | StartDeferred | Exit:
        """Start a container; see `ContainerRuntime`."""
        uid = pod.metadata.uid
        if pod.spec.volumes:
            self._volumes = self._volumes or self._make_volumes()
            if (seconds := await self._volumes.mount(pod)) is not None:
                return StartDeferred(retry_seconds=seconds)
        outcome = self._delayed.get(uid, {}).pop(container.name, None)
        if outcome is None:
            try:
                outcome = self._outcome_of(pod, container, attempt)
            except ValueError as error:
                return Exit(128, "StartError", str(error))
            if outcome.image_error:
                return StartDeferred(outcome.image_error, f'image "{container.image}" cannot be pulled')
            if outcome.start_delay > 0:
                self._delayed.setdefault(uid, {})[container.name] = outcome
                return StartDeferred(retry_seconds=outcome.start_delay)
        log = self._logs.begin(uid, container.name)
        log.write(outcome.logs.encode())
        if self._fast and outcome.run_for <= 0:
            log.write(outcome.last_logs.encode())
            log.close()
            return end_of(outcome)
        return SimulatedRun(outcome, log, on_exit)

    def update(self, pod: KubeletPod) -> None:
        """Take over a pod that has changed: simulated containers read nothing of it."""

    def release(self, uid: str) -> None:
        """Drop the state of a pod none of whose containers will run again."""
        self._delayed.pop(uid, None)
        if self._volumes is not None:
            self._volumes.release(uid)


def end_of(outcome: RunResult) -> Exit:
    """Return the end of a run that no signal ends early."""
    return Exit(outcome.exit_code, outcome.reason, outcome.message)
