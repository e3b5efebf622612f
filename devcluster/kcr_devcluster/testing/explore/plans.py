"""Faults, and which of them one run has: a plan, which can be written down and repeated."""

import re
from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import NamedTuple

# Faults at a write of the operator, those first that find most. `changed` lets another client change the object first.
WRITE_FAULTS = (
    "crash-after", "reply-lost", "500", "changed", "crash-before", "arrives-late", "reply-late", "503", "429",
)  # fmt: skip
# Faults at a watch event that reaches the operator, not counted those of the first list. After `relist` the watch has
# expired at this event; `coalesced` is the same two seconds later, so that what happens meanwhile is seen at once.
EVENT_FAULTS = ("event-late", "event-twice", "event-relist", "event-coalesced")
# At a write: the leader of two replicas loses its connection, and the other one takes over; or the namespace of the
# scenario is deleted.
_SCOPE_FAULTS = ("hand-over", "namespace")
# At a write for an object that the scenario deletes later: it is deleted now, and the process crashes before the write.
DELETED = "deleted"
# Its number is a seed: all watches deliver late, by times that it draws.
JITTER = "jitter"
_AT_WRITES = frozenset((*WRITE_FAULTS, *_SCOPE_FAULTS, DELETED))
_KNOWN = (*WRITE_FAULTS, *_SCOPE_FAULTS, DELETED, *EVENT_FAULTS, JITTER)
# How many writes lie between the two faults of a pair at most.
_PAIR_BOUND = 2
# So many faults are drawn for one run at most.
_MOST_DRAWN = 3


class Fault(NamedTuple):
    """One fault.

    Attributes:
        kind: What goes wrong, such as `reply-lost`.
        at: At which write of the operator, or at which event, from 1; of all of its processes together.
    """

    kind: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind}@{self.at}"


class Plan(NamedTuple):
    """What goes wrong in one run.

    Attributes:
        faults: The faults; none for a run without.
    """

    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.faults))

    def at_write(self, at: int) -> str:
        """Return what goes wrong at a write of the operator, empty for nothing."""
        return next((fault.kind for fault in self.faults if fault.at == at and fault.kind in _AT_WRITES), "")

    def at_event(self, at: int) -> str:
        """Return what goes wrong at an event that reaches the operator, empty for nothing."""
        return next((fault.kind for fault in self.faults if fault.at == at and fault.kind in EVENT_FAULTS), "")

    def has(self, kind: str) -> bool:
        """Return whether there is a fault of a kind."""
        return any(fault.kind == kind for fault in self.faults)

    @property
    def jitter(self) -> int:
        """The seed of the delays of all events; 0 for none."""
        return next((fault.at for fault in self.faults if fault.kind == JITTER), 0)

    def smaller(self) -> Iterator["Plan"]:
        """Yield the plans that lack one of the faults; not the one without any."""
        for left_out in self.faults if len(self.faults) > 1 else ():
            yield self._replace(faults=tuple(fault for fault in self.faults if fault != left_out))


def parse(text: str) -> Plan:
    """Return the plan that a report has named.

    Args:
        text: Such as `crash-after@3`, or several faults with spaces between them.

    Raises:
        ValueError: It is none.
    """
    faults = []
    for word in text.split():
        found = re.fullmatch(r"([a-z0-9-]+)@([1-9]\d*)", word)
        if found is None or found[1] not in _KNOWN:
            raise ValueError(
                f"explore: only={text!r}: {word!r} is not a fault: use {', '.join(_KNOWN)}, and @ with its number"
            )
        faults.append(Fault(found[1], int(found[2])))
    return Plan(tuple(faults))


def plans(writes: Sequence[str], events: Sequence[str], runs: int, deletable: Collection[int] = ()) -> Iterator[Plan]:
    """Yield the plans to try: each single fault first, then pairs of a fault and a crash, then drawn ones.

    A fault at a repeated write or event finds little that one at the first of them does not, so the repeated ones come
    later. The last write of an object is no repetition: it removes the finalizer, or no later one makes good for it.

    Args:
        writes: The operator's writes in a run without a fault, each as verb and object.
        events: The events that reached the operator.
        runs: How many plans are drawn.
        deletable: The numbers of the writes for an object that the scenario deletes later.
    """
    first_writes, more_writes = _first_and_others(writes)
    first_events, more_events = _first_and_others(events)
    last_writes = [at for at in more_writes if writes[at - 1] not in writes[at:]]
    more_writes = [at for at in more_writes if at not in last_writes]
    yield from _singles(WRITE_FAULTS, sorted(first_writes + last_writes), writes)
    yield from _singles(EVENT_FAULTS, first_events, events)
    yield from _singles(_SCOPE_FAULTS, first_writes, writes)
    yield from _singles((DELETED,), sorted(deletable), writes)
    yield from _singles(WRITE_FAULTS, more_writes, writes)
    yield from _singles(EVENT_FAULTS, more_events, events)
    for first in (*first_writes, *last_writes, *more_writes):
        for second in range(first + 1, min(first + _PAIR_BOUND, len(writes)) + 1):
            for kind in WRITE_FAULTS:
                yield Plan((Fault(kind, first), Fault("crash-after", second)))
    for seed in range(1, runs + 1):
        yield _drawn(seed, len(writes), len(events))


def _first_and_others(happened: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the places, from 1, at which something happened first, and those at which it did again."""
    seen: set[str] = set()
    first: list[int] = []
    others: list[int] = []
    for at, what in enumerate(happened, start=1):
        (others if what in seen else first).append(at)
        seen.add(what)
    return first, others


def _singles(kinds: Sequence[str], places: Sequence[int], happened: Sequence[str]) -> Iterator[Plan]:
    for kind in kinds:
        for at in places:
            # What is created cannot be changed before.
            if kind != "changed" or not happened[at - 1].startswith("create "):
                yield Plan((Fault(kind, at),))


def _drawn(seed: int, writes: int, events: int) -> Plan:
    random = Random(seed)
    faults = {Fault(JITTER, seed)}
    for _ in range(random.randint(0, _MOST_DRAWN)):
        if writes and random.random() < 0.7:
            faults.add(Fault(random.choice(WRITE_FAULTS), random.randint(1, writes)))
        elif events:
            faults.add(Fault(random.choice(EVENT_FAULTS), random.randint(1, events)))
    return Plan(tuple(sorted(faults)))
