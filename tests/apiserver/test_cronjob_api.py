"""CronJobs on the wire: status, tables, selectors, deletion (BA 4, 10, 13, 14).

Source: kubernetes/pkg/registry/batch/cronjob/strategy.go, storage/storage.go; pkg/printers/internalversion/printers.go.
"""

from typing import Any

import pytest

from tests.kit.api import TABLE, Api, exists, job, owner
from tests.kit.manifests import cronjob

pytestmark = pytest.mark.kcr_virtual
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
HELLO = f"{CRON_JOBS}/hello"


def sent(**spec: Any) -> dict[str, Any]:
    manifest = cronjob(**spec)
    manifest["metadata"] = {"name": "hello"}
    return manifest


async def test_cron_job_is_made_listed_and_watched(api: Api) -> None:
    events = await api.watch(f"{CRON_JOBS}?")
    made = await api.post(CRON_JOBS, sent())
    assert (made["kind"], made["apiVersion"], made["metadata"]["generation"]) == ("CronJob", "batch/v1", 1)
    everywhere = await api.get("/apis/batch/v1/cronjobs")
    assert (everywhere["kind"], [one["metadata"]["name"] for one in everywhere["items"]]) == ("CronJobList", ["hello"])
    assert await events.take(1) == [("ADDED", "hello")]
    await events.close()


async def test_refusal_names_kind_and_every_fault(api: Api) -> None:
    # BA 15.100
    reply = await api.call("POST", CRON_JOBS, sent(schedule="bad", timeZone="Nope/Zone", concurrencyPolicy="X"))
    assert (reply.status, reply.body["reason"]) == (422, "Invalid")
    assert reply.body["message"] == (
        'CronJob.batch "hello" is invalid: [spec.schedule: Invalid value: "bad": expected exactly 5 fields, found 1: '
        '[bad], spec.timeZone: Invalid value: "Nope/Zone": unknown time zone Nope/Zone, spec.concurrencyPolicy: '
        'Unsupported value: "X": supported values: "Allow", "Forbid", "Replace"]'
    )
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == [
        "spec.schedule", "spec.timeZone", "spec.concurrencyPolicy",
    ]  # fmt: skip


async def test_unknown_member_is_told_down_to_the_template(api: Api) -> None:
    manifest = sent()
    manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["imge"] = "x"
    path = "spec.jobTemplate.spec.template.spec.containers[0].imge"
    reply = await api.call("POST", f"{CRON_JOBS}?fieldValidation=Strict", manifest)
    assert (reply.status, reply.body["message"]) == (
        400,
        'CronJob in version "v1" cannot be handled as a CronJob: '
        f'strict decoding error: unknown field "{path}"',
    )  # fmt: skip


async def test_odd_name_is_warned_about_by_header(api: Api) -> None:
    # BA 6
    reply = await api.call("POST", CRON_JOBS, {**sent(), "metadata": {"name": "hello.v2"}})
    assert reply.status == 201
    assert reply.headers["Warning"].startswith('299 - "metadata.name: this is used in Pod names and hostnames')


