"""`scheduling-directives.yaml`: where pods shall run is said while the Job is suspended (seed 001)."""

from random import Random
from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.errors import InvalidError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import create, example, job_controller

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "directed")
TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
DIRECTIVES = {
    "metadata": {"labels": {"queue": "fast"}, "annotations": {"why": "free"}},
    "spec": {
        "nodeSelector": {"zone": "a"},
        "tolerations": [TOLERATION],
        "schedulingGates": [{"name": "example.com/g"}],
    },
}  # fmt: skip


async def test_directives_change_only_while_suspended(kcr_clock: VirtualClock) -> None:
    # Examples row 19; job-controller rows 63 to 65.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:

        async def patch(**spec: Any) -> None:
            await cluster.client.strategic_patch(Job, KEY, {"spec": spec})

        await create(cluster.client, example("scheduling-directives"))
        # Row 65: the Job has not been started yet.
        await patch(template={"spec": {"nodeSelector": {"zone": "b"}}})
        async with job_controller(cluster, kcr_clock):
            await kcr_clock.advance(1)
            await patch(template=DIRECTIVES)
            await patch(suspend=False)
            await kcr_clock.advance(1)
            with pytest.raises(InvalidError) as refused:
                await patch(template={"spec": {"nodeSelector": {"zone": "c"}}})
        listed = msgspec.json.decode(await cluster.client.request("GET", "/api/v1/namespaces/default/pods"))
    assert [cause.field for cause in refused.value.causes] == ["spec.template"]
    assert len(listed["items"]) == 2
    for pod in listed["items"]:
        assert pod["spec"]["nodeSelector"] == {"zone": "a"}
        assert TOLERATION in pod["spec"]["tolerations"]
        assert pod["spec"]["schedulingGates"] == [{"name": "example.com/g"}]
        assert (pod["metadata"]["labels"]["queue"], pod["metadata"]["annotations"]["why"]) == ("fast", "free")
