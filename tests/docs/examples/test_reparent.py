"""`reparent/old.yaml` and `reparent/new.yaml`: the pods of a Job go over to another one (seed 001)."""

from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_of
from kcr.errors import InvalidError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, example, finished, job_controller, nothing_left_behind
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual

LABEL = "batch.kubernetes.io/controller-uid"


def successor(uid: str) -> Any:
    """The new Job, with the uid of the old one in selector and template."""
    manifest = example("reparent/new")
    manifest["spec"]["selector"]["matchLabels"][LABEL] = uid
    manifest["spec"]["template"]["metadata"]["labels"][LABEL] = uid
    return manifest


async def test_new_job_takes_over_the_running_pods(kcr_clock: VirtualClock) -> None:
    # Examples rows 7 and 8; job-controller row 126.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=60)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        old = await create(cluster.client, example("reparent/old"))
        await kcr_clock.advance(5)
        await cluster.client.delete(Job, Key("default", "old"), propagation="Orphan")
        await kcr_clock.advance(5)
        pods = await cluster.client.list(Pod, "default")
        assert [pod.status.phase for pod in pods] == ["Running", "Running"]
        assert not any(controller_of(pod.metadata) for pod in pods)
        assert nothing_left_behind(pods)
        await create(cluster.client, successor(old.metadata.uid))
        job = await finished(cluster.client, "new")
        pods = await cluster.client.list(Pod, "default")
    assert (job.status.succeeded, job.status.failed, len(seen.phases)) == (3, 0, 3)
    owners = [controller_of(pod.metadata) for pod in pods]
    assert [owner.name for owner in owners if owner is not None] == ["new"] * 3
    assert sum(pod.metadata.name.startswith("old-") for pod in pods) == 2


async def test_selector_of_another_job_needs_to_be_asked_for(kcr_clock: VirtualClock) -> None:
    # Examples rows 7 and 8; batch-api row 15.47.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        old = await create(cluster.client, example("reparent/old"))
        manifest = successor(old.metadata.uid)
        del manifest["spec"]["manualSelector"]
        with pytest.raises(InvalidError):
            await create(cluster.client, manifest)
