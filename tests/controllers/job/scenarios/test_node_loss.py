"""A node that is lost, and what the Job makes of it: row 150 of job-controller §37."""

from typing import Any

import pytest

from kcr.api.core import Node
from kcr.api.meta import Key
from tests.kit.scenario import World, flow

NODE = "node-1"
IGNORING = {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}


@pytest.mark.parametrize(("spec", "counts"), [({}, "A1 F1"), (IGNORING, "A1")], ids=["counted", "ignored"])
@flow(collects=True)
async def test_pod_of_a_lost_node_is_replaced(world: World, spec: dict[str, Any], counts: str) -> None:
    # Row 150.
    await world.client.create_manifest(Node, {"metadata": {"name": NODE}})
    bare = await world.create_pod("bare")
    await world.create(**spec)
    await world.until("A1")
    (lost,) = world.active()
    await world.bind(bare, lost)
    await world.ready(bare, lost)
    await world.until("A1 R1")
    await world.client.delete(Node, Key("", NODE))
    await world.until(counts, there=1, made=3)
    await world.wait(lambda: {bare.metadata.uid, lost.metadata.uid} <= world.pods.gone)
    ends = [world.pods.all[pod.metadata.uid].status for pod in (bare, lost)]
    assert [end.phase for end in ends] == ["Failed", "Failed"]
    for end in ends:
        assert ("DisruptionTarget", "DeletionByPodGC") in [(one.type, one.reason) for one in end.conditions]
    await world.stays(counts)
