"""Old versions of the batch kinds, where they are asked for (batch-api §§1.1, 11; api-server §5)."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api, job

pytestmark = pytest.mark.kcr_virtual

OLD, NEW = "/apis/extensions/v1beta1/namespaces/default/jobs", "/apis/batch/v1/namespaces/default/jobs"
WARNING = '299 - "extensions/v1beta1 Job is served for old manifests only; use batch/v1 Job"'


@pytest_asyncio.fixture
async def legacy(kcr_clock: VirtualClock) -> AsyncIterator[Api]:
    """Give the API of a cluster that serves old versions."""
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None, legacy_apis=True) as cluster:
        yield Api(cluster.server)


def old_job(name: str = "pi", **spec: Any) -> dict[str, Any]:
    """Return a Job of extensions/v1beta1 whose template is labelled."""
    made = job(name)
    made["spec"]["template"]["metadata"] = {"labels": {"app": name}}
    return {**made, "apiVersion": "extensions/v1beta1", "kind": "Job", "spec": {**made["spec"], **spec}}


async def test_old_versions_are_served_only_when_asked_for(api: Api) -> None:
    assert (await api.call("GET", OLD)).status == 404
    assert (await api.call("GET", "/apis/extensions")).status == 404
    assert (await api.call("GET", "/apis/batch/v1beta1")).status == 404
    groups = {one["name"]: one["versions"] for one in (await api.get("/apis"))["groups"]}
    assert "extensions" not in groups
    assert [one["version"] for one in groups["batch"]] == ["v1"]


def old_cron_job() -> dict[str, Any]:
    """Return a CronJob of batch/v1beta1."""
    spec = {"schedule": "*/1 * * * *", "jobTemplate": {"spec": job("")["spec"]}}
    return {"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "hello"}, "spec": spec}


async def test_old_cron_job_differs_in_version_alone(legacy: Api) -> None:
    room = "/apis/batch/{}/namespaces/default/cronjobs"
    old, new = room.format("v1beta1"), room.format("v1")
    watch = await legacy.watch(f"{old}?")
    reply = await legacy.call("POST", old, old_cron_job())
    assert (reply.status, reply.headers["Warning"]) == (
        201,
        '299 - "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob"',
    )
    stored = await legacy.get(f"{new}/hello")
    assert reply.body == {**stored, "apiVersion": "batch/v1beta1"} == (await watch.next())["object"]
    patched = await legacy.patch(f"{old}/hello", {"spec": {"suspend": True}})
    assert (patched["apiVersion"], patched["metadata"]["generation"]) == ("batch/v1beta1", 2)
    assert (await legacy.get(f"{new}/hello"))["spec"]["suspend"] is True
    await watch.close()


async def test_old_job_is_kept_as_a_new_one(legacy: Api) -> None:
    reply = await legacy.call("POST", OLD, old_job())
    assert (reply.status, reply.headers["Warning"]) == (201, WARNING)
    shown = reply.body
    assert (shown["apiVersion"], shown["spec"].keys() & {"autoSelector", "manualSelector"}) == (
        "extensions/v1beta1",
        set(),
    )
    stored = await legacy.get(f"{NEW}/pi")
    assert (stored["apiVersion"], stored["spec"]["manualSelector"]) == ("batch/v1", True)
    assert stored["spec"]["selector"] == {"matchLabels": {"app": "pi"}}
    assert stored["metadata"] == shown["metadata"]
    assert stored["metadata"]["labels"] == {"app": "pi"}


async def test_automatic_job_shows_its_flag_in_both_versions(legacy: Api) -> None:
    await legacy.post(OLD, old_job(autoSelector=True))
    shown, stored = await legacy.get(f"{OLD}/pi"), await legacy.get(f"{NEW}/pi")
    assert (shown["spec"]["autoSelector"], stored["spec"]["manualSelector"]) == (True, False)
    assert shown["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": stored["metadata"]["uid"]}
    }


async def test_list_and_watch_show_what_either_version_made(legacy: Api) -> None:
    watch = await legacy.watch(f"{OLD}?")
    current = await legacy.watch(f"{NEW}?")
    await legacy.post(NEW, job("new"))
    await legacy.post(OLD, old_job("old"))
    listed = await legacy.get(OLD)
    assert (listed["kind"], listed["apiVersion"]) == ("JobList", "extensions/v1beta1")
    assert [one["spec"].get("autoSelector") for one in listed["items"]] == [True, None]
    for stream, version in ((watch, "extensions/v1beta1"), (current, "batch/v1")):
        events = [await stream.next(), await stream.next()]
        assert [one["object"]["metadata"]["name"] for one in events] == ["new", "old"]
        assert {one["object"]["apiVersion"] for one in events} == {version}
    await legacy.delete(f"{OLD}/new?propagationPolicy=Background")
    assert (await watch.next())["type"] == (await current.next())["type"] == "DELETED"
    await watch.close()
    await current.close()


async def test_selectors_and_pages_work_on_old_versions(legacy: Api) -> None:
    await legacy.post(OLD, old_job("a"))
    await legacy.post(OLD, old_job("b"))
    first = await legacy.get(f"{OLD}?limit=1")
    rest = await legacy.get(f"{OLD}?limit=1&continue={first['metadata']['continue']}")
    assert [one["metadata"]["name"] for one in (*first["items"], *rest["items"])] == ["a", "b"]
    (found,) = (await legacy.get(f"{OLD}?labelSelector=app=b&fieldSelector=status.successful=0"))["items"]
    assert found["metadata"]["name"] == "b"


async def test_table_of_old_version_has_the_same_columns(legacy: Api) -> None:
    await legacy.post(OLD, old_job())
    one = await legacy.get(f"{OLD}?includeObject=Object", accept=TABLE)
    other = await legacy.get(NEW, accept=TABLE)
    assert one["columnDefinitions"] == other["columnDefinitions"]
    assert one["rows"][0]["cells"] == other["rows"][0]["cells"]
    assert one["rows"][0]["object"]["apiVersion"] == "extensions/v1beta1"


async def test_put_of_old_version_changes_the_stored_job(legacy: Api) -> None:
    made = await legacy.post(OLD, old_job())
    made["spec"]["parallelism"] = 3
    await legacy.put(f"{OLD}/pi", made)
    stored = await legacy.get(f"{NEW}/pi")
    assert (stored["spec"]["parallelism"], stored["metadata"]["generation"]) == (3, 2)
    made["metadata"].pop("resourceVersion")
    made["status"] = {"active": 1}
    assert (await legacy.put(f"{OLD}/pi/status", made))["status"] == {"active": 1}


@pytest.mark.parametrize("form", ["merge-patch", "strategic-merge-patch"])
async def test_patch_sees_the_old_version(legacy: Api, form: str) -> None:
    await legacy.post(OLD, old_job(autoSelector=True))
    change = {"spec": {"parallelism": 2}, "metadata": {"annotations": {"a": "b"}}}
    patched = await legacy.patch(f"{OLD}/pi", change, form)
    assert (patched["apiVersion"], patched["spec"]["autoSelector"]) == ("extensions/v1beta1", True)
    assert (await legacy.get(f"{NEW}/pi"))["spec"]["parallelism"] == 2
    tested = [{"op": "test", "path": "/spec/autoSelector", "value": True}]
    assert (await legacy.patch(f"{OLD}/pi", tested, "json-patch"))["spec"]["parallelism"] == 2
    reply = await legacy.call("PATCH", f"{NEW}/pi", tested, content_type="application/json-patch+json")
    assert reply.status == 422


async def test_refusals_warn_about_the_version_too(legacy: Api) -> None:
    absent = await legacy.call("GET", f"{OLD}/nope")
    assert (absent.status, absent.headers["Warning"]) == (404, WARNING)
    broken = await legacy.call("POST", OLD, old_job(parallelism=-1))
    assert (broken.status, broken.headers["Warning"]) == (422, WARNING)
    assert "Warning" not in (await legacy.call("GET", NEW)).headers
    assert "Warning" not in (await legacy.call("GET", "/apis/extensions/v1beta1")).headers


async def test_watch_warns_when_it_is_opened(legacy: Api) -> None:
    answer = await legacy.server.handle(HTTPRequest("GET", f"{OLD}?watch=true&timeoutSeconds=1"))
    assert (answer.status, answer.headers["Warning"]) == (200, WARNING)
    assert not isinstance(answer.body, bytes)
    await answer.body.aclose()


async def test_version_warns_before_everything_else(legacy: Api) -> None:
    await legacy.post(OLD, old_job())
    reply = await legacy.call("DELETE", f"{OLD}/pi")
    assert reply.headers["Warning"].startswith(f'{WARNING}, 299 - "child pods are preserved by default')


async def test_new_flag_is_unknown_to_the_old_version(legacy: Api) -> None:
    reply = await legacy.call("POST", OLD, old_job(manualSelector=True))
    assert reply.headers["Warning"] == f'{WARNING}, 299 - "unknown field \\"spec.manualSelector\\""'
    strict = await legacy.call("POST", f"{OLD}?fieldValidation=Strict", old_job("pj", manualSelector=True))
    assert (strict.status, strict.body["message"]) == (
        400,
        'Job in version "v1beta1" cannot be handled as a Job: strict decoding error: '
        'unknown field "spec.manualSelector"',
    )
    assert (await legacy.call("POST", f"{OLD}?fieldValidation=Strict", old_job("pk", autoSelector=True))).status == 201
    patch = {"spec": {"autoSelector": "yes"}}
    refused = await legacy.call("PATCH", f"{OLD}/pi", patch, content_type="application/merge-patch+json")
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")


async def test_body_must_be_of_the_version_of_the_path(legacy: Api) -> None:
    assert (await legacy.call("POST", NEW, old_job())).status == 400
    assert (await legacy.call("POST", OLD, {**job("pi"), "apiVersion": "batch/v1"})).status == 400


async def test_collection_is_deleted_and_shown_in_its_version(legacy: Api) -> None:
    await legacy.post(OLD, old_job())
    gone = await legacy.delete(f"{OLD}?propagationPolicy=Background")
    assert (gone["apiVersion"], gone["items"][0]["metadata"]["name"]) == ("extensions/v1beta1", "pi")
    assert (await legacy.get(NEW))["items"] == []


async def test_discovery_names_old_versions_last(legacy: Api) -> None:
    groups = (await legacy.get("/apis"))["groups"]
    assert [one["name"] for one in groups][-1] == "extensions"
    (jobs, _) = (await legacy.get("/apis/extensions/v1beta1"))["resources"]
    assert (jobs["name"], jobs.keys() & {"shortNames", "categories"}) == ("jobs", set())
    (batch,) = (one for one in groups if one["name"] == "batch")
    assert batch["preferredVersion"]["version"] == "v1"
    assert [one["version"] for one in batch["versions"]] == ["v1", "v1beta1"]
    (cron_jobs, status) = (await legacy.get("/apis/batch/v1beta1"))["resources"]
    assert (cron_jobs["name"], status["name"]) == ("cronjobs", "cronjobs/status")
    assert cron_jobs.keys() & {"shortNames", "categories"} == set()
    documents = (await legacy.get("/openapi/v3"))["paths"]
    document = await legacy.get(documents["apis/extensions/v1beta1"]["serverRelativeURL"])
    (path,) = (path for path in document["paths"].values() if "patch" in path)
    assert path["patch"]["x-kubernetes-group-version-kind"]["group"] == "extensions"
