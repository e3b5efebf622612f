"""Servers of a test, on free ports of this machine."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trustme
from aiohttp import web

from kcr.client import Client, ClusterConfig, Credential, FixedCredentials, HttpTransport, PemSource, Request
from kcr_devcluster.cluster import EmbeddedCluster

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@asynccontextmanager
async def serving(
    handle: Handle, authority: trustme.CA, *, asks_for_certificate: bool = False, name: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Serve over TLS on a free port, with a certificate for a name, and give the URL."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    if asks_for_certificate:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    server = web.Server(handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def proxying(asked: list[str]) -> AsyncIterator[str]:
    """Run an HTTP proxy that tunnels, and give its URL; `asked` collects whereto."""

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split("\r\n", 1)[0])
        host, _, port = asked[-1].split()[1].rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, there[1]))
            group.create_task(pump(there[0], writer))

    async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def trusting(url: str, authority: trustme.CA, token: str = "t") -> ClusterConfig:
    ca = PemSource(text=authority.cert_pem.bytes().decode(), field="certificate-authority")
    return ClusterConfig(server=url, ca=ca, credentials=FixedCredentials(Credential.bearer(token)))


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    shown = {name.lower(): value for name, value in request.headers.items()}
    body = await request.text()
    return web.json_response({"target": request.raw_path, "headers": shown, "body": body})


async def read(transport: HttpTransport, request: Request) -> bytes:
    async with transport.send(request) as response:
        return await response.read()


@asynccontextmanager
async def client_of(cluster: EmbeddedCluster, way: str) -> AsyncIterator[Client]:
    """Give a client of a cluster, `in-process` or over `tls`."""
    if way == "in-process":
        yield cluster.client
        return
    address = await cluster.serve()
    credentials = FixedCredentials(Credential.bearer(address.token))
    config = ClusterConfig(server=address.url, ca=PemSource(text=address.ca_pem), credentials=credentials)
    async with HttpTransport(config) as transport:
        yield Client(transport)
