"""Requests and limits as text."""

import msgspec
import pytest

from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.process.resource_fields import ResourceFieldError, resource_text

RESOURCES = {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi", "cpu": "250m"}}
POD = msgspec.convert({"spec": {"containers": [{"name": "main", "resources": RESOURCES}]}}, KubeletPod)


@pytest.mark.parametrize(
    ("resource", "divisor", "text"),
    [
        pytest.param("limits.cpu", "0", "2", id="rounded-up"),
        pytest.param("limits.cpu", "1m", "1500", id="milli"),
        pytest.param("requests.memory", "1Mi", "64", id="mebibytes"),
        pytest.param("requests.memory", "0", str(64 << 20), id="bytes"),
        pytest.param("requests.ephemeral-storage", "0", "0", id="no-request"),
        pytest.param("limits.memory", "1Gi", "256", id="no-limit-is-the-nodes"),
    ],
)
def test_resources_are_counted_in_divisors(resource: str, divisor: str, text: str) -> None:
    # Source: kubernetes/pkg/api/v1/resource/helpers_test.go, TestExtractResourceValue.
    assert resource_text(POD, "main", resource, divisor, {"memory": "256Gi"}) == text


def test_resource_of_no_container_is_an_error() -> None:
    with pytest.raises(ResourceFieldError, match="container other not found"):
        resource_text(POD, "other", "limits.cpu", "0", {})
