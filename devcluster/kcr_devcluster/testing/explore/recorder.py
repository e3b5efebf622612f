"""Watches one run: every request that writes, and every change of an object.

The oracles that judge single changes are here: a child made twice, a status that goes back, an invariant of the author.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from kcr.client import Request
from kcr_devcluster.apiserver.storage.records import Change, Record
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.testing.explore.history import Step
from kcr_devcluster.testing.explore.states import Names, State, content_of, is_ignored

T = TypeVar("T")
Invariant = Callable[[State], object]
HistoryInvariant = Callable[[Sequence[Step]], object]

# Who writes, by the task that sends the request: tasks of the cluster's own controllers have no other value.
ACTOR: ContextVar[str] = ContextVar("kcr_explore_actor", default="cluster")
OPERATOR, SCENARIO, OTHER = "operator", "scenario", "other"

# An object that the operator has changed so often, while nothing else happened, is written on and on.
MOST_CHANGES = 60
# A condition that changes and changes back within so many seconds of virtual time flaps.
_FLAP_SECONDS = 10.0


class Violation(NamedTuple):
    """What an oracle has to object.

    Attributes:
        oracle: The oracle.
        text: What is wrong.
        about: The object that it is about, as steps name it; empty for none.
        steps: How many steps there were when it was seen, the one that is wrong included; 0 if it was seen at the end.
    """

    oracle: str
    text: str
    about: str = ""
    steps: int = 0


class _Transition(NamedTuple):
    status: str
    seconds: float
    # How many changes others had made by then.
    foreign: int


class Recorder:
    """What has happened in a run so far.

    Attributes:
        steps: Writes, and changes by the cluster's own controllers.
        writes: Verb and object of each write of the operator.
        deletable: The numbers of its writes for an object that the scenario deletes later.
        events: The watch events that have reached the operator, without those of first lists.
        names: Of all objects that there have been.
        written: The uids of the objects that the operator or the scenario has written.
        states: The objects whenever the cluster had settled, see `canonical`.
        violations: What was wrong so far.
        gone: The last states of objects that are deleted, as JSON, by their names in steps.
        is_cut_short: Whether the scenario has failed because of the fault.
        peaks: How many children with the same owner, kind and content lived at the same time at most.
        requests: How many requests each reconcile took, by controller and id of the reconcile.
        changed: When an object was changed last, in seconds of virtual time.
        own_changes: How many changes the operator has made.
    """

    def __init__(self, storage: Storage, invariants: Sequence[Invariant], deletions: dict[str, Request]) -> None:
        """Watch a run.

        Args:
            storage: Has the objects.
            invariants: The author's.
            deletions: The scenario's deletions, by the namespace and name of the object, of all runs so far.
        """
        self.steps: list[Step] = []
        self.writes: list[str] = []
        self.deletable: set[int] = set()
        self.events: list[str] = []
        self.names: Names = Names()
        self.written: set[str] = set()
        self.states: list[dict[str, Any]] = []
        self.violations: list[Violation] = []
        self.gone: dict[str, bytes] = {}
        self.is_cut_short: bool = False
        self.peaks: dict[tuple[str, ...], int] = {}
        self.requests: Counter[tuple[str, str]] = Counter()
        self.changed: float = 0.0
        self.own_changes: int = 0
        self._state, self._invariants = State(storage), invariants
        # Of each write the objects that it is for: its own, and that of its reconcile.
        self._written_for: list[tuple[str, ...]] = []
        self._deletions = deletions
        self._foreign_changes = 0
        self._since_foreign: Counter[str] = Counter()
        self._children: dict[str, tuple[str, ...]] = {}
        self._conditions: dict[tuple[str, str], list[_Transition]] = {}
        storage.observers.append(self._note)

    @property
    def written_on_and_on(self) -> str:
        """The object that the operator changes again and again while nothing else happens, empty for none."""
        return next((name for name, count in self._since_foreign.items() if count >= MOST_CHANGES), "")

    def write_for(self, write: str, *objects: str) -> int:
        """Note a write of the operator before it is sent; return its number.

        Args:
            write: Verb and object.
            objects: Namespace and name of those that it is for.
        """
        self.writes.append(write)
        self._written_for.append(objects)
        return len(self.writes)

    def delete(self, name: str, request: Request) -> None:
        """Note a deletion by the scenario.

        Args:
            name: Namespace and name of the object.
            request: The request.
        """
        self._deletions.setdefault(name, request)
        self.deletable.update(number for number, objects in enumerate(self._written_for, start=1) if name in objects)

    def deletion_for(self, number: int) -> Request | None:
        """Return the scenario's deletion of an object that a write is for, None where there is none."""
        return next((self._deletions[one] for one in self._written_for[number - 1] if one in self._deletions), None)

    def object_to(self, oracle: str, text: str, about: str = "") -> None:
        """Note what is wrong with the last step.

        Args:
            oracle: The oracle that objects.
            text: What is wrong.
            about: The object, as steps name it; empty for none.
        """
        self.violations.append(Violation(oracle, text, about, len(self.steps)))

    def _note(self, change: Change) -> None:
        record = change.record
        if is_ignored(record):
            return
        actor, now = ACTOR.get(), asyncio.get_running_loop().time()
        self.changed = now
        name = name_of(record)
        if change.old is None:
            self.names.learn(record)
        if change.new is None:
            self.gone[name] = record.data
        if actor in (OPERATOR, SCENARIO):
            self.written.add(record.metadata.uid)
        if actor == OPERATOR:
            self.own_changes += 1
            self._since_foreign[name] += 1
        else:
            self._foreign_changes += 1
            self._since_foreign.clear()
        if actor in ("cluster", OTHER):
            verb = "create" if change.old is None else "delete" if change.new is None else "update"
            who = "cluster" if actor == "cluster" else "another"
            self.steps.append(Step(now, who, verb, name, 200))
        self._follow_children(change, is_own=actor == OPERATOR)
        if actor == OPERATOR and change.old is not None and change.new is not None:
            self._judge_status(change.old, change.new, now)
        self._check_invariants()

    def _follow_children(self, change: Change, *, is_own: bool) -> None:
        """Count the living children of an owner that the operator has made with the same content."""
        record, uid = change.record, change.record.metadata.uid
        if change.new is None or record.metadata.deletion_timestamp is not None:
            self._children.pop(uid, None)
            return
        owner = next((one for one in record.metadata.owner_references if one.controller), None)
        if change.old is not None or not is_own or owner is None:
            return
        content = content_of(record, self.names)
        same = (record.kind.type.display, record.metadata.namespace, owner.uid, content)
        self._children[uid] = same
        live = sum(one == same for one in self._children.values())
        stable = (same[0], same[1], f"{owner.kind} {owner.name}", content)
        self.peaks[stable] = max(live, self.peaks.get(stable, 0))

    def _judge_status(self, old: Record, new: Record, now: float) -> None:
        before, after = _status_of(old), _status_of(new)
        if before == after:
            return
        name = name_of(new)
        was, now_is = before.get("observedGeneration"), after.get("observedGeneration")
        if isinstance(was, int) and isinstance(now_is, int) and now_is < was:
            text = f"status.observedGeneration of {name} goes back from {was} to {now_is}"
            self.object_to("status", text, name)
        conditions = _conditions_of(before)
        for kind, condition in _conditions_of(after).items():
            self._judge_condition(new, conditions.get(kind, {}), condition, now)

    def _judge_condition(self, record: Record, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        name, kind, status = name_of(record), after["type"], str(after.get("status"))
        was, now_is = before.get("lastTransitionTime"), after.get("lastTransitionTime")
        if was and now_is and now_is < was:
            text = f"condition {kind} of {name}: lastTransitionTime goes back from {was} to {now_is}"
            self.object_to("status", text, name)
        elif was and now_is != was and before.get("status") == status:
            text = f"condition {kind} of {name}: lastTransitionTime changes, and status stays {status}"
            self.object_to("status", text, name)
        if before.get("status") == status:
            return
        past = self._conditions.setdefault((record.metadata.uid, kind), [])
        past.append(_Transition(status, now, self._foreign_changes))
        if len(past) < 3:
            return
        first, middle, last = past[-3:]
        if first.status == last.status and first.foreign == last.foreign and now - middle.seconds < _FLAP_SECONDS:
            flaps = f"{first.status}, {middle.status}, {last.status}"
            text = f"condition {kind} of {name} flaps: {flaps}; nothing else changed"
            self.object_to("status", text, name)

    def _check_invariants(self) -> None:
        for invariant in self._invariants:
            self.check(invariant, self._state)

    def check(self, invariant: Callable[[T], object], value: T) -> None:
        """Call an invariant, and note that it does not hold.

        Args:
            invariant: The author's.
            value: What it is about.
        """
        try:
            held = invariant(value)
        except AssertionError as error:
            text = str(error).partition("\n")[0]
        else:
            if held is not False:
                return
            text = "it returned False"
        name = getattr(invariant, "__name__", repr(invariant))
        self.object_to("invariant", f"invariant {name}: {text or 'it does not hold'}")


def name_of(record: Record) -> str:
    """Return an object as steps name it: `websites.example.dev default/shop`."""
    name = "/".join(filter(None, (record.metadata.namespace, record.metadata.name)))
    return f"{record.kind.type.display} {name}"


def _status_of(record: Record) -> Mapping[str, Any]:
    found = json.loads(record.body).get("status")
    return found if isinstance(found, dict) else {}


def _conditions_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = status.get("conditions")
    return (
        {one["type"]: one for one in found if isinstance(one, dict) and "type" in one}
        if isinstance(found, list)
        else {}
    )
