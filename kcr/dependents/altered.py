"""Created objects that a mutating webhook or policy alters so that their owner loses them.

Without its owner's labels, owner reference or finalizer an object is not found, counted or adopted as its owner's, and
the owner would create another one in its place, without end. So such a create counts as a refused one: the object is
deleted again, and the next create of this owner waits, twice as long each time.
"""

from collections.abc import Callable
from typing import Any

from kcr.api.meta import Resource, is_controlled_by
from kcr.errors import KcrError

# Between two tries: the first pause, and the longest.
# Source: kubernetes/pkg/controller/job/job_controller.go, DefaultJobApiBackOff and MaxJobApiBackOff.
FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0

# Whether the selector of an owner picks an object.
Selects = Callable[[Any, Any], bool]


class AlteredObjectError(KcrError):
    """A created object was altered so that its owner would lose it.

    Attributes:
        is_repeated: Whether nothing was sent this time, because the last try was just now.
    """

    def __init__(self, message: str, *, is_repeated: bool = False) -> None:
        super().__init__(message)
        self.is_repeated = is_repeated


class CreateBackoffs:
    """When owners may create again of which an object was altered; by uid, for as long as that lasts."""

    def __init__(self) -> None:
        """Know of no such owner."""
        # The last pause of each, when it ends, and the error that began it.
        self._pauses: dict[str, tuple[float, float, str]] = {}

    def note(self, owner: Resource, error: AlteredObjectError, now: float) -> None:
        """Note a create whose object was altered, at a time of the loop; those of one batch count once."""
        seconds, until, _ = self._pauses.get(owner.metadata.uid, (0.0, now, ""))
        if now < until:
            return
        # An owner that has not created for long begins again; so none is kept endlessly.
        self._pauses = {uid: pause for uid, pause in self._pauses.items() if now < pause[1] + 2 * MOST_SECONDS}
        seconds = min(2 * seconds, MOST_SECONDS) or FIRST_SECONDS
        self._pauses[owner.metadata.uid] = (seconds, now + seconds, str(error))

    def forget(self, owner: Resource) -> None:
        """Note that an owner's object was created as asked for."""
        if self._pauses:
            self._pauses.pop(owner.metadata.uid, None)

    def refusal(self, owner: Resource, now: float) -> AlteredObjectError | None:
        """Return the error of a create that comes too early; None for one that may be sent."""
        pause = self._pauses.get(owner.metadata.uid)
        return AlteredObjectError(pause[2], is_repeated=True) if pause is not None and now < pause[1] else None


def alterations(owner: Resource, sent: Resource, made: Resource, selects: Selects | None) -> str:
    """Return the alterations by which an owner would lose a created object; empty if there are none.

    Args:
        owner: Whose object it is to be.
        sent: The object as it was sent.
        made: The object as the server has stored it.
        selects: Whether the owner's selector picks an object; None for an owner that finds its objects by the owner
            reference alone.
    """
    found: list[str] = []
    if selects is not None and not selects(owner, made):
        labels = made.metadata.labels
        changed = [name for name, value in sent.metadata.labels.items() if labels.get(name) != value]
        found += [
            f"its label {name} is {labels[name]!r}" if name in labels else f"its label {name} is missing"
            for name in changed
        ] or ["the selector does not match it"]
    if not is_controlled_by(made, owner):
        found.append("its owner reference is missing")
    found += [
        f"its finalizer {name} is missing" for name in sent.metadata.finalizers if name not in made.metadata.finalizers
    ]
    return ", ".join(found)
