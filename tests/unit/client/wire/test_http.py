import asyncio
import json
import socket
import sys
import tracemalloc
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key
from kcr.client import Client, ClusterConfig, Credential, HttpTransport, Request
from kcr.client.credentials import PluginCredentials, PluginSpec, TokenFile
from kcr.errors import TransportError, UnauthorizedError
from kcr.testing import eventually
from tests.kit.http_servers import echo, proxying, read, serving, trusting

pytestmark = pytest.mark.asyncio


class Changing:
    """Credentials with a certificate for whoever `name` says."""

    name = "one.example"

    def __init__(self, authority: trustme.CA) -> None:
        self._issued = {name: authority.issue_cert(name) for name in ("one.example", "two.example", "three.example")}

    async def current(self) -> Credential:
        me = self._issued[self.name]
        chain = "".join(pem.bytes().decode() for pem in me.cert_chain_pems)
        return Credential("", chain, me.private_key_pem.bytes().decode())

    def invalidate(self, credential: Credential) -> bool:
        return False


async def test_request_arrives_as_it_was_made(authority: trustme.CA) -> None:
    async with (
        serving(echo, authority) as url,
        HttpTransport(trusting(url, authority), user_agent="me/1") as transport,
        transport.send(Request("POST", "/a%2Fb?c=%3D", {"content-type": "x/y"}, b"hello")) as response,
    ):
        assert response.status == 200
        assert response.headers["content-type"].startswith("application/json")
        body = (await response.read()).decode()
    for piece in ('"/a%2Fb?c=%3D"', '"me/1 kcr/', '"Bearer t"', '"x/y"', '"hello"', '"accept-encoding": "identity"'):
        assert piece in body


async def test_component_stands_in_the_user_agent(authority: trustme.CA) -> None:
    # CL-19.
    async with (
        serving(echo, authority) as url,
        HttpTransport(trusting(url, authority), user_agent="app/1.2") as transport,
    ):
        body = await read(transport, Request("GET", "/", component="website"))
    assert json.loads(body)["headers"]["user-agent"] == f"app/1.2 kcr/{version('kcr')} (website)"


@pytest.mark.parametrize(
    ("server", "compression", "encoding"),
    [
        pytest.param("http://api.example", True, "gzip", id="remote"),
        pytest.param("http://api.example", False, "identity", id="disable-compression"),
        pytest.param("http://localhost", True, "identity", id="own-machine"),
    ],
)
async def test_answers_are_compressed_where_it_saves_something(server: str, compression: bool, encoding: str) -> None:
    # ST-22.
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    # A proxy is asked for plain HTTP as it is, which spares a server of that name.
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as proxy:
        url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        config = ClusterConfig(server=server, proxy=url, compression=compression)
        async with HttpTransport(config) as transport:
            await read(transport, Request("GET", "/api"))
    assert asked[0].startswith(f"GET {server}/api ")
    assert f"Accept-Encoding: {encoding}\r\n" in asked[0]


async def test_proxy_is_asked_for_a_tunnel_to_the_server(authority: trustme.CA) -> None:
    # ST-19: the proxy is told, never looked up by the HTTP library; TLS goes through to the server.
    asked: list[str] = []
    async with (
        serving(echo, authority) as url,
        proxying(asked) as proxy,
        HttpTransport(replace(trusting(url, authority), proxy=proxy)) as transport,
    ):
        assert b'"/x"' in await read(transport, Request("GET", "/x"))
        assert b'"/y"' in await read(transport, Request("GET", "/y"))
    assert asked == [f"CONNECT {url.removeprefix('https://')} HTTP/1.1"]


