"""Creates that are refused for a while: of altered objects, and where a quota is used up.

A mutating webhook or policy may alter a created object so that its owner loses it. Without its owner's labels, owner
reference or finalizer an object is not found, counted or adopted as its owner's, and the owner would create another one
in its place, without end. So such a create counts as a refused one: the object is deleted again, and the next create of
this owner waits, twice as long each time.

The owners that wait in a namespace whose quota is used up share a rate of tries. Each owner retries with its own
backoff, once a minute at most, so the requests of a namespace would grow with the number of its owners. Here they share
a token bucket while the quota refuses them, and a create that succeeds ends that.
"""

from collections.abc import Callable
from typing import Any

from kcr.api.meta import Resource, is_controlled_by
from kcr.errors import ForbiddenError, KcrError
from kcr.tokenbucket import TokenBucket

# Creates that the owners of one namespace may try in a second while its quota refuses them, and at once.
TRIES_PER_SECOND, BURST = 2.0, 10
# When an owner that tries no more is dropped; longer than the longest backoff of a controller.
FORGOTTEN_SECONDS = 1200.0
# Part of the message of a refusal. Source: apiserver/pkg/admission/plugin/resourcequota/controller.go, CheckRequest.
_WORDS = "exceeded quota: "

# Between two tries: the first pause, and the longest.
# Source: kubernetes/pkg/controller/job/job_controller.go, DefaultJobApiBackOff and MaxJobApiBackOff.
FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0

# Whether the selector of an owner picks an object.
Selects = Callable[[Any, Any], bool]


class QuotaExceededError(KcrError):
    """A create was not sent, because the quota of its namespace has just refused others."""


class QuotaLimits:
    """Which namespaces have used up their quota, and how often their owners may try.

    The first create of each owner is sent, so that its refusal is an event of the owner.
    """

    def __init__(self) -> None:
        # The last refusal of each namespace that is full.
        self._refusals: dict[str, str] = {}
        # Kept when a create is accepted: a namespace that is full again at once has the tokens that were left.
        self._tries: dict[str, TokenBucket] = {}
        # The owners that were refused, and when each last tried; those that try no more are dropped.
        self._waiting: dict[str, float] = {}
        self._most = 1000

    def refusal(self, owner: Resource, now: float) -> QuotaExceededError | None:
        """Return the error of a create that comes too early; None for one that may be sent.

        Args:
            owner: Whose create it is.
            now: The time of the loop.
        """
        namespace, uid = owner.metadata.namespace, owner.metadata.uid
        last = self._refusals.get(namespace)
        if last is None or uid not in self._waiting:
            return None
        self._waiting[uid] = now
        if self._tries[namespace].delay(now) <= 0:
            return None
        return QuotaExceededError(f"not sent, other creates in namespace {namespace} were just refused: {last}")

    def note(self, owner: Resource, error: Exception, now: float) -> None:
        """Note a refused create; only refusals by a quota count."""
        if not isinstance(error, ForbiddenError) or _WORDS not in str(error):
            return
        namespace = owner.metadata.namespace
        self._refusals[namespace] = str(error)
        self._tries.setdefault(namespace, TokenBucket(TRIES_PER_SECOND, BURST)).take(now)
        self._waiting[owner.metadata.uid] = now
        if len(self._waiting) > self._most:
            self._waiting = {uid: tried for uid, tried in self._waiting.items() if now < tried + FORGOTTEN_SECONDS}
            self._most = 2 * len(self._waiting)

    def forget(self, owner: Resource) -> None:
        """Note that a create was accepted."""
        if self._refusals:
            self._refusals.pop(owner.metadata.namespace, None)
            self._waiting.pop(owner.metadata.uid, None)


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
