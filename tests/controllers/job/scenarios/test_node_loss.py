"""A node that is lost, and what the Job makes of it: row 150 of job-controller §37."""

from typing import Any

import pytest

from kcr.api.core import Node
from kcr.api.meta import Key
from tests.kit.scenario import Simulation, scenario

NODE = "node-1"
IGNORING = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}


@pytest.mark.parametrize(("spec", "counts"), [({}, "A1 F1"), (IGNORING, "A1")], ids=["counted", "ignored"])
@scenario(collects=True)
async def test_pod_of_a_lost_node_is_replaced(sim: Simulation, spec: dict[str, Any], counts: str) -> None:
    # Row 150.
    await sim.client.create_manifest(Node, {"metadata": {"name": NODE}})
    bare = await sim.create_pod("bare")
    await sim.create(**spec)
    await sim.until("A1")
    (lost,) = sim.active()
    await sim.bind(bare, lost)
    await sim.ready(bare, lost)
    await sim.until("A1 R1")
    await sim.client.delete(Node, Key("", NODE))
    await sim.until(counts, there=1, made=3)
    await sim.wait(lambda: {bare.metadata.uid, lost.metadata.uid} <= sim.pods.gone)
    ends = [sim.pods.all[pod.metadata.uid].status for pod in (bare, lost)]
    assert [end.phase for end in ends] == ["Failed", "Failed"]
    for end in ends:
        assert ("DisruptionTarget", "DeletionByPodGC") in [(one.type, one.reason) for one in end.conditions]
    await sim.stays(counts)
