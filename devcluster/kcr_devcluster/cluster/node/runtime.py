"""Container runtime interface: runs containers for a kubelet. Two implementations: processes, a simulation."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kcr_devcluster.cluster.names.cluster_names import ClusterNames
from kcr_devcluster.cluster.node.commands import CommandRunner, CommandStreams
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod


@dataclass(slots=True)
class NodeInfo:
    """A node's name and surroundings.

    Attributes:
        name: The node's name.
        ip: Its address.
        pod_network: The first two numbers of its pods' addresses.
        host_network: Whether pods have the node's address instead of one each.
        names: The names that containers know; None where they know none.
        api_url: Where processes reach the server, such as `https://127.0.0.1:6443`; empty when they cannot.
        kubeconfig: The text of the file that their `$KUBECONFIG` names; empty for no file. Containers that mount a
            token of their service account get one of their own with the token.
        accounts_only: Whether containers without such a token get no file.
    """

    name: str
    ip: str = "127.0.0.1"
    pod_network: str = "10.244"
    host_network: bool = False
    names: ClusterNames | None = None
    api_url: str = ""
    kubeconfig: str = field(default="", repr=False)
    accounts_only: bool = False


class Exit(NamedTuple):
    """How a run ended.

    Attributes:
        code: 0 to 255; 128 plus the signal for a run that a signal ended.
        reason: Empty for the usual one, `Completed` or `Error`.
        message: The termination message, or why the container could not be started.
    """

    code: int
    reason: str = ""
    message: str = ""


class StartDeferred(NamedTuple):
    """A container cannot be started yet.

    Attributes:
        reason: Of the container's waiting state; empty keeps the present one.
        message: Of the waiting state and the event; empty for none.
        retry_seconds: When to try again.
    """

    reason: str = ""
    message: str = ""
    retry_seconds: float = 10.0


class RunningContainer(CommandRunner, Protocol):
    """A container that runs. Asking it to end returns at once; its end is reported to `on_exit`."""

    @property
    def ready_after_seconds(self) -> float:
        """How long after its start the container is ready."""
        ...

    def terminate(self) -> None:
        """Ask the container to end (SIGTERM)."""
        ...

    def kill(self) -> None:
        """End the container (SIGKILL)."""
        ...

    async def attach(self, streams: CommandStreams, *, stdin: bool) -> None:
        """Pass on the container's output from now on, and input to it, until it ends.

        Args:
            streams: The client's.
            stdin: Whether the client has input; it is ignored where the container has none.

        Raises:
            CommandError: It cannot be attached to.
        """
        ...


OnExit = Callable[[Exit], None]
# Records a Warning event about a pod: its reason and message.
RecordWarning = Callable[[KubeletPod, str, str], None]


class ContainerRuntime(Protocol):
    """Starts containers."""

    async def start(
        self, pod: KubeletPod, container: KubeletContainer, attempt: int, on_exit: OnExit
    ) -> RunningContainer | StartDeferred | Exit:
        """Start a container.

        Args:
            pod: Its pod.
            container: The container.
            attempt: How often it has run before.
            on_exit: Called once when the run ends, never before this method has returned.

        Returns:
            The run; or when to try again; or the exit, if it could not be started or ended at once.
        """
        ...

    def update(self, pod: KubeletPod) -> None:
        """Take over the pod as it is now. Called only for pods with volumes, which may show labels and annotations."""
        ...

    def release(self, uid: str) -> None:
        """Free the resources of a pod none of whose containers will run again."""
        ...
