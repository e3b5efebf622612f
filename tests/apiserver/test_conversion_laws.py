"""Laws of conversion, on random stories of writes in two versions whose objects a webhook converts.

A model holds each object as one of version 1. After every step each version shows the conversion of the model, by GET,
by list and by the events of watches; a request that the webhook fails changes nothing. Meanwhile the storage version
changes, the webhook answers late and in any order, and several clients write at once.
"""

import asyncio
import random

import pytest

from kcr.client import Client
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.generators.migration import migrate_definition
from tests.kit.api import Api, Events, Reply
from tests.kit.conversion_webhooks import V1, V2, Converter, install, redefine, replace_webhook, to_v2, v1
from tests.kit.custom_resources import Json

pytestmark = pytest.mark.kcr_virtual
# A thousand stories in all: `make test` tells a fortieth of them.
STORIES, STEPS, BLOCKS, QUICK_BLOCKS = 25, 12, 40, 1
PATHS = {"v1": V1, "v2": V2}
NAMES = ("a", "b", "c", "d")
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def shown(obj: Json, version: str) -> Json:
    """Return spec and status of a model's object in a version."""
    whole = v1("", obj["spec"]) if version == "v1" else to_v2(v1("", obj["spec"]))
    return {"spec": whole["spec"], "status": obj["status"]}


def seen(obj: Json) -> Json:
    """Return spec and status of an answer."""
    return {"spec": obj["spec"], "status": obj.get("status") or {}}


class Attempt:
    """One write of one object, in one version, in different ways.

    Attributes:
        new: The object in the model once the write has succeeded.
    """

    def __init__(self, name: str, version: str, given: Json, old: Json, draw: random.Random) -> None:
        self.name, self.version, self.old, self.draw = name, version, old, draw
        self.body = given if version == "v1" else to_v2(given)
        self.path = f"{PATHS[version]}/{name}"
        self.new: Json = {"spec": given["spec"], "status": old["status"]}

    async def create(self, api: Api) -> Reply:
        """Send a POST."""
        return await api.call("POST", PATHS[self.version], self.body)

    async def put(self, api: Api) -> Reply:
        """Send a PUT with the newest resourceVersion."""
        listed = [one for path in PATHS.values() for one in (await api.call("GET", path)).body.get("items", ())]
        newest = [one["metadata"] for one in listed if one["metadata"]["name"] == self.name]
        self.body["metadata"]["resourceVersion"] = newest[0]["resourceVersion"] if newest else "1"
        return await api.call("PUT", self.path, self.body)

    async def merge(self, api: Api) -> Reply:
        """Patch a part of the spec."""
        host, port = self.draw.choice("mn"), self.draw.randrange(9)
        patch = {"host": host} if self.version == "v1" else {"address": f"{host}:{port}"}
        changed = patch if self.version == "v1" else {"host": host, "port": port}
        self.new["spec"] = self.old["spec"] | changed
        return await api.call("PATCH", self.path, {"spec": patch}, content_type=MERGE)

    async def json(self, api: Api) -> Reply:
        """Replace the spec by a patch."""
        steps = [{"op": "replace", "path": "/spec", "value": self.body["spec"]}]
        return await api.call("PATCH", self.path, steps, content_type=JSON_PATCH)

    async def apply(self, api: Api) -> Reply:
        """Apply as a manager of its own, so that no field is given up."""
        self.new["spec"] = self.old["spec"] | self.new["spec"]
        return await api.apply(self.path, self.body, f"m{self.draw.random()}", "force=true")

    async def status(self, api: Api) -> Reply:
        """Patch the status, and try to patch more."""
        self.new = {"spec": self.old["spec"], "status": {"ready": self.draw.randrange(9)}}
        patch = {"status": self.new["status"], "spec": {"host": "no", "address": "no:1"}}
        return await api.call("PATCH", f"{self.path}/status", patch, content_type=MERGE)

    async def scale(self, api: Api) -> Reply:
        """Patch the scale."""
        patch = {"spec": {"replicas": self.draw.randrange(4)}}
        self.new["spec"] = self.old["spec"] | patch["spec"]
        return await api.call("PATCH", f"{self.path}/scale", patch, content_type=MERGE)

    async def delete(self, api: Api) -> Reply:
        """Send a DELETE."""
        return await api.call("DELETE", self.path)


