"""Self-made certificates over days, on the embedded server in virtual time: at each moment, a handshake succeeds."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from msgspec.structs import replace
from structlog.testing import capture_logs

import kcr
from kcr.api.core import Namespace, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.api.unstructured import unstructured
from kcr.client import Request
from kcr.errors import ForbiddenError, TransportError
from kcr.informer import Handler
from kcr.serving.webhooks.authority import CertificateAuthority, certificate_rights
from kcr.serving.webhooks.pem import CERT
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.webhook_configurations import KEY, SERVICE, Mutating, configuration

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

# Nothing else happens in this cluster.
OPTIONS: Any = {"runtime": None, "gc": False, "quota_and_disruption": False, "heartbeats": False}
DAY = timedelta(days=1)
Definition = unstructured(
    "apiextensions.k8s.io/v1", "CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)


class Skewed:
    """A clock that differs from another."""

    def __init__(self, clock: VirtualClock, skew: timedelta) -> None:
        self._clock, self.skew = clock, skew

    def now(self) -> datetime:
        return self._clock.now() + self.skew

    def boottime(self) -> float:
        return self._clock.boottime()


class Cut:
    """A transport that is cut after some writes: the last one is stored, or not, and its answer is lost."""

    def __init__(self, inner: Any, writes: int, *, stores_last: bool) -> None:
        self.inner, self._left, self._stores_last = inner, writes, stores_last
        self.is_cut = asyncio.Event()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Any]:
        if self.is_cut.is_set():
            await asyncio.get_running_loop().create_future()
        if request.method != "GET":
            self._left -= 1
            if self._left == 0:
                if self._stores_last:
                    async with self.inner.send(request) as response:
                        await response.read()
                self.is_cut.set()
                raise TransportError("cut")
        async with self.inner.send(request) as response:
            yield response


class World:
    """A cluster with a configuration, replicas that serve, and the check that holds at each moment."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock) -> None:
        self.cluster, self.clock, self.client = cluster, clock, cluster.client
        # Certificates that some replica still serves, and bundles that some API server still knows.
        self.served: dict[bytes, datetime] = {}
        self.known: dict[bytes, datetime] = {}
        self.rotations = 0

    async def bundles(self, name: str = "web") -> list[bytes]:
        webhooks = (await self.client.get(Mutating, Key("", name))).get("webhooks")
        return [base64.b64decode(one["clientConfig"].get("caBundle", "")) for one in webhooks]

    async def look(self, lag: float = 10.0) -> None:
        """Check that each certificate of the last seconds is trusted by each bundle of the last seconds."""
        now = self.clock.now()
        secret = await self.client.get(Secret, KEY)
        if secret.data[CERT] not in self.served:
            self.rotations += 1
        self.served[secret.data[CERT]] = now
        self.known.update(dict.fromkeys(await self.bundles(), now))
        for times in (self.served, self.known):
            for old in [one for one, seen in times.items() if (now - seen).total_seconds() > lag]:
                del times[old]
        for bundle in self.known:
            policy = PolicyBuilder().store(Store(x509.load_pem_x509_certificates(bundle))).time(now)
            for certificate in self.served:
                chain = policy.build_server_verifier(x509.DNSName("web.team.svc"))
                chain.verify(x509.load_pem_x509_certificate(certificate), [])

    async def watch(self, seconds: float, step: float) -> None:
        """Let time pass, and look; more often when something happens."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while self.clock.now() < end:
            before = await self.client.get(Secret, KEY)
            await self.clock.advance(step)
            await self.look()
            if (await self.client.get(Secret, KEY)).metadata.resource_version != before.metadata.resource_version:
                for _ in range(12):
                    await self.clock.advance(5)
                    await self.look()


@pytest_asyncio.fixture
async def world(kcr_clock: VirtualClock) -> AsyncIterator[World]:
    async with EmbeddedCluster(**OPTIONS, clock=kcr_clock, random=random.Random(0)) as cluster:
        await cluster.client.create(Namespace(metadata=ObjectMeta(name="team")))
        await cluster.client.create_manifest(Mutating, configuration())
        yield World(cluster, kcr_clock)


@asynccontextmanager
async def leading(
    world: World, *, skew: timedelta = timedelta(), transport: Any = None, converts: bool = False, begins: float = 1
) -> AsyncIterator[None]:
    """Run an authority, as the leader does."""
    manager = kcr.Manager(kcr.Client(transport or world.cluster.transport), clock=world.clock, random=random.Random(0))
    authority = CertificateAuthority(
        manager.client, SERVICE, Skewed(world.clock, skew), manager.open_informer, converts=converts, life=DAY
    )
    manager.add(authority)
    async with manager.running():
        await world.clock.advance(begins)
        yield


@pytest.mark.timeout(60)
async def test_certificates_of_a_day_are_renewed_for_days(world: World) -> None:  # WH-11
    async with leading(world):
        await world.watch(3 * 86400, 7200)
    assert 4 <= world.rotations <= 5  # at two thirds of a day and an hour


async def test_leaders_whose_clocks_differ_take_turns(world: World) -> None:
    for number in range(8):
        async with leading(world, skew=timedelta(minutes=5) * (-1) ** number):
            await world.watch(6 * 3600, 1800)
    assert world.rotations >= 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("writes", "stores_last"),
    [
        pytest.param(
            writes, stored, id=f"{writes}-{'stored' if stored else 'lost'}",
            marks=[] if (writes, stored) in ((1, False), (3, True), (5, False)) else pytest.mark.soak,
        )
        for writes in range(1, 7)
        for stored in (True, False)
    ],
)  # fmt: skip
async def test_leader_that_ends_after_any_write_is_continued(world: World, writes: int, stores_last: bool) -> None:
    transport = Cut(world.cluster.transport, writes, stores_last=stores_last)
    async with leading(world, transport=transport):
        await world.clock.advance(60)
        # From here to the next certificate: a new authority, its publication, the certificate.
        for _ in range(40):
            if transport.is_cut.is_set():
                break
            await world.watch(3600, 600)
    assert transport.is_cut.is_set()
    async with leading(world):
        # An authority that was published before the Secret was created has to settle beside the next one.
        await world.clock.advance(40)
        await world.watch(36 * 3600, 3600)
    assert world.rotations >= 3


@pytest.mark.timeout(60)
async def test_two_leaders_do_no_harm(world: World) -> None:
    async with leading(world), leading(world):
        await world.look()
        await world.watch(30 * 3600, 3600)
    assert 2 <= world.rotations <= 5


async def test_deleted_secret_comes_back_as_it_was(world: World) -> None:
    async with leading(world):
        before = await world.client.get(Secret, KEY)
        await world.client.delete(Secret, KEY)
        await world.clock.advance(1)
        assert (await world.client.get(Secret, KEY)).data == before.data


async def test_secret_deleted_without_a_leader_leaves_old_certificates_trusted(world: World) -> None:
    async with leading(world):
        await world.look()
    await world.client.delete(Secret, KEY)
    async with leading(world):
        # Replicas serve what they had; the new authority is published first.
        for _ in range(28):
            await world.clock.advance(1)
            assert all(bundle.count(b"BEGIN") == 2 for bundle in await world.bundles())
            assert (await world.client.get(Secret, KEY)).data[CERT] == b""
        await world.clock.advance(5)
        world.known.clear()
        await world.look(lag=60)
        assert len(world.served) == 2
        await world.watch(86400, 3600)


@pytest.mark.parametrize("replicas", [2, 5])
async def test_secret_deleted_under_fresh_replicas_is_created_once(world: World, replicas: int) -> None:
    async with leading(world):
        await world.look()
    await world.client.delete(Secret, KEY)
    async with AsyncExitStack() as stack:
        for _ in range(replicas):
            await stack.enter_async_context(leading(world, begins=0))
        await world.clock.advance(40)
        world.known.clear()
        await world.look(lag=60)
        assert [bundle.count(b"BEGIN") for bundle in await world.bundles()] == [2, 2]


async def test_clock_that_is_set_forward_shortens_no_wait(world: World) -> None:
    async with leading(world):
        await world.look()
    await world.client.delete(Secret, KEY)
    manager = kcr.Manager(kcr.Client(world.cluster.transport), clock=world.clock, random=random.Random(0))
    clock = Skewed(world.clock, timedelta())
    manager.add(CertificateAuthority(manager.client, SERVICE, clock, manager.open_informer, life=DAY))
    async with manager.running():
        await world.clock.advance(5)
        clock.skew = timedelta(minutes=5)
        operations = [{"op": "add", "path": "/metadata/labels", "value": {"touched": "yes"}}]
        await world.client.json_patch(Mutating, Key("", "web"), operations)  # a reason to look again
        await world.clock.advance(20)
        assert (await world.client.get(Secret, KEY)).data[CERT] == b""
        await world.clock.advance(10)
        assert (await world.client.get(Secret, KEY)).data[CERT] != b""


class Refusing:
    """A transport of a client that may not write one configuration."""

    def __init__(self, inner: Any, name: str) -> None:
        self.inner, self._name, self.refuses = inner, name, False

    def send(self, request: Request) -> Any:
        if self.refuses and request.method == "PATCH" and request.target.partition("?")[0].endswith(f"/{self._name}"):
            raise ForbiddenError(403, "Forbidden", "a policy denies it")
        return self.inner.send(request)


async def test_configuration_that_cannot_be_written_does_not_stop_the_others(world: World) -> None:
    await world.client.create_manifest(Mutating, configuration("a"))  # the first one in lists
    transport = Refusing(world.cluster.transport, "a")
    async with leading(world, transport=transport):
        await world.look()
        await world.watch(22 * 3600, 3600)
        transport.refuses = True  # during the rotation; until then, each of a day's tries would be refused
        await world.watch(4 * 3600, 3600)
    assert world.rotations == 2


@pytest.mark.parametrize("is_first", [True, False], ids=["installed", "deleted"])
async def test_certificate_does_not_wait_forever_for_one_configuration(world: World, is_first: bool) -> None:
    if not is_first:
        async with leading(world):
            await world.look()
        await world.client.delete(Secret, KEY)
    transport = Refusing(world.cluster.transport, "a")
    transport.refuses = True
    await world.client.create_manifest(Mutating, configuration("a"))
    async with leading(world, transport=transport):
        await world.clock.advance(5 if is_first else 3700)
        world.known.clear()
        await world.look()


async def test_replica_that_reads_slowly_takes_no_authority_away(world: World) -> None:
    inner = world.cluster.transport
    slow = asyncio.Event()
    written: list[str] = []

    class Slow:
        @asynccontextmanager
        async def send(self, request: Request) -> AsyncIterator[Any]:
            # Lists that are made at the rotation; those of informers are over by then.
            path, _, query = request.target.partition("?")
            if slow.is_set() and path.endswith("/mutatingwebhookconfigurations") and "watch=" not in query:
                slow.clear()
                written.clear()
                await asyncio.sleep(50)
            if request.method == "PATCH":
                written.append(path)
            async with inner.send(request) as response:
                yield response

    async with leading(world), leading(world, transport=Slow()):
        await world.look()
        await world.clock.advance(56380)  # shortly before the authority is due
        slow.set()
        operations = [{"op": "add", "path": "/metadata/labels", "value": {"touched": "yes"}}]
        await world.client.json_patch(Mutating, Key("", "web"), operations)
        for _ in range(400):
            await world.clock.advance(0.25)
            await world.look(lag=0)
    assert (world.rotations, written) == (2, [])


@pytest.mark.parametrize("damage", ["tls.key", "tls.crt", "ca.key", "ca.crt", "all"])
async def test_damaged_secret_is_repaired(world: World, damage: str) -> None:
    async with leading(world):
        secret = await world.client.get(Secret, KEY)
        damaged = {name: b"x" if damage in (name, "all") else data for name, data in secret.data.items()}
        await world.client.update(replace(secret, data=damaged))
        await world.clock.advance(60)
        world.known.clear()
        await world.look()


async def test_removed_bundle_is_written_again(world: World) -> None:
    async with leading(world):
        before = await world.bundles()
        operations = [{"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"}]
        await world.client.json_patch(Mutating, Key("", "web"), operations)
        await world.clock.advance(2)
        assert await world.bundles() == before


class Undoing(Handler[Any]):
    """Removes each bundle that it sees, as an old deployment tool does."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed

    def on_update(self, old: Any, new: Any) -> None:
        self._changed.set()


