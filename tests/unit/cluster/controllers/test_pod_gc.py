from datetime import UTC, datetime

import pytest

from kcr.api.core import Pod, PodStatus
from kcr.api.meta import ObjectMeta
from kcr_devcluster.cluster.controllers.pod_gc import surplus


def pod(name: str, hour: int, phase: str = "Succeeded", reason: str = "") -> Pod:
    created = datetime(2026, 1, 1, hour, tzinfo=UTC)
    return Pod(metadata=ObjectMeta(name=name, creation_timestamp=created), status=PodStatus(phase=phase, reason=reason))


PODS = [
    pod("young", 3), pod("old", 1), pod("b", 2), pod("a", 2), pod("evicted", 4, "Failed", "Evicted"),
    pod("running", 0, "Running"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0, ["evicted", "old", "a", "b", "young"]), (3, ["evicted", "old"]), (5, []), (6, [])],
)
def test_evicted_then_oldest_finished_pods_are_surplus(threshold: int, expected: list[str]) -> None:
    assert [each.metadata.name for each in surplus(PODS, threshold)] == expected
