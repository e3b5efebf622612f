"""What happened in a run: the requests that write, and the few lines of them that explain a fault."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

# A report has this many lines at most, with its first and last ones.
MOST_LINES = 12
_WIDTH = 110


class Step(NamedTuple):
    """A write, or something else that happened.

    Attributes:
        seconds: When, in seconds of virtual time.
        who: The controller that wrote, `scenario`, `cluster` for the cluster's own controllers, or `kcr`.
        verb: `create`, `update`, `patch` or `delete`; empty where it is no write.
        what: The object, as `websites.example.dev default/shop`, with the subresource.
        status: The code of the answer; 0 for none.
        fault: What went wrong at it, in words; empty for nothing.
        number: Which write of the operator it is, from 1; 0 for writes of others.
    """

    seconds: float
    who: str
    verb: str
    what: str
    status: int = 0
    fault: str = ""
    number: int = 0

    def __str__(self) -> str:
        refused = f"  {self.status}" if self.status >= 300 else ""
        fault = f"   <- {self.fault}" if self.fault else ""
        action = f"{self.verb:<6} " if self.verb else ""
        return f"{self.seconds:8.1f}  {self.who:<12} {action}{self.what}{refused}"[:_WIDTH] + fault


def told(steps: Sequence[Step], about: str, room: int) -> list[str]:
    """Return the lines of a history that matter most, in their order.

    Args:
        steps: What happened.
        about: The object that is wrong, as steps name it; empty for none.
        room: How many lines at most.
    """
    if len(steps) <= room:
        return list(map(str, steps))
    faults = [place for place, step in enumerate(steps) if step.fault]
    nearest = min(faults, default=len(steps) - 1)

    def distance(place: int) -> int:
        return min((abs(place - fault) for fault in faults), default=abs(place - nearest))

    by_weight: list[Callable[[int], bool]] = [
        lambda place: bool(steps[place].fault),
        lambda place: (
            steps[place].who == "scenario"
            and place < nearest
            and not any(step.who == "scenario" for step in steps[:place])
        ),
        lambda place: bool(about) and steps[place].what.startswith(about) and place > nearest,
        lambda place: distance(place) == 1,
        lambda place: bool(about) and steps[place].what.startswith(about),
        lambda place: steps[place].who == "scenario",
        lambda place: True,
    ]
    chosen: set[int] = set()
    for matters in by_weight:
        for place in sorted(range(len(steps)), key=distance):
            if place in chosen or not matters(place):
                continue
            if len(_with_gaps(steps, chosen | {place})) <= room:
                chosen.add(place)
    return _with_gaps(steps, chosen)


def _with_gaps(steps: Sequence[Step], chosen: set[int]) -> list[str]:
    """Return the chosen lines, with a line for each gap between them."""
    lines: list[str] = []
    last = -1
    for place in [*sorted(chosen), len(steps)]:
        if (left_out := place - last - 1) > 0:
            lines.append(f"{'…':>8}  {left_out} more")
        if place < len(steps):
            lines.append(str(steps[place]))
        last = place
    return lines
