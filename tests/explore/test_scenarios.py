"""What cannot be explored is named at its line; the texts of findings, invariants and options."""

import asyncio
import random
import secrets
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.testing import explore
from kcr_devcluster.testing.explore import FoundError, ScenarioError, State, Step, World
from tests.explore.api import Shop, ShopReconciler, attach, child, key_of, live_and_change, shop
from tests.explore.faults import call_before_finalizer, generated_name, owner_reference


async def sleeps(world: World) -> None:
    time.sleep(5)  # noqa: ASYNC251  # what the test is about


async def draws(world: World) -> None:
    random.choice([1, 2])


async def draws_secrets(world: World) -> None:
    secrets.token_hex()


async def forgets_to_create(world: World) -> None:
    world.client.create(shop(world))  # type: ignore[unused-coroutine]  # what the test is about


async def forgets_to_settle(world: World) -> None:
    await world.client.create(shop(world))
    world.settled()  # type: ignore[unused-coroutine]  # what the test is about


async def starts_a_process(world: World) -> None:
    subprocess.run(["true"], check=True)  # noqa: ASYNC221  # what the test is about


async def waits_for_ever(world: World) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (sleeps, "test_scenarios.py:.* sleeps sleeps in real time: use asyncio.sleep"),
        (draws, "test_scenarios.py:.* draws draws from random.choice: draw from manager.random"),
        (draws_secrets, "draws_secrets draws from the system's randomness: .*, and passwords from a function that is"),
        (forgets_to_create, "test_scenarios.py:.* forgets_to_create calls Writes.create and does not await it"),
        (forgets_to_settle, "test_scenarios.py:.* forgets_to_settle calls World.settled and does not await it"),
        (starts_a_process, "test_scenarios.py:.* starts_a_process starts a process: give the operator a fake"),
        pytest.param(
            waits_for_ever, "has not ended after twelve hours .* test_scenarios.py:.* waits_for_ever",
            marks=[pytest.mark.soak, pytest.mark.timeout(60)],
        ),
    ],
)  # fmt: skip
def test_scenario_that_leaves_virtual_time_is_named_at_its_line(
    scenario: Callable[[World], Awaitable[None]], words: str
) -> None:
    with pytest.raises(ScenarioError, match=words):
        explore(scenario, owner_reference.correct, kinds=[Shop])


class Drawing(ShopReconciler):
    """Draws, and fails quietly."""

    async def sync(self, shop: Shop) -> None:
        random.random()


def test_operator_that_draws_is_named_although_its_worker_catches_the_error() -> None:
    with pytest.raises(ScenarioError, match=r"test_scenarios.py:\d+ sync draws from random.random"):
        explore(create, lambda manager: attach(manager, Drawing(manager)), kinds=[Shop])


class Forgetting(ShopReconciler):
    """Creates nothing."""

    async def sync(self, shop: Shop) -> None:
        self.client.create(child(shop, "child"))  # type: ignore[unused-coroutine]  # what the test is about


def test_write_that_an_operator_does_not_await_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"test_scenarios.py:\d+ sync calls Writes.create and does not await it"):
        explore(create, lambda manager: attach(manager, Forgetting(manager)), kinds=[Shop])


async def create(world: World) -> None:
    await world.client.create(shop(world))
    await world.settled()


NAMES = iter(range(1000))


class Remembering(ShopReconciler):
    """Names its child by a global."""

    async def sync(self, shop: Shop) -> None:
        if not self.config_maps.list(shop.metadata.namespace):
            await self.client.create(child(shop, f"child-{next(NAMES)}"))


def test_runs_that_differ_without_a_fault_are_refused() -> None:
    with pytest.raises(ScenarioError, match="two runs without a fault differ: create configmaps explore/child-0, and"):
        explore(create, lambda manager: attach(manager, Remembering(manager)), kinds=[Shop])


@pytest.mark.kcr_virtual
async def test_explore_in_a_coroutine_is_refused() -> None:
    with pytest.raises(RuntimeError, match="call it in a plain test"):
        explore(create, owner_reference.correct, kinds=[Shop])


