"""Port-forward to the pods of the process runtime: kubectl's tunnel, and the channels of client libraries.

Source: kubernetes/staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward/{httpstream,websocket}.go.
"""

import asyncio
import shutil
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import pytest_asyncio

from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.node_pods import delete
from tests.kit.pod_connections import PodClient, running_pod
from tests.kit.spdy_tunnel import PROTOCOL, Tunnel

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("bash") is None, reason="these tests run bash"),
]


@pytest_asyncio.fixture
async def tunnel(pods: PodClient) -> AsyncIterator[Tunnel]:
    async with pods.open("a/portforward", PROTOCOL) as connection:
        yield Tunnel(connection.socket)


@asynccontextmanager
async def listening(*, greeting: bytes = b"") -> AsyncIterator[int]:
    """Listen as a program in a pod would: a greeting, then everything comes back in capitals, until the client ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        while data := await reader.read(65536):
            writer.write(data.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_bytes_go_both_ways_and_the_end_too(tunnel: Tunnel) -> None:
    async with listening(greeting=b"hello ") as port:
        error, data = await tunnel.connect(port)
        await tunnel.write(data, b"abc")
        await tunnel.write(data, b"def", fin=True)
        await tunnel.until_ended(error, data)
    assert (bytes(tunnel.received[data]), bytes(tunnel.received[error])) == (b"hello ABCDEF", b"")
    assert tunnel.replied == {error, data}


async def test_connections_share_a_tunnel(tunnel: Tunnel) -> None:
    async with listening() as port:
        pairs = [await tunnel.connect(port) for _ in range(50)]
        for _, data in pairs:
            await tunnel.write(data, f"n{data}".encode(), fin=True)
        for error, data in pairs:
            await tunnel.until_ended(error, data)
            assert tunnel.received[data] == f"N{data}".encode()


async def test_much_data_passes_as_a_whole(tunnel: Tunnel) -> None:
    block = b"x" * 30_000
    async with listening() as port, asyncio.TaskGroup() as group:
        error, data = await tunnel.connect(port)

        async def send() -> None:
            for _ in range(200):
                await tunnel.write(data, block)
            await tunnel.write(data, b"", fin=True)

        group.create_task(send())
        await tunnel.until_ended(error, data)
    assert tunnel.received[data] == b"X" * 6_000_000


async def test_refused_connection_says_so_on_its_error_stream(tunnel: Tunnel) -> None:
    async with listening() as port:
        pass
    error, data = await tunnel.connect(port)
    await tunnel.until_ended(error, data)
    text = tunnel.received[error].decode()
    assert text.startswith(f"error forwarding port {port} to pod default/a, uid ")
    assert text.endswith(f"failed to connect to localhost:{port}: Connection refused")


@pytest.mark.parametrize(
    ("port", "headers"),
    [
        pytest.param("", {}, id="no-port"),
        pytest.param("http", {}, id="no-number"),
        pytest.param("65536", {}, id="too-high"),
        pytest.param("80", {"requestid": ""}, id="no-request"),
        pytest.param("80", {"streamtype": "other"}, id="unknown-type"),
    ],
)
async def test_stream_with_useless_headers_is_reset(tunnel: Tunnel, port: str, headers: dict[str, str]) -> None:
    (stream,) = await tunnel.open(port, kinds=("error",), **headers)
    await tunnel.until_ended(stream)


async def test_second_stream_of_a_kind_is_reset(tunnel: Tunnel) -> None:
    _, second = await tunnel.open(80, kinds=("error", "error"))
    await tunnel.until_ended(second)


async def test_client_that_does_not_speak_spdy_is_disconnected(tunnel: Tunnel) -> None:
    await tunnel.socket.send_bytes(bytes(8))
    async for _ in tunnel.socket:
        pass
    assert tunnel.socket.close_code == aiohttp.WSCloseCode.OK


async def test_pod_that_has_ended_is_not_forwarded_to(process_cluster: EmbeddedCluster, tunnel: Tunnel) -> None:
    async with listening() as port:

        async def is_refused() -> bool:
            error, data = await tunnel.connect(port)
            await tunnel.write(data, b"", fin=True)
            await tunnel.until_ended(error, data)
            return tunnel.received[error].endswith(b"the pod does not run any more")

        assert not await is_refused()
        await delete(process_cluster.client, "a")
        await eventually(is_refused)


async def test_pod_without_running_containers_is_not_found(process_cluster: EmbeddedCluster, pods: PodClient) -> None:
    await running_pod(process_cluster, "b", "read line; exit 0", stdin=True)
    async with pods.attach("b", stdin="true") as connection:
        await connection.type(b"\n")
        await connection.status()
    async with pods.session.get(
        "/api/v1/namespaces/default/pods/b/portforward",
        headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": PROTOCOL},
    ) as response:
        assert (response.status, await response.text()) == (500, 'pod not found ("b_default")\n')


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", ""])
async def test_channels_of_client_libraries_forward_as_well(pods: PodClient, protocol: str) -> None:
    async with listening() as port, listening(greeting=b"hi") as other:
        target = f"a/portforward?ports={port}&ports={other}"
        async with pods.open(target, protocol) as connection:
            await connection.socket.send_bytes(b"\x00abc")
            await connection.read_until("ABC", 0)
            await connection.read_until("hi", 2)
    heads = {0: port, 1: port, 2: other, 3: other}
    for channel, named in heads.items():
        assert bytes(connection.channels[channel][:2]) == struct.pack("<H", named)


async def test_channel_of_a_refused_port_has_the_error(pods: PodClient) -> None:
    async with listening() as port:
        pass
    async with pods.open(f"a/portforward?ports={port}", "v4.channel.k8s.io") as connection:
        await connection.read_until("Connection refused", 1)
