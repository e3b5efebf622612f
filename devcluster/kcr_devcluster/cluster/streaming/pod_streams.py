"""Connections into pods: the upgrade to a WebSocket, and the commands and forwarded ports behind it.

A client that disconnects ends its command. All connections end with the listener.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import WSCloseCode, web

from kcr.api.meta import Key
from kcr_devcluster.apiserver.http.pods.pod_streams import TUNNEL, V5
from kcr_devcluster.apiserver.protocol.responses import PodStream, internal
from kcr_devcluster.cluster.node.commands import CommandError, ContainerCommand
from kcr_devcluster.cluster.node.runtime import RunningContainer
from kcr_devcluster.cluster.streaming.channels import MAX_MESSAGE_BYTES, Channels, ServerSocket
from kcr_devcluster.cluster.streaming.forwarding import Forwarder
from kcr_devcluster.cluster.streaming.pipes import Pipe
from kcr_devcluster.cluster.streaming.port_channels import forward_ports
from kcr_devcluster.cluster.streaming.tunnel import forward_tunnel

# Returns the containers of a pod that run, by key and uid.
RunningContainers = Callable[[Key, str], Mapping[str, RunningContainer]]
Status = Mapping[str, Any]

# How long a client may take to answer the end of a connection.
_CLOSE_SECONDS = 1.0
_SUCCESS: Status = {"metadata": {}, "status": "Success"}


class PodStreams:
    """Serves connections into pods."""

    def __init__(self, running_containers: RunningContainers) -> None:
        """Make a server of connections.

        Args:
            running_containers: Finds the containers of a pod.
        """
        self._running_containers = running_containers
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End all connections."""
        self._closing.set()

    def refusal(self, stream: PodStream) -> str:
        """Return why a connection is refused before its upgrade, in the kubelet's words; empty for none.

        Args:
            stream: The target of the connection.
        """
        containers = self._running_containers(stream.key, stream.uid)
        if stream.subresource == "portforward":
            return "" if containers else f'pod not found ("{stream.key.name}_{stream.key.namespace}")'
        # With version 5, the API server upgrades the connection before it asks the kubelet.
        return "" if stream.container in containers or stream.protocol == V5 else _missing(stream)

    async def serve(self, request: web.BaseRequest, stream: PodStream) -> web.StreamResponse:
        """Upgrade a connection, and serve it to its end.

        Args:
            request: The request; the API server has accepted it.
            stream: The target of the connection: a container to exec in or attach to, or ports.
        """
        if refusal := self.refusal(stream):
            # The API server passes it on.
            return web.Response(status=500, text=f"{refusal}\n")
        socket = web.WebSocketResponse(
            protocols=(stream.protocol,) if stream.protocol else (),
            max_msg_size=MAX_MESSAGE_BYTES,
            timeout=_CLOSE_SECONDS,
            compress=False,
        )
        await socket.prepare(request)
        with suppress(ConnectionError):
            await self._serve(socket, stream)
            code = WSCloseCode.GOING_AWAY if self._closing.is_set() else WSCloseCode.OK
            await socket.close(code=code)
        return socket

    @asynccontextmanager
    async def connect(self, stream: PodStream) -> AsyncIterator[Pipe]:
        """Serve a connection inside the process for as long as the context lives.

        Args:
            stream: The target of the connection, which is not refused.
        """
        pipe, failure = Pipe(), None

        async def serve() -> None:
            await self._serve(pipe, stream)
            await pipe.end()

        async with asyncio.TaskGroup() as group:
            serving = group.create_task(serve())
            try:
                yield pipe
            except Exception as error:  # of the client: the group would wrap it
                failure = error
            serving.cancel()
        if failure is not None:
            raise failure

    async def _serve(self, socket: ServerSocket, stream: PodStream) -> None:
        containers = self._running_containers(stream.key, stream.uid)
        if stream.subresource == "portforward":
            await self._forward(socket, stream)
            return
        container = containers.get(stream.container)
        channels = Channels(socket, stream)
        await channels.greet()
        if container is None:
            status: Status | None = _failure(f"unable to upgrade connection: {_missing(stream)}")
        else:
            status = await self._until_disconnected(channels.receive(), _run(container, channels, stream))
        if status is not None:
            await channels.send_status(status)

    async def _forward(self, socket: ServerSocket, stream: PodStream) -> None:
        def is_running() -> bool:
            return bool(self._running_containers(stream.key, stream.uid))

        forwarder = Forwarder(stream.key, stream.uid, is_running)
        if stream.protocol == TUNNEL:
            await self._until_disconnected(forward_tunnel(socket, forwarder))
        else:
            await self._until_disconnected(forward_ports(socket, forwarder, stream.ports))

    async def _until_disconnected(
        self, connection: Coroutine[None, None, None], command: Coroutine[None, None, Status] | None = None
    ) -> Status | None:
        """Run both until one ends, or all connections are to end; return the command's status, if it has ended."""
        async with asyncio.TaskGroup() as group:
            running = group.create_task(command) if command is not None else None
            others = {group.create_task(connection), group.create_task(self._closing.wait())}
            await asyncio.wait(others | ({running} if running else set()), return_when=asyncio.FIRST_COMPLETED)
            for task in others | ({running} if running else set()):
                task.cancel()
        return None if running is None or running.cancelled() else running.result()


async def _run(container: RunningContainer, channels: Channels, stream: PodStream) -> Status:
    """Execute or attach, and return the Status that says how it ended.

    Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/{exec,attach}.go;
    kubernetes/staging/src/k8s.io/apiserver/pkg/util/proxy/streamtranslator.go.
    """
    try:
        if stream.subresource == "attach":
            await container.attach(channels, stdin=stream.stdin)
            return _SUCCESS
        if not stream.command:
            raise CommandError("no command is given")
        code = await container.exec(ContainerCommand(stream.command, stdin=stream.stdin, tty=stream.tty), channels)
    except CommandError as error:
        verb = "attaching to" if stream.subresource == "attach" else "executing command in"
        message = f"error {verb} container: {error}"
        # With version 5, the API server passes on the error of the kubelet as one of its own.
        return _failure(f"Internal error occurred: {message}" if stream.protocol == V5 else message)
    return _SUCCESS if code == 0 else _exit_status(code)


def _exit_status(code: int) -> Status:
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: command terminated with exit code {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }  # fmt: skip


def _failure(message: str) -> Status:
    """Return an internal error as Go encodes one that is no response of its own."""
    return {name: value for name, value in internal(message).status().items() if name not in ("kind", "apiVersion")}


def _missing(stream: PodStream) -> str:
    return f'container not found ("{stream.container}")'
