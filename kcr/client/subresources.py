"""Subresources: scale, eviction, binding, logs; and commands and ports of pods, over WebSockets.

Each message begins with the number of its channel. Commands have version 5 of the protocol, which can close standard
input, and version 4 on servers before Kubernetes 1.30. Ports have version 4, which all servers know: each connection
is a WebSocket, and closing one half of it closes it whole.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go;
kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Literal, NamedTuple, cast
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from kcr.annotations import Count, NotNegative, Text
from kcr.api import codec
from kcr.api.apps import Scale
from kcr.api.core import Pod
from kcr.api.meta import Key, Resource, Status
from kcr.arguments import checked, checked_on_failure
from kcr.client.calls import Calls, as_dry_run
from kcr.client.context import report_deleted, report_failure, report_wrote
from kcr.client.discovery import check_subresource
from kcr.client.wire import decoding
from kcr.client.wire.transport import (
    MERGE_PATCH,
    Request,
    UpgradedResponse,
    delete_options,
    object_path,
    target,
)
from kcr.errors import ApiError, KcrError, NotFoundError, TransportError
from kcr.log import get_logger
from kcr.runnables import first_failure, running

_log = get_logger("kcr.client")


Output = Literal["stdout", "stderr"]
_OUTPUTS: Mapping[int, Output] = {1: "stdout", 2: "stderr"}
_ERROR = 3
_V5, _V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_CHUNK_BYTES = 32 << 10
# As much output `exec` keeps in memory.
_OUTPUT_BYTES = 32 << 20


class ExecResult(NamedTuple):
    """How a command ended: its output, and its exit code."""

    stdout: bytes
    stderr: bytes
    exit_code: int


class ExecStream:
    """A command in a container: iterate over its output to its end, for pairs of `stdout` or `stderr` and bytes.

    Attributes:
        exit_code: The exit code; None before the iteration has ended.
    """

    def __init__(self, connection: UpgradedResponse, about: str) -> None:
        self.exit_code: int | None = None
        self._connection = connection
        self._about = about

    @checked
    async def write(self, data: bytes) -> None:
        """Send standard input, once the command has read enough of what was sent before."""
        for start in range(0, len(data), _CHUNK_BYTES):
            await self._connection.send(b"\0" + data[start : start + _CHUNK_BYTES])

    async def close_stdin(self) -> None:
        """End standard input."""
        await self._connection.send(b"\xff\0")

    async def __aiter__(self) -> AsyncIterator[tuple[Output, bytes]]:
        """Yield the output as it comes.

        Raises:
            ApiError: The command could not be started.
            TransportError: The connection was cut before the exit code came; the command may still run.
        """
        async for message in self._connection.lines():
            channel, data = message[0], message[1:]
            if channel == _ERROR:
                self.exit_code = self._exit_code(data)
            elif data and channel in _OUTPUTS:
                yield _OUTPUTS[channel], data
        if self.exit_code is None:
            raise TransportError(f"{self._about}: the connection was cut before its end, so it may still run")

    def _exit_code(self, data: bytes) -> int:
        try:
            status = codec.decode(Status, data)
        except msgspec.DecodeError:
            status = Status(message=data.decode(errors="replace"))
        if status.status == "Success":
            return 0
        error = decoding.error_of(status, 500)
        for cause in error.causes:
            if cause.reason == "ExitCode":
                return int(cause.message)
        error.message += ": is the container running, and the program in its image?"
        _name(error, self._about)
        raise error


@checked
class LogOptions(NamedTuple):
    """Which part of a log is read.

    Attributes:
        container: The container; empty when the pod has one only.
        previous: Whether to read the log of the run before the last restart.
        timestamps: Whether each line begins with the moment it was written.
        tail_lines: How many lines from the end; None for all.
        since_seconds: How old a line may be; None for any age.
    """

    container: str = ""
    previous: bool = False
    timestamps: bool = False
    tail_lines: Count | None = None
    since_seconds: Annotated[int, Meta(ge=1)] | None = None


_WHOLE_LOG = LogOptions()


class Subresources(Calls):
    """Reads and writes subresources. A status is written by `patch_status(old, new)`.

    Commands and ports need the rights `get` and `create` on `pods/exec` and `pods/portforward`: a WebSocket begins with
    a GET, and since Kubernetes 1.35 the server asks for `create` as well. Dry runs refuse both.
    """

    @checked_on_failure
    async def scale(self, kind: type[Resource], key: Key) -> Scale:
        """Return the scale of an object: replicas wanted and present.

        Raises:
            NotFoundError: There is no such object, or its kind cannot be scaled.
        """
        path = object_path(kind, key, "scale")
        try:
            return decoding.read_object(Scale, await self.request("GET", path), key.name)
        except NotFoundError as error:
            await check_subresource(self, kind.resource, key, "scale", error)
            raise

    @checked_on_failure
    async def set_scale(self, kind: type[Resource], key: Key, replicas: Count) -> Scale:
        """Set the wanted replicas of an object, and return its scale."""
        path = object_path(kind, key, "scale")
        body = codec.encode({"spec": {"replicas": replicas}})
        try:
            answer = await self._write("PATCH", path, body, MERGE_PATCH)
            scale = decoding.read_object(Scale, answer, key.name)
        except BaseException as error:
            report_failure(self, kind, key, error)
            await check_subresource(self, kind.resource, key, "scale", error)
            raise
        # Its version is the object's.
        report_wrote(self, kind, key, scale)
        return scale

    @checked_on_failure
    async def evict(self, key: Key, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        """Delete a pod, unless a disruption budget protects it.

        Args:
            key: The pod's namespace and name.
            uid: When given, a pod of the same name that was made later is left alone.
            grace_period_seconds: None for the pod's own.

        Raises:
            TooManyRequestsError: A disruption budget protects the pod at present; try again later.
            NotFoundError: It does not exist any more.
        """
        options = delete_options(uid=uid, grace_period_seconds=grace_period_seconds, dry_run=self._options.dry_run)
        metadata = {"name": key.name, "namespace": key.namespace}
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options,
        }  # fmt: skip
        path = object_path(Pod, key, "eviction")
        try:
            decoding.check_answer(Pod, await self._write("POST", path, codec.encode(eviction)))
        except BaseException as error:
            report_failure(self, Pod, key, error)
            raise
        report_deleted(self, Pod, key)

    @checked_on_failure
    async def bind(self, key: Key, node: Text, *, uid: str = "") -> None:
        """Assign a pod to a node, as a scheduler does.

        Args:
            key: The pod's namespace and name.
            node: The node's name.
            uid: When given, a pod of the same name that was made later is left alone.

        Raises:
            ConflictError: It has a node, is being deleted, or has scheduling gates.
            NotFoundError: It does not exist any more.

        Source: client-go/kubernetes/typed/core/v1/pod_expansion.go, Bind.
        """
        metadata = {"name": key.name, "namespace": key.namespace, "uid": uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = object_path(Pod, key, "binding")
        decoding.check_answer(Pod, await self._write("POST", path, codec.encode(binding)))

    @checked_on_failure
    async def log(self, key: Key, options: LogOptions = _WHOLE_LOG) -> str:
        """Return the log of a container so far; bytes that are not UTF-8 are replaced.

        Raises:
            BadRequestError: The pod has several containers and none was named, or it has not begun to run.
        """
        return (await self.request("GET", _log_target(key, options, follow=False))).decode(errors="replace")

    @checked_on_failure
    def follow_log(
        self, key: Key, options: LogOptions = _WHOLE_LOG
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Follow the log of a container line by line until it ends, however long it is silent."""
        return self.lines(_log_target(key, options, follow=True), idle_seconds=None)

    @checked
    async def exec(
        self,
        key: Key,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
        timeout: NotNegative | None = None,
    ) -> ExecResult:
        """Run a command in a container to its end.

        ```python
        result = await client.exec(pod.key, ["sh", "-c", "df -h /data"], timeout=10)
        ```

        Args:
            key: The pod's namespace and name.
            command: The program and its arguments; no shell reads them.
            container: The container; empty when the pod has one only.
            stdin: Its standard input; None for none. Needs Kubernetes 1.30.
            timeout: How many seconds it may take; None for any time.

        Raises:
            ApiError: The command could not be started: no such pod, container or program.
            TransportError: There is no exit code: the time is over, the connection was cut, or the output was larger
                than 32 MiB. The command may still run.
        """
        output: dict[Output, list[bytes]] = {"stdout": [], "stderr": []}
        size, about = 0, _about(key, command, container)
        opened = self.exec_stream(key, command, container=container, stdin=stdin is not None)
        try:
            with first_failure():
                async with asyncio.timeout(timeout), opened as stream, asyncio.TaskGroup() as group:
                    feeding = group.create_task(_feed(stream, stdin))
                    async for name, data in stream:
                        size += len(data)
                        if size > _OUTPUT_BYTES:
                            raise TransportError(f"{about}: more than 32 MiB of output: use exec_stream")
                        output[name].append(data)
                    feeding.cancel()
        except TimeoutError:
            raise TransportError(f"{about}: not ended within {timeout:g} s, so it may still run") from None
        return ExecResult(b"".join(output["stdout"]), b"".join(output["stderr"]), stream.exit_code or 0)

    @checked
    def exec_stream(
        self, key: Key, command: Sequence[str], *, container: str = "", stdin: bool = False
    ) -> AbstractAsyncContextManager[ExecStream]:
        """Run a command in a container for as long as the context lives.

        ```python
        async with client.exec_stream(pod.key, ["tar", "-xf-"], stdin=True) as stream:
            await stream.write(archive)
            await stream.close_stdin()
            async for name, data in stream: ...
        ```

        Args:
            key: The pod's namespace and name.
            command: The program and its arguments.
            container: The container; empty when the pod has one only.
            stdin: Whether it has standard input.

        Raises:
            ApiError: There is no such pod or container.
        """
        if not command:
            raise ValueError(f"exec in pod {key}: command is empty: give it a program and its arguments")
        return self._exec_stream(key, command, container, stdin)

    @asynccontextmanager
    async def _exec_stream(
        self, key: Key, command: Sequence[str], container: str, stdin: bool
    ) -> AsyncIterator[ExecStream]:
        query = [("command", word) for word in command] + [("stdout", "true"), ("stderr", "true")]
        query += [("container", container)] if container else []
        query += [("stdin", "true")] if stdin else []
        about, path = _about(key, command, container), f"{object_path(Pod, key, 'exec')}?{urlencode(query)}"
        async with self._open(key, about, path, _V5 if stdin else f"{_V5},{_V4}") as connection:
            yield ExecStream(connection, about)

    @checked
    def port_forward(
        self,
        key: Key,
        port: Annotated[int, Meta(ge=1, le=65535)],
        *,
        local_port: Annotated[int, Meta(ge=0, le=65535)] = 0,
    ) -> AbstractAsyncContextManager[int]:
        """Forward a port of 127.0.0.1 to a port of a pod for as long as the context lives, which is the local port.

        ```python
        async with client.port_forward(pod.key, 8080) as port, session.get(f"http://127.0.0.1:{port}/"): ...
        ```

        A connection that the pod refuses is closed, and logged.

        Args:
            key: The pod's namespace and name.
            port: The port of the pod.
            local_port: The port on this machine; 0 for a free one.

        Raises:
            ApiError: There is no such pod, or it does not run.
            OSError: The local port is taken.
        """
        return self._port_forward(key, port, local_port)

    @asynccontextmanager
    async def _port_forward(self, key: Key, port: int, local_port: int) -> AsyncIterator[int]:
        about = f"port {port} of pod {key}"
        path = target(object_path(Pod, key, "portforward"), {"ports": port})

        connect = partial(self._open, key, about, path, _V4)
        async with connect():
            pass  # a refusal is raised here, and not with the first connection
        forwarder = _Forwarder(about, connect, local_port)
        async with running(forwarder, forwarder.wait_ready):
            yield await forwarder.port

    @asynccontextmanager
    async def _open(self, key: Key, about: str, path: str, protocols: str) -> AsyncIterator[UpgradedResponse]:
        headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-protocol": protocols}
        request = self._fenced(Request("GET", path, headers, timeout_seconds=None, component=self._component))
        if self.is_dry_run:
            as_dry_run(request)  # there is none
        async with self._transport.send(request) as response:
            try:
                await self._check(request, response)
            except ApiError as error:
                if error.reason in ("", "BadRequest", "InternalError"):
                    error.message = f"{error.message.strip()}: see kubectl -n {key.namespace} describe pod {key.name}"
                    if protocols == _V5:
                        error.message += "; standard input needs Kubernetes 1.30"
                _name(error, about)
                raise
            if response.status != 101:
                raise TransportError(f"{about}: HTTP {response.status} in place of a WebSocket: is there a proxy?")
            yield cast("UpgradedResponse", response)