async def test_controller_that_undoes_each_step_makes_no_storm(world: World) -> None:
    changed, undone = asyncio.Event(), 0

    async def undo() -> None:
        nonlocal undone
        while True:
            await changed.wait()
            changed.clear()
            if any(await world.bundles()):
                undone += 1
                operations = [
                    {"op": "remove", "path": f"/webhooks/{number}/clientConfig/caBundle"} for number in (0, 1)
                ]
                await world.client.json_patch(Mutating, Key("", "web"), operations)

    manager = kcr.Manager(kcr.Client(world.cluster.transport), clock=world.clock, random=random.Random(0))
    manager.informer(Mutating).add_handler(Undoing(changed))
    async with manager.running(), asyncio.TaskGroup() as group:
        task = group.create_task(undo())
        async with leading(world):
            await world.clock.advance(100)
        task.cancel()
    assert 20 <= undone <= 45


async def test_new_configuration_gets_the_bundle(world: World) -> None:
    async with leading(world):
        await world.client.create_manifest(Mutating, configuration("late", 3))
        await world.clock.advance(2)
        assert set(await world.bundles("late")) == set(await world.bundles())


async def test_configurations_of_others_are_left_alone(world: World) -> None:
    await world.client.create_manifest(Mutating, configuration("other", 1, **{"kcr.dev/inject-ca-from": "team/other"}))
    async with leading(world):
        await world.clock.advance(60)
        assert await world.bundles("other") == [b""]