def test_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match=r"only='crash-at@1': 'crash-at@1' is not a fault: use crash-after, "):
        explore(create, owner_reference.correct, kinds=[Shop], only="crash-at@1")


def test_history_has_the_write_with_its_fault_and_how_to_repeat_it() -> None:
    with pytest.raises(FoundError) as found:
        explore(generated_name.scenario, generated_name.faulty, kinds=[Shop], only="crash-after@1")
    lines = str(found.value).splitlines()
    assert lines[0].startswith("[twice] a child was made twice: 2 configmaps of Shop shop are the same")
    assert any(line.endswith("<- crash after it") and "create configmaps explore/shop-" in line for line in lines)
    assert lines[-1] == 'again: explore(…, only="crash-after@1")'


def test_finding_is_shown_without_the_explorer() -> None:
    with pytest.raises(FoundError) as found:
        explore(generated_name.scenario, generated_name.faulty, kinds=[Shop], only="crash-after@1")
    shown = [Path(entry.path).name for entry in found.traceback.filter(found)]
    assert {*shown} == {"test_scenarios.py"}


async def expects_too_much(world: World) -> None:
    await world.client.create(shop(world))
    await world.settled()
    assert (await world.client.get(Shop, key_of(world))).status.charged


def test_expectation_that_fails_without_a_fault_is_told_with_its_history() -> None:
    with pytest.raises(AssertionError) as failed:
        explore(expects_too_much, generated_name.correct, kinds=[Shop])
    (note,) = failed.value.__notes__
    first, *lines = note.splitlines()
    assert first == "without a fault, after these writes:"
    assert [" ".join(line.split()) for line in lines] == [
        "1.0 scenario create shops.example.dev explore/shop",
        "1.0 shop create configmaps explore/shop-backup",
        "1.0 shop patch shops.example.dev explore/shop/status",
    ]
    assert len(lines) <= 12


