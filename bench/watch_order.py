"""Who gets a change first, its watcher or its writer: over HTTPS, each in a process of its own."""

import asyncio
import json
import multiprocessing as mp
import re
import socket
import ssl
import time
from multiprocessing.connection import Connection
from statistics import median, quantiles
from urllib.parse import urlsplit

from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.listener import ServerAddress

_TARGET = "/api/v1/namespaces/default/configmaps"
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')
_PAUSE_SECONDS = 0.01
# Nanoseconds by resourceVersion.
Moments = dict[int, int]


def watch_order(size: int) -> dict[str, float]:
    """Return how many of a hundred events arrive before the answer to their write, and by how much.

    Args:
        size: How many patches are sent.
    """
    return asyncio.run(_measure(size))


async def _measure(size: int) -> dict[str, float]:
    async with EmbeddedCluster(runtime=None, gc=False) as cluster:
        address = await cluster.serve()
        events, answers = await asyncio.to_thread(_run, address, size)
    lead = [(answers[version] - events[version]) / 1000 for version in answers]
    low, *_, high = quantiles(lead, n=10)
    first = 100 * sum(one > 0 for one in lead) / len(lead)
    return {
        "events first, of 100": first, "event before answer, µs, median": median(lead),
        "the same, first tenth": low, "the same, last tenth": high,
    }  # fmt: skip


def _run(address: ServerAddress, size: int) -> tuple[Moments, Moments]:
    spawn = mp.get_context("spawn")
    ours, theirs = spawn.Pipe()
    where = (address.url, address.ca_pem, address.token)
    watcher = spawn.Process(target=_watch, args=(*where, size, theirs))
    watcher.start()
    ours.recv()
    answers = _write(*where, size)
    events: Moments = ours.recv()
    watcher.join()
    return events, answers


def _write(url: str, ca_pem: str, token: str, size: int) -> Moments:
    """Create an object, patch it again and again, and return when the answers came."""
    connection, moments = _connect(url, ca_pem), Moments()
    _send(connection, "POST", _TARGET, token, {"metadata": {"name": "o"}})
    _read(connection)
    for number in range(size):
        _send(connection, "PATCH", f"{_TARGET}/o", token, {"data": {"number": str(number)}})
        moment, version = _read(connection)
        moments[version] = moment
        time.sleep(_PAUSE_SECONDS)
    return moments


def _watch(url: str, ca_pem: str, token: str, size: int, results: Connection) -> None:
    """Send back when the events came."""
    connection, moments, rest = _connect(url, ca_pem), Moments(), b""
    _send(connection, "GET", f"{_TARGET}?watch=true&fieldSelector=metadata.name=o", token)
    results.send(None)
    while len(moments) <= size:
        received, moment = connection.recv(1 << 16), time.perf_counter_ns()
        rest += received
        for found in _VERSION.finditer(rest):
            moments.setdefault(int(found[1]), moment)
        rest = rest[-64:]
    results.send(moments)


def _connect(url: str, ca_pem: str) -> ssl.SSLSocket:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    plain = socket.create_connection((parts.hostname, parts.port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ssl.create_default_context(cadata=ca_pem).wrap_socket(plain, server_hostname=parts.hostname)


def _send(connection: ssl.SSLSocket, method: str, target: str, token: str, body: object = None) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    connection.sendall(f"{head}Content-Type: {media}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)


def _read(connection: ssl.SSLSocket) -> tuple[int, int]:
    """Return when an answer came, and the version of the object in it."""
    received, moment = connection.recv(1 << 16), time.perf_counter_ns()
    while (found := _VERSION.search(received)) is None or not received.endswith(b"}\n"):
        received += connection.recv(1 << 16)
    return moment, int(found[1])
