"""`kcr crd migrate`: every stored object is rewritten in the storage version, whatever happens in between."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import pytest_asyncio

from kcr.client import Client, Request, Response, Transport
from kcr.errors import ConfigError, ForbiddenError, TransportError
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.generators.migration import Migrated, migrate_definition
from kcr_devcluster.transport import InProcessTransport
from tests.kit.api import Api
from tests.kit.conversion_webhooks import V1, V2, Converter, install, redefine, v1
from tests.kit.custom_resources import DEFINITIONS, Json

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]
NAME = "widgets.ex.io"
OBJECTS = 7


class Interrupted:
    """Does something before the first write of an object or of a status."""

    def __init__(self, inner: Transport, path: str, action: Callable[[], Awaitable[object]]) -> None:
        self.inner, self._path, self._action = inner, path, action
        self._is_done = False

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send a request."""
        is_write = request.method == "PATCH" and "dryRun" not in request.target
        if is_write and request.target.startswith(self._path) and not self._is_done:
            self._is_done = True
            await self._action()
        async with self.inner.send(request) as response:
            yield response


class World:
    """A cluster whose widgets are stored in version 1, while version 2 is the storage version now."""

    def __init__(self, cluster: EmbeddedCluster, converter: Converter) -> None:
        self.cluster, self.api, self.converter = cluster, Api(cluster.server), converter
        self.transport = CrashingTransport(cluster.transport)
        self.client = Client(self.transport)

    async def stored_versions(self) -> list[str]:
        """Return the versions in the status of the definition."""
        found: list[str] = (await self.api.get(f"{DEFINITIONS}/{NAME}"))["status"]["storedVersions"]
        return found

    async def stored_in_v1(self) -> list[str]:
        """Return the names of the objects that are converted to be read in version 2."""
        self.converter.reviews.clear()
        await self.api.get(V2)
        return [one["metadata"]["name"] for review in self.converter.reviews for one in review["objects"]]

    def before(self, path: str, action: Callable[[], Awaitable[object]]) -> Client:
        """Return a client that does something before its first write below a path."""
        return Client(Interrupted(self.transport, path, action))


@pytest_asyncio.fixture
async def world(kcr_clock: VirtualClock) -> AsyncIterator[World]:
    """Make the cluster."""
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None, gc=False) as cluster:
        api = Api(cluster.server)
        converter = await install(api)
        for number in range(OBJECTS):
            await api.post(V1, v1(f"w{number}"))
        await redefine(api, "v2")
        yield World(cluster, converter)


async def test_all_objects_are_rewritten_then_the_old_version_leaves(world: World) -> None:
    assert await world.stored_versions() == ["v1", "v2"]
    assert len(await world.stored_in_v1()) == OBJECTS
    before = (await world.api.get(V1))["items"]
    reports: list[tuple[int, int]] = []
    done = await migrate_definition(world.client, NAME, chunk=3, report=lambda *numbers: reports.append(numbers))
    assert done == Migrated("v2", ("v1",), OBJECTS)
    assert reports == [(3, 7), (6, 7), (7, 7)]
    assert await world.stored_versions() == ["v2"]
    assert await world.stored_in_v1() == []
    assert [one["spec"] for one in (await world.api.get(V1))["items"]] == [one["spec"] for one in before]
    # The old version may go.
    path, versions = f"{DEFINITIONS}/{NAME}", (await world.api.get(f"{DEFINITIONS}/{NAME}"))["spec"]["versions"]
    await world.api.patch(path, {"spec": {"versions": [one for one in versions if one["name"] == "v2"]}})


async def test_second_run_writes_nothing(world: World) -> None:
    await migrate_definition(world.client, NAME)
    writes = world.transport.writes
    assert await migrate_definition(world.client, NAME) == Migrated("v2", (), 0)
    assert world.transport.writes == writes


@pytest.mark.parametrize("write", range(OBJECTS + 3))
async def test_crash_after_any_write_is_mended_by_another_run(world: World, write: int) -> None:
    world.transport.crash_after(write)
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await migrate_definition(world.client, NAME, chunk=3)
    assert world.transport.crashed.is_set()
    # As long as an object is stored in the old version, the status says so.
    assert not await world.stored_in_v1() or "v1" in await world.stored_versions()
    await migrate_definition(Client(world.cluster.transport), NAME)
    assert (await world.stored_versions(), await world.stored_in_v1()) == (["v2"], [])


