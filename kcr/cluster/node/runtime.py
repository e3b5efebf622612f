"""What a node asks of the thing that runs containers. There are two: processes, and a simulation."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kcr.cluster.node.pods import Container, RunnablePod


class Exit(NamedTuple):
    """How a run ended.

    Attributes:
        code: 0 to 255; 128 plus the signal for a run that a signal ended.
        reason: Empty for the usual word, `Completed` or `Error`.
        message: The container's last words, or why it could not be started.
    """

    code: int
    reason: str = ""
    message: str = ""


class Held(NamedTuple):
    """A container that cannot be started yet.

    Attributes:
        reason: As in the container's waiting state; empty keeps what stands there.
        message: For people.
        retry_seconds: When to try again.
    """

    reason: str = ""
    message: str = ""
    retry_seconds: float = 10.0


class Run(Protocol):
    """A container that runs. Asking it to end returns at once; the end itself is told to `exited`."""

    @property
    def ready_after_seconds(self) -> float:
        """How long after its start the container counts as ready."""
        ...

    def terminate(self) -> None:
        """Ask the container to end (SIGTERM)."""
        ...

    def kill(self) -> None:
        """End the container (SIGKILL)."""
        ...


Exited = Callable[[Exit], None]


class Runtime(Protocol):
    """Starts containers."""

    async def start(self, pod: RunnablePod, container: Container, attempt: int, exited: Exited) -> Run | Held | Exit:
        """Start a container.

        Args:
            pod: Its pod.
            container: The container.
            attempt: How often it has run before.
            exited: Called once when the run ends, never before this method has returned.

        Returns:
            The run; or when to try again; or the end, for what could not be started or ended at once.
        """
        ...

    def release(self, uid: str) -> None:
        """Forget a pod none of whose containers will run again."""
        ...
