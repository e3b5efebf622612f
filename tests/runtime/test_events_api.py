"""Events of events.k8s.io, of a manager with the Job controller: who reads them, and in which form."""

import random

import pytest

from kcr.api.batch import Job
from kcr.api.core import Event
from kcr.api.meta import Key
from kcr.app.plugins import attach, find_plugins
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.look import look
from kcr.cli.target import ObjectName
from kcr.client.explainers import last_seen
from kcr.events.forms import SeriesEvent
from kcr.manager import Manager
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, finished, manifest

pytestmark = pytest.mark.kcr_virtual
KEY = Key("default", "once")
NAME = ObjectName(Job, "once")


def managed(cluster: EmbeddedCluster, clock: VirtualClock) -> Manager:
    manager = Manager(cluster.client, clock=clock, random=random.Random(1), events_api="events.k8s.io")
    attach(find_plugins(("job",)), manager, {}, take_over=True)
    return manager


async def test_events_of_a_job_are_read_in_either_group(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0)) as cluster:
        async with managed(cluster, kcr_clock).running():
            await create(cluster.client, manifest("once"))
            await finished(cluster.client, "once")
            await kcr_clock.advance(1)
        found = await cluster.client.list(Event, "default", fields="involvedObject.kind=Job,involvedObject.name=once")
        assert {event.reason for event in found} == {"SuccessfulCreate", "Completed"}
        for event in found:
            assert (event.reporting_component, event.times, event.event_time) == ("job-controller", 1, last_seen(event))
        new = await cluster.client.list(SeriesEvent, "default", fields="regarding.kind=Job,regarding.name=once")
        assert sorted(one.note for one in new) == sorted(event.message for event in found)


async def test_series_is_explained_with_its_count_and_last_time(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0)) as cluster:
        manager = managed(cluster, kcr_clock)
        recorder = manager.recorder("auditor")
        async with manager.running():
            await create(cluster.client, manifest("once", suspend=True))
            job = await cluster.client.get(Job, KEY)
            for _ in range(5):
                recorder.event(job, "Warning", "Audited", "found no owner")
                await kcr_clock.advance(60)
            # Until the series is over, and all its counts are written.
            await kcr_clock.advance(721)
        shown = await look(cluster.client, NAME, KEY, kcr_clock.now(), ())
        lines = list(lines_of(NAME, KEY, shown, kcr_clock.now()))
    assert lines[-1].endswith("13m ago   Warning Audited: found no owner (x5)")
