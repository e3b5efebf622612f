"""Who is trusted, and what is said when no connection comes about."""

import asyncio
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from kcr.client import ClusterConfig, HttpTransport, PemSource, Request
from kcr.clock import SystemClock
from kcr.errors import TransportError
from tests.kit.http_servers import echo, read, serving, trusting

pytestmark = pytest.mark.asyncio


async def test_server_of_unknown_authority_is_not_trusted(authority: trustme.CA) -> None:
    async with serving(echo, authority) as url, HttpTransport(trusting(url, trustme.CA())) as transport:
        with pytest.raises(TransportError, match="certificate is not trusted"):
            await read(transport, Request("GET", "/"))


async def test_replaced_authority_is_read_within_the_request(authority: trustme.CA, tmp_path: Path) -> None:
    # python-stack §6: nothing was sent when the certificate was refused, so that writes may go again as well.
    path = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(path)
    async with serving(echo, authority) as url:
        config = replace(trusting(url, authority), ca=PemSource(str(path), field="certificate-authority"))
        async with HttpTransport(config) as transport:
            authority.cert_pem.write_to_path(path)
            os.utime(path, (1, 1))
            assert b"target" in await read(transport, Request("POST", "/", body=b"x"))


async def test_replaced_authority_file_is_read_after_the_failure(authority: trustme.CA, tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(path)
    async with serving(echo, authority) as url:
        config = replace(trusting(url, authority), ca=PemSource(str(path), field="certificate-authority"))
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
            certificate=PemSource(text=certificate, field="client-certificate"),
            key=PemSource(text=me.private_key_pem.bytes().decode(), field="client-key"),
        )
        async with HttpTransport(config) as transport:
            assert b"target" in await read(transport, Request("GET", "/"))
        async with HttpTransport(trusting(url, authority)) as transport:
            with pytest.raises(TransportError):
                await read(transport, Request("GET", "/"))


async def test_renewed_certificate_file_is_used_within_a_minute(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # python-stack §6: certificates are not loaded once for ever.
    names: list[object] = []

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        names.append(request.transport.get_extra_info("peercert")["subjectAltName"][0][1])
        return web.Response()

    def write(name: str, changed_at: float) -> None:
        me = authority.issue_cert(name)
        path.write_bytes(me.private_key_and_cert_chain_pem.bytes())
        os.utime(path, (changed_at, changed_at))

    path, loop = tmp_path / "client.pem", asyncio.get_running_loop()
    write("one.example", 1)
    async with serving(note, authority, asks_for_certificate=True) as url:
        config = replace(trusting(url, authority), certificate=PemSource(str(path), field="client-certificate"))
        async with HttpTransport(config) as transport:
            await read(transport, Request("GET", "/"))
            write("two.example", 2)
            await read(transport, Request("GET", "/"))
            later = loop.time() + 60
            monkeypatch.setattr(loop, "time", lambda: later)
            await read(transport, Request("GET", "/"))
            monkeypatch.undo()
    assert names == ["one.example", "one.example", "two.example"]


async def test_certificate_that_expires_while_it_is_used_is_logged_with_its_end(authority: trustme.CA) -> None:
    answers = iter((200, 401, 401))

    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=next(answers))

    end = SystemClock().now() - timedelta(hours=1)
    me = authority.issue_cert("me.example", not_before=end - timedelta(days=1), not_after=end)
    text = me.private_key_and_cert_chain_pem.bytes().decode()
    async with serving(refuse, authority) as url:
        config = replace(trusting(url, authority), certificate=PemSource(text=text, field="client-certificate"))
        async with HttpTransport(config) as transport:
            with capture_logs() as logs:
                for _ in range(3):
                    await read(transport, Request("GET", "/"))
    (line,) = logs
    assert (line["log_level"], line["event"]) == ("error", "client certificate has expired")
    assert f"(client-certificate) expired at {end:%Y-%m-%dT%H:%M:%SZ}" in line["error"]


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


async def test_proxy_that_is_away_is_named() -> None:
    async with HttpTransport(ClusterConfig(server="https://api.example", proxy="http://me:secret@127.0.0.1:1")) as it:
        with pytest.raises(TransportError, match=r"no connection to the proxy 127\.0\.0\.1:1: Connection refused$"):
            await read(it, Request("GET", "/x"))


async def test_proxy_that_refuses_is_not_taken_for_the_server() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        url = f"http://me:secret@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        async with HttpTransport(ClusterConfig(server="https://api.example", proxy=url)) as it:
            with pytest.raises(
                TransportError, match=r"the proxy refused: 407 Proxy Authentication Required$"
            ) as caught:
                await read(it, Request("GET", "/x"))
    assert "secret" not in str(caught.value)


async def test_nobody_listening_is_said_plainly() -> None:
    async with HttpTransport(ClusterConfig(server="http://127.0.0.1:1")) as transport:
        with pytest.raises(TransportError, match=r"GET http://127.0.0.1:1/x: cannot connect: Connection refused"):
            await read(transport, Request("GET", "/x"))
