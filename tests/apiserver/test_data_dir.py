"""A cluster with a data folder, ended and started again."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.errors import ConfigError
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock
from kcr_devcluster.versions import DEFAULT
from tests.kit import conversion_webhooks
from tests.kit.api import Api, config_map, job, pod
from tests.kit.conversion_webhooks import V1, V2
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
INTEGER = {"type": "integer"}


class Started(NamedTuple):
    """A cluster and its API."""

    cluster: EmbeddedCluster
    api: Api


Start = Callable[..., AbstractAsyncContextManager[Started]]


@pytest.fixture
def start(kcr_clock: VirtualClock, tmp_path: Path) -> Start:
    """Start a cluster on the test's folder, each time with another seed."""
    seeds = iter(range(100))

    @asynccontextmanager
    async def started(**options: Any) -> AsyncIterator[Started]:
        given = {"runtime": None, **options}
        random = Random(next(seeds))
        async with EmbeddedCluster(clock=kcr_clock, random=random, data_dir=tmp_path / "data", **given) as cluster:
            yield Started(cluster, Api(cluster.server))

    return started


async def everything(api: Api) -> dict[str, list[Any]]:
    """Return the objects of the kinds that the tests create."""
    paths = [MAPS, PODS, QUOTAS, WIDGETS, DEFINITIONS, "/api/v1/namespaces", "/apis/batch/v1/namespaces/default/jobs"]
    replies = {path: await api.call("GET", path) for path in paths}
    return {path: reply.body["items"] for path, reply in replies.items() if reply.status == 200}


async def test_lists_are_equal_and_versions_go_on(start: Start) -> None:
    async with start() as (_, api):
        await api.post(MAPS, config_map("a", tier="web"))
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"x": "1"}}
        assert (await api.apply(f"{MAPS}/applied", applied, "me")).status == 201
        await api.post(PODS, pod("p", finalizers=["example.dev/keeps"]))
        await api.delete(f"{PODS}/p")
        await api.post("/apis/batch/v1/namespaces/default/jobs", job("j"))
        await api.post(DEFINITIONS, definition(version("v1", spec_schema({"size": INTEGER}))))
        await api.post(WIDGETS, widget("w", {"size": 1}))
        before = await everything(api)
        newest = int((await api.get(MAPS))["metadata"]["resourceVersion"])
    async with start() as (_, api):
        assert await everything(api) == before
        assert int((await api.get(MAPS))["metadata"]["resourceVersion"]) == newest
        created = await api.post(MAPS, config_map("b"))
        assert int(created["metadata"]["resourceVersion"]) == newest + 1
        # A conflict of managers is one still.
        taken = {**applied, "data": {"x": "2"}}
        assert (await api.apply(f"{MAPS}/applied", taken, "other")).status == 409


async def test_watch_resumes_from_a_version_before_the_restart(start: Start) -> None:
    async with start() as (_, api):
        seen = (await api.post(MAPS, config_map("a")))["metadata"]["resourceVersion"]
        await api.post(MAPS, config_map("b"))
        await api.delete(f"{MAPS}/a")
    async with start() as (_, api):
        await api.post(MAPS, config_map("c"))
        watch = await api.watch(f"{MAPS}?resourceVersion={seen}&")
        assert await watch.take(3) == [("ADDED", "b"), ("DELETED", "a"), ("ADDED", "c")]
        await watch.close()


async def test_objects_keep_the_version_in_which_they_are_stored(start: Start) -> None:
    async with start() as (_, api):
        await conversion_webhooks.install(api)
        await api.post(V1, conversion_webhooks.v1("old"))
        await conversion_webhooks.redefine(api, "v2")
        await api.post(V1, conversion_webhooks.v1("new"))
    async with start() as (_, api):
        converter = conversion_webhooks.serve(api)
        shown = {one["metadata"]["name"]: one["spec"] for one in (await api.get(V2))["items"]}
        assert shown == {"old": {"address": "a:1"}, "new": {"address": "a:1"}}
        assert [one["metadata"]["name"] for review in converter.reviews for one in review["objects"]] == ["old"]


