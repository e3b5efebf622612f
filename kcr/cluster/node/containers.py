"""One container's life on the node: waiting, running, ended, waiting to be started again.

All values; a step of a life is a function that returns the next one.
"""

from datetime import datetime
from typing import Literal, NamedTuple

from kcr.api.meta import whole_seconds
from kcr.cluster.node.pods import Container, RunnablePod, Terminated
from kcr.cluster.node.runtime import Exit, Held, Run

Role = Literal["init", "sidecar", "main"]

FIRST_DELAY_SECONDS = 10.0
MAX_DELAY_SECONDS = 300.0
# A container that ran this long has shown that it can: its next restart is immediate again.
GOOD_RUN_SECONDS = 600.0


class Waiting(NamedTuple):
    """Not started yet. An empty reason stands for the usual one; `due` is when to (re)try."""

    reason: str = ""
    message: str = ""
    due: float = 0.0


class Running(NamedTuple):
    """Runs since `since`, ready from `ready_at` on (both on the loop's time)."""

    run: Run
    container_id: str
    started_at: datetime
    since: float
    ready_at: float
    asked: Literal["", "TERM", "KILL"] = ""


class Ended(NamedTuple):
    """A run has ended. `restart_at` is None when no other follows."""

    end: Terminated
    restart_at: float | None = None


class BackingOff(NamedTuple):
    """Waits for its restart, and says so."""

    end: Terminated
    restart_at: float


State = Waiting | Running | Ended | BackingOff


class ContainerLife(NamedTuple):
    """A container of a pod, and what has become of it.

    Attributes:
        container: The container.
        role: Whether it comes before the others, runs beside them, or is one of them.
        state: What it does now.
        restarts: How often it has been started again.
        last: The end before the present run.
        delay: Seconds between the latest end and the restart after it; None before the first end.
    """

    container: Container
    role: Role
    state: State = Waiting()
    restarts: int = 0
    last: Terminated | None = None
    delay: float | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return self.container.name


def lives_of(pod: RunnablePod) -> dict[str, ContainerLife]:
    """Return the pod's containers before anything has run, in the order in which they start."""
    inits = (
        ContainerLife(container, "sidecar" if container.restart_policy == "Always" else "init")
        for container in pod.spec.init_containers or ()
    )
    mains = (ContainerLife(container, "main") for container in pod.spec.containers or ())
    return {life.name: life for life in (*inits, *mains)}


def restarts_after(role: Role, policy: str | None, code: int) -> bool:
    """Return whether a container that exited with `code` is started again.

    Args:
        role: An init container that succeeded has done its part, whatever the policy.
        policy: The pod's restart policy; None means Always.
        code: The exit code.
    """
    if role == "sidecar":
        return True
    if role == "init" and code == 0:
        return False
    return policy in {None, "Always"} or (policy == "OnFailure" and code != 0)


def started(life: ContainerLife, running: Running) -> ContainerLife:
    """Return the life of a container that runs now, for the first time or again."""
    match life.state:
        case Ended(end) | BackingOff(end):
            return life._replace(state=running, restarts=life.restarts + 1, last=end)
        case _:
            return life._replace(state=running)


def ended(life: ContainerLife, exit_: Exit, policy: str | None, moment: datetime, now: float) -> ContainerLife:
    """Return the life of a container whose run has ended, or that could not be started.

    The first restart comes at once; then the container waits 10 s, 20 s, 40 s and so on up to 300 s, from its
    end on. A run of more than ten minutes starts the series over.

    Args:
        life: The container before.
        exit_: How it ended.
        policy: The pod's restart policy.
        moment: When, by the clock.
        now: When, on the loop's time.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_manager.go, doBackOff.
    """
    state, finished = life.state, whole_seconds(moment)
    if isinstance(state, Running):
        begun, identity, ran = whole_seconds(state.started_at), state.container_id, now - state.since
    else:
        # Failed to start: it counts as a run of no length, a restart if others came before.
        begun, identity, ran = finished, "", 0.0
        if isinstance(state, Ended | BackingOff):
            life = life._replace(restarts=life.restarts + 1, last=state.end)
    end = Terminated(
        exit_code=exit_.code,
        reason=exit_.reason or ("Error" if exit_.code else "Completed"),
        message=exit_.message,
        started_at=begun,
        finished_at=finished,
        container_id=identity,
    )
    if not restarts_after(life.role, policy, exit_.code):
        return life._replace(state=Ended(end))
    delay = _next_delay(life.delay, ran)
    return life._replace(state=Ended(end, now + delay), delay=delay)


def _next_delay(delay: float | None, ran: float) -> float:
    if delay is None or ran > GOOD_RUN_SECONDS:
        return 0.0
    return min(max(2 * delay, FIRST_DELAY_SECONDS), MAX_DELAY_SECONDS)


def held(life: ContainerLife, why: Held, now: float) -> ContainerLife:
    """Return the life of a container that could not be started yet."""
    if isinstance(life.state, Ended | BackingOff):
        return life._replace(state=BackingOff(life.state.end, now + why.retry_seconds))
    return life._replace(state=Waiting(why.reason, why.message, now + why.retry_seconds))


def backed_off(life: ContainerLife) -> ContainerLife:
    """Return the life of an ended container that says it waits for its restart."""
    if isinstance(life.state, Ended) and life.state.restart_at is not None:
        return life._replace(state=BackingOff(life.state.end, life.state.restart_at))
    return life


def is_final(life: ContainerLife) -> bool:
    """Return whether the container has ended for good."""
    return isinstance(life.state, Ended) and life.state.restart_at is None


def exit_code(life: ContainerLife) -> int | None:
    """Return the exit code of a container that does not run now, or None when it does or never did."""
    return life.state.end.exit_code if isinstance(life.state, Ended | BackingOff) else None


def has_run(life: ContainerLife) -> bool:
    """Return whether an init container has done its part: succeeded, or, for a sidecar, been started."""
    if life.role == "sidecar":
        return not isinstance(life.state, Waiting)
    return exit_code(life) == 0
