"""The CronJob controller on an embedded cluster, in virtual time."""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from random import Random
from typing import Any

from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.conditions import made
from kcr.api.core import Event, reference_to
from kcr.api.meta import Key, controller_reference
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.controllers.cronjob.controller import Options, setup
from kcr.controllers.cronjob.decisions.jobs import SCHEDULED_AT
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElector
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.open_manager import OpenManager, running


def at(text: str, day: str = "2026-06-01") -> datetime:
    """A moment of the day that most rows of the spec's table are set on; UTC."""
    return datetime.fromisoformat(f"{day}T{text}").replace(tzinfo=UTC)


CREATED = at("09:59:10")
TEN = at("10:00:00")


def cronjob_controller(
    cluster: EmbeddedCluster,
    clock: Clock,
    *,
    transport: Transport | None = None,
    seed: int = 1,
    leader_election: LeaderElector | None = None,
    **options: Any,
) -> AbstractAsyncContextManager[Manager]:
    """Run the CronJob controller for as long as the context lives."""
    client = Client(transport or cluster.transport)
    manager = OpenManager(client, clock=clock, random=Random(seed), leader_election=leader_election)
    setup(manager, Options(**{"take_over": True, "cronjob_time_zone": UTC, **options}))
    return running(manager)


def manifest(name: str = "hello", schedule: str = "*/1 * * * *", **spec: Any) -> dict[str, Any]:
    """A CronJob; fields of its spec by their names on the wire."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    annotations = spec.pop("annotations", {})
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


async def create(client: Client, cron: Mapping[str, Any]) -> CronJob:
    return await client.create_manifest(CronJob, cron, "default")


async def read(client: Client, name: str = "hello") -> CronJob:
    return await client.get(CronJob, Key("default", name))


async def jobs_of(client: Client, name: str = "hello") -> tuple[Job, ...]:
    """The Jobs whose name begins with the CronJob's, in the order of their names."""
    jobs = [job for job in await client.list(Job, "default") if job.metadata.name.startswith(f"{name}-")]
    return tuple(sorted(jobs, key=lambda job: job.metadata.name))


async def names_of(client: Client, name: str = "hello") -> list[str]:
    return [job.metadata.name for job in await jobs_of(client, name)]


async def events_of(client: Client, name: str = "hello") -> list[tuple[str, str]]:
    """Reasons and messages, in the order in which they came."""
    events = await client.list(Event, "default", fields=f"involvedObject.kind=CronJob,involvedObject.name={name}")
    ordered = sorted(events, key=lambda event: int(event.metadata.resource_version))
    return [(event.reason, event.message) for event in ordered]


async def times_told(client: Client, name: str = "hello") -> Counter[str]:
    """How often events came, by their reasons; those that repeat each other are one object."""
    told: Counter[str] = Counter()
    for event in await client.list(Event, "default", fields=f"involvedObject.kind=CronJob,involvedObject.name={name}"):
        told[event.reason] += event.count
    return told


async def change(client: Client, name: str = "hello", **spec: Any) -> CronJob:
    """Change fields of a CronJob's spec, by their names on the wire."""
    return await client.merge_patch(CronJob, (await read(client, name)).key, {"spec": spec})


async def with_status(client: Client, cron: CronJob, **fields: Any) -> CronJob:
    """Write a status as the controller would have left it."""
    return await client.patch_status(cron, replace(cron, status=replace(cron.status, **fields)))


async def until(clock: VirtualClock, moment: datetime) -> None:
    """Let time pass until a moment, and everything due by then be done."""
    await clock.advance((moment - clock.now()).total_seconds())


async def make_job(
    client: Client,
    cron: CronJob | None,
    name: str = "hello-a",
    *,
    end: str = "",
    started: datetime | None = None,
    completed: datetime | None = None,
    run: datetime | None = None,
) -> Job:
    """Make a Job as the CronJob's controller would have, and write down how it ended, as the Job controller would.

    Args:
        client: Talks to the server.
        cron: Its controller; None for none.
        name: Its name.
        end: Complete, Failed, another condition or none.
        started: When it started.
        completed: When it was complete.
        run: Which run it is; None for one that a user made by hand.
    """
    owners = (controller_reference(cron),) if cron is not None else ()
    annotations = {SCHEDULED_AT: run.isoformat()} if run is not None else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations, "ownerReferences": owners}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    job = await client.create_manifest(Job, {"metadata": metadata, "spec": {"template": {"spec": pod}}}, "default")
    if not end:
        return job
    moment = completed or started or CREATED
    interim = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}.get(end)
    conditions = tuple(made(kind, "True", "Done", "", moment) for kind in (interim, end) if kind is not None)
    if interim is not None:
        started = started or moment
    if end == "Complete":
        completed = completed or moment
    status = replace(job.status, conditions=conditions, start_time=started, completion_time=completed)
    return await client.patch_status(job, replace(job, status=status))


async def listed(client: Client) -> list[str]:
    return [reference.name for reference in (await read(client)).status.active]


async def ran_before(client: Client, *running: str, **spec: Any) -> CronJob:
    """The CronJob of the rows whose run of ten o'clock is on record, with these Jobs in its list."""
    cron = await create(client, manifest(**spec))
    jobs = [await make_job(client, cron, name) for name in running]
    return await with_status(client, cron, last_schedule_time=TEN, active=tuple(reference_to(job) for job in jobs))


async def complete(client: Client, name: str, moment: datetime, *, end: str = "Complete") -> None:
    """End a Job, as the Job controller would: Complete, or Failed."""
    text = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    interim = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[end]
    conditions = [{"type": kind, "status": "True", "reason": "Done"} for kind in (interim, end)]
    status = {"conditions": conditions, "startTime": text}
    status |= {"completionTime": text} if end == "Complete" else {}
    await client.merge_patch(Job, Key("default", name), {"status": status}, subresource="status")
