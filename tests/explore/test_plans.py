"""Plans of faults: their order, their texts, and what some of them do to an operator."""

from typing import Any

import pytest

import kcr
from kcr.api.core import Pod
from kcr.api.full.core_v1 import PersistentVolumeClaim
from kcr.testing import explore
from kcr_devcluster.testing.explore import FoundError, World
from kcr_devcluster.testing.explore.history import MOST_LINES, Step, told
from kcr_devcluster.testing.explore.plans import EVENT_FAULTS, WRITE_FAULTS, Plan, parse, plans
from kcr_devcluster.testing.explore.states import RESULT, surplus
from tests.explore.api import Shop, ShopReconciler, attach, child, shop
from tests.explore.faults import generated_name, owner_reference

WRITES = ["create a", "patch b", "patch b", "patch b"]
EVENTS = ["added a"]


def test_single_faults_at_first_and_last_writes_come_first_and_those_between_later() -> None:
    tried = [str(plan) for plan in plans(WRITES, EVENTS, 2)]
    assert tried[:4] == ["crash-after@1", "crash-after@2", "crash-after@4", "reply-lost@1"]
    assert tried.index("crash-after@3") > tried.index("namespace@2") > tried.index("event-late@1")
    assert tried.index("reply-lost@1 crash-after@2") > tried.index("429@3")
    assert [one.partition("@")[0] for one in tried[-2:]] != ["crash-after"] * 2
    assert all("jitter@" in one for one in tried[-2:])
    assert len(tried) == len(set(tried))


def test_every_fault_but_a_change_before_a_create_is_tried() -> None:
    singles = {str(plan) for plan in plans(WRITES, EVENTS, 0) if len(plan.faults) == 1}
    assert singles == {
        *(f"{kind}@{at}" for kind in (*WRITE_FAULTS, "hand-over", "namespace") for at in (1, 2)),
        *(f"{kind}@{at}" for kind in WRITE_FAULTS for at in (3, 4)),
        *(f"{kind}@1" for kind in EVENT_FAULTS),
    } - {"changed@1"}


def test_plan_is_read_from_its_text() -> None:
    plan = parse("jitter@7 crash-after@3 event-late@2")
    assert (str(plan), plan.jitter) == ("jitter@7 crash-after@3 event-late@2", 7)
    assert (plan.at_write(3), plan.at_write(2), plan.at_event(2)) == ("crash-after", "", "event-late")
    assert next(str(one) for one in plan.smaller()) == "crash-after@3 event-late@2"
    assert parse("") == Plan()


def test_history_keeps_the_fault_its_neighbours_and_what_is_wrong() -> None:
    steps = [Step(float(at), "shop", "patch", f"shops default/{at}", 200) for at in range(60)]
    steps[30] = steps[30]._replace(fault="crash after it")
    lines = told(steps, "shops default/50", MOST_LINES - 2)
    assert len(lines) <= MOST_LINES - 2
    shown = "\n".join(lines)
    assert all(f"shops default/{at}" in shown for at in (29, 30, 31, 50))
    assert shown.count("more") == 3


@pytest.mark.timeout(60)
@pytest.mark.parametrize("only", ["hand-over@1", "namespace@2", "event-coalesced@1", "event-relist@2", "jitter@5"])
def test_correct_operator_survives(only: str) -> None:
    explore(generated_name.scenario, generated_name.correct, kinds=[Shop], only=only)


class Caring(ShopReconciler):
    """Waits for its page before a shop goes, also where the namespace is deleted."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if (shop := self.shops.get(key)) is not None:
            await kcr.finalized(self.client, shop, "example.dev/page", lambda: self.clean_up(shop))
        return kcr.Result()

    async def clean_up(self, shop: Shop) -> None:
        await self.client.create(child(shop, "farewell"))


@pytest.mark.soak
@pytest.mark.timeout(60)
def test_finalizer_that_keeps_a_namespace_is_found() -> None:
    async def scenario(world: World) -> None:
        await world.client.create(shop(world))
        await world.settled()

    def setup(manager: kcr.Manager) -> None:
        attach(manager, Caring(manager))

    words = r"explore/shop is never deleted: finalizer example.dev/page stays; shop explore/shop fails: ForbiddenError"
    with pytest.raises(FoundError, match=words):
        explore(scenario, setup, kinds=[Shop], only="namespace@1")


@pytest.mark.timeout(60)
def test_claim_that_a_pod_keeps_is_explained() -> None:
    async def scenario(world: World) -> None:
        about = {"metadata": {"name": "data"}}
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await world.client.create_manifest(PersistentVolumeClaim, {**about, "spec": storage}, world.namespace)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        spec = {"containers": [{"name": "main", "image": "app"}], "volumes": [volume]}
        await world.client.create_manifest(Pod, {**about, "spec": spec}, world.namespace)
        await world.settled()
        await world.client.delete(PersistentVolumeClaim, kcr.Key(world.namespace, "data"))

    words = r"data is never deleted: finalizer kubernetes.io/pvc-protection stays: a pod that mounts it is left"
    with pytest.raises(FoundError, match=words):
        explore(scenario, lambda manager: attach(manager, ShopReconciler(manager)), kinds=[Shop])


def test_late_deletion_of_an_owner_ends_though_its_children_come_and_go() -> None:
    explore(owner_reference.scenario, owner_reference.correct, kinds=[Shop], only="event-late@4")


def test_early_deletion_is_tried_at_writes_for_objects_that_the_scenario_deletes() -> None:
    singles = [str(plan) for plan in plans(WRITES, EVENTS, 0, {1, 3}) if plan.has("deleted")]
    assert singles == ["deleted@1", "deleted@3"]


@pytest.mark.parametrize(
    ("found", "wanted", "more"),
    [
        pytest.param({}, {"shops a": {"data": {}}}, [], id="less"),
        pytest.param({"shops a": {"data": {"x": 2}}}, {"shops a": {"data": {"x": 1}}}, [], id="otherwise"),
        pytest.param({"shops a": {"metadata": {}}}, {}, ["shops a: there"], id="an-object"),
        pytest.param(
            {"shops a": {"data": {"x": "1"}}}, {"shops a": {"data": {}}}, ['shops a.data.x: "1"'], id="an-entry"
        ),
        pytest.param({"shops a": {"status": {"x": 1}}}, {"shops a": {}}, [], id="a-status"),
        pytest.param({RESULT: 2}, {RESULT: 1}, [f"{RESULT}: 2, without a fault 1"], id="larger-number"),
        pytest.param({RESULT: 1}, {RESULT: 2}, [], id="smaller-number"),
        pytest.param({RESULT: ["a", "b", "a"]}, {RESULT: ["a"]}, [f'{RESULT}: "b"', f'{RESULT}: "a"'], id="items"),
        pytest.param({RESULT: {"a": 1}}, {RESULT: {}}, [f"{RESULT}.a: 1"], id="an-entry-of-the-result"),
        pytest.param({RESULT: "a"}, {RESULT: ""}, [f'{RESULT}: "a"'], id="text"),
        pytest.param({RESULT: "a"}, {RESULT: "b"}, [], id="another-text"),
    ],
)
def test_surplus_is_what_one_state_has_more(found: dict[str, Any], wanted: dict[str, Any], more: list[str]) -> None:
    assert list(surplus(found, wanted)) == more