async def test_definition_with_a_conversion_gets_the_bundle(world: World) -> None:
    version = {"served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    await world.client.create_manifest(Definition, {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "webs.example.dev", "annotations": SERVICE.annotations()},
        "spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"plural": "webs", "kind": "Web"},
            "versions": [{"name": "v1", "storage": True, **version}, {"name": "v2", "storage": False, **version}],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": SERVICE.client_config("/convert"), "conversionReviewVersions": ["v1"]},
            },
        },
    })  # fmt: skip
    async with leading(world, converts=True):
        await world.clock.advance(5)
        spec = (await world.client.get(Definition, Key("", "webs.example.dev"))).get("spec")
    written = base64.b64decode(spec["conversion"]["webhook"]["clientConfig"]["caBundle"])
    assert [written] * 2 == await world.bundles()


async def test_secret_of_someone_else_is_not_overwritten(world: World) -> None:
    theirs = {"metadata": {"name": "web", "namespace": "team"}, "data": {"tls.key": "eA=="}}
    await world.client.create_manifest(Secret, theirs, "team")
    with capture_logs() as logs:
        async with leading(world):
            await world.clock.advance(10)
    assert (await world.client.get(Secret, KEY)).data == {"tls.key": b"x"}
    assert any("Secret team/web was not made by kcr: delete it" in str(line.get("error")) for line in logs)


async def test_rights_cover_every_request(world: World) -> None:
    asked: set[tuple[str, str]] = set()
    inner = world.cluster.transport

    class Noting:
        def send(self, request: Request) -> Any:
            path, _, query = request.target.partition("?")
            verb = {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(request.method, "get")
            last = path.rpartition("/")[2]
            if verb == "get" and last.endswith("s"):
                verb = "watch" if "watch=" in query else "list"
            asked.add((path.removesuffix("/web").rpartition("/")[2], verb))
            return inner.send(request)

    async with leading(world, transport=Noting()):
        await world.clock.advance(20 * 3600)
    granted = {(one.resource, one.verb) for rights in certificate_rights(converts=False) for one in rights}
    assert asked <= granted
    assert {verb for _, verb in asked} == {"get", "list", "watch", "create", "update", "patch"}