class Story:
    """Some steps on some objects.

    Attributes:
        objects: The model.
        steps: The steps so far, for the message of a failure.
    """

    def __init__(self, cluster: EmbeddedCluster, converter: Converter, seed: int) -> None:
        self.api, self.client, self.converter = Api(cluster.server), Client(cluster.transport), converter
        self.random = random.Random(seed)
        self.objects: dict[str, Json] = {}
        self.steps: list[str] = []
        self.fails = False
        replace_webhook(self.api, self.answer)

    async def answer(self, target: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        """Answer a review, sometimes late, sometimes not at all."""
        for _ in range(self.random.choice((0, 0, 1, 3))):
            await asyncio.sleep(0.001)
        if self.fails:
            return 500, b"the webhook is down"
        return await self.converter(target, body, seconds)

    def spec(self) -> Json:
        """Draw a spec of version 1."""
        spec: Json = {"host": self.random.choice("xyz"), "port": self.random.randrange(5)}
        return spec | ({"replicas": self.random.randrange(4)} if self.random.random() < 0.5 else {})

    async def step(self) -> None:
        """Take one step, or several at once on different objects."""
        match self.random.random():
            case chance if chance < 0.06:
                stored = self.random.choice(("v1", "v2"))
                self.steps.append(f"store {stored}")
                await redefine(self.api, stored)
            case chance if chance < 0.1:
                self.steps.append("migrate")
                await migrate_definition(self.client, "widgets.ex.io", chunk=2)
            case chance if chance < 0.14:
                self.steps.append("delete all")
                await self.api.delete(PATHS[self.random.choice(("v1", "v2"))])
                self.objects.clear()
            case chance if chance < 0.3:
                await self.failing()
            case _:
                names = self.random.sample(NAMES, self.random.choice((1, 1, 2, 3)))
                async with asyncio.TaskGroup() as group:
                    for name in names:
                        group.create_task(self.write(name))

    async def failing(self) -> None:
        """Send a write while the webhook fails: it is refused and changes nothing, or needs no conversion."""
        self.fails = True
        before, name = dict(self.objects), self.random.choice(NAMES)
        try:
            self.steps.append(f"while the webhook fails: {name}")
            reply = await self.write(name)
        finally:
            self.fails = False
        # 409: a client that cannot read does not know the resourceVersion.
        if reply is not None and reply.status not in (200, 201, 409):
            assert reply.status == 500, reply.body
            assert reply.body["message"].startswith("conversion webhook for ex.io/"), reply.body
            self.objects = before

    async def write(self, name: str) -> Reply | None:
        """Write an object in some version, in the model as well, and compare the answer."""
        version, old = self.random.choice(("v1", "v2")), self.objects.get(name)
        how = self.random.choice(("put", "merge", "json", "apply", "status", "scale", "delete")) if old else "create"
        self.steps.append(f"{how} {name} {version}")
        write = Attempt(name, version, v1(name, self.spec()), old or {"spec": {}, "status": {}}, self.random)
        reply: Reply = await getattr(write, how)(self.api)
        wanted = shown(write.new, version)
        if reply.status >= 300:
            assert self.fails, (self.steps, reply.body)
        elif how == "delete":
            del self.objects[name]
        else:
            assert how == "scale" or seen(reply.body) == wanted, self.steps
            self.objects[name] = write.new
        return reply

    async def check(self) -> None:
        """Compare the model with what both versions show."""
        for version, path in PATHS.items():
            wanted = {name: shown(obj, version) for name, obj in self.objects.items()}
            found = await self.api.get(path)
            assert {one["metadata"]["name"]: seen(one) for one in found["items"]} == wanted, self.steps
            assert all(one["apiVersion"] == f"ex.io/{version}" for one in found["items"])
            if self.objects:
                name = self.random.choice(sorted(self.objects))
                assert seen(await self.api.get(f"{path}/{name}")) == wanted[name], self.steps


class Mirror:
    """The objects of a version as a client has them that lists and watches."""

    def __init__(self, story: Story, version: str) -> None:
        self.story, self.version = story, version
        self.objects: dict[str, Json] = {}
        self.revision = 0
        self.events: Events | None = None

    async def follow(self) -> None:
        """List, and watch from there."""
        listed = await self.story.api.get(PATHS[self.version])
        self.objects = {one["metadata"]["name"]: one for one in listed["items"]}
        self.revision = int(listed["metadata"]["resourceVersion"])
        self.events = await self.story.api.watch(f"{PATHS[self.version]}?resourceVersion={self.revision}&")

    async def catch_up(self) -> None:
        """Take the events until the mirror shows what a list shows; a watch that has ended begins again."""
        listed = await self.story.api.get(PATHS[self.version])
        wanted = {one["metadata"]["name"]: one for one in listed["items"]}
        while self.objects != wanted:
            assert self.events is not None
            try:
                event = await self.events.next()
            except StopAsyncIteration:
                await self.follow()
                continue
            if event["type"] == "ERROR":
                assert event["object"]["code"] in (410, 500), event
                await self.follow()
                continue
            obj = event["object"]
            assert obj["apiVersion"] == f"ex.io/{self.version}"
            # In order, each change once.
            assert int(obj["metadata"]["resourceVersion"]) > self.revision, self.story.steps
            self.revision = int(obj["metadata"]["resourceVersion"])
            if event["type"] == "DELETED":
                del self.objects[obj["metadata"]["name"]]
            else:
                self.objects[obj["metadata"]["name"]] = obj


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, marks=() if block < QUICK_BLOCKS else pytest.mark.soak) for block in range(BLOCKS)],
)
async def test_every_version_shows_the_conversion_of_every_write(bare: EmbeddedCluster, block: int) -> None:
    converter = await install(Api(bare.server))
    for number in range(STORIES):
        story = Story(bare, converter, block * STORIES + number)
        mirrors = [Mirror(story, version) for version in PATHS]
        for mirror in mirrors:
            await mirror.follow()
        for _ in range(STEPS):
            await story.step()
            await story.check()
            if story.random.random() < 0.3:
                await story.random.choice(mirrors).catch_up()
        for mirror in mirrors:
            await mirror.catch_up()
            assert mirror.events is not None
            await mirror.events.close()
        await story.api.delete(V1)
