from datetime import UTC, datetime

import pytest

from kcr.api.meta import ObjectMeta
from kcr_devcluster.cluster.scheduling.objects import ScheduledPod, ScheduledPodSpec, ScheduledPodStatus, wants_a_node


@pytest.mark.parametrize(
    ("pod", "wants"),
    [
        pytest.param(ScheduledPod(), True, id="pending"),
        pytest.param(ScheduledPod(spec=ScheduledPodSpec(scheduler_name="default-scheduler")), True, id="ours"),
        pytest.param(ScheduledPod(spec=ScheduledPodSpec(scheduler_name="other")), False, id="other-scheduler"),
        pytest.param(ScheduledPod(spec=ScheduledPodSpec(node_name="n")), False, id="bound"),
        pytest.param(ScheduledPod(spec=ScheduledPodSpec(scheduling_gates=({"name": "g"},))), False, id="gated"),
        pytest.param(ScheduledPod(status=ScheduledPodStatus(phase="Failed")), False, id="ended"),
        pytest.param(
            ScheduledPod(metadata=ObjectMeta(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))), False, id="deleted"
        ),
    ],
)
def test_pods_that_may_have_a_node_get_one(pod: ScheduledPod, wants: bool) -> None:
    assert wants_a_node(pod) is wants
