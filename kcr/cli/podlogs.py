"""Which logs of which containers there are to follow, and following them."""

from collections.abc import AsyncIterator
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
    """Return the present run of each container that has begun to run."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return tuple(
        ContainerRun(pod.key, pod.metadata.uid, status.name, status.restart_count)
        for status in statuses
        if status.state.running is not None or status.state.terminated is not None
    )


def failure_of(pod: Pod, run: ContainerRun) -> EventView | None:
    """Return how a run of a container ended when it failed; None when it did not."""
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
    """Yield what a run of a container prints, line by line, until it ends. A log that is gone is empty."""
    request = Request("GET", target(run, previous=previous), timeout_seconds=None)
    try:
        async with transport.send(request) as response:
            if response.status >= 400:
                return
            async for line in response.lines():
                yield line.decode(errors="replace").rstrip("\r\n")
    except TransportError:
        # The pod was deleted while it was read, or the cluster ends.
        return
