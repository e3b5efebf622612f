"""Whatever definitions and objects say, the server answers, and watches and lists agree."""

from random import Random

import msgspec
import pytest

from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import TABLE, Api, Reply
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json
from tests.kit.random_definitions import random_definition, random_value, random_widget

pytestmark = pytest.mark.kcr_virtual
CRD = f"{DEFINITIONS}/widgets.ex.io"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


async def answered(api: Api, method: str, target: str, body: object = b"", **headers: str) -> Reply:
    reply = await api.call(method, target, body, **headers)
    # Upstream answers 500 to an apply of what is not of the schema's types; our own have this reason.
    is_meant = reply.status < 500 or "reason" not in reply.body
    assert is_meant, (method, target, body, reply.body)
    return reply


async def write(api: Api, random: Random) -> None:
    served, name = random.choice(("v1", "v1", "v2")), random.choice("ab")
    path = WIDGETS.replace("v1", served)
    await answered(api, "POST", path, random_widget(random, name, served))
    change = {"spec": {random.choice("abc"): random_value(random)}, "status": random_value(random)}
    await answered(api, "PATCH", f"{path}/{name}{random.choice(('', '/status'))}", change, content_type=MERGE)
    applied = random_widget(random, name, served)
    force = random.choice(("", "&force=true"))
    await answered(api, "PATCH", f"{path}/{name}?fieldManager=m{force}", applied, content_type=APPLY)
    if random.random() < 0.2:
        await answered(api, "GET", path, accept=random.choice((TABLE, "application/json")))
    if random.random() < 0.1:
        await answered(api, "DELETE", f"{path}/{name}")


async def replayed(api: Api, version: str) -> tuple[dict[str, Json], list[int]]:
    """Return the objects that a watch shows from a version on, and the versions of its events."""
    answer = await api.server.handle(
        HTTPRequest("GET", f"{WIDGETS}?watch=true&timeoutSeconds=1&resourceVersion={version}")
    )
    assert not isinstance(answer.body, bytes)
    objects, versions = dict[str, Json](), list[int]()
    async for chunk in answer.body:
        for event in map(msgspec.json.decode, chunk.splitlines()):
            name = event["object"]["metadata"]["name"]
            versions.append(int(event["object"]["metadata"]["resourceVersion"]))
            objects[name] = event["object"]
            if event["type"] == "DELETED":
                del objects[name]
    return objects, versions


async def run(api: Api, random: Random, rounds: int) -> None:
    for _ in range(rounds):
        if (await answered(api, "POST", DEFINITIONS, random_definition(random))).status != 201:
            continue
        start = (await api.get(WIDGETS))["metadata"]["resourceVersion"]
        for _ in range(8):
            await write(api, random)
        objects, versions = await replayed(api, start)
        assert versions == sorted(set(versions))
        assert objects == {one["metadata"]["name"]: one for one in (await api.get(WIDGETS))["items"]}
        changed = random_definition(random)["spec"]
        await answered(api, "PATCH", CRD, {"spec": changed}, content_type=MERGE)
        await answered(api, "GET", WIDGETS)
        await answered(api, "DELETE", CRD)
        assert (await api.call("GET", CRD)).status == 404


async def test_every_request_is_answered_and_watches_agree_with_lists(api: Api) -> None:
    await run(api, Random(1), 60)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(5))
async def test_every_request_of_many_is_answered(api: Api, seed: int) -> None:
    await run(api, Random(seed), 1_000)
