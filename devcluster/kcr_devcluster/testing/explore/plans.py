"""Faults, and which of them one run has: a plan, which can be written down and repeated."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Faults at a write of the operator, those first that find most. `changed` lets another client change the object first.
WRITE_FAULTS = (
    "crash-after", "reply-lost", "500", "changed", "crash-before", "reply-late", "503", "429",
)  # fmt: skip
_CRASHES = ("crash-after", "crash-before")
# How many writes lie between the two faults of a pair at most.
_PAIR_BOUND = 2


class Fault(NamedTuple):
    """One fault.

    Attributes:
        kind: What goes wrong, such as `reply-lost`.
        at: At which write of the operator, from 1; of all of its processes together.
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

    def kinds_at(self, at: int) -> str:
        """Return what goes wrong at a write of the operator, empty for nothing."""
        return next((fault.kind for fault in self.faults if fault.at == at), "")

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
        if found is None or found[1] not in WRITE_FAULTS:
            known = ", ".join(WRITE_FAULTS)
            raise ValueError(f"explore: only={text!r}: {word!r} is no fault: write one of {known}, and @ its number")
        faults.append(Fault(found[1], int(found[2])))
    return Plan(tuple(faults))


def plans(writes: Sequence[str]) -> Iterator[Plan]:
    """Yield the plans to try: each single fault first, then pairs of a fault and a crash soon after it.

    Args:
        writes: The operator's writes in a run without a fault, each as verb and object. A fault at a repeated write
            finds little that one at the first of them does not, so the repeated ones come later.
    """
    places = range(1, len(writes) + 1)
    firsts = {write: at for at, write in zip(reversed(places), reversed(writes), strict=True)}
    order = sorted(places, key=lambda at: firsts[writes[at - 1]] != at)
    is_first = {at: firsts[writes[at - 1]] == at for at in places}
    for wanted in (True, False):
        for kind in WRITE_FAULTS:
            yield from (
                Plan((Fault(kind, at),)) for at in order if is_first[at] == wanted and _fits(kind, writes[at - 1])
            )
    for first in order:
        for second in range(first + 1, min(first + _PAIR_BOUND, len(writes)) + 1):
            for kind in WRITE_FAULTS:
                yield Plan((Fault(kind, first), Fault("crash-after", second)))


def _fits(kind: str, write: str) -> bool:
    """Return whether a fault can happen at a write: what is created cannot be changed before."""
    return kind != "changed" or not write.startswith("create ")
