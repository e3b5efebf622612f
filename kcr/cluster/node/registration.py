"""The Node object: what the machine says of itself."""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

import structlog

from kcr.api.core import Node as NodeObject
from kcr.api.meta import Key, whole_seconds
from kcr.client import Client
from kcr.errors import AlreadyExistsError, ApiError, GoneError, TransportError

T = TypeVar("T")

RETRY_SECONDS = 1.0
WATCH_SECONDS = 3600.0

_log = structlog.get_logger(__name__)
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def node_labels(name: str) -> dict[str, str]:
    """Return the labels that every node carries."""
    machine = platform.machine()
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
        "kubernetes.io/arch": _ARCHITECTURES.get(machine, machine),
    }


def node_manifest(name: str, ip: str, version: str, moment: datetime) -> dict[str, object]:
    """Return the whole Node object.

    Args:
        name: The node's name.
        ip: Its address.
        version: The version it reports: the server's.
        moment: When its conditions were found true.
    """
    labels, resources = node_labels(name), {"cpu": "64", "memory": "256Gi", "pods": "100000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kcr.dev/simulated": "true"}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
            "conditions": [_condition(*said, moment) for said in _CONDITIONS],
            "nodeInfo": {
                "kubeletVersion": version,
                "kubeProxyVersion": "",
                "containerRuntimeVersion": f"kcr://{version.removeprefix('v')}",
                "osImage": platform.system(),
                "operatingSystem": labels["kubernetes.io/os"],
                "architecture": labels["kubernetes.io/arch"],
                "kernelVersion": platform.release(),
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }


_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def _condition(kind: str, status: str, reason: str, message: str, moment: datetime) -> Mapping[str, object]:
    now = whole_seconds(moment)
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip


async def register(client: Client, name: str, ip: str, moment: datetime) -> NodeObject:
    """Create the Node object, or renew its status, and return it. Each step is tried until the server takes it."""

    async def create() -> None:
        with suppress(AlreadyExistsError):
            await client.create_manifest(NodeObject, manifest)

    async def renew() -> NodeObject:
        status = {"status": manifest["status"]}
        return await client.merge_patch(NodeObject, Key("", name), status, subresource="status")

    version = await _insist(client.server_version)
    manifest = node_manifest(name, ip, version, moment)
    await _insist(create)
    return await _insist(renew)


async def follow(client: Client, name: str, on_node: Callable[[NodeObject], None]) -> None:
    """Tell of each change of the Node object, and return when it is gone."""
    fields, version = f"metadata.name={name}", ""
    while True:
        try:
            if not version:
                page, nodes = await client.list_page(NodeObject, fields=fields)
                if not nodes:
                    return
                on_node(nodes[0])
                version = page.resource_version
            async with client.watch(
                NodeObject, fields=fields, resource_version=version, timeout_seconds=WATCH_SECONDS
            ) as events:
                async for event in events:
                    if event.type == "DELETED":
                        return
                    if event.type != "BOOKMARK":
                        on_node(event.object)
                    version = event.object.metadata.resource_version
        except GoneError:
            version = ""
        except (ApiError, TransportError) as error:
            _log.warning("node cannot be watched", cause=str(error))
        await asyncio.sleep(RETRY_SECONDS)


async def _insist(step: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await step()
        except (ApiError, TransportError) as error:
            _log.warning("node not registered", cause=str(error))
            await asyncio.sleep(RETRY_SECONDS)
