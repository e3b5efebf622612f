"""What the Job controller makes of pods that no Job counts."""

import pytest
from prometheus_client import CollectorRegistry

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.controller import Batching, OwnWrites, Result
from kcr.controllers.job.decisions.pods import UNSETTLED, index_unsettled
from kcr.controllers.job.fleet import Fleet
from kcr.controllers.job.handlers import JobEvents, Keys, OrphanReconciler
from kcr.controllers.job.memory import Memory
from kcr.testing import FakeInformer, VirtualClock
from kcr.workqueue import WorkQueue
from tests.kit.builders import job
from tests.kit.scripted_transport import Script

pytestmark = pytest.mark.kcr_virtual


async def test_orphan_that_is_gone_before_its_turn_is_left(kcr_clock: VirtualClock) -> None:
    jobs, pods = FakeInformer(Job).store, FakeInformer(Pod).store
    orphans = OrphanReconciler(Client(Script()), jobs, pods, lambda job: True)
    assert await orphans.reconcile(Key("default", "gone")) == Result()


async def test_deleted_job_is_reconciled_once_more() -> None:
    # A reconcile that is running remembers the Job again, after its state was dropped.
    memory = Memory(OwnWrites(), Batching(WorkQueue(), 1.0), Fleet(CollectorRegistry(), 1))
    queue, gone = WorkQueue[Key](), job()
    pods = FakeInformer(Pod).store
    pods.add_index(UNSETTLED, index_unsettled)
    JobEvents(Keys(queue, WorkQueue(), memory, lambda one: True), pods).on_delete(gone, final_state_unknown=False)
    assert queue.state(gone.key).queued is not None