@pytest.mark.parametrize("write", range(1, OBJECTS + 3))
async def test_lost_reply_ends_the_run_and_the_next_one_finishes(world: World, write: int) -> None:
    world.transport.lose_reply(write)
    with suppress(TransportError, ConfigError):
        await migrate_definition(world.client, NAME)
    assert not await world.stored_in_v1() or "v1" in await world.stored_versions()
    await migrate_definition(world.client, NAME)
    assert (await world.stored_versions(), await world.stored_in_v1()) == (["v2"], [])


async def test_objects_that_change_or_are_deleted_meanwhile_are_no_obstacle(world: World) -> None:
    async def interfere() -> None:
        await world.api.patch(f"{V1}/w3", {"spec": {"port": 9}})
        await world.api.delete(f"{V1}/w4")
        await world.api.delete(f"{V1}/w5")
        await world.api.post(V1, v1("w5", {"host": "again", "port": 1}))

    await migrate_definition(world.before("/apis/ex.io/", interfere), NAME)
    assert (await world.stored_versions(), await world.stored_in_v1()) == (["v2"], [])
    assert (await world.api.get(f"{V1}/w3"))["spec"]["port"] == 9


async def test_object_written_in_the_old_version_meanwhile_is_rewritten(world: World) -> None:
    async def write_as_an_older_replica_does() -> None:
        await redefine(world.api, "v1")
        await world.api.patch(f"{V1}/w3", {"spec": {"port": 9}})
        await redefine(world.api, "v2")

    await migrate_definition(world.before("/apis/ex.io/", write_as_an_older_replica_does), NAME)
    assert (await world.stored_versions(), await world.stored_in_v1()) == (["v2"], [])


async def test_object_that_cannot_be_rewritten_keeps_the_status(world: World) -> None:
    def refuse(review: Json) -> Json:
        if review["response"]["convertedObjects"][0]["metadata"]["name"] == "w2":
            review["response"]["result"] = {"status": "Failure", "message": "w2 is broken"}
        return review

    async def break_it() -> None:
        world.converter.change = refuse

    with pytest.raises(ConfigError, match=r"1 of 7 objects cannot be rewritten, the first is default/w2: .*broken"):
        await migrate_definition(world.before("/apis/ex.io/", break_it), NAME)
    assert await world.stored_versions() == ["v1", "v2"]


async def test_storage_version_that_changes_meanwhile_is_refused(world: World) -> None:
    async def change() -> None:
        await redefine(world.api, "v1")

    with pytest.raises(ConfigError, match="its versions have changed while objects were rewritten"):
        await migrate_definition(world.before("/apis/ex.io/", change), NAME)
    assert set(await world.stored_versions()) == {"v1", "v2"}


async def test_status_written_meanwhile_is_written_again(world: World) -> None:
    async def annotate() -> None:
        await world.api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"annotations": {"a": "b"}}})

    await migrate_definition(world.before(DEFINITIONS, annotate), NAME)
    assert await world.stored_versions() == ["v2"]


async def test_version_that_is_the_storage_version_needs_no_migration(world: World) -> None:
    await migrate_definition(world.client, NAME)
    await redefine(world.api, "v2", v1={"served": True})
    assert await migrate_definition(world.client, NAME) == Migrated("v2", (), 0)


async def test_dry_run_changes_nothing(world: World) -> None:
    before = await world.api.get(V1)
    assert (await migrate_definition(world.client.with_options(dry_run=True), NAME)).objects == OBJECTS
    assert await world.api.get(V1) == before
    assert await world.stored_versions() == ["v1", "v2"]


async def test_missing_definition_is_named(world: World) -> None:
    with pytest.raises(ConfigError, match=r"no CustomResourceDefinition nothing exists: name it as PLURAL\.GROUP"):
        await migrate_definition(world.client, "nothing")


async def test_right_that_is_missing_is_found_before_the_first_write(kcr_clock: VirtualClock) -> None:
    made = EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None, gc=False, authorization="rbac")
    async with made as cluster:
        api = Api(cluster.server)
        await install(api)
        await api.post(V1, v1("w"))
        await redefine(api, "v2")
        rules = [
            {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]},
            {"apiGroups": ["ex.io"], "resources": ["widgets"], "verbs": ["list", "patch"]},
        ]
        await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "m"}, "rules": rules})
        await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "m"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "m"},
            "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        })  # fmt: skip
        before = await api.get(f"{V1}/w")
        client = Client(InProcessTransport(cluster.server, user_named("jane")))
        with pytest.raises(ForbiddenError, match=r"customresourcedefinitions/status"):
            await migrate_definition(client, NAME)
        assert await api.get(f"{V1}/w") == before
