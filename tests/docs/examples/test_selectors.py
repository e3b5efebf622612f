"""`selectors/`: who makes the selector, and what becomes of labels (seed 002)."""

from collections.abc import AsyncIterator
from copy import deepcopy
from random import Random
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kcr.api.batch import Job
from kcr.client import Request
from kcr.errors import InvalidError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions, create, example, finished, job_controller

pytestmark = pytest.mark.kcr_virtual

BATCH = "/apis/batch/v1/namespaces/default/jobs"
EXTENSIONS = "/apis/extensions/v1beta1/namespaces/default/jobs"
UID, NAME = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
COMPLETE = ("Complete", "CompletionsReached")


@pytest_asyncio.fixture
async def cluster(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), legacy_apis=True) as running:
        yield running


async def raw(cluster: EmbeddedCluster, path: str) -> Any:
    return msgspec.json.decode(await cluster.client.request("GET", path))


async def test_own_label_stays_beside_the_four_generated(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Examples row 13; batch-api §5.
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, example("selectors/automatic"))
        job = await finished(cluster.client, "report")
        (pod,) = (await raw(cluster, "/api/v1/namespaces/default/pods"))["items"]
    uid = job.metadata.uid
    labels = {"team": "numbers", UID: uid, "controller-uid": uid, NAME: "report", "job-name": "report"}
    made = await raw(cluster, f"{BATCH}/report")
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"] == labels
    assert made["spec"]["selector"] == {"matchLabels": {UID: uid}}
    assert pod["metadata"]["labels"] == labels
    assert conditions(job)[-1] == COMPLETE


async def test_manual_selector_is_left_alone(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Examples row 14; batch-api §5, row 15.47.
    manifest = example("selectors/manual")
    unasked = deepcopy(manifest)
    del unasked["spec"]["manualSelector"]
    with pytest.raises(InvalidError) as refused:
        await create(cluster.client, unasked)
    assert [cause.field for cause in refused.value.causes] == ["spec.selector"]
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, manifest)
        job = await finished(cluster.client, "report-by-label")
    made = await raw(cluster, f"{BATCH}/report-by-label")
    labels = {"report": "monthly"}
    assert made["spec"]["template"]["metadata"]["labels"] == made["metadata"]["labels"] == labels
    assert made["spec"]["selector"] == {"matchLabels": labels}
    assert conditions(job)[-1] == COMPLETE


async def test_reposted_download_is_refused(cluster: EmbeddedCluster) -> None:
    # Examples row 14; batch-api §5, rows 15.49 and 15.50.
    await create(cluster.client, example("selectors/automatic"))
    download = await raw(cluster, f"{BATCH}/report")
    download["metadata"] = {"name": "again"}
    with pytest.raises(InvalidError) as refused:
        await create(cluster.client, download)
    place = "spec.template.metadata.labels"
    assert [cause.field for cause in refused.value.causes] == [
        f"{place}[controller-uid]", f"{place}[job-name]", f"{place}[{UID}]", f"{place}[{NAME}]", "spec.selector",
    ]  # fmt: skip
    # Without selector and labels of the other it is a new Job.
    del download["spec"]["selector"]
    download["spec"]["template"]["metadata"]["labels"] = {"team": "numbers"}
    await create(cluster.client, download)


async def test_old_job_reads_back_under_both_versions(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # Examples row 15; batch-api §§1.1, 11.
    body = msgspec.json.encode(example("selectors/v1beta1"))
    async with (
        job_controller(cluster, kcr_clock),
        cluster.transport.send(Request("POST", EXTENSIONS, {"Content-Type": "application/json"}, body)) as response,
    ):
        warning = response.headers["warning"]
        assert response.status == 201
        job = await finished(cluster.client, "old-report")
    assert warning == '299 - "extensions/v1beta1 Job is served for old manifests only; use batch/v1 Job"'
    old, new = await raw(cluster, f"{EXTENSIONS}/old-report"), await raw(cluster, f"{BATCH}/old-report")
    assert (old["spec"].pop("autoSelector"), "manualSelector" in old["spec"]) == (True, False)
    assert new["spec"].pop("manualSelector") is False
    assert (old.pop("apiVersion"), new.pop("apiVersion")) == ("extensions/v1beta1", Job.resource.api_version)
    assert old == new
    assert conditions(job)[-1] == COMPLETE