async def test_environment_of_the_process_is_not_looked_at(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ST-19: neither proxies nor netrc.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with serving(echo, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        assert await read(transport, Request("GET", "/"))


async def test_repeated_headers_are_joined(authority: trustme.CA) -> None:
    async def warn(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(headers=[("Warning", '299 - "a"'), ("Warning", '299 - "b"')])

    async with (
        serving(warn, authority) as url,
        HttpTransport(trusting(url, authority)) as transport,
        transport.send(Request("GET", "/")) as response,
    ):
        assert response.headers["warning"] == '299 - "a", 299 - "b"'


async def test_impersonation_sends_each_group(authority: trustme.CA) -> None:
    # python-stack §6.
    async def groups(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=",".join(request.headers.getall("Impersonate-Group")))

    async with serving(groups, authority) as url:
        config = replace(trusting(url, authority), headers=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")))
        async with HttpTransport(config) as transport:
            assert await read(transport, Request("GET", "/")) == b"a,b"


async def test_dead_connections_are_found_below_http(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    # ST-25.
    options: set[tuple[int, int, object]] = set()
    original = socket.socket.setsockopt

    def note(made: socket.socket, level: int, name: int, value: int) -> None:
        options.add((level, name, value))
        original(made, level, name, value)

    async with serving(echo, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        monkeypatch.setattr(socket.socket, "setsockopt", note)
        await read(transport, Request("GET", "/"))
        monkeypatch.undo()
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in options
    if sys.platform == "linux":
        tcp = {(socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)}
        tcp.add((socket.TCP_USER_TIMEOUT, 30_000))
        assert options >= {(socket.IPPROTO_TCP, name, value) for name, value in tcp}


async def test_connection_is_kept_for_the_next_request(authority: trustme.CA) -> None:
    # ST-18.
    ports: list[object] = []

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        ports.append(request.transport.get_extra_info("peername"))
        return web.Response(text="x" * 100_000)

    async with serving(note, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        for _ in range(3):
            await read(transport, Request("GET", "/"))
    assert len(set(ports)) == 1


async def test_lines_come_as_they_are_sent_and_may_be_long(authority: trustme.CA) -> None:
    # ST-26: far beyond the 128 KiB that the library allows by default.
    seen = asyncio.Event()

    async def lines(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"a":1}\n')
        await seen.wait()
        await answer.write(b"x" * 3_000_000 + b"\nrest")
        return answer

    async with (
        serving(lines, authority) as url,
        HttpTransport(trusting(url, authority)) as transport,
        transport.send(Request("GET", "/", timeout_seconds=None)) as response,
    ):
        stream = response.lines()
        assert await anext(stream) == b'{"a":1}'
        seen.set()
        assert await anext(stream) == b"x" * 3_000_000
        assert await anext(stream) == b"rest"
        assert [line async for line in stream] == []
        assert transport.streamed_bytes == 8 + 3_000_001 + 4


async def test_silent_watch_and_late_answer_are_told_apart(authority: trustme.CA) -> None:
    # ST-21.
    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        if request.path == "/watch":
            await answer.prepare(request)
        await asyncio.get_running_loop().create_future()
        return answer

    async with serving(silent, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        with pytest.raises(TransportError, match=r"GET /watch: nothing came for 0 s"):
            async with transport.send(Request("GET", "/watch", timeout_seconds=None, idle_seconds=0.05)) as response:
                await anext(response.lines())
        with pytest.raises(TransportError, match=r"GET https://.*/call: no answer within 0 s"):
            await read(transport, Request("GET", "/call", timeout_seconds=0.05))


async def test_each_request_has_its_own_deadline(authority: trustme.CA) -> None:
    goes_on = asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        if request.path == "/body":
            await answer.prepare(request)
        if request.path == "/patient":
            await goes_on.wait()
            return web.Response(text="late enough")
        await asyncio.get_running_loop().create_future()
        return answer

    async with (
        serving(slow, authority) as url, HttpTransport(trusting(url, authority)) as transport,
        asyncio.TaskGroup() as group,
    ):  # fmt: skip
        patient = group.create_task(read(transport, Request("GET", "/patient", timeout_seconds=30.0)))
        cancelled = group.create_task(read(transport, Request("GET", "/none", timeout_seconds=30.0)))
        await asyncio.sleep(0)
        # Shorter ones that come later are not kept waiting by it, whatever of their answers has come.
        for path in ("/head", "/body"):
            with pytest.raises(TransportError, match=f"GET https://.*{path}: no answer within 0 s"):
                await read(transport, Request("GET", path, timeout_seconds=0.05))
        # A timeout of others, and their cancellation, stay what they are.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await read(transport, Request("GET", "/head", timeout_seconds=30.0))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        goes_on.set()
        assert await patient == b"late enough"


async def test_silent_watch_keeps_nothing_of_what_it_has_shown(authority: trustme.CA) -> None:
    async def burst(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        # In parts, so that the last one is large.
        for number in range(20):
            await answer.write(b"%d:%s\n" % (number, b"x" * 1000) * 100)
        await asyncio.get_running_loop().create_future()
        return answer

    read = [tracemalloc.Filter(True, f"*{name}") for name in ("client/wire/http.py", "aiohttp/streams.py")]
    async with serving(burst, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        request = Request("GET", "/watch", timeout_seconds=None, idle_seconds=60.0)
        tracemalloc.start()
        try:
            async with transport.send(request) as response, asyncio.TaskGroup() as group:
                lines = response.lines()
                for _ in range(2000):
                    await anext(lines)
                silent = group.create_task(anext(lines))  # type: ignore[arg-type, var-annotated]  # a coroutine
                await asyncio.sleep(0)
                kept = tracemalloc.take_snapshot().filter_traces(read).statistics("lineno")
                silent.cancel()
        finally:
            tracemalloc.stop()
    assert sum(one.size for one in kept) < 50_000, kept[:5]


async def test_requests_leave_no_timers_behind(authority: trustme.CA) -> None:
    goes_on, loop = asyncio.Event(), asyncio.get_running_loop()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/patient":
            await goes_on.wait()
        return web.Response(text="done")

    def timers() -> list[asyncio.TimerHandle]:
        # No public method tells them.
        scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]
        return [one for one in scheduled if not one.cancelled() and "_expire" in repr(one)]

    async with (
        serving(slow, authority) as url, HttpTransport(trusting(url, authority)) as transport,
        asyncio.TaskGroup() as group,
    ):  # fmt: skip
        await read(transport, Request("GET", "/call", timeout_seconds=200.0))
        # While one request is on its way, each shorter one wakes earlier than all before.
        group.create_task(read(transport, Request("GET", "/patient", timeout_seconds=100.0)))
        for seconds in range(60, 40, -1):
            await read(transport, Request("GET", "/call", timeout_seconds=float(seconds)))
            assert len(timers()) == 1
        goes_on.set()


async def test_connection_cut_inside_the_body_is_a_transport_error(authority: trustme.CA) -> None:
    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return answer

    async with serving(cut, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        with pytest.raises(TransportError):
            await read(transport, Request("GET", "/"))


# RF-20
async def test_watches_take_no_place_of_calls(authority: trustme.CA) -> None:
    # CL-18, ST-20.
    async def streams_or_answers(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/call":
            return web.Response(text="ok")
        answer = web.StreamResponse()
        await answer.prepare(request)
        await asyncio.get_running_loop().create_future()
        return answer

    async with serving(streams_or_answers, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        opened = asyncio.Semaphore(0)

        async def watch() -> None:
            async with transport.send(Request("GET", "/watch", timeout_seconds=None)):
                opened.release()
                await asyncio.get_running_loop().create_future()

        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(watch()) for _ in range(101)]
            for _ in watches:
                await opened.acquire()
            assert await read(transport, Request("GET", "/call")) == b"ok"
            for task in watches:
                task.cancel()


async def test_refused_token_is_read_again_once(authority: trustme.CA, tmp_path: Path) -> None:
    # ST-31.
    tokens: list[str] = []

    async def check(request: web.BaseRequest) -> web.StreamResponse:
        tokens.append(request.headers["Authorization"])
        if tokens[-1] != "Bearer new":
            (tmp_path / "token").write_text("new\n")
            return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)
        return web.json_response({"metadata": {"name": "a"}})

    (tmp_path / "token").write_text("old\n")
    async with serving(check, authority) as url:
        config = replace(trusting(url, authority), credentials=TokenFile(str(tmp_path / "token")))
        async with HttpTransport(config) as transport:
            assert (await Client(transport).get(Pod, Key("", "a"))).metadata.name == "a"
    assert tokens == ["Bearer old", "Bearer new"]


async def test_refused_plugin_token_is_renewed_once_for_all_requests(authority: trustme.CA, tmp_path: Path) -> None:
    # ST-31: single-flight, and each request is sent again.
    runs, refused = tmp_path / "runs", asyncio.Event()
    seen: list[str] = []
    runs.write_text("")
    code = (
        f"path = {str(runs)!r}; open(path, 'a').write('x'); number = len(open(path).read());"
        """print('{"kind":"ExecCredential","status":{"token":"t%d"}}' % number)"""
    )

    async def check(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        if seen[-1] == "Bearer t1":
            if len(seen) == 5:
                refused.set()
            await refused.wait()
            return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)
        return web.json_response({"metadata": {"name": "a"}})

    plugin = PluginCredentials(PluginSpec(command=sys.executable, args=("-c", code)))
    async with (
        serving(check, authority) as url,
        HttpTransport(replace(trusting(url, authority), credentials=plugin)) as transport,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(5):
            group.create_task(Client(transport).create(ConfigMap()))
    assert (runs.read_text(), sorted(seen)) == ("xx", ["Bearer t1"] * 5 + ["Bearer t2"] * 5)


async def test_refused_watch_is_opened_again_with_the_new_token(authority: trustme.CA, tmp_path: Path) -> None:
    # ST-31: watches as well as calls.
    async def check(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer new":
            (tmp_path / "token").write_text("new")
            return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)
        return web.Response(body=b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n')

    (tmp_path / "token").write_text("old")
    async with serving(check, authority) as url:
        config = replace(trusting(url, authority), credentials=TokenFile(str(tmp_path / "token")))
        async with (
            HttpTransport(config) as transport,
            Client(transport).watch(Pod, resource_version="1", timeout_seconds=300) as events,
        ):
            assert [event.object.metadata.name async for event in events] == ["a"]


async def test_new_certificate_of_a_plugin_is_used(authority: trustme.CA, tmp_path: Path) -> None:
    # python-stack §6: the connections are rebuilt when the plugin returns another certificate.
    names: list[object] = []

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        names.append(request.transport.get_extra_info("peercert")["subjectAltName"][0][1])
        return web.Response()

    credentials = Changing(authority)
    async with (
        serving(note, authority, asks_for_certificate=True) as url,
        HttpTransport(replace(trusting(url, authority), credentials=credentials)) as transport,
    ):
        await read(transport, Request("GET", "/"))
        credentials.name = "two.example"
        await read(transport, Request("GET", "/"))
    assert names == ["one.example", "two.example"]


async def test_outdated_connections_end_with_what_runs_on_them(authority: trustme.CA) -> None:
    # python-stack §6: old connections drain, and are not kept after that.
    connections: list[asyncio.BaseTransport] = []
    proceed = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        connections.append(request.transport)
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/watch":
            await response.write(b"one\n")
            await proceed.wait()
            await response.write(b"two\n")
        return response

    credentials = Changing(authority)
    async with (
        serving(answer, authority, asks_for_certificate=True) as url,
        HttpTransport(replace(trusting(url, authority), credentials=credentials)) as transport,
    ):
        async with transport.send(Request("GET", "/watch", timeout_seconds=None)) as watch:
            lines = watch.lines()
            assert await anext(lines) == b"one"
            for name in ("two.example", "three.example"):
                credentials.name = name
                await read(transport, Request("GET", "/"))
            proceed.set()
            assert await anext(lines) == b"two"
        # The first ended with the watch, the second, which was idle, with the request that came after it.
        await eventually(lambda: [connection.is_closing() for connection in connections] == [True, True, False])


async def test_refused_token_that_stays_is_an_error(authority: trustme.CA) -> None:
    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)

    async with serving(refuse, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        with pytest.raises(UnauthorizedError):
            await Client(transport).get(Pod, Key("", "a"))
