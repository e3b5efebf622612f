"""Which failures and events are shown."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Event,
    ObjectReference,
    Pod,
    PodStatus,
)
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Condition, Key, ObjectMeta, OwnerReference, Resource
from kcr.cli.display import Display, EventView
from kcr.controllers.job.commands.logs import runs_of
from kcr.testing import FakeManager, VirtualClock, build
from kcr_devcluster.dev.display.explanations import Explanations
from kcr_devcluster.dev.display.progress import Progress, failure_of

METADATA = ObjectMeta(name="pi-x", namespace="default", uid="u1")


UNSCHEDULABLE = Explanation(
    Code.PODS_NOT_READY, "no node has room for pod default/pi-x", remedies=("kubectl uncordon kcr-node-0",)
)
PAUSED = {"annotations": {"kcr.dev/paused": "true"}}
IN_BACKOFF = Explanation(Code.WAITING, "waits 8s before it replaces a failed pod")


def shown_by(manager: FakeManager, explanation: Explanation = IN_BACKOFF) -> Progress:
    """Return what shows a cluster in which this is the explanation of each Job."""

    async def explain(kind: type[Resource], key: Key) -> Explanation:
        return explanation

    return Progress(manager, Display(manager.clock), UTC, Explanations(manager.client, explain))


def pod(*statuses: ContainerStatus) -> Pod:
    return Pod(metadata=METADATA, status=PodStatus(container_statuses=statuses))


def test_failure_names_reason_and_exit_code() -> None:
    ended = ContainerStateTerminated(exit_code=3, reason="Error")
    failed = pod(ContainerStatus(name="a", state=ContainerState(terminated=ended)))
    assert failure_of(failed, runs_of(failed)[0]) == EventView(
        "pod/pi-x", "Error", "Container a ended with exit code 3", warning=True
    )


@pytest.mark.parametrize(
    ("code", "deleted"),
    [
        pytest.param(0, False, id="succeeded"),
        pytest.param(143, True, id="told-to-end"),
        pytest.param(137, True, id="killed"),
    ],
)
def test_success_is_no_failure_nor_is_a_deletion(code: int, deleted: bool) -> None:
    fine = pod(ContainerStatus(name="a", state=ContainerState(terminated=ContainerStateTerminated(exit_code=code))))
    if deleted:
        fine = replace(fine, metadata=replace(fine.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    assert failure_of(fine, runs_of(fine)[0]) is None


@pytest.mark.kcr_virtual
async def test_events_of_an_earlier_run_are_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    manager = FakeManager()
    shown_by(manager)
    now = manager.clock.now().replace(microsecond=0)
    for name, moment in (("old", now - timedelta(seconds=1)), ("new", now)):
        about = ObjectReference(kind="Job", namespace="default", name=name)
        event = Event(metadata=METADATA, involved_object=about, reason="Completed", last_timestamp=moment)
        manager.informer(Event).add(replace(event, metadata=replace(METADATA, name=name)))
    assert "job/old" not in (shown := capsys.readouterr().err)
    assert "job/new: Completed" in shown


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("owner", "seconds", "warnings"),
    [
        pytest.param((), 0, 0, id="bare"),
        pytest.param((("ReplicaSet", "pi"),), 0, 0, id="of-a-replica-set"),
        pytest.param((("Job", "other"),), 0, 0, id="of-another-job"),
        pytest.param((("Job", "pi"),), 5, 1, id="of-the-job"),
    ],
)
async def test_logs_of_the_awaited_jobs_alone_are_waited_for(
    owner: tuple[tuple[str, str], ...], seconds: float, warnings: int,
    kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    manager = FakeManager()
    progress = shown_by(manager)
    ended = JobStatus(conditions=(Condition(type="Complete", status="True"),))
    manager.informer(Job).add(Job(metadata=ObjectMeta(name="pi", namespace="default"), status=ended))
    running = pod(ContainerStatus(name="a", state=ContainerState(running=ContainerStateRunning())))
    owners = tuple(OwnerReference(kind=kind, name=name, uid="u2", controller=True) for kind, name in owner)
    manager.informer(Pod).add(replace(running, metadata=replace(METADATA, owner_references=owners)))
    began = kcr_clock.now()
    await progress.ended([Key("default", "pi")])
    assert (kcr_clock.now() - began).total_seconds() == seconds
    assert capsys.readouterr().err.count("Warning: some logs have not ended") == warnings


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("explanation", "metadata", "line"),
    [
        pytest.param(
            UNSCHEDULABLE, {}, f"job pi: Waiting: 0/1 succeeded, 1 active: {UNSCHEDULABLE.headline}", id="with-a-remedy"
        ),
        pytest.param(IN_BACKOFF, {}, "job pi: Running: 0/1 succeeded, 1 active", id="by-itself"),
        pytest.param(IN_BACKOFF, PAUSED, "job pi: Paused: 0/1 succeeded, 1 active", id="paused"),
    ],
)
async def test_job_that_waits_says_what_for(
    explanation: Explanation, metadata: dict[str, Any], line: str,
    kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    manager = FakeManager()
    progress = shown_by(manager, explanation)
    job = build.job("pi", completions=1)
    manager.informer(Job).add(replace(job, metadata=replace(job.metadata, **metadata), status=JobStatus(active=1)))
    manager.informer(Pod).add(build.pod("pi-x", owner=job))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(progress.run())
        await kcr_clock.advance(5)
        task.cancel()
    assert capsys.readouterr().err.splitlines()[-1] == line


@pytest.mark.kcr_virtual
async def test_job_whose_pod_runs_waits_no_longer(kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str]) -> None:
    manager = FakeManager()
    progress = shown_by(manager, UNSCHEDULABLE)
    job = replace(build.job("pi", completions=1), status=JobStatus(active=1))
    manager.informer(Job).add(job)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(progress.run())
        await kcr_clock.advance(3)
        manager.informer(Job).modify(replace(job, status=JobStatus(active=1, ready=1)))
        await kcr_clock.advance(3)
        task.cancel()
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == ["Running", "Waiting", "Running"]
