"""The listener: TLS, the token, and streams over real connections."""

import asyncio
import io
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import urlsplit

import aiohttp
import pytest
import pytest_asyncio
import yaml
from structlog.testing import capture_logs

from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.faults import FaultRule
from kcr_devcluster.cluster.listener import ServerAddress
from kcr_devcluster.testing.loop import eventually
from tests.kit.api import config_map
from tests.kit.connections import closed_first

pytestmark = pytest.mark.asyncio
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(random=random.Random(0), runtime=None, gc=False) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def address(cluster: EmbeddedCluster) -> ServerAddress:
    return await cluster.serve()


def strict(address: ServerAddress) -> ssl.SSLContext:
    """Return a context as strict as Python's default from 3.13."""
    context = ssl.create_default_context(cadata=address.ca_pem)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@pytest_asyncio.fixture
async def http(address: ServerAddress) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {address.token}"}
    connector = aiohttp.TCPConnector(ssl=strict(address))
    async with aiohttp.ClientSession(address.url, headers=headers, connector=connector) as session:
        yield session


async def test_strict_verification_accepts_the_certificates(http: aiohttp.ClientSession) -> None:
    async with http.get("/api/v1/namespaces") as response:
        assert (response.status, response.content_type) == (200, "application/json")
        assert (await response.json())["kind"] == "NamespaceList"


@pytest.mark.parametrize(("header", "code"), [(None, 200), ("Bearer wrong", 401), ("Basic abc", 200)])
async def test_without_a_token_only_health_answers(http: aiohttp.ClientSession, header: str | None, code: int) -> None:
    headers = {"Authorization": header or ""}
    async with http.get("/api/v1/namespaces", headers=headers) as response:
        status = await response.json()
        assert (response.status, status["reason"], "details" in status) == (401, "Unauthorized", False)
    for path in ("/version", "/healthz", "/livez", "/readyz"):
        async with http.get(path, headers=headers) as response:
            assert response.status == code
    async with http.get("/versions-of-something", headers=headers) as response:
        assert response.status == 401


@pytest.mark.parametrize(("header", "code"), [("", 403), ("Basic abc", 403), ("Bearer wrong", 401)])
async def test_without_a_token_roles_decide_on_the_anonymous_user(header: str, code: int) -> None:
    async with EmbeddedCluster(runtime=None, gc=False, authorization="rbac") as cluster:
        address = await cluster.serve()
        connector = aiohttp.TCPConnector(ssl=strict(address))
        async with (
            aiohttp.ClientSession(address.url, headers={"Authorization": header}, connector=connector) as session,
            session.get("/api/v1/namespaces") as response,
        ):
            assert response.status == code
            assert code == 401 or 'User "system:anonymous" cannot list' in (await response.json())["message"]