async def test_object_of_a_version_that_left_too_early_stays_unreadable(start: Start) -> None:
    path = f"{DEFINITIONS}/widgets.ex.io"
    async with start() as (_, api):
        await conversion_webhooks.install(api)
        await api.post(V1, conversion_webhooks.v1("old"))
        await conversion_webhooks.redefine(api, "v2")
        await api.patch(f"{path}/status", {"status": {"storedVersions": ["v2"]}})
        old, new = (await api.get(path))["spec"]["versions"]
        await api.patch(path, {"spec": {"versions": [new]}})
    async with start() as (_, api):
        conversion_webhooks.serve(api)
        message = (await api.call("GET", f"{V2}/old")).body["message"]
        assert message == "request to convert CR from an invalid group/version: ex.io/v1"
        await api.patch(path, {"spec": {"versions": [old, new]}})
        assert (await api.get(f"{V2}/old"))["spec"] == {"address": "a:1"}


async def test_custom_resources_are_served_again_and_their_watches_resume(start: Start) -> None:
    async with start() as (_, api):
        await api.post(DEFINITIONS, definition(version("v1", spec_schema({"size": INTEGER}))))
        seen = (await api.post(WIDGETS, widget("w", {"size": 1})))["metadata"]["resourceVersion"]
        await api.patch(f"{WIDGETS}/w", {"spec": {"size": 2}})
    async with start() as (cluster, api):
        answer = await cluster.server.handle(HTTPRequest("GET", f"{WIDGETS}/w", {}))
        assert isinstance(answer.body, bytes)
        assert [answer.body.count(b'"%s"' % name) for name in (b"kind", b"apiVersion", b"metadata")] == [1, 1, 1]
        assert (await api.call("POST", WIDGETS, widget("x", {"size": "big"}))).status == 422
        watch = await api.watch(f"{WIDGETS}?resourceVersion={seen}&")
        event = await watch.next()
        assert (event["type"], event["object"]["spec"]) == ("MODIFIED", {"size": 2})
        await watch.close()
        await api.delete(f"{DEFINITIONS}/widgets.ex.io")
        assert (await api.call("GET", WIDGETS)).status == 404
    async with start() as (_, api):
        assert (await api.call("GET", WIDGETS)).status == 404


async def test_objects_of_a_definition_that_was_forced_away_do_not_return(start: Start) -> None:
    made = definition(version("v1", spec_schema({"size": INTEGER})))
    path, held = f"{DEFINITIONS}/{made['metadata']['name']}", {"name": "held", "finalizers": ["ex.io/hold"]}
    async with start() as before:
        await before.api.post(DEFINITIONS, made)
        await before.api.post(WIDGETS, widget("held", metadata=held))
        await before.api.delete(path)
        await before.api.patch(path, {"metadata": {"finalizers": None}})
        assert (await before.api.call("GET", path)).status == 404
    async with start() as after:
        await after.api.post(DEFINITIONS, made)
        assert (await after.api.get(WIDGETS))["items"] == []


async def test_kinds_of_the_caller_are_brought_up_to_date(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "widgets.json"
    for fields in ({"size": INTEGER}, {"size": INTEGER, "colour": {"type": "string", "default": "red"}}):
        file.write_bytes(msgspec.json.encode(definition(version("v1", spec_schema(fields)))))
        async with start(kinds=[file]) as (_, api):
            if "colour" not in fields:
                await api.post(WIDGETS, widget("w", {"size": 1}))
    async with start(kinds=[file]) as (_, api):
        assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"size": 1, "colour": "red"}


async def test_kind_that_is_not_served_for_a_while_keeps_its_objects(start: Start) -> None:
    served = "v1alpha2" if DEFAULT == "1.36" else "v1alpha3"
    path = f"/apis/scheduling.k8s.io/{served}/namespaces/default/podgroups"
    group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    async with start(gangs=True) as (_, api):
        await api.post(path, group)
    async with start() as (_, api):
        assert (await api.call("GET", path)).status == 404
        await api.post(MAPS, config_map("a"))
    async with start(gangs=True) as (_, api):
        assert [one["metadata"]["name"] for one in (await api.get(path))["items"]] == ["g"]


