"""Watch events that predicates drop: counted by predicate, and told of each object."""

import asyncio
import random
from threading import get_ident

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta, Resource
from kcr.cli.debug.commands import dropped_lines
from kcr.serving.debug.snapshot import ControllerReader
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.debug_states import debug_state

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


class Counts:
    runs = 0

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        self.runs += 1
        return kcr.Result()


async def test_events_are_counted_by_the_predicate_that_drops_them(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, reconciler, client = kcr.Manager(kcr_cluster.client, random=random.Random(0)), Counts(), kcr_cluster.client
    either = kcr.controller.any_of(kcr.generation_changed, kcr.controller.labels_changed)
    watches = [
        kcr.watch(ConfigMap, predicate=kcr.controller.all_of(kcr.controller.labels_changed, either)),
        kcr.watch(ConfigMap, map_to=lambda obj: [], predicate=lambda old, new: is_wanted(new)),
    ]
    controller = manager.add_controller("site", reconciler, watches=watches)
    async with manager.running():
        await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"n": "0"}))
        await kcr_clock.advance(1)
        runs = reconciler.runs
        for number in range(3):
            await client.merge_patch(ConfigMap, kcr.Key("default", "a"), {"data": {"n": f"1{number}"}})
        await kcr_clock.advance(70)
        assert reconciler.runs == runs
        state = ControllerReader(controller, asyncio.get_running_loop().time(), {}, get_ident()).state(10)
        lines = list(dropped_lines(debug_state(state), ["default/a"]))
        where = {"controller": "site", "predicate": "all_of(labels_changed, any_of(generation_changed, "
                 "labels_changed))"}  # fmt: skip
        assert manager.metrics.registry.get_sample_value("kcr_dropped_events_total", where) == 3
        # What a user asks for is not dropped.
        await client.merge_patch(
            ConfigMap, kcr.Key("default", "a"), {"metadata": {"annotations": {"kcr.dev/reconcile-at": "now"}}}
        )
        await kcr_clock.advance(1)
        assert reconciler.runs == runs + 1
        assert manager.metrics.registry.get_sample_value("kcr_dropped_events_total", where) == 3
    assert (
        "site: all_of(labels_changed, any_of(generation_changed, labels_changed)) dropped 3 events of configmaps"
        in lines
    )
    (named,) = [line for line in lines if "lambda" in line]
    assert "lambda at test_dropped_events.py:" in named
    events = [line for line in lines if line.startswith("  default/a ")]
    assert all("→" in line and line.endswith(", 70s ago") for line in events[:3])


def is_wanted(obj: Resource | None) -> bool:
    return obj is None
