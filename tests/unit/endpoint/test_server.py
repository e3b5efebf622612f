import asyncio
from collections.abc import Mapping

import aiohttp
import pytest

from kcr.endpoint import BindAddress, HTTPServer, ProbeRequest, ProbeResponse, parse_address
from kcr.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("0", None, id="off"),
        pytest.param("", None, id="empty"),
        pytest.param(":8080", BindAddress("", 8080), id="everywhere"),
        pytest.param("127.0.0.1:0", BindAddress("127.0.0.1", 0), id="free-port"),
        pytest.param("[::1]:80", BindAddress("::1", 80), id="version-6"),
        pytest.param("localhost:8081", BindAddress("localhost", 8081), id="name"),
    ],
)
def test_address_is_read_as_go_reads_it(text: str, address: BindAddress | None) -> None:  # CM-50, CM-52
    assert parse_address(text) == address
    assert address is None or str(address) == text


@pytest.mark.parametrize("text", ["8080", "localhost", ":", ":http", ":65536", "::1:80", ":-1"])
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address to listen on"):
        parse_address(text)


async def page(asked: ProbeRequest) -> ProbeResponse | None:
    if asked.path != "/page":
        return None
    return ProbeResponse(500, f"{asked.query} {asked.accept}".encode(), "text/html")


async def get(port: int, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, answer.content_type, await answer.text()


@pytest.mark.asyncio
async def test_page_is_made_from_what_is_asked() -> None:
    async with HTTPServer("test", BindAddress("127.0.0.1", 0), page) as endpoint:
        answer = await get(endpoint.port, "/page?verbose&exclude=a&exclude=b", {"Accept": "text/x"})
        assert answer == (500, "text/html", "{'verbose': [''], 'exclude': ['a', 'b']} text/x")
        assert (await get(endpoint.port, "/"))[0] == 404
    with pytest.raises(aiohttp.ClientConnectionError):
        await get(endpoint.port, "/page")


@pytest.mark.asyncio
async def test_taken_port_is_one_clear_error() -> None:
    async with HTTPServer("first", BindAddress("127.0.0.1", 0), page) as first:
        second = HTTPServer("metrics", BindAddress("127.0.0.1", first.port), page)
        with pytest.raises(ConfigError, match=rf"metrics: cannot listen on 127\.0\.0\.1:{first.port}: Address already"):
            async with second:
                await asyncio.sleep(0)
