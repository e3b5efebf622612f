"""Connections into pods, as client libraries open them."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp

from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.listener import ServerAddress
from tests.kit.node_pods import create, get, state

PODS = "/api/v1/namespaces/default/pods"


class PodConnection:
    """A WebSocket with channels; what came is kept by channel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.channels: defaultdict[int, bytearray] = defaultdict(bytearray)

    @property
    def output(self) -> str:
        return self.channels[1].decode()

    async def type(self, data: bytes) -> None:
        await self.socket.send_bytes(b"\x00" + data)

    async def resize(self, columns: int, rows: int) -> None:
        await self.socket.send_bytes(b"\x04" + json.dumps({"Width": columns, "Height": rows}).encode())

    async def end_input(self) -> None:
        await self.socket.send_bytes(b"\xff\x00")

    async def read_until(self, text: str, channel: int = 1) -> None:
        while text.encode() not in self.channels[channel]:
            message = await self.socket.receive()
            assert message.type == aiohttp.WSMsgType.BINARY, (message, self.channels)
            self._take(message.data)

    async def status(self) -> Any:
        """Read to the end, and return the Status that came last."""
        async for message in self.socket:
            self._take(message.data)
        return json.loads(self.channels[3])

    def _take(self, data: bytes) -> None:
        self.channels[data[0]] += data[1:]


class PodClient:
    """Opens connections into the pods of a cluster."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    def exec(self, pod: str, command: Sequence[str], version: int = 5, **options: Any) -> Any:
        query = [("command", word) for word in command] + [("stdout", "true"), ("stderr", "true"), *options.items()]
        return self.open(f"{pod}/exec?{urlencode(query)}", f"v{version}.channel.k8s.io")

    def attach(self, pod: str, **options: Any) -> Any:
        return self.open(f"{pod}/attach?{urlencode({'stdout': 'true', **options})}", "v5.channel.k8s.io")

    @asynccontextmanager
    async def open(self, target: str, protocol: str) -> AsyncIterator[PodConnection]:
        async with self.session.ws_connect(f"{PODS}/{target}", protocols=(protocol,) if protocol else ()) as socket:
            assert socket.protocol == (protocol or None)
            yield PodConnection(socket)


@asynccontextmanager
async def pod_client(address: ServerAddress) -> AsyncIterator[PodClient]:
    headers = {"Authorization": f"Bearer {address.token}"}
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    async with aiohttp.ClientSession(address.url, headers=headers, connector=connector) as session:
        yield PodClient(session)


async def running_pod(cluster: EmbeddedCluster, name: str, script: str = "exec sleep 600", **container: Any) -> None:
    """Create a pod whose container `main` runs a script, and wait until it runs."""
    made = {"name": "main", "image": "bash:5", "command": ["bash", "-c", script], **container}
    await create(cluster.client, name, grace=0, containers=[made])

    async def runs() -> bool:
        pod = await get(cluster.client, name)
        return bool(pod.status.container_statuses) and state(pod) == "running"

    await eventually(runs)
