"""The limit of retries on values: which change of an object ends a parking, and how a parked key is shown."""

import asyncio
import random
import threading
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.cli.objects.inside import ControllerView, phase_text
from kcr.controller import ControllerOptions
from kcr.controller.gates import GateDecision
from kcr.controller.retries import RetryLimit, is_requested
from kcr.metrics import ControllerMetrics
from kcr.serving.debug.snapshot import ControllerReader
from kcr.serving.debug.state import KeyDetail
from kcr.testing import FakeInformer, VirtualClock, build
from kcr.workqueue import ItemExponential

Widget = kcr.unstructured("example.dev/v1", "Widget", plural="widgets")
KEY = kcr.Key("default", "a")
ERROR = (ValueError("no"),)


def widget(phase: str = "new", size: int = 1, **metadata: Any) -> kcr.Unstructured:
    named = {"name": "a", "namespace": "default", "uid": "u", **metadata}
    return Widget.of({"metadata": named, "spec": {"size": size}, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("changed", "is_parked"),
    [
        pytest.param(widget("other"), True, id="status"),
        pytest.param(widget(labels={"a": "b"}), True, id="labels"),
        pytest.param(widget(size=2), False, id="spec"),
        pytest.param(widget(uid="v"), False, id="created-again"),
        pytest.param(widget(annotations={"kcr.dev/reconcile-at": "now"}), False, id="asked-for"),
        pytest.param(widget(deletionTimestamp="2026-01-01T00:00:00Z"), False, id="deleted"),
        pytest.param(None, False, id="gone"),
    ],
)
def test_change_that_a_reconciler_may_answer_ends_the_parking(
    changed: kcr.Unstructured | None, *, is_parked: bool
) -> None:
    informer = FakeInformer(Widget, widget())
    limit = RetryLimit(0, informer.store.get, lambda key: None, ControllerMetrics(1), None)
    assert limit.check(KEY) is GateDecision.ADMIT
    assert limit.failed(KEY, ERROR, "no")
    informer.delete(widget()) if changed is None else informer.modify(changed)
    assert limit.check(KEY) is (GateDecision.PARK if is_parked else GateDecision.ADMIT)


def test_generation_decides_where_there_is_one() -> None:
    informer = FakeInformer(Widget, widget(generation=1))
    limit = RetryLimit(0, informer.store.get, lambda key: None, ControllerMetrics(1), None)
    limit.check(KEY)
    limit.failed(KEY, ERROR, "no")
    informer.modify(widget(generation=1))
    assert limit.check(KEY) is GateDecision.PARK
    informer.modify(widget(size=2, generation=2))
    assert limit.check(KEY) is GateDecision.ADMIT


def test_key_without_an_object_is_never_parked() -> None:
    limit = RetryLimit(0, lambda key: None, lambda key: None, ControllerMetrics(1), None)
    assert limit.check(KEY) is GateDecision.ADMIT
    assert not limit.failed(KEY, ERROR, "no")


@pytest.mark.parametrize(
    ("before", "after", "asks"), [("", "a", True), ("a", "b", True), ("a", "a", False), ("a", "", False)]
)
def test_new_value_of_the_annotation_asks_for_a_reconcile(before: str, after: str, *, asks: bool) -> None:
    old = build.config_map("a", annotations={"kcr.dev/reconcile-at": before} if before else {})
    metadata = replace(old.metadata, annotations={"kcr.dev/reconcile-at": after} if after else {})
    assert is_requested(old, replace(old, metadata=metadata)) is asks


class Fails:
    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        raise kcr.KcrError("no")


@pytest.mark.kcr_virtual
async def test_debug_page_and_explain_show_a_parked_key(kcr_clock: VirtualClock) -> None:
    informer = FakeInformer(ConfigMap)
    options = ControllerOptions(max_retries=2, limiter=ItemExponential(1, 60))
    controller = kcr.Controller("test", Fails(), options, random=random.Random(0))
    controller.watch(kcr.watch(ConfigMap), informer)
    informer.add(build.config_map("a"))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        await kcr_clock.advance(60)
        controller.queue.add(KEY)
        await kcr_clock.advance(60)
        reader = ControllerReader(controller, asyncio.get_running_loop().time(), {}, threading.get_ident())
        task.cancel()
    state = reader.state(10)
    (key,) = state.keys
    assert (state.parked, key.phase, key.retries, key.error) == (1, "parked", 3, "KcrError: no")
    detail = KeyDetail(controller="test", state=key, runs=(), unconfirmed=(), explanation=None, explanation_error="")
    assert phase_text(ControllerView(detail, None)) == "parked after 3 failures in a row: it is not reconciled"
    controller.release(KEY)
    assert controller.parked == {}
