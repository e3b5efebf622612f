"""What a request costs the client: aiohttp alone, kcr's transport, its client, and that with metrics.

One small Pod is read, created and patched over TLS, on connections to a process that answers at once, eight requests at
a time, each for another name. Rounds are short and in turn, and the best of each counts, for other processes share the
machine. The garbage collector has the thresholds of `kcr run`.
"""

import asyncio
import multiprocessing
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kcr.api import codec
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.app.process import fast_loop, tune_gc
from kcr.client import Client, ClusterConfig, HttpTransport, Request
from kcr.client.cluster_config import PemSource, tls_context
from kcr.metrics import Metrics
from kcr.serving.ports.certificate import self_signed

_ROUNDS, _AT_ONCE, _NAMES = 160, 8, 1_000
_PODS = "/api/v1/namespaces/default/pods/"
_POD: dict[str, Any] = {
    "kind": "Pod", "apiVersion": "v1",
    "metadata": {"namespace": "default", "resourceVersion": "7", "uid": "b1e3c1d5-7f3a-4f62-9c37-1d1bd7c44eb1"},
    "spec": {"containers": [{"name": "c", "image": "busybox"}]}, "status": {"phase": "Running"},
}  # fmt: skip
_ACCEPT = {"accept": "application/json"}
_PATCH = b'{"metadata":{"resourceVersion":"7"},"status":{"phase":"Running"}}'
_HEAD = (
    "HTTP/1.1 200 OK\r\nAudit-Id: 7a1b\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    "X-Kubernetes-Pf-Flowschema-Uid: 0d\r\nDate: Sat, 03 Jan 2026 08:00:00 GMT\r\nContent-Length: {}\r\n\r\n"
)

# Of a request, who sends it: these two are compared where a budget is judged.
ALONE, METERED = "aiohttp alone", "with metrics"
Call = Callable[[], Awaitable[object]]


def client(size: int) -> dict[str, float]:
    """Return microseconds of CPU per request, without the server's.

    Args:
        size: How many requests of each kind.
    """
    here, there = multiprocessing.Pipe()
    tune_gc()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=fast_loop()) as runner:
        certificate = Path(folder) / "both.pem"
        certificate.write_bytes(self_signed(datetime.now(UTC)))  # noqa: TID251  # valid for a client of today
        serve = multiprocessing.get_context("spawn").Process(target=_serve, args=(there, certificate), daemon=True)
        serve.start()
        try:
            config = ClusterConfig(server=f"https://localhost:{here.recv()}", ca=PemSource(str(certificate)))
            return runner.run(_measure(config, max(_AT_ONCE, size // _ROUNDS)))
        finally:
            serve.kill()


async def _measure(config: ClusterConfig, size: int) -> dict[str, float]:
    names = cycle([f"pod-{number}" for number in range(_NAMES)])
    async with _session(config) as session, HttpTransport(config) as one, HttpTransport(config) as two:
        calls = {
            **{f"{name}, {ALONE}": call for name, call in _alone(session, config.server, names).items()},
            "GET, kcr's transport": lambda: _read(one, next(names)),
            **{f"{name}, kcr's client": call for name, call in _calls(Client(one), names).items()},
            **{
                f"{name}, {METERED}": call
                for name, call in _calls(Client(two, observer=Metrics().requests("bench")), names).items()
            },
        }
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(_ROUNDS):
            for name, call in calls.items():
                best[name] = min(best[name], await _round(call, size))
        return best


def _session(config: ClusterConfig) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, ssl=tls_context(config))
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _alone(session: aiohttp.ClientSession, server: str, names: "cycle[str]") -> dict[str, Call]:
    async def get() -> bytes:
        async with session.get(f"{server}{_PODS}{next(names)}", headers=_ACCEPT) as answer:
            return await answer.read()

    async def patch() -> bytes:
        url = f"{server}{_PODS}{next(names)}/status?fieldManager=kcr"
        headers = {**_ACCEPT, "content-type": "application/merge-patch+json"}
        async with session.patch(url, data=_PATCH, headers=headers) as answer:
            return await answer.read()

    async def create() -> bytes:
        url = f"{server}{_PODS.removesuffix('/')}?fieldManager=kcr"
        headers = {**_ACCEPT, "content-type": "application/json"}
        async with session.post(url, data=_body(next(names)), headers=headers) as answer:
            return await answer.read()

    return {"GET": get, "PATCH": patch, "POST": create}


async def _read(transport: HttpTransport, name: str) -> bytes:
    async with transport.send(Request("GET", f"{_PODS}{name}", _ACCEPT)) as response:
        return await response.read()


def _calls(client: Client, names: "cycle[str]") -> dict[str, Call]:
    new = codec.decode(Pod, _body("pod-0").replace(b'"7"', b'"6"'))
    old = msgspec.structs.replace(new, status=msgspec.structs.replace(new.status, phase="Pending"))
    patch = {"metadata": {"resourceVersion": "7"}, "status": {"phase": "Running"}}
    return {
        "POST": lambda: client.create_manifest(Pod, _body(next(names)), "default"),
        "GET": lambda: client.get(Pod, Key("default", next(names))),
        "PATCH": lambda: client.merge_patch(Pod, Key("default", next(names)), patch, subresource="status"),
        # The difference of two objects is part of this one. The answer has another version: a patch that changes
        # nothing would be sent once.
        "patch_status": lambda: client.patch_status(old, new),
    }


async def _round(call: Call, size: int) -> float:
    async def some() -> None:
        for _ in range(size // _AT_ONCE):
            await call()

    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(some())
    return (time.process_time() - began) / (size // _AT_ONCE * _AT_ONCE) * 1e6


def _serve(told: Connection, certificate: Path) -> None:
    async def serve() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0, ssl=context)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(serve())


class _Server(asyncio.Protocol):
    """Answers each request with the Pod of its name."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(rest) < length:
                return
            sent, self._received = rest[:length], rest[length:]
            method, target, _ = head.split(b" ", 2)
            name = target.decode().removeprefix(_PODS).partition("/")[0].partition("?")[0]
            # What is created comes back.
            body = sent if method == b"POST" else _body(name)
            self._transport.write(_HEAD.format(len(body)).encode() + body)


def _body(name: str) -> bytes:
    return msgspec.json.encode({**_POD, "metadata": {**_POD["metadata"], "name": name}})
