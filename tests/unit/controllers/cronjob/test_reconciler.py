from datetime import UTC

import pytest
from prometheus_client import CollectorRegistry

from kcr.api.batch import CronJob, Job
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.controller import OwnWrites, Result
from kcr.controllers.cronjob.actions import Actions
from kcr.controllers.cronjob.memory import Memory
from kcr.controllers.cronjob.metrics import CronJobMetrics
from kcr.controllers.cronjob.reconciler import CronJobReconciler
from kcr.testing import FakeInformer, FakeRecorder, FakeSource, VirtualClock
from kcr.workqueue import WorkQueue
from tests.kit.cronjob_builders import cron

pytestmark = pytest.mark.kcr_virtual


async def test_nothing_is_kept_of_a_cronjob_that_is_gone(kcr_clock: VirtualClock) -> None:
    gone, crons, jobs = cron(), FakeInformer(CronJob).store, FakeInformer(Job).store
    client, recorder, memory, own_writes = Client(FakeSource(CronJob)), FakeRecorder(), Memory(), OwnWrites()
    reconciler = CronJobReconciler(
        client=client,
        crons=crons,
        jobs=jobs,
        memory=memory,
        own_writes=own_writes,
        actions=Actions(client, recorder, crons, jobs, own_writes, lambda seconds: None),
        recorder=recorder,
        clock=kcr_clock,
        local=UTC,
        queue=WorkQueue(),
        metrics=CronJobMetrics(CollectorRegistry(), 1),
    )
    state = memory.of(gone)
    own_writes.require_version(gone.key, jobs, Job(metadata=ObjectMeta(name="a", resource_version="1000000")))
    assert await reconciler.reconcile(gone.key) == Result()
    assert memory.of(gone) is not state
    assert not own_writes.defer_if_stale(gone.key, lambda: None)
