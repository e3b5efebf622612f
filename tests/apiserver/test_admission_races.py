"""Writes whose reviews take time, many at once: none is lost, and each object stored was reviewed as it is.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go, GuaranteedUpdate.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget
from tests.kit.webhooks import CONFIGURATIONS, Webhooks, denied, json_patch

pytestmark = pytest.mark.kcr_virtual
SERVICES = "/api/v1/namespaces/default/services"
MAPS = "/api/v1/namespaces/default/configmaps"
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
MERGE = "application/merge-patch+json"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize("seed", range(5))
async def test_concurrent_patches_are_all_stored_as_reviewed(
    api: Api, webhooks: Webhooks, kcr_clock: VirtualClock, seed: int
) -> None:
    random, reviewed = Random(seed), set[bytes]()

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(random.uniform(0, 0.2))
        if request["operation"] == "UPDATE":
            reviewed.add(msgspec.json.encode(request["object"]["data"], order="sorted"))
        return {}

    async def mutate(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(random.uniform(0, 0.2))
        count = str(len(request["object"]["data"]) - 1)
        return json_patch({"op": "add", "path": "/data/count", "value": count})

    await api.post(MAPS, {"metadata": {"name": "ma"}, "data": {"count": "0"}})
    await webhooks.add("Mutating", "one", mutate, rules=[RULE])
    await webhooks.add("Validating", "two", answer, rules=[RULE])
    stored: list[bytes] = []

    async def patch(number: int) -> None:
        reply = await api.call("PATCH", f"{MAPS}/ma", {"data": {f"of-{number}": "x"}}, content_type=MERGE)
        assert reply.status == 200, reply.body
        stored.append(msgspec.json.encode(reply.body["data"], order="sorted"))

    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(patch(number))
        await kcr_clock.advance(30)
    data = (await api.get(f"{MAPS}/ma"))["data"]
    assert data == {"count": "12", **{f"of-{number}": "x" for number in range(12)}}
    # What is stored is what the validating webhook has seen, each time.
    assert len(set(stored)) == 12
    assert set(stored) <= reviewed


async def test_concurrent_creations_of_one_name_store_one(
    api: Api, webhooks: Webhooks, kcr_clock: VirtualClock
) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.1)
        return {}

    await webhooks.add("Validating", "one", answer, rules=[RULE])
    codes: list[int] = []

    async def create(number: int) -> None:
        body = {"metadata": {"name": "ma"}, "data": {"by": str(number)}}
        codes.append((await api.call("POST", MAPS, body)).status)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(create(number))
        await kcr_clock.advance(5)
    assert sorted(codes) == [201, 409, 409, 409, 409]


async def test_concurrent_creations_draw_names_and_uids_of_their_own(
    api: Api, webhooks: Webhooks, kcr_clock: VirtualClock
) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.1)
        return {}

    await webhooks.add("Mutating", "one", answer, rules=[RULE])
    made: list[dict[str, Any]] = []

    async def create() -> None:
        made.append(await api.post(MAPS, {"metadata": {"generateName": "m-"}}))

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(create())
        await kcr_clock.advance(5)
    assert len({one["metadata"]["name"] for one in made}) == len({one["metadata"]["uid"] for one in made}) == 20


async def test_cancelled_request_stores_nothing(api: Api, webhooks: Webhooks, kcr_clock: VirtualClock) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(5)
        return {}

    await webhooks.add("Validating", "one", answer, rules=[RULE])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(api.call("POST", MAPS, {"metadata": {"name": "ma"}}))
        await kcr_clock.advance(1)
        task.cancel()
        await kcr_clock.advance(10)
    assert (await api.call("GET", f"{MAPS}/ma")).status == 404


async def test_namespace_deleted_during_the_review_takes_no_object(api: Api, webhooks: Webhooks) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["operation"] == "CREATE":
            await api.delete("/api/v1/namespaces/team")
        return {}

    await webhooks.add("Validating", "one", answer, rules=[RULE])
    reply = await api.call("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "ma"}})
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert "being terminated" in reply.body["message"]


async def test_webhook_may_write_what_it_reviews_next(api: Api, webhooks: Webhooks) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["name"] == "ma":
            # A request inside a review, by the same webhook.
            await api.post(MAPS, {"metadata": {"name": "mb"}})
        return {}

    await webhooks.add("Mutating", "one", answer, rules=[RULE])
    first = await api.post(MAPS, {"metadata": {"name": "ma"}})
    second = await api.get(f"{MAPS}/mb")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_custom_resource_is_reviewed_in_the_version_of_the_rule(api: Api, webhooks: Webhooks) -> None:
    await api.post(DEFINITIONS, definition(version("v1", OPEN), version("v2", OPEN, storage=False)))
    rule = {**RULE, "apiGroups": ["ex.io"], "apiVersions": ["v2"]}
    size = json_patch({"op": "add", "path": "/size", "value": 3})
    await webhooks.add("Mutating", "one", lambda request: size, rules=[rule])
    made = await api.post(WIDGETS, widget("wa"))
    (request,) = webhooks.requests["one"]
    assert (request["object"]["apiVersion"], request["kind"]["version"]) == ("ex.io/v2", "v2")
    assert (request["requestKind"]["version"], request["requestResource"]["version"]) == ("v1", "v1")
    assert (made["apiVersion"], made["size"]) == ("ex.io/v1", 3)


async def test_webhooks_of_a_data_folder_review_after_a_restart(tmp_path: Path) -> None:
    for attempt in range(2):
        made = EmbeddedCluster(random=Random(attempt), runtime=None, gc=False, data_dir=tmp_path)
        async with made as cluster:
            api = Api(cluster.server)
            webhooks = Webhooks(api)
            if attempt == 0:
                await webhooks.add("Validating", "one", rules=[RULE])
            else:
                webhooks.webhook("one", lambda request: denied("no"))
                assert (await api.call("POST", MAPS, {"metadata": {"name": "ma"}})).status == 400


async def test_concurrent_services_are_reviewed_once_each(
    api: Api, webhooks: Webhooks, kcr_clock: VirtualClock
) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1)
        return denied("no", code=403) if request["name"] == "denied" else {}

    await webhooks.add("Validating", "slow", answer, rules=[{**RULE, "resources": ["services"]}])
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}

    async def create(name: str, **spec: Any) -> Any:
        return await api.call("POST", SERVICES, {"metadata": {"name": name}, "spec": {**local, **spec}})

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(create(f"s{number}" if number else "denied")) for number in range(120)]
        await kcr_clock.advance(5)
    assert [task.result().status for task in tasks] == [403] + [201] * 119
    assert len(webhooks.requests["slow"]) == 120
    # What is stored is what was reviewed, and no number has two owners.
    specs = [task.result().body["spec"] for task in tasks[1:]]
    reviewed = {request["name"]: request["object"]["spec"] for request in webhooks.requests["slow"]}
    assert specs == [reviewed[task.result().body["metadata"]["name"]] for task in tasks[1:]]
    assert len({spec["clusterIP"] for spec in specs}) == 119
    drawn = [port["nodePort"] for spec in specs for port in spec["ports"]]
    assert len({*drawn, *(spec["healthCheckNodePort"] for spec in specs)}) == 3 * 119
    # The numbers of the refused request are free again.
    free = reviewed["denied"]
    await api.call("DELETE", f"{CONFIGURATIONS['Validating']}/slow")
    made = await create("named", clusterIP=free["clusterIP"])
    assert (made.status, made.body["spec"]["ports"]) == (201, free["ports"])


async def test_number_of_a_service_under_review_is_taken(api: Api, webhooks: Webhooks, kcr_clock: VirtualClock) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1)
        return {}

    await webhooks.add("Validating", "slow", answer, rules=[{**RULE, "resources": ["services"]}])
    async with asyncio.TaskGroup() as group:
        first = group.create_task(api.call("POST", SERVICES, service("first", clusterIP="10.96.1.1")))
        await asyncio.sleep(0)
        # It draws another than the one named, and the one that names it as well is refused.
        second = group.create_task(api.call("POST", SERVICES, service("second")))
        third = group.create_task(api.call("POST", SERVICES, service("third", clusterIP="10.96.1.1")))
        await kcr_clock.advance(5)
    assert first.result().body["spec"]["clusterIP"] == "10.96.1.1"
    assert second.result().body["spec"]["clusterIP"] == "10.96.1.2"
    assert third.result().status == 422
    assert "provided IP is already allocated" in third.result().body["message"]
    assert [request["name"] for request in webhooks.requests["slow"]] == ["first", "second"]


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