async def test_token_that_is_no_text_is_unauthorized(address: ServerAddress) -> None:
    host, _, port = address.url.removeprefix("https://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=strict(address))
    writer.write(b"GET /api HTTP/1.1\r\nHost: kcr\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_kubeconfig_holds_all_that_is_needed(address: ServerAddress) -> None:
    config = yaml.safe_load(address.kubeconfig)
    assert config["clusters"][0]["cluster"]["server"] == address.url
    assert "certificate-authority-data" in config["clusters"][0]["cluster"]
    assert config["users"][0]["user"] == {"token": address.token}
    assert config["current-context"] == config["contexts"][0]["name"]


async def test_watch_streams_and_ends_with_the_server(http: aiohttp.ClientSession, cluster: EmbeddedCluster) -> None:
    async with http.get(f"{CONFIG_MAPS}?watch=true") as response:
        assert response.status == 200
        async with http.post(CONFIG_MAPS, json=config_map("a")) as created:
            assert created.status == 201
        assert b'"ADDED"' in await response.content.readline()
        cluster.server.close()
        assert await response.content.read() == b""


async def test_many_events_at_once_are_sent_in_parts_of_whole_lines(http: aiohttp.ClientSession) -> None:
    names = {f"big-{number}" for number in range(80)}
    for name in names:
        async with http.post(CONFIG_MAPS, json=config_map(name) | {"data": {"a": "x" * 20_000}}) as created:
            assert created.status == 201
    parts: list[bytes] = []
    part = b""
    async with http.get(f"{CONFIG_MAPS}?watch=true") as response:
        while sum(one.count(b"\n") for one in parts) < len(names):
            data, ends = await response.content.readchunk()
            part += data
            if ends:
                parts.append(part)
                part = b""
    assert len(parts) > 1
    assert all(len(one) <= 256 * 1024 and one.endswith(b"\n") for one in parts)
    events = [json.loads(line) for line in b"".join(parts).splitlines()]
    assert {event["object"]["metadata"]["name"] for event in events} == names


async def test_watch_is_given_up_when_its_client_goes(http: aiohttp.ClientSession, cluster: EmbeddedCluster) -> None:
    async with http.get(f"{CONFIG_MAPS}?watch=true") as response:
        assert cluster.server.open_watches == 1
        response.close()
    await eventually(lambda: cluster.server.open_watches == 0)


async def test_client_that_goes_before_the_answer_is_no_error(address: ServerAddress, cluster: EmbeddedCluster) -> None:
    url = urlsplit(address.url)
    request = f"GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {address.token}\r\n\r\n"
    with capture_logs() as lines:
        for _ in range(20):
            _, writer = await asyncio.open_connection(url.hostname, url.port, ssl=strict(address))
            # The server reads the request and the end of the connection at once.
            writer.write(request.encode())
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        await eventually(lambda: cluster.server.open_watches == 0)
    assert [line for line in lines if line["log_level"] == "error"] == []


async def test_body_above_the_limit_is_a_status(http: aiohttp.ClientSession) -> None:
    async with http.post(CONFIG_MAPS, data=io.BytesIO(b" " * (3 * 1024 * 1024 + 5))) as response:
        assert (response.status, (await response.json())["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("size", "accepted", "encoding"),
    [
        pytest.param(129, "gzip, deflate", "gzip", id="long"),
        pytest.param(127, "gzip", None, id="short"),
        pytest.param(129, "identity", None, id="not-accepted"),
    ],
)
async def test_long_bodies_are_compressed(
    http: aiohttp.ClientSession, size: int, accepted: str, encoding: str | None
) -> None:
    text = "x" * (size * 1024)
    async with http.post(CONFIG_MAPS, json={**config_map("a"), "data": {"a": text}}) as response:
        assert response.status == 201
    async with http.get(f"{CONFIG_MAPS}/a", headers={"Accept-Encoding": accepted}) as response:
        assert (await response.json())["data"] == {"a": text}
        assert response.headers.get("Content-Encoding") == encoding


async def test_escaped_queries_arrive_whole(http: aiohttp.ClientSession) -> None:
    async with http.post(CONFIG_MAPS, json=config_map("a", app="x")) as response:
        assert response.status == 201
    async with http.get(CONFIG_MAPS, params={"labelSelector": "app in (x, y)"}) as response:
        assert len((await response.json())["items"]) == 1


async def test_taken_port_is_an_os_error(cluster: EmbeddedCluster, address: ServerAddress) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        await cluster.serve(int(address.url.rpartition(":")[2]))


async def test_two_clusters_do_not_meet(cluster: EmbeddedCluster, address: ServerAddress) -> None:
    async with EmbeddedCluster(runtime=None) as other:
        assert (await other.serve()).url != address.url
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {address.token}"}) as session:
            url = (await other.serve()).url + "/api/v1/pods"
            async with session.get(url, ssl=False) as response:
                assert response.status == 401


async def test_lost_reply_is_a_closed_connection(cluster: EmbeddedCluster, http: aiohttp.ClientSession) -> None:
    cluster.faults.add(FaultRule(verb="create", nth=1, lose_reply=True))
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post(CONFIG_MAPS, json=config_map("a"))
    async with http.post(CONFIG_MAPS, json=config_map("a")) as response:
        assert response.status == 409


async def test_cut_watch_is_a_closed_connection(cluster: EmbeddedCluster, http: aiohttp.ClientSession) -> None:
    cluster.faults.add(FaultRule(verb="watch", cut=1))
    for name in ("a", "b"):
        await http.post(CONFIG_MAPS, json=config_map(name))
    async with http.get(CONFIG_MAPS, params={"watch": "true", "resourceVersion": "0"}) as response:
        assert b'"name":"a"' in await response.content.readline()
        with pytest.raises(aiohttp.ClientError):
            await response.content.readline()


@pytest.mark.parametrize(
    ("token", "rest", "code", "message"),
    [
        pytest.param(
            None,
            b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\ntext",
            b"400",
            "400 Bad Request: Can not decode content-encoding: gzip",
            id="no-gzip",
        ),
        # The response comes before the body is read.
        pytest.param(
            "wrong",
            b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\ntext",
            b"401",
            "Unauthorized",
            id="no-gzip-unauthorized",
        ),
        pytest.param(
            None,
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
            b"400",
            "400 Bad Request: Invalid character in chunk size",
            id="no-chunk",
        ),
    ],
)
async def test_unreadable_body_is_answered_without_a_traceback(  # columns of a table
    address: ServerAddress, caplog: pytest.LogCaptureFixture, token: str | None, rest: bytes, code: bytes, message: str
) -> None:
    host, port = address.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=strict(address))
    writer.write(f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: kcr\r\n".encode())
    writer.write(f"Authorization: Bearer {token or address.token}\r\n".encode() + rest)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert (head.split()[1], json.loads(body)["message"]) == (code, message)
    assert "aiohttp.server" not in {record.name for record in caplog.records}


async def test_number_of_connections_is_an_option() -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        address = await cluster.serve(max_connections=2)
        assert await closed_first(int(address.url.rpartition(":")[2]))
