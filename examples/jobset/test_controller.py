"""One reconcile at a time, on fake informers: the test says what the stores hold, and looks at what was written."""

import msgspec
import pytest
import yaml
from msgspec.structs import replace

import kcr
from examples.jobset.api import JobSet
from examples.jobset.controller import JobSetReconciler
from examples.jobset.decisions import ATTEMPT, INDEX, JOBSET, REPLICATED_JOB
from kcr.api.batch import Job, JobStatus
from kcr.api.meta import is_controlled_by
from kcr.testing import FakeManager

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "training")
with open("examples/jobset/manifests/training.yaml", encoding="utf-8") as file:
    TRAINING = yaml.safe_load(file)


class World:
    """The reconciler, the stores that it reads, and the server that it writes to."""

    def __init__(self) -> None:
        self.manager = FakeManager(kinds=[JobSet])
        self.client = self.manager.client
        self.jobsets, self.jobs = self.manager.informer(JobSet), self.manager.informer(Job)
        self.reconciler = JobSetReconciler(self.manager, kcr.OwnWrites())

    async def create(self, **spec: object) -> JobSet:
        """Create the JobSet of the example with other fields, and let the store show it."""
        body = TRAINING | {"spec": TRAINING["spec"] | spec}
        return self.jobsets.add(await self.client.create_manifest(JobSet, body, "default"))

    async def reconcile(self) -> dict[str, Job]:
        """Reconcile, let the stores show all that was written, and return the Jobs by name."""
        await self.reconciler.reconcile(KEY)
        self.jobsets.modify(await self.client.get(JobSet, KEY))
        known, found = self.manager.store(Job), await self.client.list(Job, "default")
        for job in found:
            (self.jobs.modify if known.get(job.key) else self.jobs.add)(job)
        for job in known.list():
            if job.key not in {one.key for one in found}:
                self.jobs.delete(job)
        return {job.metadata.name: job for job in found}

    async def end(self, job: Job, kind: str, reason: str = "") -> None:
        """Let a Job have ended, as the store shows it."""
        condition = kcr.Condition(type=kind, status="True", reason=reason)
        self.jobs.modify(replace(job, status=JobStatus(conditions=(condition,))))

    def events(self) -> list[str]:
        """Return the reasons of the events about the JobSet."""
        return [event.reason for event in self.manager.recorder("jobset-controller").events]


async def test_jobs_and_pods_carry_labels_and_owner() -> None:
    world = World()
    jobset = await world.create(startupPolicy={})
    jobs = await world.reconcile()
    assert sorted(jobs) == ["training-leader-0", "training-workers-0", "training-workers-1"]
    job = jobs["training-workers-1"]
    expected = {JOBSET: "training", REPLICATED_JOB: "workers", INDEX: "1", ATTEMPT: "0"}
    pod = msgspec.json.decode(job.spec.template)
    assert expected.items() <= job.metadata.labels.items()
    assert expected.items() <= pod["metadata"]["labels"].items()
    assert is_controlled_by(job, jobset)
    assert job.spec.pod_failure_policy is not None


async def test_second_reconcile_writes_nothing() -> None:
    world = World()
    await world.create()
    await world.reconcile()
    before = (await world.client.get(JobSet, KEY)).metadata.resource_version
    jobs = await world.reconcile()
    assert (await world.client.get(JobSet, KEY)).metadata.resource_version == before
    assert len(jobs) == 1


async def test_suspend_and_resume_reach_the_jobs_and_are_told() -> None:
    world = World()
    await world.create(startupPolicy={}, suspend=True)
    assert all(job.spec.suspend for job in (await world.reconcile()).values())
    await world.client.merge_patch(JobSet, KEY, {"spec": {"suspend": False}})
    world.jobsets.modify(await world.client.get(JobSet, KEY))
    assert not any(job.spec.suspend for job in (await world.reconcile()).values())
    assert [reason for reason in world.events() if reason in ("SuspendedJobs", "ResumeJobs")] == [
        "SuspendedJobs", "ResumeJobs",
    ]  # fmt: skip


async def test_old_status_restarts_the_set_once() -> None:
    world = World()
    old = await world.create(startupPolicy={})
    jobs = await world.reconcile()
    seen = await world.client.get(JobSet, KEY)
    await world.end(jobs["training-workers-0"], "Failed", "BackoffLimitExceeded")
    await world.reconciler.reconcile(KEY)
    # The store is late: it shows the JobSet before the restart, and the failed Job.
    world.jobsets.modify(seen)
    with pytest.raises(kcr.ConflictError):
        await world.reconciler.reconcile(KEY)
    assert (await world.client.get(JobSet, KEY)).status.restarts == 1
    assert old.metadata.uid == seen.metadata.uid


async def test_job_that_is_created_with_a_restart_is_of_the_new_attempt() -> None:
    world = World()
    await world.create(startupPolicy={}, failurePolicy={"maxRestarts": 1})
    jobs = await world.reconcile()
    leader = jobs["training-leader-0"]
    await world.client.delete(Job, leader.key, propagation="Background")
    world.jobs.delete(leader)
    await world.end(jobs["training-workers-0"], "Failed")
    jobs = await world.reconcile()
    assert jobs["training-leader-0"].metadata.labels[ATTEMPT] == "1"
    assert all(jobs[f"training-workers-{index}"].metadata.deletion_timestamp for index in range(2))


async def test_refused_job_is_an_event_and_a_failure() -> None:
    world = World()
    broken = {"name": "broken", "template": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}}
    await world.create(replicatedJobs=[broken], successPolicy={})
    with pytest.raises(kcr.InvalidError):
        await world.reconciler.reconcile(KEY)
    assert world.events().count("FailedCreate") == 1


async def test_deleted_jobset_is_forgotten() -> None:
    world = World()
    assert await world.reconciler.reconcile(kcr.Key("default", "gone")) == kcr.Result()
