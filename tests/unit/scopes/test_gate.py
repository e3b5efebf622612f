"""The gate and the keeper of scopes: phases, waiting keys, and writes that had no answer."""

import asyncio
import random
from collections.abc import Callable
from typing import ClassVar

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.controller.gates import GateDecision
from kcr.controller.generated_names import NamelessCreate, UnansweredCreates
from kcr.scopes.gate import SETTLE_SECONDS, ScopeGate, ScopeKeeper, ScopePhase, unsettled_keys
from kcr.testing import VirtualClock
from kcr.workqueue import Reason

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

A, B, RED = Key("blue", "a"), Key("blue", "b"), Key("red", "a")
OWNER = ConfigMap(metadata=ObjectMeta(name="a", namespace="blue", uid="1"))


class Sleeping:
    """Reconciles a key for as long as an event is not set."""

    def __init__(self) -> None:
        self.reconciled: list[Key] = []
        self.wakes = asyncio.Event()

    async def reconcile(self, key: Key) -> kcr.Result:
        self.reconciled.append(key)
        await self.wakes.wait()
        return kcr.Result()


class ByNamespace(ScopeGate[str]):
    """Namespaces are scopes; a key without one belongs to none."""

    opened_reason: ClassVar[Reason] = Reason("test", "opened")
    settled_reason: ClassVar[Reason] = Reason("test", "settles")

    def __init__(self, controller: kcr.Controller) -> None:
        super().__init__(controller)
        self.phases: dict[str, ScopePhase] = {}
        self.refused: list[Key] = []

    def scope_of(self, key: Key) -> str | None:
        return key.namespace or None

    def phase(self, scope: str) -> ScopePhase | None:
        return self.phases.get(scope)

    def refuse(self, key: Key, scope: str) -> None:
        self.refused.append(key)


def made(**phases: ScopePhase) -> ByNamespace:
    gate = ByNamespace(kcr.Controller("test", Sleeping(), random=random.Random(0)))
    gate.phases |= phases
    return gate


def of_a_recorder(own_writes: kcr.OwnWrites) -> None:
    own_writes.of(OWNER).creates[Key("blue", "child")] = ConfigMap(metadata=ObjectMeta(name="child", namespace="blue"))


def of_the_client(own_writes: kcr.OwnWrites) -> None:
    own_writes.unanswered[A] = {(ConfigMap, Key("blue", "child")): None}


def under_a_drawn_name(own_writes: kcr.OwnWrites) -> None:
    creates = own_writes.generated[A] = UnansweredCreates()
    creates.name_for(NamelessCreate(ConfigMap, "blue", "", "child-", "1"), random.Random(0))


UNANSWERED = pytest.mark.parametrize("unanswered", [of_a_recorder, of_the_client, under_a_drawn_name])


def own_writes_of(gate: ByNamespace) -> kcr.OwnWrites:
    own_writes = gate.controller.own_writes
    assert own_writes is not None
    return own_writes


@pytest.mark.parametrize(
    ("phase", "decision", "is_refused"),
    [
        (ScopePhase.ACTIVE, GateDecision.ADMIT, False),
        (ScopePhase.OPENING, GateDecision.DEFER, False),
        (ScopePhase.DRAINING, GateDecision.DROP, False),
        (ScopePhase.CLOSED, GateDecision.DROP, True),
        (None, GateDecision.DROP, True),
    ],
)
async def test_phase_decides_about_a_key(phase: ScopePhase | None, decision: GateDecision, *, is_refused: bool) -> None:
    gate = made() if phase is None else made(blue=phase)
    assert gate.check(A) is decision
    assert gate.refused == ([A] if is_refused else [])


async def test_key_of_no_scope_is_admitted() -> None:
    assert made().check(Key("", "a")) is GateDecision.ADMIT


async def test_waiting_key_is_enqueued_once_its_scope_is_opened() -> None:
    gate = made(blue=ScopePhase.OPENING, red=ScopePhase.OPENING)
    for key in (A, RED, A):
        gate.check(key)
    gate.opened("blue")
    gate.opened("blue")
    assert len(gate.controller.queue) == 1


async def test_closed_scope_forgets_the_keys_that_waited() -> None:
    gate = made(blue=ScopePhase.OPENING)
    gate.check(A)
    gate.closed("blue")
    gate.opened("blue")
    assert len(gate.controller.queue) == 0


@UNANSWERED
async def test_draining_scope_admits_only_keys_with_an_unanswered_write(
    unanswered: Callable[[kcr.OwnWrites], None],
) -> None:
    gate = made(blue=ScopePhase.DRAINING)
    assert gate.check(A) is GateDecision.DROP
    unanswered(own_writes_of(gate))
    assert (gate.check(A), gate.check(B)) == (GateDecision.ADMIT, GateDecision.DROP)


@UNANSWERED
async def test_unanswered_write_is_settled_by_one_turn_of_its_key(unanswered: Callable[[kcr.OwnWrites], None]) -> None:
    gate = made(blue=ScopePhase.DRAINING, red=ScopePhase.DRAINING)
    unanswered(own_writes_of(gate))
    assert unsettled_keys((gate.controller,)) == (A,)
    assert (gate.settle("red"), gate.settle("blue"), gate.settle("blue")) == (True, False, False)
    assert len(gate.controller.queue) == 1
    own_writes_of(gate).forget(A)
    assert gate.settle("blue")


@UNANSWERED
async def test_scope_with_an_unanswered_write_is_not_drained(
    unanswered: Callable[[kcr.OwnWrites], None], kcr_clock: VirtualClock
) -> None:
    gate, keeper = made(blue=ScopePhase.DRAINING), ScopeKeeper[str, ByNamespace]()
    keeper.gates.append(gate)
    unanswered(own_writes_of(gate))
    began = asyncio.get_running_loop().time()
    assert not await keeper.drain("blue", waits_for_reconciles=True)
    assert asyncio.get_running_loop().time() - began == pytest.approx(SETTLE_SECONDS, abs=0.1)
    assert not keeper.is_settled("blue")
    assert await keeper.drain("red", waits_for_reconciles=True)


@pytest.mark.parametrize("waits", [True, False])
async def test_drained_scope_has_no_running_reconcile(kcr_clock: VirtualClock, *, waits: bool) -> None:
    reconciler = Sleeping()
    gate = ByNamespace(kcr.Controller("test", reconciler, random=random.Random(0)))
    keeper = ScopeKeeper[str, ByNamespace]()
    keeper.gates.append(gate)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(gate.controller.run())
        gate.controller.queue.add(A)
        await kcr_clock.advance(1)
        draining = group.create_task(keeper.drain("blue", waits_for_reconciles=waits))
        await kcr_clock.advance(60)
        # A shard's Lease is left to expire; a namespace is nobody else's.
        assert draining.done() is not waits
        reconciler.wakes.set()
        await kcr_clock.advance(2)
        assert draining.result() is waits
        running.cancel()
