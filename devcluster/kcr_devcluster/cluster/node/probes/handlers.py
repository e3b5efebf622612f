"""Handlers of probes and lifecycle hooks: exec in the container, httpGet, tcpSocket, sleep.

Source: kubernetes/pkg/kubelet/prober/prober.go, runProbe, and pkg/kubelet/lifecycle/handlers.go, Run.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kcr.api.durations import go_duration
from kcr_devcluster.cluster.node.commands import CommandError, exec_sync
from kcr_devcluster.cluster.node.pods import HTTPGetAction, KubeletContainer, LifecycleHandler, Probe
from kcr_devcluster.cluster.node.probes.network import RequestError, connect, get, probe_get
from kcr_devcluster.cluster.node.probes.results import HandlerResult
from kcr_devcluster.cluster.node.runtime import RunningContainer

_LAST_PORT = 65535


class HandlerTarget(NamedTuple):
    """The container that a handler is about.

    Attributes:
        run: Its run, for commands.
        container: Its spec, for the names of ports.
        ip: The pod's address.
    """

    run: RunningContainer
    container: KubeletContainer
    ip: str


RunHandler = Callable[[Probe | LifecycleHandler, HandlerTarget], Awaitable[HandlerResult]]


async def run_handler(handler: Probe | LifecycleHandler, target: HandlerTarget) -> HandlerResult:
    """Run a probe once, or a lifecycle hook; one without a handler that is known here succeeds."""
    try:
        if isinstance(handler, Probe):
            return await _run_probe(handler, target)
        return await _run_hook(handler, target)
    except (CommandError, ValueError) as error:
        return HandlerResult("unknown", str(error))


async def _run_probe(probe: Probe, target: HandlerTarget) -> HandlerResult:
    timeout = float(max(probe.timeout_seconds, 1))
    if probe.exec is not None:
        return await _exec(probe.exec.command, target, timeout)
    if (action := probe.http_get) is not None:
        return await probe_get(url_of(action, target.container, target.ip), action, timeout)
    if probe.tcp_socket is not None:
        port = resolve_port(probe.tcp_socket.port, target.container)
        return await connect(probe.tcp_socket.host or target.ip, port, timeout)
    return HandlerResult("success")


async def _run_hook(hook: LifecycleHandler, target: HandlerTarget) -> HandlerResult:
    if hook.exec is not None:
        return await _exec(hook.exec.command, target, None)
    if (action := hook.http_get) is not None:
        try:
            await get(url_of(action, target.container, target.ip), action)
        except RequestError as error:
            return HandlerResult("failure", str(error))
    elif hook.sleep is not None:
        await asyncio.sleep(hook.sleep.seconds)
    elif hook.tcp_socket is not None:
        return HandlerResult("failure", "invalid handler: tcpSocket")
    return HandlerResult("success")


async def _exec(command: tuple[str, ...], target: HandlerTarget, timeout: float | None) -> HandlerResult:
    """Run a command in the container.

    Source: kubernetes/pkg/probe/exec/exec.go, Probe.
    """
    try:
        result = await exec_sync(target.run, command, timeout_seconds=timeout)
    except TimeoutError:
        words = f"{json.dumps(' '.join(command), ensure_ascii=False)} timed out after {go_duration(int(timeout or 0))}"
        return HandlerResult("failure", f"command timed out: {words}")
    return HandlerResult("failure" if result.code else "success", result.output.decode(errors="replace"))


def resolve_port(port: int | str, container: KubeletContainer) -> int:
    """Return the number of a port.

    Args:
        port: A number, the name of one of the container's ports, or a number as text.
        container: The container.

    Raises:
        ValueError: There is no such port.

    Source: kubernetes/pkg/probe/util.go, ResolveContainerPort.
    """
    if isinstance(port, str):
        named = next((one.container_port for one in container.ports if one.name == port), None)
        if named is None and not port.isdecimal():
            raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')
        port = int(port) if named is None else named
    if not 0 < port <= _LAST_PORT:
        raise ValueError(f"invalid port number: {port}")
    return port


def url_of(action: HTTPGetAction, container: KubeletContainer, ip: str) -> str:
    """Return the URL of a GET.

    Args:
        action: The GET.
        container: The container whose ports it may name.
        ip: The host where the action names none.

    Raises:
        ValueError: There is no such port.

    Source: kubernetes/pkg/probe/http/request.go, formatURL.
    """
    host = action.host or ip
    shown = f"[{host}]" if ":" in host else host
    path = action.path if action.path.startswith("/") else f"/{action.path}"
    return f"{(action.scheme or 'http').lower()}://{shown}:{resolve_port(action.port, container)}{path}"
