"""Events about the dependents of an object: creations, deletions, and their failures."""

from collections.abc import Callable, Iterable, Sequence

from kcr.api.meta import Resource
from kcr.arguments import checked
from kcr.errors import KcrError, TooManyRequestsError, is_namespace_ending
from kcr.events import EventRecorder
from kcr.refusals import cause_of

EVENTS_PER_RECONCILE = 3
SUMMARY_BYTES = 1024


class EventEmitter:
    """Writes the events about one kind of dependents to their owner.

    Of each reconcile the first three objects get an event of their own, the others share one. Failures are never
    summarised; and in a namespace that is being deleted, a refused creation is no failure.

    Source: kubernetes/pkg/controller/controller_utils.go, RealPodControl; there each object has an event.
    """

    @checked
    def __init__(self, recorder: EventRecorder, noun: str) -> None:
        """Make an emitter.

        Args:
            recorder: Writes the events.
            noun: The name of one object, such as `pod`.
        """
        self._recorder = recorder
        self._noun = noun

    def created(self, owner: Resource, names: Sequence[str]) -> None:
        """Write the events about the dependents that one reconcile created."""
        self._write(owner, "SuccessfulCreate", "Created", names)

    def deleted(self, owner: Resource, names: Sequence[str]) -> None:
        """Write the events about the dependents that one reconcile deleted."""
        self._write(owner, "SuccessfulDelete", "Deleted", names)

    def not_created(self, owner: Resource, errors: Iterable[KcrError]) -> KcrError | None:
        """Write the events about creations that failed, and return the first failure.

        Repeats of one cause are one event, though the server's message has the name that was drawn for this attempt.
        """
        return self._record_failures(
            owner, "FailedCreate", "Error creating", errors, lambda error: cause_of(str(error))
        )

    def not_deleted(self, owner: Resource, errors: Iterable[KcrError]) -> KcrError | None:
        """Write the events about deletions that failed, and return the first failure."""
        return self._record_failures(owner, "FailedDelete", "Error deleting", errors, str)

    def _write(self, owner: Resource, reason: str, verb: str, names: Sequence[str]) -> None:
        for name in names[:EVENTS_PER_RECONCILE]:
            self._recorder.event(owner, "Normal", reason, f"{verb} {self._noun}: {name}")
        if len(names) > EVENTS_PER_RECONCILE:
            self._recorder.event(owner, "Normal", reason, summary(verb, self._noun, names[EVENTS_PER_RECONCILE:]))

    def _record_failures(
        self, owner: Resource, reason: str, words: str, errors: Iterable[KcrError], cause: Callable[[KcrError], str]
    ) -> KcrError | None:
        failures = [error for error in errors if not is_namespace_ending(error)]
        for error in failures:
            # The server is busy, and an event would be one more request: the retry follows, and the log has a line.
            if not isinstance(error, TooManyRequestsError):
                self._recorder.event(owner, "Warning", reason, f"{words}: {error}", cause=cause(error))
        return failures[0] if failures else None


def summary(verb: str, noun: str, names: Sequence[str]) -> str:
    """Return one message about many objects: as many names as fit in 1,024 bytes, and the number of the others.

    Args:
        verb: `Created` or `Deleted`.
        noun: The name of one object.
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
