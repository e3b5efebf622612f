from datetime import UTC

import pytest

from kcr.api.batch import CronJob, Job
from kcr.client import Client
from kcr.controller import Parking, Result
from kcr.controllers.cronjob.actions import Actions
from kcr.controllers.cronjob.memory import Memory
from kcr.controllers.cronjob.reconciler import CronJobReconciler, Services
from kcr.testing import FakeInformer, FakeRecorder, FakeSource, VirtualClock
from tests.kit.cronjob_builders import cron

pytestmark = pytest.mark.virtual


async def test_nothing_is_kept_of_a_cronjob_that_is_gone(clock: VirtualClock) -> None:
    gone, jobs = cron(), FakeInformer(Job).store
    client, recorder, memory, parking = Client(FakeSource(CronJob)), FakeRecorder(), Memory(), Parking()
    services = Services(
        client=client,
        crons=FakeInformer(CronJob).store,
        jobs=jobs,
        memory=memory,
        parking=parking,
        actions=Actions(client, recorder, lambda seconds: None),
        recorder=recorder,
        clock=clock,
        local=UTC,
        wake=lambda key, seconds: None,
    )
    state = memory.of(gone)
    parking.wrote(gone.key, jobs, "1000000")
    assert await CronJobReconciler(services).reconcile(gone.key) == Result()
    assert memory.of(gone) is not state
    assert not parking.rests(gone.key, lambda: None)
