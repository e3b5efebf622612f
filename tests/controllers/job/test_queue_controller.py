"""Beside a queue controller such as Kueue: quotas, preemption, directives at admission, and Jobs of other managers."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

import kcr
from kcr.api.batch import Job
from kcr.api.core import Node, Pod
from kcr.api.meta import Key
from kcr.api.pods import is_active
from kcr.client import Transport
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.api import TABLE
from tests.kit.crash import NO_FAULT, SAMPLE, WriteFault, crash_after_writes, in_virtual_time, lose_replies, surviving
from tests.kit.harness import (
    conditions,
    create,
    events_of,
    finished,
    has_ended,
    job_controller,
    manifest,
    pods_of,
    read,
)
from tests.kit.observers import Observer, observing
from tests.kit.queue_controller import FLAVOUR, PRIORITY, QUEUE, add_queue_controller, flavour_of

QUOTAS = {"reserved": 4, "spot": 4}
# The node of each flavour.
NODES = {"reserved": "kcr-node-0", "spot": "kcr-node-1"}
MINE, MULTIKUEUE = "kcr.dev/job-controller", "kueue.x-k8s.io/multikueue"


class FlavourObserver(Observer[Pod]):
    """Records the pods that are active at once, at most, and those on a node of another flavour."""

    def __init__(self) -> None:
        super().__init__()
        self.most: Counter[str] = Counter()
        self.misplaced: set[str] = set()

    def on_add(self, obj: Pod, initial: bool) -> None:
        super().on_add(obj, initial)
        self._count(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        super().on_update(old, new)
        self._count(new)

    def _count(self, pod: Pod) -> None:
        flavour = pod.metadata.labels.get(FLAVOUR, "")
        active = sum(is_active(one) and one.metadata.labels.get(FLAVOUR, "") == flavour for one in self.there)
        self.most[flavour] = max(self.most[flavour], active)
        if pod.spec.node_name and pod.spec.node_name != NODES.get(flavour):
            self.misplaced.add(pod.metadata.name)


class World(NamedTuple):
    """A cluster with a node of each flavour, and a queue controller."""

    cluster: EmbeddedCluster
    clock: VirtualClock
    pods: FlavourObserver

    @property
    def client(self) -> kcr.Client:
        return self.cluster.client

    async def submit(self, name: str, *, priority: int = 0, **spec: Any) -> None:
        """Create a suspended Job for the queue."""
        body = manifest(name, **{"suspend": True, "managedBy": MINE, **spec})
        body["metadata"]["labels"] = {QUEUE: "main", PRIORITY: str(priority)}
        await create(self.client, body)

    async def statuses(self) -> dict[str, str]:
        """Return the column STATUS of `kubectl get jobs`, by name."""
        answer = await self.client.request("GET", "/apis/batch/v1/namespaces/default/jobs", accept=TABLE)
        table = msgspec.json.decode(answer)
        column = [one["name"] for one in table["columnDefinitions"]].index("Status")
        return {row["cells"][0]: row["cells"][column] for row in table["rows"]}


def run(pod: Any, container: str, attempt: int) -> RunResult:
    """Each pod runs for a minute."""
    return RunResult(run_for=60, term_exit_code=143)


@asynccontextmanager
async def world(clock: VirtualClock, quotas: Mapping[str, int] = QUOTAS) -> AsyncIterator[World]:
    """Run a cluster of two flavours and the queue controller; a Job controller comes from the test."""
    cluster = EmbeddedCluster(clock=clock, random=Random(0), nodes=2, runtime="simulated", on_run=run)
    async with cluster, AsyncExitStack() as stack:
        await clock.advance(1)
        for flavour, node in NODES.items():
            await cluster.client.merge_patch(Node, Key("", node), {"metadata": {"labels": {FLAVOUR: flavour}}})
        pods = await stack.enter_async_context(observing(cluster, FlavourObserver(), Pod))
        manager = kcr.Manager(cluster.client, clock=clock, random=Random(7))
        add_queue_controller(manager, quotas)
        await stack.enter_async_context(manager.running())
        yield World(cluster, clock, pods)


async def live(fault: WriteFault, check: Any = None) -> int:
    """Preempt a Job and resume it on the other flavour, in spite of the fault; return the number of writes."""
    clock = VirtualClock()
    async with world(clock) as found:
        client = found.client

        def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
            return job_controller(found.cluster, clock, transport=transport, seed=seed, take_over=False)

        async def is_over() -> bool:
            return all(has_ended(job) for job in await client.list(Job))

        await found.submit("first", parallelism=4, completions=8)
        await found.submit("second", parallelism=4, completions=8)
        async with surviving(found.cluster.transport, fault, controller, is_over) as transport:
            # The first pods of `first` have succeeded; its next four are preempted.
            await eventually(lambda: _succeeded(client, "first", 4), seconds=600)
            await found.submit("urgent", priority=10, parallelism=4, completions=8)
            for name in ("urgent", "second", "first"):
                await finished(client, name)
            await clock.advance(5)
        jobs = {name: await read(client, name) for name in ("first", "second", "urgent")}
        assert {name: (job.status.succeeded, job.status.failed) for name, job in jobs.items()} == {
            "first": (8, 0), "second": (8, 0), "urgent": (8, 0),
        }  # fmt: skip
        assert all(found.pods.most[flavour] <= quota for flavour, quota in QUOTAS.items())
        assert not found.pods.misplaced
        if check is not None:
            await check(found)
    return transport.writes


async def _succeeded(client: kcr.Client, name: str, pods: int) -> bool:
    return (await read(client, name)).status.succeeded >= pods


@pytest.mark.soak
def test_preempted_job_counts_right_and_resumes_on_another_flavour() -> None:
    async def check(found: World) -> None:
        pods = {name: Counter(pod.metadata.labels[FLAVOUR] for pod in found.pods.all.values()
                              if pod.metadata.labels["job-name"] == name) for name in ("first", "urgent")}  # fmt: skip
        # Four succeeded, four were preempted, and four ran later.
        assert pods == {"first": Counter(reserved=8, spot=4), "urgent": Counter(reserved=8)}
        assert found.pods.most == Counter(QUOTAS)
        assert flavour_of(await read(found.client, "first")) == "spot"

    in_virtual_time(live(NO_FAULT, check))


@pytest.mark.timeout(60)
def test_crash_after_writes_during_preemption_exceeds_no_quota() -> None:
    crash_after_writes(live, 1)


@pytest.mark.soak
@pytest.mark.timeout(60)
def test_lost_replies_during_preemption_exceed_no_quota() -> None:
    lose_replies(live, SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(60)
def test_late_watches_during_preemption_exceed_no_quota() -> None:
    in_virtual_time(live(WriteFault(late={"jobs": 3.0, "pods": 1.0})))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_faults_at_every_write_during_preemption_exceed_no_quota() -> None:
    in_virtual_time(live(WriteFault(late={"jobs": 0.4, "pods": 0.4})))
    crash_after_writes(live)
    crash_after_writes(live, late={"jobs": 2.0, "pods": 2.0})
    lose_replies(live)


@pytest.mark.soak
@pytest.mark.kcr_virtual
async def test_pause_by_the_queue_is_seen_in_kubectl_and_events(kcr_clock: VirtualClock) -> None:
    async with world(kcr_clock, {"reserved": 4}) as found, job_controller(found.cluster, kcr_clock, take_over=False):
        await found.submit("low", parallelism=4, completions=4)
        await kcr_clock.advance(10)
        assert await found.statuses() == {"low": "Running"}
        await found.submit("high", priority=1, parallelism=2, completions=2)
        await kcr_clock.advance(45)
        assert await found.statuses() == {"low": "Suspended", "high": "Running"}
        assert await pods_of(found.client, "low") == ()
        low = await read(found.client, "low")
        assert (low.status.start_time, low.status.failed) == (None, 0)
        assert dict(conditions(low)) == {"Suspended": "JobSuspended"}
        await finished(found.client, "low")
        events = [reason for reason, _ in await events_of(found.client, "low")]
    assert [reason for reason in events if reason in ("Suspended", "Resumed")][-2:] == ["Suspended", "Resumed"]
    assert "SuccessfulDelete" in events


@pytest.mark.kcr_virtual
async def test_quota_of_pods_that_are_not_needed_is_given_back(kcr_clock: VirtualClock) -> None:
    async with world(kcr_clock, {"reserved": 4}) as found, job_controller(found.cluster, kcr_clock, take_over=False):
        await found.submit("wide", parallelism=4, completions=6)
        await found.submit("narrow", parallelism=2, completions=2)
        await kcr_clock.advance(55)
        assert await found.statuses() == {"wide": "Running", "narrow": "Suspended"}
        # Four have succeeded, and the last two run: the quota of two is free.
        await kcr_clock.advance(15)
        wide, narrow = await read(found.client, "wide"), await read(found.client, "narrow")
        assert (wide.status.succeeded, wide.status.active, narrow.status.active) == (4, 2, 2)
        await finished(found.client, "narrow")
    assert found.pods.most == Counter(reserved=4)


@pytest.mark.kcr_virtual
async def test_job_of_another_manager_keeps_the_status_that_it_writes(kcr_clock: VirtualClock) -> None:
    # MultiKueue runs the Job on another cluster, and copies its status.
    async with world(kcr_clock) as found, job_controller(found.cluster, kcr_clock, take_over=True):
        await found.submit("remote", managedBy=MULTIKUEUE, parallelism=2, completions=2)
        await kcr_clock.advance(10)
        now = kcr_clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        for status in (
            {"startTime": now, "active": 2, "ready": 2},
            {"active": 0, "ready": 0, "succeeded": 2, "completionTime": now, "conditions": [
                {"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": now}
                for kind in ("SuccessCriteriaMet", "Complete")
            ]},
        ):  # fmt: skip
            written = await found.client.merge_patch(
                Job, Key("default", "remote"), {"status": status}, subresource="status"
            )
            await kcr_clock.advance(30)
            assert await read(found.client, "remote") == written
        assert await found.client.list(Pod) == ()
        assert await events_of(found.client, "remote") == []
