"""`kcr rerun`: ended Jobs once more, whole or in part."""

from typing import Any

import msgspec
import pytest

from kcr.api.batch import COMPLETION_INDEX, CronJob, Job, is_finished
from kcr.api.core import Namespace
from kcr.api.meta import Key, controller_of, is_controlled_by
from kcr.api.unstructured import unstructured
from kcr.client import Client
from kcr.controllers.job.commands.copies import WholeJob, left_indexes, rerun_of
from kcr.testing import eventually
from tests.kit import cronjob_harness
from tests.kit.harness import create, events_of, finished, manifest, pods_of, read
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

ResourceQuota = unstructured("v1", "ResourceQuota", plural="resourcequotas")

INDEXED: dict[str, Any] = {
    "completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
    "annotations": {"sim.kcr.dev/by-index": "1=1,3=1"},
}  # fmt: skip
CALLED = pytest.mark.parametrize("writes", [0, 1, 2], ids=["before-create", "after-create", "after-status"])


def ended(served: ServedCluster, name: str, **spec: Any) -> Job:
    """Create a Job, and return it when it has ended."""
    client = served.cluster.client
    served.call(create(client, manifest(name, **spec)))
    return served.call(finished(client, name))


def client_of(served: ServedCluster) -> Client:
    return served.cluster.client


def test_ended_job_runs_again_under_a_name_of_its_own(kcr: Command, served: ServedCluster) -> None:
    old = ended(served, "plain", ttlSecondsAfterFinished=900)
    assert kcr("rerun", "job/plain")[:2] == (0, "job.batch/plain-rerun-1 created\n")
    new = served.call(finished(client_of(served), "plain-rerun-1"))
    assert new.metadata.uid != old.metadata.uid
    assert new.spec.ttl_seconds_after_finished == 900
    assert new.metadata.annotations["kcr.dev/rerun-of"] == "plain"
    assert new.status.succeeded == 1
    (pod,) = served.call(pods_of(client_of(served), "plain-rerun-1"))
    assert is_controlled_by(pod, new)
    message = "Created job plain-rerun-1 on request: runs plain again"
    assert ("Rerun", message) in served.call(events_of(client_of(served), "plain"))


def test_second_call_creates_nothing_and_names_the_next_one(kcr: Command, served: ServedCluster) -> None:
    ended(served, "twice")
    assert kcr("rerun", "job/twice").code == 0
    served.call(finished(client_of(served), "twice-rerun-1"))
    again = kcr("rerun", "job/twice")
    assert (again.code, again.out) == (1, "")
    assert again.err == (
        "kcr: job.batch/twice-rerun-1 already exists: name the new one with --name; "
        "run that one again with kcr rerun job/twice-rerun-1\n"
    )
    assert kcr("rerun", "job/twice-rerun-1", "-o", "name").out == "job.batch/twice-rerun-2\n"
    assert kcr("rerun", "job/twice", "--name", "third").out == "job.batch/third created\n"
    assert "name the new one with --name\n" in kcr("rerun", "job/twice", "--name", "third").err


@pytest.mark.parametrize(("kind", "mark"), [("client", "dry run"), ("server", "server dry run")])
def test_dry_run_stores_nothing(kind: str, mark: str, kcr: Command, served: ServedCluster) -> None:
    ended(served, f"dry-{kind}")
    printed = kcr("rerun", f"job/dry-{kind}", "--dry-run", kind)
    assert printed[:2] == (0, f"job.batch/dry-{kind}-rerun-1 created ({mark})\n")
    shown = msgspec.json.decode(kcr("rerun", f"job/dry-{kind}", "--dry-run", kind, "-o", "json").out)
    assert (shown["kind"], shown["metadata"]["name"]) == ("Job", f"dry-{kind}-rerun-1")
    assert "selector" not in shown["spec"] or kind == "server"
    jobs = served.call(client_of(served).list(Job, "default"))
    assert not any(job.metadata.name.startswith(f"dry-{kind}-rerun") for job in jobs)


