import asyncio

import pytest

from kcr.api.core import Pod
from kcr.api.meta import metadata_only
from kcr.client import Client
from kcr.informer import Informer, Selection
from kcr.testing import FakeSource, VirtualClock
from tests.kit.informer_pods import pod
from tests.kit.owners import Website
from tests.kit.scripted_transport import Say, Script

pytestmark = pytest.mark.kcr_virtual

PodMetadata = metadata_only(Pod)


def test_kind_has_one_metadata_type_however_it_is_named() -> None:
    assert metadata_only(Pod) is metadata_only(Pod.resource) is PodMetadata
    assert PodMetadata.resource == Pod.resource
    assert metadata_only(Website) is not PodMetadata


def test_messages_say_that_it_is_the_metadata() -> None:
    assert str(Selection(PodMetadata, "team", labels="app=web")) == "pods in team (metadata only, app=web)"


async def test_every_request_asks_for_metadata() -> None:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "5"}
    page = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": metadata}]}
    script = Script(Say(status=400, body={"kind": "Status", "code": 400, "reason": "BadRequest"}), Say(page))
    informer = Informer(Client(script), PodMetadata)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        await asyncio.sleep(0)
        task.cancel()
    assert [request.headers["accept"].partition(";g=")[0] for request in script.requests] == [
        "application/json;as=PartialObjectMetadata",
        "application/json;as=PartialObjectMetadataList",
        "application/json;as=PartialObjectMetadata",
    ]


async def test_server_that_sends_whole_objects_is_understood(kcr_clock: VirtualClock) -> None:
    source = FakeSource(Pod, pod("a"))
    informer = Informer(Client(source), PodMetadata)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await informer.wait_synced()
        source.add(pod("b"))
        await kcr_clock.settle()
        assert {obj.metadata.name for obj in informer.store.list()} == {"a", "b"}
        assert {type(obj) for obj in informer.store.list()} == {PodMetadata}
        task.cancel()
