import asyncio
from collections.abc import Mapping

import aiohttp
import pytest

from kcr.api.bindaddress import BindAddress
from kcr.errors import ConfigError
from kcr.serving.ports import HTTPServer, ProbeRequest, ProbeResponse


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
