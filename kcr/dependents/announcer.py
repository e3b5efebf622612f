"""What people are told about the objects that are made and deleted for another one."""

from collections.abc import Iterable, Sequence

from kcr.api.meta import Resource
from kcr.errors import ApiError, KcrError
from kcr.events import EventRecorder

EVENTS_PER_ROUND = 3
SUMMARY_BYTES = 1024


class Announcer:
    """Writes the events about one kind of dependents to their owner.

    Of each round the first three objects get an event of their own, the others share one. Failures are never
    summarised; and in a namespace that goes away, a refused creation is no failure.

    Source: kubernetes/pkg/controller/controller_utils.go, RealPodControl; there each object has an event.
    """

    def __init__(self, recorder: EventRecorder, noun: str) -> None:
        """Make an announcer.

        Args:
            recorder: Writes the events.
            noun: What one object is called, such as `pod`.
        """
        self._recorder = recorder
        self._noun = noun

    def created(self, owner: Resource, names: Sequence[str]) -> None:
        """Tell about a round of creations."""
        self._announce(owner, "SuccessfulCreate", "Created", names)

    def deleted(self, owner: Resource, names: Sequence[str]) -> None:
        """Tell about a round of deletions."""
        self._announce(owner, "SuccessfulDelete", "Deleted", names)

    def not_created(self, owner: Resource, errors: Iterable[KcrError]) -> KcrError | None:
        """Tell about creations that failed, and return the first failure."""
        return self._complain(owner, "FailedCreate", "Error creating", errors)

    def not_deleted(self, owner: Resource, errors: Iterable[KcrError]) -> KcrError | None:
        """Tell about deletions that failed, and return the first failure."""
        return self._complain(owner, "FailedDelete", "Error deleting", errors)

    def _announce(self, owner: Resource, reason: str, verb: str, names: Sequence[str]) -> None:
        for name in names[:EVENTS_PER_ROUND]:
            self._recorder.event(owner, "Normal", reason, f"{verb} {self._noun}: {name}")
        if len(names) > EVENTS_PER_ROUND:
            self._recorder.event(owner, "Normal", reason, summary(verb, self._noun, names[EVENTS_PER_ROUND:]))

    def _complain(self, owner: Resource, reason: str, words: str, errors: Iterable[KcrError]) -> KcrError | None:
        told = [error for error in errors if not is_namespace_ending(error)]
        for error in told:
            self._recorder.event(owner, "Warning", reason, f"{words}: {error}")
        return told[0] if told else None


def summary(verb: str, noun: str, names: Sequence[str]) -> str:
    """Return one message about many objects: as many names as fit in 1,024 bytes, and the number of the others.

    Args:
        verb: `Created` or `Deleted`.
        noun: What one object is called.
        names: At least one.
    """
    head = f"{verb} {len(names)} more {noun}{'s' if len(names) > 1 else ''}: "
    if len(head) + len(", ".join(names)) <= SUMMARY_BYTES:
        return head + ", ".join(names)
    room, shown = SUMMARY_BYTES - len(head) - len(f" and {len(names)} others") - len("…") * 3, 0
    while room > len(names[shown]) + 2:
        room -= len(names[shown]) + 2
        shown += 1
    return f"{head}{', '.join(names[:shown])}… and {len(names) - shown} others"


def is_namespace_ending(error: Exception) -> bool:
    """Return whether a creation was refused because its namespace goes away: it will never be made, nor missed."""
    return isinstance(error, ApiError) and error.has_cause("NamespaceTerminating")