def _log_target(key: Key, options: LogOptions, *, follow: bool) -> str:
    query: dict[str, object] = {
        "container": options.container,
        "follow": "true" if follow else "",
        "previous": "true" if options.previous else "",
        "timestamps": "true" if options.timestamps else "",
        "tailLines": "" if options.tail_lines is None else options.tail_lines,
        "sinceSeconds": "" if options.since_seconds is None else options.since_seconds,
    }
    return target(object_path(Pod, key, "log"), query)


class _Forwarder:
    """Listens on a local port, and makes a WebSocket for each connection."""

    def __init__(
        self, about: str, connect: Callable[[], AbstractAsyncContextManager[UpgradedResponse]], local_port: int
    ) -> None:
        self.port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._about = about
        self._connect = connect
        self._local_port = local_port

    async def wait_ready(self) -> None:
        """Return once it listens."""
        await self.port

    async def run(self) -> None:
        """Listen until cancelled."""
        async with asyncio.TaskGroup() as group:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                group.create_task(self._forward(reader, writer))

            try:
                server = await asyncio.start_server(accept, "127.0.0.1", self._local_port)
            except OSError as error:
                self.port.set_exception(error)
                return
            self.port.set_result(server.sockets[0].getsockname()[1])
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with self._connect() as connection, asyncio.TaskGroup() as group:
                tasks = [group.create_task(_send(reader, connection)), group.create_task(_receive(connection, writer))]
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
            problem = "".join(f"{self._about}: {task.result()}" for task in done if task.result())
        except KcrError as error:
            problem = str(error)
        finally:
            writer.close()
        if problem:
            _log.warning("port-forward: connection refused", error=problem)


