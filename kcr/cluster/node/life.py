"""One pod's life on the node, and the questions its rules ask."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kcr.cluster.node.containers import ContainerLife, Running, exit_code, has_run, is_final
from kcr.cluster.node.pods import RunnablePod, RunnableStatus, has_ended


class Stopping(NamedTuple):
    """The containers are asked to end, and made to at `kill_at` (the loop's time). A reason fails the pod."""

    kill_at: float
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodLife:
    """What the node knows of a pod it has accepted.

    Attributes:
        pod: The object as last observed.
        containers: Their lives by name, in the order in which they start.
        accepted_at: When the node took the pod, on the loop's time; its deadline counts from here.
        start_time: The same moment by the clock, in whole seconds.
        ip: The pod's address.
        stopping: Set once the pod is on its way to its end.
        reported: The status as last written; None before the first.
        gone: The object is gone: what still runs is stopped, and nothing written any more.
        removed: The node has done its part of the deletion.
    """

    pod: RunnablePod
    containers: dict[str, ContainerLife]
    accepted_at: float
    start_time: datetime
    ip: str
    stopping: Stopping | None = None
    reported: RunnableStatus | None = None
    gone: bool = False
    removed: bool = False

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def mains(self) -> tuple[ContainerLife, ...]:
        """The containers that the pod is there for."""
        return tuple(life for life in self.containers.values() if life.role == "main")

    @property
    def inits(self) -> tuple[ContainerLife, ...]:
        """Init containers and sidecars."""
        return tuple(life for life in self.containers.values() if life.role != "main")

    def running(self) -> dict[str, Running]:
        """Return the runs by container."""
        return {name: life.state for name, life in self.containers.items() if isinstance(life.state, Running)}


def is_initialized(life: PodLife) -> bool:
    """Return whether nothing stands before the main containers any more."""
    return all(has_run(container) for container in life.inits)


def is_finished(life: PodLife) -> bool:
    """Return whether the pod has nothing left to do: all main containers ended, or an init container failed."""
    if all(is_final(container) for container in life.mains):
        return True
    return any(container.role == "init" and is_final(container) and exit_code(container) for container in life.inits)


def is_over(life: PodLife) -> bool:
    """Return whether the pod's containers have all stopped and none will start."""
    return (life.stopping is not None or is_finished(life)) and not life.running()


def phase(life: PodLife) -> str:
    """Return the pod's phase. A final one is reached only when every container has stopped.

    Source: kubernetes/pkg/kubelet/kubelet_pods.go, getPhase.
    """
    if has_ended(life.pod):
        return life.pod.status.phase
    if is_over(life):
        succeeded = all(exit_code(container) == 0 for container in life.mains)
        forced = life.stopping is not None and bool(life.stopping.reason)
        return "Succeeded" if succeeded and not forced else "Failed"
    if not is_initialized(life) or not all(_has_started(container) for container in life.mains):
        return "Pending"
    return "Running"


def _has_started(container: ContainerLife) -> bool:
    return isinstance(container.state, Running) or exit_code(container) is not None