async def test_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    # BA 4, 10
    await api.post(CRON_JOBS, sent())
    labelled = await api.patch(HELLO, {"metadata": {"labels": {"a": "b"}}})
    suspended = await api.patch(HELLO, {"spec": {"suspend": True}}, "strategic-merge-patch")
    assert (labelled["metadata"]["generation"], suspended["metadata"]["generation"]) == (1, 2)
    assert suspended["spec"]["suspend"] is True
    told = await api.patch(f"{HELLO}/status", {"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}})
    assert told["metadata"]["generation"] == 2


async def test_containers_of_the_template_merge_by_name(api: Api) -> None:
    await api.post(CRON_JOBS, sent())
    change = {"containers": [{"name": "c", "image": "other"}], "restartPolicy": "OnFailure"}
    patch = {"spec": {"jobTemplate": {"spec": {"template": {"spec": change}}}}}
    changed = await api.patch(HELLO, patch, "strategic-merge-patch")
    pod = changed["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert (len(pod["containers"]), pod["containers"][0]["image"], pod["restartPolicy"]) == (1, "other", "OnFailure")


async def test_status_and_spec_are_written_apart(api: Api) -> None:
    # BA 4, 10: the status is taken without validation
    made = await api.post(CRON_JOBS, sent())
    status = {
        "active": [{"apiVersion": "batch/v1", "kind": "Job", "name": "hello-1", "namespace": "default", "uid": "u"}],
        "lastScheduleTime": "2026-01-01T00:00:00Z",
        "lastSuccessfulTime": "1999-01-01T00:00:00Z",
    }
    told = await api.put(f"{HELLO}/status", {**made, "status": status, "spec": {**made["spec"], "suspend": True}})
    assert (told["status"], told["spec"]) == (status, made["spec"])
    changed = await api.put(HELLO, {**told, "status": {}, "spec": {**made["spec"], "schedule": "@daily"}})
    assert (changed["status"], changed["spec"]["schedule"]) == (status, "@daily")
    assert await api.get(f"{HELLO}/status") == changed


async def test_status_write_keeps_metadata_sent_along(api: Api) -> None:
    # BA 4
    made = await api.post(CRON_JOBS, sent())
    made["metadata"]["annotations"] = {"a": "b"}
    assert (await api.put(f"{HELLO}/status", made))["metadata"]["annotations"] == {"a": "b"}


async def test_active_list_is_replaced_as_a_whole(api: Api) -> None:
    # AS 10: atomic
    await api.post(CRON_JOBS, sent())
    for name in ("a", "b"):
        patch = {"status": {"active": [{"name": name}]}}
        told = await api.patch(f"{HELLO}/status", patch, "strategic-merge-patch")
    assert told["status"]["active"] == [{"name": "b"}]


async def test_table_shows_schedule_and_last_run(api: Api, kcr_clock: Any) -> None:
    # BA 14, AS 7.2, 7.3
    await api.post(CRON_JOBS, sent())
    await kcr_clock.advance(150)
    table = await api.get(CRON_JOBS, accept=TABLE)
    assert ",".join(one["name"] + "*" * one["priority"] for one in table["columnDefinitions"]) == (
        "Name,Schedule,Timezone,Suspend,Active,Last Schedule,Age,Containers*,Images*,Selector*"
    )
    assert [one["type"] for one in table["columnDefinitions"]][2:6] == ["string", "boolean", "integer", "string"]
    assert table["rows"][0]["cells"] == [
        "hello", "* * * * *", "<none>", "False", 0, "<none>", "2m30s", "c", "busybox", "<none>",
    ]  # fmt: skip
    await api.patch(HELLO, {"spec": {"suspend": True, "timeZone": "Asia/Tokyo"}})
    status = {"active": [{"name": "a"}, {"name": "b"}], "lastScheduleTime": "2026-01-01T00:02:00Z"}
    await api.patch(f"{HELLO}/status", {"status": status})
    cells = (await api.get(HELLO, accept=TABLE))["rows"][0]["cells"]
    assert cells[2:7] == ["Asia/Tokyo", "True", 2, "30s", "2m30s"]


async def test_field_selectors_know_name_and_namespace(api: Api) -> None:
    # BA 14
    await api.post(CRON_JOBS, sent())
    for selector, count in (("metadata.name%3Dhello", 1), ("metadata.namespace!%3Ddefault", 0)):
        assert len((await api.get(f"{CRON_JOBS}?fieldSelector={selector}"))["items"]) == count
    reply = await api.call("GET", f"{CRON_JOBS}?fieldSelector=spec.suspend%3Dtrue")
    assert (reply.status, reply.body["message"]) == (
        400,
        '"spec.suspend" is not a known field selector: only "metadata.name", "metadata.namespace"',
    )


async def with_job(api: Api, **more: Any) -> None:
    made = await api.post(CRON_JOBS, sent())
    await api.post(JOBS, job("hello-1", ownerReferences=[owner(made, controller=True)], **more))


@pytest.mark.collects
async def test_delete_takes_the_jobs_along_without_a_warning(api: Api, kcr_clock: Any) -> None:
    # BA 13: Background is the default of CronJobs
    await with_job(api)
    reply = await api.call("DELETE", HELLO)
    assert (reply.status, reply.body["details"]["kind"], "Warning" in reply.headers) == (200, "cronjobs", False)
    await kcr_clock.settle()
    assert not await exists(api, f"{JOBS}/hello-1")


@pytest.mark.collects
async def test_orphaned_jobs_lose_their_reference(api: Api, kcr_clock: Any) -> None:
    # BA 13
    await with_job(api)
    assert (await api.delete(HELLO, {"propagationPolicy": "Orphan"}))["metadata"]["finalizers"] == ["orphan"]
    await kcr_clock.settle()
    assert not await exists(api, HELLO)
    assert "ownerReferences" not in (await api.get(f"{JOBS}/hello-1"))["metadata"]


@pytest.mark.collects
async def test_foreground_delete_waits_for_the_jobs(api: Api, kcr_clock: Any) -> None:
    # BA 13
    made = await api.post(CRON_JOBS, sent())
    about = owner(made, controller=True, blockOwnerDeletion=True)
    await api.post(JOBS, job("hello-1", ownerReferences=[about], finalizers=["a.io/b"]))
    await api.delete(HELLO, {"propagationPolicy": "Foreground"})
    await kcr_clock.settle()
    assert await exists(api, HELLO)
    await api.patch(f"{JOBS}/hello-1", {"metadata": {"finalizers": None}})
    await kcr_clock.settle()
    assert not await exists(api, HELLO)