async def _send(reader: asyncio.StreamReader, connection: UpgradedResponse) -> str:
    with suppress(TransportError, OSError):  # of the pod's end, which `_receive` sees, or of the client
        while data := await reader.read(_CHUNK_BYTES):
            await connection.send(b"\0" + data)
    return ""


async def _receive(connection: UpgradedResponse, writer: asyncio.StreamWriter) -> str:
    """Receive to the end of the connection, and return why the pod has refused it; empty when it has not."""
    headed = set[int]()
    with suppress(TransportError, OSError):
        async for message in connection.lines():
            channel, data = message[0], message[1:]
            if channel not in headed:
                headed.add(channel)  # the first message of each is the port
            elif channel:
                return data.decode(errors="replace")
            else:
                writer.write(data)
                await writer.drain()
    return ""


async def _feed(stream: ExecStream, stdin: bytes | None) -> None:
    if stdin is not None:
        # A command may end before it has read all of it.
        with suppress(TransportError):
            await stream.write(stdin)
            await stream.close_stdin()


def _about(key: Key, command: Sequence[str], container: str) -> str:
    return f"exec of {[*command]} in pod {key}" + (f", container {container}" if container else "")


def _name(error: ApiError, about: str) -> None:
    """Let the message of an error begin with what it is about."""
    error.message = f"{about}: {error.message}"
    error.args = (error.message,)
