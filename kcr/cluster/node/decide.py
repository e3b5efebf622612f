"""What the node does next for a pod. Plain values in, one action out; the kubelet carries it out and asks again."""

from collections.abc import Iterator
from typing import NamedTuple

from kcr.cluster.node.containers import BackingOff, ContainerLife, Ended, Running, Waiting, has_run
from kcr.cluster.node.life import PodLife, is_finished, is_over
from kcr.cluster.node.pods import grace_seconds, has_ended

DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class Start(NamedTuple):
    """Start a container, for the first time or again."""

    name: str


class BackOff(NamedTuple):
    """Say that an ended container waits for its restart."""

    name: str


class Stop(NamedTuple):
    """Begin to end the pod; what still runs after `seconds` is killed."""

    seconds: float
    reason: str = ""
    message: str = ""


class Terminate(NamedTuple):
    """Ask containers to end."""

    names: tuple[str, ...]


class Kill(NamedTuple):
    """End containers by force."""

    names: tuple[str, ...]


class Remove(NamedTuple):
    """Let the deleted object go: nothing of it runs any more, and its status says so."""


Action = Start | BackOff | Stop | Terminate | Kill | Remove


def decide(life: PodLife, now: float) -> Action | None:
    """Return the next thing to do for a pod, or None when it is to be left alone for now.

    Args:
        life: The pod; its present status has been written.
        now: On the loop's time.
    """
    if is_over(life):
        leaving = life.pod.metadata.deletion_timestamp is not None and not life.gone and not life.removed
        return Remove() if leaving else None
    if life.stopping is not None:
        return _stopping(life, life.stopping.kill_at, now)
    return _reason_to_stop(life, now) or _next_start(life, now)


def _reason_to_stop(life: PodLife, now: float) -> Stop | None:
    metadata, grace = life.pod.metadata, grace_seconds(life.pod)
    if life.gone:
        return Stop(0)
    if metadata.deletion_timestamp is not None:
        return Stop(metadata.deletion_grace_period_seconds or 0)
    if (deadline := _deadline(life)) is not None and now >= deadline:
        return Stop(grace, "DeadlineExceeded", DEADLINE_MESSAGE)
    if is_finished(life) or has_ended(life.pod):  # sidecars are left, or somebody else has ended the pod
        return Stop(grace)
    return None


def _stopping(life: PodLife, kill_at: float, now: float) -> Action | None:
    running = life.running()
    if now >= kill_at:
        left = tuple(name for name, run in running.items() if run.asked != "KILL")
        return Kill(left) if left else None
    # Sidecars serve the others to the last.
    first = [name for name in running if life.containers[name].role != "sidecar"] or list(running)
    names = tuple(name for name in first if not running[name].asked)
    return Terminate(names) if names else None


def _next_start(life: PodLife, now: float) -> Action | None:
    for container in _startable(life):
        match container.state:
            case Waiting(due=due) if now >= due:
                return Start(container.name)
            case Ended(restart_at=at) | BackingOff(restart_at=at) if at is not None and now >= at:
                return Start(container.name)
            case Ended(restart_at=at) if at is not None:
                return BackOff(container.name)
            case _:
                pass
    return None


def _startable(life: PodLife) -> Iterator[ContainerLife]:
    """Yield the containers whose turn it is: init containers one by one, sidecars from their turn on."""
    for container in life.inits:
        if container.role == "sidecar" or not has_run(container):
            yield container
        if not has_run(container):
            return
    yield from life.mains


def _deadline(life: PodLife) -> float | None:
    seconds = life.pod.spec.active_deadline_seconds
    return None if seconds is None else life.accepted_at + seconds


def wake_at(life: PodLife, now: float) -> float | None:
    """Return when to look at the pod again though nothing happens to it, or None for never.

    Args:
        life: The pod, when `decide` has just returned None.
        now: On the loop's time.
    """
    if is_over(life):
        return None
    moments: list[float | None] = []
    if life.stopping is not None:
        moments.append(life.stopping.kill_at)
    else:
        moments.append(_deadline(life))
        moments.extend(_due(container) for container in _startable(life))
    moments.extend(run.ready_at for run in life.running().values())
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _due(container: ContainerLife) -> float | None:
    match container.state:
        case Waiting(due=due):
            return due
        case Ended(restart_at=at) | BackingOff(restart_at=at):
            return at
        case Running():
            return None


def begins(life: PodLife, now: float) -> bool:
    """Return whether a first start comes next, so that a node in a hurry need not write what comes before it."""
    action = decide(life, now)
    return isinstance(action, Start) and isinstance(life.containers[action.name].state, Waiting)
