from datetime import UTC, datetime

import pytest

from kcr.api.kubelet import KubeletPod, KubeletPodSpec, KubeletPodStatus
from kcr.api.meta import ObjectMeta
from kcr.cluster.controllers.scheduler import wants_a_node


@pytest.mark.parametrize(
    ("pod", "wants"),
    [
        pytest.param(KubeletPod(), True, id="pending"),
        pytest.param(KubeletPod(spec=KubeletPodSpec(scheduler_name="default-scheduler")), True, id="ours"),
        pytest.param(KubeletPod(spec=KubeletPodSpec(scheduler_name="other")), False, id="other-scheduler"),
        pytest.param(KubeletPod(spec=KubeletPodSpec(node_name="n")), False, id="bound"),
        pytest.param(KubeletPod(spec=KubeletPodSpec(scheduling_gates=({"name": "g"},))), False, id="gated"),
        pytest.param(KubeletPod(status=KubeletPodStatus(phase="Failed")), False, id="ended"),
        pytest.param(
            KubeletPod(metadata=ObjectMeta(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))), False, id="deleted"
        ),
    ],
)
def test_pods_that_may_have_a_node_get_one(pod: KubeletPod, wants: bool) -> None:
    assert wants_a_node(pod) is wants