class Early(ShopReconciler):
    """Notes each shop that it has seen, and removes the note of one that it sees deleted."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        found = self.shops.get(key)
        if found is not None and await kcr.finalized(self.client, found, "example.dev/note", lambda: None):
            await self.client.patch_status(found, replace(found, status=replace(found.status, charged=True)))
        return kcr.Result()


async def expects_a_state(world: World) -> int:
    """Expect what does not hold of a shop that is deleted early."""
    await world.client.create(shop(world))
    await world.settled()
    assert (await world.client.get(Shop, key_of(world))).status.charged
    await world.client.delete(Shop, key_of(world))
    return 1


def test_early_deletion_is_tried_at_writes_before_it_and_expects_less() -> None:
    report = explore(expects_a_state, lambda manager: attach(manager, Early(manager)), kinds=[Shop], only="deleted@1")
    assert report.runs == 3


async def changes_and_deletes(world: World) -> list[str]:
    call_before_finalizer.BUCKETS.clear()
    await live_and_change(world)
    await world.settled()
    return sorted(call_before_finalizer.BUCKETS)


def test_early_deletion_lets_the_scenario_go_on() -> None:
    with pytest.raises(FoundError, match="early leaves more than without a fault: the scenario's result"):
        explore(changes_and_deletes, call_before_finalizer.faulty, kinds=[Shop], only="deleted@1")
    explore(changes_and_deletes, call_before_finalizer.correct, kinds=[Shop], only="deleted@1")


class Naming(ShopReconciler):
    """Draws the name of the backup, writes it into the status, and creates the backup."""

    def __init__(self, manager: kcr.Manager, prefix: str) -> None:
        super().__init__(manager)
        self.random, self.prefix = manager.random, prefix

    async def sync(self, shop: Shop) -> None:
        if not (name := shop.status.backup):
            name = f"{shop.metadata.name}-{self.random.getrandbits(32)}"
            shop = await self.client.patch_status(shop, replace(shop, status=replace(shop.status, backup=name)))
        backup = child(shop, name)
        if self.config_maps.get(backup.key) is None:
            backup = replace(backup, metadata=replace(backup.metadata, generate_name=self.prefix))
            with suppress(kcr.AlreadyExistsError):
                await self.client.create(backup)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("fault", ["crash-before@1", "arrives-late@1", "reply-lost@2", "arrives-late@2"])
def test_name_that_the_operator_draws_is_not_compared_if_it_says_so(fault: str) -> None:
    explore(live_and_change, lambda manager: attach(manager, Naming(manager, "shop-")), kinds=[Shop], only=fault)


def test_name_that_the_operator_draws_is_compared_if_it_looks_fixed() -> None:
    with pytest.raises(FoundError, match="end-state"):
        explore(
            live_and_change, lambda manager: attach(manager, Naming(manager, "")), kinds=[Shop], only="crash-before@1"
        )


def test_invariant_that_does_not_hold_is_found_and_named() -> None:
    def pages_have_owners(state: State) -> None:
        for page in state.list(ConfigMap, "explore"):
            assert page.metadata.owner_references, f"{page.metadata.name} has no owner"

    with pytest.raises(FoundError, match=r"invariant pages_have_owners: shop-page has no owner") as found:
        explore(live_and_change, owner_reference.faulty, kinds=[Shop], invariants=[pages_have_owners])
    # The history ends at the write after which it does not hold.
    assert str(found.value).splitlines()[-2].split()[1:] == ["shop", "create", "configmaps", "explore/shop-page"]
    explore(create, owner_reference.correct, kinds=[Shop], invariants=[pages_have_owners], seconds=0)


def test_invariant_on_the_history_is_judged_at_the_end_of_each_run() -> None:
    def creates_its_page_once(steps: Sequence[Step]) -> None:
        created = [step.what for step in steps if step.verb == "create" and step.who == "shop"]
        assert len(created) <= 1, f"created {len(created)} times"

    def has_no_history(steps: Sequence[Step]) -> bool:
        return not steps

    with pytest.raises(FoundError, match=r"invariant has_no_history: it returned False") as found:
        explore(create, generated_name.correct, kinds=[Shop], history_invariants=[has_no_history])
    assert found.value.only == ""
    # It is the same backup, and yet written again: no other oracle minds.
    checks = [creates_its_page_once]
    with pytest.raises(FoundError, match=r"invariant creates_its_page_once: created 2 times") as found:
        explore(create, generated_name.correct, kinds=[Shop], history_invariants=checks, only="crash-after@1")
    explore(create, generated_name.correct, kinds=[Shop], history_invariants=checks, seconds=0)


class Restamping(ShopReconciler):
    """Gives its condition the present time at each reconcile."""

    async def sync(self, shop: Shop) -> None:
        ready = kcr.Condition(
            type="Ready", status="True", reason="Open", message=shop.spec.text, last_transition_time=self.clock.now()
        )
        await self.client.patch_status(shop, replace(shop, status=replace(shop.status, conditions=(ready,))))


def test_history_of_a_status_that_is_wrong_ends_at_its_write() -> None:
    with pytest.raises(FoundError, match="lastTransitionTime changes, and status stays True") as found:
        explore(live_and_change, lambda manager: attach(manager, Restamping(manager)), kinds=[Shop])
    assert [line.split()[1:3] for line in str(found.value).splitlines()[1:-1]] == [
        ["scenario", "create"],
        ["shop", "patch"],
        ["scenario", "patch"],
        ["shop", "patch"],
    ]


class Counting(ShopReconciler):
    """Has in its status how many pages it has made by itself."""

    async def sync(self, shop: Shop) -> None:
        missing = [
            page for number in range(15) if self.config_maps.get((page := child(shop, f"page-{number}")).key) is None
        ]
        for page in missing:
            await self.client.create(page)
        if missing:
            status = replace(shop.status, text=str(len(missing)))
            await self.client.patch_status(shop, replace(shop, status=status))


def test_history_of_an_end_that_differs_has_the_write_of_its_object() -> None:
    def setup(manager: kcr.Manager) -> None:
        attach(manager, Counting(manager), watches_children=False)

    with pytest.raises(FoundError, match=r'status.text: "14", without a fault "15"') as found:
        explore(create, setup, kinds=[Shop], only="crash-after@1")
    written = [line.split()[1:] for line in str(found.value).splitlines()[1:-1]]
    assert ["shop", "patch", "shops.example.dev", "explore/shop/status"] in written


def test_oracle_that_is_left_out_finds_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.client.create(shop(world))
        await world.settled()
        await world.client.delete(Shop, key_of(world))

    with pytest.raises(FoundError, match="end-state"):
        explore(scenario, owner_reference.faulty, kinds=[Shop], only="crash-after@1")
    explore(scenario, owner_reference.faulty, kinds=[Shop], only="crash-after@1", without=["end-state"])


def test_reconcile_beyond_its_requests_is_found() -> None:
    class Hungry(ShopReconciler):
        async def sync(self, shop: Shop) -> None:
            for _ in range(11):
                await self.client.get(Shop, shop.key)

    def setup(manager: kcr.Manager) -> None:
        attach(manager, Hungry(manager))

    with pytest.raises(FoundError, match="a reconcile of shop takes 11 requests, at most 10 are allowed"):
        explore(create, setup, kinds=[Shop], most_requests=10)


class Declaring(ShopReconciler):
    """Creates a child, and reads it."""

    async def sync(self, shop: Shop) -> None:
        with suppress(kcr.AlreadyExistsError):
            await self.client.create(child(shop, "page"))
        await self.client.get(ConfigMap, kcr.Key(shop.metadata.namespace, "page"))


def declaring(*verbs: str) -> Callable[[kcr.Manager], None]:
    """The setup of an operator that declares some verbs on its children."""

    def setup(manager: kcr.Manager) -> None:
        watches = [kcr.watch(Shop, predicate=kcr.generation_changed)]
        manager.add_controller("shop", Declaring(manager), watches=watches, rights=kcr.rights(ConfigMap, *verbs))

    return setup


def test_write_without_a_declared_right_is_found_and_told() -> None:
    with pytest.raises(FoundError) as found:
        explore(create, declaring("get"), kinds=[Shop])
    lines = str(found.value).splitlines()
    assert lines[0] == "[rights] the declared rights of controller shop lack create configmaps"
    assert [line.split()[1:] for line in lines[1:3]] == [
        ["scenario", "create", "shops.example.dev", "explore/shop"],
        ["shop", "create", "configmaps", "explore/page"],
    ]
    assert lines[-1] == "again: it needs no fault"
    explore(create, declaring("get"), kinds=[Shop], without=["rights"], seconds=0)


def test_operator_that_declares_its_requests_or_nothing_has_no_finding_of_rights() -> None:
    explore(create, declaring("get", "create"), kinds=[Shop], seconds=0)
    with pytest.raises(FoundError, match="lack get configmaps"):
        explore(create, declaring("create"), kinds=[Shop])

    def setup(manager: kcr.Manager) -> None:
        manager.add_controller("shop", Declaring(manager), watches=[kcr.watch(Shop, predicate=kcr.generation_changed)])

    explore(create, setup, kinds=[Shop], seconds=0)


class AsksFirst:
    """A webhook that asks the server, in a dry run, whether it would accept a write."""

    def __init__(self, manager: kcr.Manager, verb: str) -> None:
        self._client, self._verb = manager.client.with_options(dry_run=True), verb

    async def validate_create(self, obj: Shop, request: kcr.WebhookRequest) -> list[str]:
        child = ConfigMap(metadata=kcr.ObjectMeta(name=request.name, namespace=request.namespace))
        with suppress(kcr.NotFoundError):
            await (self._client.apply(child) if self._verb == "apply" else self._client.delete(ConfigMap, child.key))
        return []


@pytest.mark.parametrize("verb", ["apply", "delete"])
def test_dry_run_is_no_write_that_a_fault_happens_at(verb: str) -> None:
    def setup(manager: kcr.Manager) -> None:
        manager.add_webhook(Shop, AsksFirst(manager, verb))

    explore(create, setup, kinds=[Shop], seconds=2)
