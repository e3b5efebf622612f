"""The DNS server on sockets of its own, and what it forwards."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import dns.asyncquery
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from kcr.api.meta import Key
from kcr_devcluster.cluster.names.objects import EndpointPort
from kcr_devcluster.cluster.names.records import Member, Names, ServiceName
from kcr_devcluster.cluster.names.responder import Responder

pytestmark = pytest.mark.asyncio
HTTP = (EndpointPort(name="http", protocol="TCP", port=8080),)
MANY = tuple(Member(f"127.1.{number // 250}.{number % 250 + 1}", f"p-{number}", HTTP) for number in range(200))
NAMES: Names = {
    Key("shop", "peers"): ServiceName(MANY[:2]),
    Key("shop", "many"): ServiceName(MANY),
    Key("shop", "out"): ServiceName(external="example.com"),
}
HOST = "127.0.0.1"


def query(name: str, kind: str = "A", *, edns: bool = False) -> dns.message.QueryMessage:
    return dns.message.make_query(name, kind, use_edns=0 if edns else -1, payload=1232)


def answers(response: dns.message.Message) -> list[str]:
    return [text for one in response.answer for text in sorted(item.to_text() for item in one)]


@asynccontextmanager
async def responder(*forwarders: tuple[str, int]) -> AsyncIterator[int]:
    """Run a server, and give its port."""
    streams = socket.create_server((HOST, 0))
    port = streams.getsockname()[1]
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind((HOST, port))
    for one in (streams, datagrams):
        one.setblocking(False)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(Responder(lambda: NAMES, forwarders).run(datagrams, streams))
        yield port
        running.cancel()


async def ask(port: int, asked: dns.message.QueryMessage) -> dns.message.Message:
    return await dns.asyncquery.udp(asked, HOST, port=port, timeout=5)


@pytest.mark.parametrize(
    ("name", "kind", "code", "expected"),
    [
        pytest.param("peers.shop.svc.cluster.local", "A", "NOERROR", ["127.1.0.1", "127.1.0.2"], id="service"),
        pytest.param("P-1.Peers.shop.svc.cluster.local", "A", "NOERROR", ["127.1.0.2"], id="member"),
        pytest.param("peers.shop.svc.cluster.local", "AAAA", "NOERROR", [], id="no-such-record"),
        pytest.param("none.shop.svc.cluster.local", "A", "NXDOMAIN", [], id="no-such-name"),
        pytest.param("cluster.local", "A", "NXDOMAIN", [], id="domain"),
        pytest.param("out.shop.svc.cluster.local", "A", "NOERROR", ["example.com."], id="external"),
        pytest.param(
            "_http._tcp.peers.shop.svc.cluster.local", "SRV", "NOERROR",
            [f"0 100 8080 p-{number}.peers.shop.svc.cluster.local." for number in range(2)], id="port",
        ),
    ],
)  # fmt: skip
async def test_names_of_the_cluster_are_answered(name: str, kind: str, code: str, expected: list[str]) -> None:
    async with responder() as port:
        found = await ask(port, query(name, kind))
    assert (dns.rcode.to_text(found.rcode()), answers(found)) == (code, expected)
    assert found.flags & dns.flags.AA


@pytest.mark.parametrize("edns", [False, True])
async def test_answer_too_large_for_a_datagram_is_had_by_a_stream(edns: bool) -> None:
    async with responder() as port:
        asked = query("many.shop.svc.cluster.local", edns=edns)
        short = await dns.asyncquery.udp(asked, HOST, port=port, timeout=5)
        assert (bool(short.flags & dns.flags.TC), answers(short)) == (True, [])
        whole = await dns.asyncquery.tcp(asked, HOST, port=port, timeout=5)
        assert len(answers(whole)) == len(MANY)


async def test_several_requests_share_a_stream_and_garbage_ends_it() -> None:
    async with responder() as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        for name in ("peers", "out"):
            wire = query(f"{name}.shop.svc.cluster.local").to_wire()
            writer.write(len(wire).to_bytes(2) + wire)
            size = int.from_bytes(await reader.readexactly(2))
            assert answers(dns.message.from_wire(await reader.readexactly(size)))
        writer.write(b"\0\3abc")
        assert await reader.read() == b""
        writer.close()


class Upstream(asyncio.DatagramProtocol):
    """A server that knows one address, and answers first with the number of another request."""

    transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        asked = dns.message.from_wire(data)
        response = dns.message.make_response(asked)
        response.answer.append(dns.rrset.from_text(asked.question[0].name, 60, "IN", "A", "192.0.2.1"))
        wire = response.to_wire()
        self.transport.sendto(bytes([wire[0] ^ 1]) + wire[1:], addr)
        self.transport.sendto(wire, addr)


async def test_other_names_are_asked_of_the_machines_servers() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind((HOST, 0))
        refusing = closed.getsockname()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Upstream, local_addr=(HOST, 0))
    async with responder(refusing, transport.get_extra_info("sockname")) as port:
        assert answers(await ask(port, query("example.com"))) == ["192.0.2.1"]
    transport.close()


@pytest.mark.parametrize("forwarders", [0, 1])
async def test_other_names_fail_where_no_server_answers(forwarders: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind((HOST, 0))
        refusing = closed.getsockname()
    async with responder(*[refusing] * forwarders) as port:
        for found in (
            await ask(port, query("example.com")),
            await dns.asyncquery.tcp(query("example.com"), HOST, port=port, timeout=5),
        ):
            assert found.rcode() == dns.rcode.SERVFAIL


async def test_what_is_no_request_is_not_answered() -> None:
    async with responder() as port:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect((HOST, port))
            for data in (b"", b"garbage", dns.message.make_response(query("a")).to_wire()):
                await loop.sock_sendall(client, data)
            await loop.sock_sendall(client, query("peers.shop.svc.cluster.local").to_wire())
            assert answers(dns.message.from_wire(await loop.sock_recv(client, 512))) == ["127.1.0.1", "127.1.0.2"]
