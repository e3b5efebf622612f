"""What holds on every API server: run on kube-apiserver where `KUBEBUILDER_ASSETS` names one, else on ours."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import kcr
from examples.configmap_copier import copier
from kcr.api.core import ConfigMap, Event, Namespace
from kcr.api.meta import Key, is_controlled_by
from kcr.dependents import claim, create_or_patch, finalized
from kcr.errors import AlreadyExistsError, ConflictError
from kcr.informer import Informer, Selection
from kcr.testing import build, consistently, eventually
from kcr_devcluster.testing.controlplane import ApiServer

pytestmark = [pytest.mark.kcr_integration, pytest.mark.asyncio, pytest.mark.timeout(60)]


def fresh(server: ApiServer, name: str = "a", data: dict[str, str] | None = None, **metadata: object) -> ConfigMap:
    return ConfigMap(
        metadata=kcr.ObjectMeta(name=name, namespace=server.namespace, **metadata),  # type: ignore[arg-type]  # by name
        data=data or {},
    )


async def test_server_says_which_it_is(kcr_apiserver: ApiServer) -> None:
    assert (await kcr_apiserver.client.server_version()).endswith("+kcr") is not kcr_apiserver.is_real


async def test_writes_are_guarded_by_version_and_name(kcr_apiserver: ApiServer) -> None:  # TK-6, TK-10
    client = kcr_apiserver.client
    made = await client.create(fresh(kcr_apiserver))
    with pytest.raises(AlreadyExistsError):
        await client.create(fresh(kcr_apiserver))
    await client.merge_patch(ConfigMap, made.key, {"data": {"x": "1"}})
    with pytest.raises(ConflictError):
        await client.patch(made, fresh(kcr_apiserver, data={"x": "2"}))


async def test_informer_follows_one_namespace(kcr_apiserver: ApiServer) -> None:
    informer = Informer(kcr_apiserver.client, Selection(ConfigMap, kcr_apiserver.namespace))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(informer.run())
        await informer.wait_synced()
        made = await kcr_apiserver.client.create(fresh(kcr_apiserver, "seen"))
        await eventually(lambda: informer.store.get(made.key))
        await kcr_apiserver.client.delete(ConfigMap, made.key)
        await eventually(lambda: informer.store.get(made.key) is None)
        running.cancel()


async def test_objects_are_claimed_by_strategic_patches(kcr_apiserver: ApiServer) -> None:  # EX-26, EX-27
    client = kcr_apiserver.client
    owner, stray = (
        await client.create(fresh(kcr_apiserver, "owner")),
        await client.create(fresh(kcr_apiserver, "stray")),
    )
    (adopted,) = (await claim(client, owner, [stray], lambda _: True, finalizer="kcr.dev/x")).adopted
    assert is_controlled_by(adopted, owner)
    released = await claim(client, owner, [adopted], lambda _: False, finalizer="kcr.dev/x")
    assert released.errors == ()
    left = await client.get(ConfigMap, Key(kcr_apiserver.namespace, "stray"))
    assert (left.metadata.owner_references, left.metadata.finalizers) == ((), ())


async def test_finalizers_are_guarded_by_tests(kcr_apiserver: ApiServer) -> None:  # EX-38
    client = kcr_apiserver.client
    made = await client.create(fresh(kcr_apiserver))

    async def clean_up() -> None:
        return

    assert not await finalized(client, made, "kcr.dev/x", clean_up)
    with pytest.raises(ConflictError):
        await finalized(client, made, "kcr.dev/y", clean_up)
    await client.delete(ConfigMap, made.key)
    assert not await finalized(
        client, await client.get(ConfigMap, Key(kcr_apiserver.namespace, "a")), "kcr.dev/x", clean_up
    )
    assert await client.list(ConfigMap, kcr_apiserver.namespace, fields="metadata.name=a") == ()


async def test_object_is_brought_about_whether_it_is_there_or_not(kcr_apiserver: ApiServer) -> None:  # EX-39
    seed, wanted = fresh(kcr_apiserver), {"x": "1"}
    deeds = []
    for _ in range(2):
        ensured = await create_or_patch(
            kcr_apiserver.client, seed, lambda found: ConfigMap(metadata=found.metadata, data=wanted)
        )
        deeds.append(ensured.result)
    assert deeds == ["created", "unchanged"]


@asynccontextmanager
async def copying(server: ApiServer) -> AsyncIterator[None]:
    manager = kcr.Manager(server.client)
    copier.setup(manager)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        await manager.wait_ready()
        yield
        running.cancel()


async def test_example_controller_copies_and_clears_away(kcr_apiserver: ApiServer) -> None:
    client, target = kcr_apiserver.client, f"{kcr_apiserver.namespace}-copies"
    await client.create(Namespace(metadata=build.metadata(target, namespace="", uid="", resource_version="")))
    asks = {"labels": {copier.COPY: "true"}, "annotations": {copier.TO: f"{target},{target}-absent"}}
    async with copying(kcr_apiserver):
        source = await client.create(fresh(kcr_apiserver, "colors", {"sky": "blue"}, **asks))

        async def copies() -> list[str]:
            found = await client.list(ConfigMap, target, fields="metadata.name=colors")
            return [copy.data["sky"] for copy in found]

        async def told() -> bool:
            events = await client.list(Event, kcr_apiserver.namespace, fields="involvedObject.name=colors")
            return any(event.reason == "NotCopied" for event in events)

        async def is_blue() -> bool:
            return await copies() == ["blue"]

        await eventually(is_blue)
        await consistently(is_blue, seconds=0.5)
        await eventually(told)
        await client.delete(ConfigMap, source.key)

        async def is_clear() -> bool:
            return await copies() == []

        await eventually(is_clear)
