"""The runtime without processes: a run is a timer, and its outcome is told beforehand."""

import asyncio
import math
from collections.abc import Callable

from kcr.cluster.node.logs import Log, Logs
from kcr.cluster.node.outcome import Outcome
from kcr.cluster.node.pods import Container, RunnablePod
from kcr.cluster.node.runtime import Exit, Exited, Held, Run

OutcomeOf = Callable[[RunnablePod, Container, int], Outcome]


class SimulatedRun:
    """A run that ends when its time is over, or when it is asked to."""

    def __init__(self, outcome: Outcome, log: Log, exited: Exited) -> None:
        self._outcome = outcome
        self._log = log
        self._exited = exited
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        if not math.isinf(outcome.run_for):
            self._timer = asyncio.get_running_loop().call_later(outcome.run_for, self._end_of_itself)

    @property
    def ready_after_seconds(self) -> float:
        """How long after its start the container counts as ready."""
        return self._outcome.ready_after

    def terminate(self) -> None:
        """Ask the container to end, unless it does not listen."""
        if not self._outcome.ignore_sigterm:
            self._end(Exit(self._outcome.term_exit_code))

    def kill(self) -> None:
        """End the container."""
        self._end(Exit(137))

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
        self._exited(exit_)


class SimulatedRuntime:
    """Runs containers as their outcomes say."""

    def __init__(self, logs: Logs, outcome_of: OutcomeOf, *, fast: bool = False) -> None:
        """Make a runtime.

        Args:
            logs: Where output goes.
            outcome_of: Says how a run goes; asked once per run.
            fast: Whether a run of no length is over before it is reported as running.
        """
        self._logs = logs
        self._outcome_of = outcome_of
        self._fast = fast
        # Outcomes of runs whose start is delayed, by pod and container; asked for, not yet begun.
        self._delayed: dict[str, dict[str, Outcome]] = {}

    async def start(self, pod: RunnablePod, container: Container, attempt: int, exited: Exited) -> Run | Held | Exit:
        """Start a container; see `Runtime`."""
        uid = pod.metadata.uid
        outcome = self._delayed.get(uid, {}).pop(container.name, None)
        if outcome is None:
            try:
                outcome = self._outcome_of(pod, container, attempt)
            except ValueError as error:
                return Exit(128, "StartError", str(error))
            if outcome.image_error:
                return Held(outcome.image_error, f'image "{container.image}" cannot be pulled')
            if outcome.start_delay > 0:
                self._delayed.setdefault(uid, {})[container.name] = outcome
                return Held(retry_seconds=outcome.start_delay)
        log = self._logs.begin(uid, container.name)
        log.write(outcome.logs.encode())
        if self._fast and outcome.run_for <= 0:
            log.write(outcome.last_logs.encode())
            log.close()
            return end_of(outcome)
        return SimulatedRun(outcome, log, exited)

    def release(self, uid: str) -> None:
        """Forget a pod none of whose containers will run again."""
        self._delayed.pop(uid, None)


def end_of(outcome: Outcome) -> Exit:
    """Return how a run ends that nothing ends early."""
    return Exit(outcome.exit_code, outcome.reason, outcome.message)