@CALLED
def test_failed_indexes_run_again_alone(writes: int, kcr: Command, served: ServedCluster) -> None:
    client, name = client_of(served), f"part-{writes}"
    ended(served, name, **INDEXED)
    # The writes of a call that was killed after so many.
    if writes:
        old = served.call(client.get(WholeJob, Key("default", name)))
        copy = rerun_of(old, f"{name}-rerun-1", left_indexes(old))
        served.call(client.create_manifest(WholeJob, copy, "default"))
    if writes > 1:
        patch = {"status": {"completedIndexes": "0,2", "succeeded": 2}}
        served.call(client.merge_patch(Job, Key("default", f"{name}-rerun-1"), patch, subresource="status"))
    assert kcr("rerun", f"job/{name}", "--failed-indexes")[:2] == (0, f"job.batch/{name}-rerun-1 created\n")
    new = served.call(finished(client, f"{name}-rerun-1"))
    pods = served.call(pods_of(client, f"{name}-rerun-1"))
    assert sorted(pod.metadata.annotations[COMPLETION_INDEX] for pod in pods) == ["1", "3"]
    assert (new.status.completed_indexes, new.status.failed_indexes) == ("0,2", "1,3")
    again = kcr("rerun", f"job/{name}", "--failed-indexes")
    assert (again.code, "already exists" in again.err) == (1, True)


def test_job_that_cannot_run_again_is_one_line(kcr: Command, served: ServedCluster) -> None:
    client = client_of(served)
    served.call(create(client, manifest("busy", annotations={"sim.kcr.dev/run-for": "forever"})))
    ended(served, "whole")
    ended(served, "good", completions=1, completionMode="Indexed")
    for arguments, line in (
        (("job/busy",), "job.batch/busy has not ended: wait for it with kcr wait job.batch/busy, or delete it first"),
        (("job/whole", "--failed-indexes"), "job.batch/whole has no indexes (completionMode Indexed)"),
        (("job/good", "--failed-indexes"), "job.batch/good has no failed indexes: all have succeeded"),
    ):
        printed = kcr("rerun", *arguments)
        assert (printed.code, printed.out, printed.err.count("\n")) == (1, "", 1)
        assert printed.err.startswith(f"kcr: {line}")
    assert kcr("rerun", "cronjob/hello").code == 2


def test_refusal_of_the_server_is_one_line_with_a_remedy(kcr: Command, served: ServedCluster) -> None:
    client = client_of(served)
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/jobs.batch": "1"}}}
    served.call(client.create_manifest(Namespace, {"metadata": {"name": "small"}}))
    served.call(client.create_manifest(Job, {**manifest("only"), "metadata": {"name": "only"}}, "small"))
    served.call(eventually(lambda: is_over(client, Key("small", "only")), seconds=20))
    served.call(client.create_manifest(ResourceQuota, quota, "small"))
    served.call(eventually(lambda: is_counted(client), seconds=20))
    for arguments, cause, remedy in (
        (("--name", "Upper"), 'Job.batch "Upper" is invalid', "name it differently with --name, or create one by hand"),
        ((), "exceeded quota: few", "delete what uses it up, or raise it: kubectl -n small describe resourcequota few"),
    ):
        printed = kcr("rerun", "job/only", "-n", "small", *arguments)
        assert (printed.code, printed.out, printed.err.count("\n")) == (1, "", 1)
        assert printed.err.startswith("kcr: cannot create job.batch/")
        assert cause in printed.err
        assert remedy in printed.err


async def is_over(client: Client, key: Key) -> bool:
    return is_finished(await client.get(Job, key))


async def is_counted(client: Client) -> bool:
    quota = await client.get(ResourceQuota, Key("small", "few"))
    return bool((quota.get("status") or {}).get("used", {}).get("count/jobs.batch") == "1")


def test_job_of_a_cronjob_keeps_owner_and_is_no_scheduled_run(kcr: Command, served: ServedCluster) -> None:
    client = client_of(served)
    cron = served.call(cronjob_harness.create(client, cronjob_harness.manifest(suspend=True)))
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "hello", "uid": cron.metadata.uid, "controller": True}
    job = manifest("hello-29000000")
    scheduled = {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2025-02-19T21:20:00Z", "x": "y"}
    job["metadata"] |= {"ownerReferences": [owner], "annotations": scheduled, "labels": {"a": "b"}}
    served.call(create(client, job))
    served.call(finished(client, "hello-29000000"))
    assert kcr("rerun", "job/hello-29000000").code == 0
    new = served.call(read(client, "hello-29000000-rerun-1"))
    found = controller_of(new.metadata)
    assert found is not None
    assert (found.uid, found.block_owner_deletion) == (cron.metadata.uid, None)
    assert new.metadata.labels == {"a": "b"}
    assert new.metadata.annotations == {
        "x": "y", "cronjob.kubernetes.io/instantiate": "manual", "kcr.dev/rerun-of": "hello-29000000",
    }  # fmt: skip
    assert served.call(client.get(CronJob, cron.key)).status == cron.status
