import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from kcr.api.core import Pod
from kcr.client import Client, ClusterConfig, Credential, FixedCredentials, HttpTransport, Pem, Request
from kcr.client.credentials import TokenFile
from kcr.errors import TransportError, UnauthorizedError
from tests.unit.client.servers import serving

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(url: str, authority: trustme.CA, token: str = "t") -> ClusterConfig:
    ca = Pem(text=authority.cert_pem.bytes().decode(), field="certificate-authority")
    return ClusterConfig(server=url, ca=ca, credentials=FixedCredentials(Credential.bearer(token)))


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    shown = {name.lower(): value for name, value in request.headers.items()}
    body = await request.text()
    return web.json_response({"target": request.raw_path, "headers": shown, "body": body})


async def read(transport: HttpTransport, request: Request) -> bytes:
    async with transport.send(request) as response:
        return await response.read()


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


async def test_impersonation_sends_each_group(authority: trustme.CA) -> None:
    async def groups(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=",".join(request.headers.getall("Impersonate-Group")))

    async with serving(groups, authority) as url:
        config = replace(trusting(url, authority), headers=(("Impersonate-Group", "a"), ("Impersonate-Group", "b")))
        async with HttpTransport(config) as transport:
            assert await read(transport, Request("GET", "/")) == b"a,b"


async def test_connection_is_kept_for_the_next_request(authority: trustme.CA) -> None:
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


async def test_silent_watch_and_late_answer_are_told_apart(authority: trustme.CA) -> None:
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


async def test_watches_take_no_place_of_calls(authority: trustme.CA) -> None:
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
            assert (await Client(transport).get(Pod, "a")).metadata.name == "a"
    assert tokens == ["Bearer old", "Bearer new"]


async def test_refused_token_that_stays_is_an_error(authority: trustme.CA) -> None:
    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"reason": "Unauthorized", "message": "no"}, status=401)

    async with serving(refuse, authority) as url, HttpTransport(trusting(url, authority)) as transport:
        with pytest.raises(UnauthorizedError):
            await Client(transport).get(Pod, "a")


async def test_server_of_unknown_authority_is_not_trusted(authority: trustme.CA) -> None:
    async with serving(echo, authority) as url, HttpTransport(trusting(url, trustme.CA())) as transport:
        with pytest.raises(TransportError, match="certificate is not trusted"):
            await read(transport, Request("GET", "/"))


async def test_replaced_authority_file_is_read_after_the_failure(authority: trustme.CA, tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(path)
    async with serving(echo, authority) as url:
        config = replace(trusting(url, authority), ca=Pem(str(path), field="certificate-authority"))
        async with HttpTransport(config) as transport:
            with pytest.raises(TransportError):
                await read(transport, Request("GET", "/"))
            authority.cert_pem.write_to_path(path)
            os.utime(path, (1, 1))
            assert b"target" in await read(transport, Request("GET", "/"))


async def test_client_certificate_proves_who_asks(authority: trustme.CA) -> None:
    me = authority.issue_cert("me.example")
    certificate = "".join(pem.bytes().decode() for pem in me.cert_chain_pems)
    async with serving(echo, authority, asks_for_certificate=True) as url:
        config = replace(
            trusting(url, authority),
            certificate=Pem(text=certificate, field="client-certificate"),
            key=Pem(text=me.private_key_pem.bytes().decode(), field="client-key"),
        )
        async with HttpTransport(config) as transport:
            assert b"target" in await read(transport, Request("GET", "/"))
        async with HttpTransport(trusting(url, authority)) as transport:
            with pytest.raises(TransportError):
                await read(transport, Request("GET", "/"))


async def test_server_name_stands_in_for_the_host(authority: trustme.CA) -> None:
    async with serving(echo, authority) as url:
        for name, trusted in (("127.0.0.1", True), ("other.example", False)):
            config = replace(trusting(url.replace("127.0.0.1", "localhost"), authority), server_name=name)
            async with HttpTransport(config) as transport:
                if trusted:
                    assert await read(transport, Request("GET", "/"))
                else:
                    with pytest.raises(TransportError, match="not trusted"):
                        await read(transport, Request("GET", "/"))


async def test_nobody_listening_is_said_plainly() -> None:
    async with HttpTransport(ClusterConfig(server="http://127.0.0.1:1")) as transport:
        with pytest.raises(TransportError, match=r"GET http://127.0.0.1:1/x: cannot connect: Connection refused"):
            await read(transport, Request("GET", "/x"))
