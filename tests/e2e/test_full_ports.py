"""A port that thousands of clients connect to answers the next one, and its process keeps its memory."""

import resource
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(120)]

SERVER = """
import asyncio, uvloop
from kcr.api.bindaddress import BindAddress
from kcr.serving.ports.certificate import SecureServing, ServerCertificate
from kcr.serving.ports.server import HTTPServer, ProbeResponse

async def page(request):
    return ProbeResponse(200, b"ok")

async def main():
    tls = ServerCertificate(SecureServing()).context()
    async with HTTPServer("probes", BindAddress("127.0.0.1", 0), page, tls) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()

uvloop.run(main())
"""
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CLIENTS, MOST_KB = 10_000, 40_000


@pytest.fixture
def descriptors() -> Iterator[int]:
    """As many descriptors as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident(process: subprocess.Popen[bytes]) -> int:
    """The memory of a process, in kB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def answer(port: int) -> bytes:
    """What a client gets that asks for something."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with trusting.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10)) as connection:
        connection.sendall(REQUEST)
        return connection.recv(15)


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        pytest.param(CLIENTS, b"", id="nothing"),
        pytest.param(CLIENTS // 2, b"\x16", id="half-a-handshake"),
        pytest.param(CLIENTS // 2, b"GET / HTTP/1.1\r\n\r\n", id="no-handshake"),
    ],
)
def test_port_with_many_clients_answers_and_keeps_its_memory(descriptors: int, clients: int, said: bytes) -> None:
    if descriptors < clients + 100:
        pytest.skip(f"the process may have {descriptors} descriptors")
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert answer(port).startswith(b"HTTP/1.1 200")
        before, kept = resident(process), []
        try:
            for number in range(clients):
                kept.append(socket.create_connection(("127.0.0.1", port), timeout=10))
                with suppress(OSError):
                    kept[-1].sendall(said)
                if number % 2500 == 0:
                    assert answer(port).startswith(b"HTTP/1.1 200")
            assert answer(port).startswith(b"HTTP/1.1 200")
            assert resident(process) - before < MOST_KB
        finally:
            for one in kept:
                one.close()
            process.kill()
