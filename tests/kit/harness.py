"""The Job and TTL controllers on an embedded cluster, in virtual time."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import yaml

from kcr.api.batch import Job
from kcr.api.conditions import is_condition_true
from kcr.api.core import Event, Pod
from kcr.api.meta import Key
from kcr.client import Client, Transport
from kcr.clock import Clock
from kcr.controllers.job import ttl
from kcr.controllers.job.controller import Options, setup
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.manager import Manager
from kcr.scopes.leaderelection import LeaderElector
from kcr.scopes.sharding import ShardedReplica
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.open_manager import OpenManager, running

EXAMPLES = "examples"


def job_controller(
    cluster: EmbeddedCluster,
    clock: Clock,
    *,
    transport: Transport | None = None,
    seed: int | Random = 1,
    leader_election: LeaderElector | ShardedReplica | None = None,
    **options: Any,
) -> AbstractAsyncContextManager[Manager]:
    """Run the Job controller for as long as the context lives.

    It reconciles all Jobs, as on an embedded cluster, unless `take_over` is false.
    """
    random = seed if isinstance(seed, Random) else Random(seed)
    manager = OpenManager(
        Client(transport or cluster.transport), clock=clock, random=random, leader_election=leader_election
    )
    setup(manager, Options(**{"take_over": True, **options}))
    return running(manager)


def ttl_controller(
    cluster: EmbeddedCluster, clock: Clock, *, transport: Transport | None = None, with_jobs: bool = False
) -> AbstractAsyncContextManager[Manager]:
    """Run the TTL controller for as long as the context lives, and the Job controller beside it if so wished."""
    manager = Manager(Client(transport or cluster.transport), clock=clock, random=Random(1))
    ttl.setup(manager, ttl.Options(take_over=True))
    if with_jobs:
        setup(manager, Options(take_over=True))
    return running(manager)


def manifest(name: str = "pi", *, containers: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    """A Job whose pods never restart; fields of its spec by their names on the wire."""
    policy = spec.pop("restartPolicy", "Never")
    annotations = spec.pop("annotations", {})
    pod = {"restartPolicy": policy, "containers": containers or [{"name": "c", "image": "busybox"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "template": {"metadata": {"annotations": annotations}, "spec": pod}},
    }


def example(name: str) -> dict[str, Any]:
    """The Job in one of the manifests in examples/."""
    with open(f"{EXAMPLES}/{name}.yaml") as file:
        loaded: dict[str, Any] = yaml.safe_load(file)
    return loaded


async def create(client: Client, job: Mapping[str, Any]) -> Job:
    return await client.create_manifest(Job, job, "default")


async def read(client: Client, name: str = "pi", namespace: str = "default") -> Job:
    return await client.get(Job, Key(namespace, name))


async def pods_of(client: Client, name: str = "pi") -> tuple[Pod, ...]:
    return await client.list(Pod, "default", labels=f"batch.kubernetes.io/job-name={name}")


async def events_of(client: Client, name: str = "pi") -> list[tuple[str, str]]:
    events = await client.list(Event, "default", fields=f"involvedObject.kind=Job,involvedObject.name={name}")
    return [(event.reason, event.message) for event in events]


def conditions(job: Job) -> list[tuple[str, str]]:
    """The conditions that hold, with their reasons."""
    return [(found.type, found.reason) for found in job.status.conditions if found.status == "True"]


def has_ended(job: Job) -> bool:
    return is_condition_true(job.status.conditions, "Complete") or is_condition_true(job.status.conditions, "Failed")


async def ended(client: Client, name: str = "pi", namespace: str = "default") -> Job | None:
    """The Job once it has ended; for `eventually`."""
    job = await read(client, name, namespace)
    return job if has_ended(job) else None


def counters(job: Job) -> tuple[int, int | None, int | None, int, int]:
    """Active, ready, terminating, succeeded, failed."""
    status = job.status
    return status.active, status.ready, status.terminating, status.succeeded, status.failed


async def finished(client: Client, name: str = "pi", *, seconds: float = 600, namespace: str = "default") -> Job:
    """Wait until a Job has ended, and return it."""
    job = await eventually(lambda: ended(client, name, namespace), seconds=seconds)
    assert job is not None
    return job


def nothing_left_behind(pods: tuple[Pod, ...]) -> bool:
    """Whether no pod is held by the tracking finalizer."""
    return not any(map(is_tracked, pods))
