"""The control endpoint of the faults, over a real connection."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.api import config_map

pytestmark = pytest.mark.asyncio
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ENDPOINT = "/debug/kcr/faults"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/builder/token"


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(random=Random(0), runtime=None, gc=False) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def http(cluster: EmbeddedCluster) -> AsyncIterator[aiohttp.ClientSession]:
    address = await cluster.serve()
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=address.ca_pem))
    headers = {"Authorization": f"Bearer {address.token}"}
    async with aiohttp.ClientSession(address.url, headers=headers, connector=connector) as session:
        yield session


async def call(http: aiohttp.ClientSession, method: str, path: str = "", **options: Any) -> tuple[int, Any]:
    async with http.request(method, f"{ENDPOINT}{path}", **options) as response:
        return response.status, await response.json()


async def code(http: aiohttp.ClientSession, method: str, target: str, **options: Any) -> int:
    async with http.request(method, target, **options) as response:
        return response.status


async def test_rules_are_added_counted_and_removed(http: aiohttp.ClientSession) -> None:
    rule = {"verb": "list", "resource": "configmaps", "fail": 503}
    added = {"faults": [{"number": 1, "rule": rule, "matched": 0, "met": 0}]}
    assert await call(http, "POST", json={"faults": [rule]}) == (201, added)
    assert await code(http, "GET", CONFIG_MAPS) == 503
    met = {"faults": [{"number": 1, "rule": rule, "matched": 1, "met": 1}]}
    assert await call(http, "GET") == (200, met)
    assert await call(http, "DELETE") == (200, met)
    assert await code(http, "GET", CONFIG_MAPS) == 200
    assert await call(http, "GET") == (200, {"faults": []})


async def test_one_rule_is_removed_by_its_number(http: aiohttp.ClientSession) -> None:
    await call(http, "POST", data="faults: [{verb: get, fail: 500}, {verb: list, fail: 503}]")
    _, removed = await call(http, "DELETE", "/1")
    assert [one["number"] for one in removed["faults"]] == [1]
    _, left = await call(http, "GET")
    assert [one["number"] for one in left["faults"]] == [2]
    _, body = await call(http, "DELETE", "/1")
    assert (body["reason"], body["code"]) == ("NotFound", 404)


async def test_same_seed_disturbs_the_same_requests(http: aiohttp.ClientSession) -> None:
    runs = []
    for seed in (1, 1, 2):
        await call(http, "POST", json={"seed": seed, "faults": [{"verb": "list", "fail": 500, "chance": 0.5}]})
        runs.append([await code(http, "GET", CONFIG_MAPS) for _ in range(30)])
        await call(http, "DELETE")
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("faults: [{fial: 1}]", "rule 1: Object contains unknown field `fial`", id="unknown-field"),
        pytest.param("{", "yaml: ", id="no-yaml"),
        pytest.param('{"fail": 500}', "a mapping with a list `faults`", id="a-rule-alone"),
    ],
)
async def test_wrong_rules_are_refused(http: aiohttp.ClientSession, body: str, message: str) -> None:
    status, answer = await call(http, "POST", data=body)
    assert (status, answer["reason"]) == (400, "BadRequest")
    assert message in answer["message"]
    assert await call(http, "GET") == (200, {"faults": []})


async def test_only_the_admin_changes_faults(cluster: EmbeddedCluster, http: aiohttp.ClientSession) -> None:
    account = b'{"metadata":{"name":"builder"}}'
    await cluster.server.handle(HTTPRequest("POST", TOKENS.removesuffix("/builder/token"), {}, account))
    async with http.post(TOKENS, json={"spec": {}}) as response:
        token = (await response.json())["status"]["token"]
    status, answer = await call(http, "GET", headers={"Authorization": f"Bearer {token}"})
    assert (status, answer["reason"]) == (403, "Forbidden")
    status, _ = await call(http, "GET", headers={"Authorization": "Bearer none"})
    assert status == 401


@pytest.mark.parametrize(
    ("headers", "code", "words"),
    [
        pytest.param(
            {"Impersonate-User": "jane"}, 403, 'forbidden: User "jane" cannot get path', id="user-without-rights"
        ),
        pytest.param({"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}, 200, "", id="an-admin"),
        pytest.param({"Impersonate-Group": "system:masters"}, 400, "without impersonating a user", id="group-alone"),
    ],
)
async def test_admin_who_acts_as_another_user_is_that_user(
    http: aiohttp.ClientSession, headers: dict[str, str], code: int, words: str
) -> None:
    status, answer = await call(http, "GET", headers=headers)
    assert (status, words in answer.get("message", "")) == (code, True)


async def test_other_methods_are_refused(http: aiohttp.ClientSession) -> None:
    assert (await call(http, "PUT"))[0] == 405
    await call(http, "POST", json={"faults": [{"fail": 500}]})
    assert (await call(http, "PATCH", "/1"))[0] == 405


async def test_truncated_body_is_seen_as_such(http: aiohttp.ClientSession) -> None:
    await call(http, "POST", json={"faults": [{"verb": "list", "truncate": 20, "times": 1}]})
    async with http.get(CONFIG_MAPS) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    assert await code(http, "GET", CONFIG_MAPS) == 200


async def test_slow_body_arrives_whole(http: aiohttp.ClientSession) -> None:
    await http.post(CONFIG_MAPS, json=config_map("a"))
    async with http.get(CONFIG_MAPS) as response:
        whole = await response.read()
    await call(http, "POST", json={"faults": [{"verb": "list", "throttle": 2 * len(whole)}]})
    begun = asyncio.get_running_loop().time()
    async with http.get(CONFIG_MAPS) as response:
        assert await response.read() == whole
    assert asyncio.get_running_loop().time() - begun > 0.4
