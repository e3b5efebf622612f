"""Webhooks of a manager, and the order in which it serves them."""

import asyncio
import base64
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest

import kcr
from kcr.api.bindaddress import BindAddress
from kcr.api.core import ConfigMap, Namespace, Secret
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Request
from kcr.clock import SystemClock
from kcr.errors import TransportError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.serving.webhooks.server import WebhookServing, attach
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.webhook_configurations import KEY, SERVICE, Mutating, configuration

pytestmark = pytest.mark.asyncio


async def answer(body: bytes) -> bytes:
    return b"{}"


def serving() -> WebhookServing:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return WebhookServing(BindAddress(*found.getsockname()), service=SERVICE, shutdown_delay=0)


def readiness(manager: kcr.Manager) -> str:
    found = manager.health.answer("/readyz", {})
    assert found is not None
    return found.text


@asynccontextmanager
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(random=random.Random(0), runtime=None, gc=False) as made:
        await made.client.create(Namespace(metadata=ObjectMeta(name="team")))
        await made.client.create_manifest(Mutating, configuration())
        yield made


class NeedsConversion:
    """A server that lists ConfigMaps only once the webhook converts: until then it refuses."""

    def __init__(self, inner: Any, convert: Callable[[], Any]) -> None:
        self.inner, self._convert = inner, convert

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Any]:
        if request.target.startswith("/api/v1/configmaps"):
            try:
                await self._convert()
            except (aiohttp.ClientError, KeyError) as error:
                raise TransportError(f"conversion webhook failed: {error}") from error
        async with self.inner.send(request) as response:
            yield response


async def test_first_list_may_need_a_conversion_of_the_same_program() -> None:
    async with cluster() as made:
        given = serving()

        async def convert() -> None:
            webhooks = (await made.client.get(Mutating, Key("", "web"))).get("webhooks")
            bundle = base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode()
            url = f"https://127.0.0.1:{given.address.port}/convert"
            context = ssl.create_default_context(cadata=bundle)
            headers = {"Content-Type": "application/json"}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.post(url, data=b"{}", ssl=context, server_hostname="web.team.svc") as response,
            ):
                assert response.status == 200

        manager = kcr.Manager(kcr.Client(NeedsConversion(made.transport, convert)), random=random.Random(0))
        manager.store(ConfigMap)
        manager.webhooks.add_endpoint("/convert", answer, panics="conversion")
        manager.serve_webhooks(given)
        assert "webhooks" in readiness(manager)
        assert "controllers" not in readiness(manager)
        async with asyncio.timeout(30), manager.running():
            assert manager.store(ConfigMap).synced
            await eventually(lambda: readiness(manager) == "ok")


async def test_replica_whose_lease_is_lost_makes_the_certificate_of_conversions() -> None:
    async with cluster() as made:
        elector = LeaderElector(
            kcr.Client(made.transport), LeaderElectionConfig(name="lease", namespace="team", identity="me"),
            clock=SystemClock(), random=random.Random(0),
        )  # fmt: skip
        manager = kcr.Manager(kcr.Client(made.transport), random=random.Random(0), leader_election=elector)
        manager.webhooks.add_endpoint("/convert", answer, panics="conversion")
        early: list[Callable[[], Any]] = []
        attach(manager, serving(), lambda run, name: early.append(run))
        elector.end()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            task = group.create_task(early[0]())
            watching = made.client.watch(Secret, "team", resource_version="", timeout_seconds=10)
            async with watching as changes:
                while (await anext(changes)).object.key != KEY:  # bookmarks
                    pass
            task.cancel()


class Jumping:
    """A clock that can be set forward; certificates are verified at the machine's time."""

    def __init__(self, ago: timedelta) -> None:
        self.ago, self._system = ago, SystemClock()

    def now(self) -> datetime:
        return self._system.now() - self.ago

    def boottime(self) -> float:
        return self._system.boottime()


@pytest.mark.timeout(60)
async def test_rotation_under_load_loses_no_request(monkeypatch: pytest.MonkeyPatch) -> None:  # WH-11
    monkeypatch.setattr("kcr.serving.webhooks.rotation.SETTLE", timedelta(seconds=1))
    clock = Jumping(timedelta(days=245))  # a certificate that is made then is due now
    async with cluster() as made:
        given = serving()
        manager = kcr.Manager(kcr.Client(made.transport), clock=clock, random=random.Random(0))
        manager.webhooks.add_endpoint("/validate-me", answer)
        manager.serve_webhooks(given)
        statuses, over = list[int](), asyncio.Event()

        async def call() -> None:
            """Call as an API server does whose caches are up to half a second late."""
            while not over.is_set():
                webhooks = (await made.client.get(Mutating, Key("", "web"))).get("webhooks")
                bundle = base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode()
                context = ssl.create_default_context(cadata=bundle)
                until = asyncio.get_running_loop().time() + 0.5
                while asyncio.get_running_loop().time() < until:
                    url = f"https://127.0.0.1:{given.address.port}/validate-me"
                    headers = {"Content-Type": "application/json"}
                    async with (
                        aiohttp.ClientSession(headers=headers) as session,
                        session.post(url, data=b"{}", ssl=context, server_hostname="web.team.svc") as response,
                    ):
                        statuses.append(response.status)

        async with asyncio.timeout(60), manager.running(), asyncio.TaskGroup() as group:
            await eventually(lambda: readiness(manager) == "ok")
            before = await made.client.get(Secret, KEY)
            for _ in range(3):
                group.create_task(call())
            clock.ago = timedelta()
            operations = [{"op": "add", "path": "/metadata/labels", "value": {"looked-at": "again"}}]
            await made.client.json_patch(Mutating, Key("", "web"), operations)

            async def is_rotated() -> bool:
                found = await made.client.get(Secret, KEY)
                return found.data["tls.crt"] != before.data["tls.crt"]

            await eventually(is_rotated)
            seen = len(statuses)
            await eventually(lambda: len(statuses) > seen + 30)
            over.set()
    assert set(statuses) == {200}


async def test_readiness_without_conversions_depends_on_all_checks() -> None:
    async with cluster() as made:
        manager = kcr.Manager(kcr.Client(made.transport), random=random.Random(0))
        manager.store(ConfigMap)
        manager.webhooks.add_endpoint("/validate-me", answer)
        manager.serve_webhooks(serving())
        assert {"controllers", "webhooks"} <= {
            line.split("]")[-1].split()[0] for line in readiness(manager).splitlines()
        }
        async with asyncio.timeout(30), manager.running():
            await eventually(lambda: readiness(manager) == "ok")
        assert "webhooks failed: is shutting down" in readiness(manager)


async def test_rights_on_the_secret_are_not_those_of_controllers() -> None:
    async with cluster() as made:
        manager = kcr.Manager(kcr.Client(made.transport), random=random.Random(0))
        manager.webhooks.add_endpoint("/validate-me", answer)
        manager.serve_webhooks(serving())
        assert manager.rights == frozenset()


async def test_informer_that_a_webhook_is_the_first_to_ask_for_is_refused() -> None:
    async with cluster() as made:
        manager = kcr.Manager(kcr.Client(made.transport), random=random.Random(0))

        async def ask() -> None:
            with pytest.raises(RuntimeError, match="add it before the manager runs, or on its thread"):
                manager.store(ConfigMap)

        async with manager.running():
            await asyncio.to_thread(lambda: asyncio.run(ask()))
            # The refused one has left nothing behind.
            assert manager.store(ConfigMap) is not None
            await eventually(lambda: manager.store(ConfigMap).synced)
