"""What the Job controller makes of pods that no Job counts."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.controller import Result
from kcr.controllers.job.handlers import OrphanReconciler
from kcr.testing import FakeInformer, VirtualClock
from tests.kit.scripted_transport import Script

pytestmark = pytest.mark.kcr_virtual


async def test_orphan_that_is_gone_before_its_turn_is_left(kcr_clock: VirtualClock) -> None:
    jobs, pods = FakeInformer(Job).store, FakeInformer(Pod).store
    orphans = OrphanReconciler(Client(Script()), jobs, pods, lambda job: True)
    assert await orphans.reconcile(Key("default", "gone")) == Result()