async def test_quota_counts_what_was_there_before(start: Start) -> None:
    async with start() as (_, api):
        await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "2"}}})
        await api.post(QUOTAS, {"metadata": {"name": "r"}, "spec": {"hard": {"count/widgets.ex.io": "1"}}})
        await api.post(MAPS, config_map("a"))
        await api.post(DEFINITIONS, definition(version("v1", spec_schema({"size": INTEGER}))))
        await api.post(WIDGETS, widget("w"))
    async with start() as (_, api):
        await api.post(MAPS, config_map("b"))
        assert (await api.call("POST", MAPS, config_map("c"))).status == 403
        assert (await api.call("POST", WIDGETS, widget("x"))).status == 403


async def test_garbage_is_collected_whose_owner_was_deleted_before_the_restart(
    start: Start, kcr_clock: VirtualClock
) -> None:
    async with start(gc=False) as (_, api):
        owner = await api.post(MAPS, config_map("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        dependent = config_map("dependent")
        dependent["metadata"]["ownerReferences"] = [reference]
        await api.post(MAPS, dependent)
        await api.delete(f"{MAPS}/owner")
    async with start() as (_, api):
        await kcr_clock.advance(60)
        assert (await api.get(MAPS))["items"] == []


async def test_pod_that_ran_is_lost_and_restarted_by_its_policy(start: Start, kcr_clock: VirtualClock) -> None:
    async with start(runtime="simulated") as (_, api):
        for name, policy in (("never", "Never"), ("always", "Always")):
            running = pod(name, annotations={"sim.kcr.dev/run-for": "100000"})
            running["spec"]["restartPolicy"] = policy
            await api.post(PODS, running)
        await kcr_clock.advance(30)
        phases = [one["status"]["phase"] for one in (await api.get(PODS))["items"]]
        assert phases == ["Running", "Running"]
    async with start(runtime="simulated") as (cluster, _):
        await kcr_clock.advance(60)
        lost = await cluster.client.get(Pod, Key("default", "never"))
        restarted = await cluster.client.get(Pod, Key("default", "always"))
    assert lost.status.phase == "Failed"
    assert restarted.status.phase == "Running"
    assert restarted.status.container_statuses[0].restart_count == 1


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"nodes": 0, "runtime": "simulated"}, id="nodes"),
        pytest.param({"kinds": ("no kind",)}, id="kinds"),
        pytest.param({"webhook_services": 5}, id="services"),
    ],
)
async def test_folder_is_free_again_after_a_start_that_failed(start: Start, options: dict[str, Any]) -> None:
    # The connection to the journal that it would leave open is a warning of Python 3.13, and the lock an error here.
    with pytest.raises(Exception):  # noqa: B017  # each option has its own
        async with start(**options):
            pass
    async with start() as (_, api):
        assert (await api.call("GET", MAPS)).status == 200


async def test_folder_in_use_is_refused(start: Start) -> None:
    async with start():
        with pytest.raises(ConfigError, match=r"data is in use by another kcr dev: end it, or name another folder$"):
            async with start():
                pass
    async with start() as (cluster, _):
        assert cluster.storage.revision > 1


async def test_roles_are_kept_as_they_were_changed(start: Start) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    async with start(authorization="rbac") as (_, api):
        await api.patch(f"{roles}/system:discovery", {"rules": []})
        await api.delete(f"{roles}/system:monitoring")
        names = [one["metadata"]["name"] for one in (await api.get(roles))["items"]]
    async with start(authorization="rbac") as (_, api):
        assert (await api.call("GET", "/api")).status == 200
        assert (await api.as_user("alice").call("GET", "/api")).status == 403
        # What is missing is created, what is there stays.
        found = {one["metadata"]["name"]: one for one in (await api.get(roles))["items"]}
        assert found.keys() == {*names, "system:monitoring"}
        assert not found["system:discovery"].get("rules")
    async with start() as (_, api):
        assert (await api.as_user("alice").call("GET", "/api")).status == 200


async def test_folder_is_free_again_when_no_cluster_can_be_made(tmp_path: Path) -> None:
    folder, broken = tmp_path / "free", tmp_path / "broken.yaml"
    broken.write_text("kind: CustomResourceDefinition\nmetadata: {name: none}\n")
    with pytest.raises(ConfigError, match="none"):
        EmbeddedCluster(data_dir=folder, kinds=[broken])
    async with EmbeddedCluster(data_dir=folder, runtime=None) as cluster:
        assert (await Api(cluster.server).get(MAPS))["items"] == []
