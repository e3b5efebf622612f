"""What `kcr dev` shows of pods: those without a controller, failures of containers, logs."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.cli.view import EventView, shown_name
from kcr.client import Request, Transport
from kcr.errors import TransportError


class ContainerRun(NamedTuple):
    """One run of a container: `attempt` counts its restarts."""

    pod: Key
    uid: str
    container: str
    attempt: int


def runs_of(pod: Pod) -> tuple[ContainerRun, ...]:
    """Return the current run of each container that has started."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return tuple(
        ContainerRun(pod.key, pod.metadata.uid, status.name, status.restart_count)
        for status in statuses
        if status.state.running is not None or status.state.terminated is not None
    )


def failure_of(pod: Pod, run: ContainerRun) -> EventView | None:
    """Return an event that reports how a run of a container failed; None when it did not."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = status.state.terminated
        if status.name == run.container and ended is not None and ended.exit_code:
            detail = f": {' '.join(ended.message.split())}" if ended.message else ""
            message = f"Container {run.container} ended with exit code {ended.exit_code}{detail}"
            return EventView(f"pod/{shown_name(pod.key)}", ended.reason, message, warning=True)
    return None


def target(run: ContainerRun, *, previous: bool) -> str:
    """Return the request's target: the log from its start, followed until the container ends.

    Args:
        run: The run whose log is wanted.
        previous: Whether the container has been restarted since; its log is complete then.
    """
    query = f"container={quote(run.container)}&{'previous' if previous else 'follow'}=true"
    return f"{Pod.resource.path(run.pod.namespace, run.pod.name, 'log')}?{query}"


async def lines_of(transport: Transport, run: ContainerRun, *, previous: bool) -> AsyncIterator[str]:
    """Yield the log of a run of a container, line by line, until it ends; a log that was deleted is empty."""
    request = Request("GET", target(run, previous=previous), timeout_seconds=None)
    try:
        async with transport.send(request) as response:
            if response.status >= 400:
                return
            async for line in response.lines():
                yield line.decode(errors="replace").rstrip("\r\n")
    except TransportError:
        # The pod was deleted meanwhile, or the cluster ends.
        return


class PodView(NamedTuple):
    """A pod that no controller owns, as shown.

    Attributes:
        key: Its namespace and name.
        state: Why a container waits, else the pod's own reason, else its phase.
        why: The pod's own message.
        ready: How many of its `containers` are ready.
        containers: See `ready`.
        restarts: How often its containers were restarted.
        started: When it was created.
        ended: When its last container ended, once it has succeeded or failed; None before.
        has_ended: Whether it has succeeded or failed.
    """

    key: Key
    state: str
    why: str
    ready: int
    containers: int
    restarts: int
    started: datetime | None
    ended: datetime | None
    has_ended: bool

    @property
    def kind(self) -> str:
        """How lines name its kind."""
        return "pod"

    @property
    def news(self) -> tuple[object, ...]:
        """What must differ for the pod to be printed again; empty while it is pending."""
        return () if self.state == "Pending" else (self.state, self.restarts)


def pod_view(pod: Pod) -> PodView:
    """Return what is shown of a pod that no controller owns."""
    reports, status = pod.status.container_statuses, pod.status
    waiting = next((one.state.waiting.reason for one in reports if one.state.waiting and one.state.waiting.reason), "")
    ends = [one.state.terminated.finished_at for one in reports if one.state.terminated]
    has_ended = status.phase in ("Succeeded", "Failed")
    gone = pod.metadata.deletion_timestamp is not None and not has_ended
    return PodView(
        key=pod.key,
        state="Terminating" if gone else waiting or status.reason or status.phase or "Pending",
        why=" ".join(status.message.split()) if has_ended else "",
        ready=sum(one.ready for one in reports),
        containers=len(pod.spec.containers),
        restarts=sum(one.restart_count for one in reports),
        started=pod.metadata.creation_timestamp,
        ended=max(filter(None, ends), default=None) if has_ended else None,
        has_ended=has_ended,
    )
