from datetime import UTC, datetime

import pytest

from kcr.api.meta import ObjectMeta
from kcr.cluster.controllers.scheduler import wants_a_node
from kcr.cluster.node.pods import RunnablePod, RunnableSpec, RunnableStatus


@pytest.mark.parametrize(
    ("pod", "wants"),
    [
        pytest.param(RunnablePod(), True, id="pending"),
        pytest.param(RunnablePod(spec=RunnableSpec(scheduler_name="default-scheduler")), True, id="ours"),
        pytest.param(RunnablePod(spec=RunnableSpec(scheduler_name="other")), False, id="other-scheduler"),
        pytest.param(RunnablePod(spec=RunnableSpec(node_name="n")), False, id="bound"),
        pytest.param(RunnablePod(spec=RunnableSpec(scheduling_gates=({"name": "g"},))), False, id="gated"),
        pytest.param(RunnablePod(status=RunnableStatus(phase="Failed")), False, id="ended"),
        pytest.param(
            RunnablePod(metadata=ObjectMeta(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))), False, id="deleted"
        ),
    ],
)
def test_pods_that_may_have_a_node_get_one(pod: RunnablePod, wants: bool) -> None:
    assert wants_a_node(pod) is wants
