"""What a node knows of a pod's containers when it first sees it: nothing yet, or what an earlier node wrote."""

from datetime import datetime

from kcr.cluster.node.containers import BackingOff, ContainerLife, Ended, ended, lives_of
from kcr.cluster.node.pods import ContainerStatus, RunnablePod, has_ended
from kcr.cluster.node.runtime import Exit

LOST = Exit(137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated")


def recalled(pod: RunnablePod, moment: datetime, now: float) -> dict[str, ContainerLife]:
    """Return the lives of a pod's containers, as its status tells them.

    What ran is lost: processes do not survive their node.

    Args:
        pod: The pod as first seen.
        moment: By the clock.
        now: The same on the loop's time.

    Returns:
        Empty for a pod that has ended; nothing of it is to be run, or written.
    """
    if has_ended(pod):
        return {}
    lives = lives_of(pod)
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.name in lives:
            lives[status.name] = _recall(lives[status.name], status, pod.spec.restart_policy, moment, now)
    return lives


def _recall(
    life: ContainerLife, status: ContainerStatus, policy: str | None, moment: datetime, now: float
) -> ContainerLife:
    last = status.last_state.terminated
    life = life._replace(restarts=status.restart_count, last=last)
    if status.state.running is not None:
        return ended(life, LOST, policy, moment, now)
    if (end := status.state.terminated) is not None:
        again = ended(life, Exit(end.exit_code), policy, moment, now)
        return again._replace(state=Ended(end, again.state.restart_at if isinstance(again.state, Ended) else None))
    if last is not None:
        return life._replace(state=BackingOff(last, now))
    return life
