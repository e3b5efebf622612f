from typing import Any

import pytest

from kcr_devcluster.cluster.scheduling.requests import ONE
from tests.kit.scheduling import pod_info


def container(cpu: str, policy: str = "") -> dict[str, Any]:
    always = {"restartPolicy": policy} if policy else {}
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **always}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1.5, id="sum"),
        pytest.param({"initContainers": [container("3"), container("2")], "containers": [container("1")]}, 3, id="ini"),
        pytest.param(
            {"initContainers": [container("1", "Always"), container("3")], "containers": [container("1")]}, 4,
            id="sidecar-beside-init",
        ),
        pytest.param(
            {"initContainers": [container("1", "Always")], "containers": [container("2")]}, 3, id="sidecar-beside-main"
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1.25, id="overhead"),
        pytest.param({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}}, 2, id="pod-level"),
    ],
)  # fmt: skip
def test_requests_are_those_of_the_hungriest_moment(spec: dict[str, Any], cpu: float) -> None:
    # component-helpers/resource/helpers.go, PodRequests.
    assert pod_info(**spec).requests == {"cpu": int(cpu * ONE)}
