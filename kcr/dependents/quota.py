"""Namespaces whose quota is used up: the owners that wait there share a rate of tries.

Each owner retries with its own backoff, once a minute at most, so the requests of a namespace would grow with the
number of its owners. Here they share a token bucket while the quota refuses them, and a create that succeeds ends that.
"""

from kcr.api.meta import Resource
from kcr.errors import ForbiddenError, KcrError
from kcr.tokenbucket import TokenBucket

# Creates that the owners of one namespace may try in a second while its quota refuses them, and at once.
TRIES_PER_SECOND, BURST = 2.0, 10
# When an owner that tries no more is dropped; longer than the longest backoff of a controller.
FORGOTTEN_SECONDS = 1200.0
# Part of the message of a refusal. Source: apiserver/pkg/admission/plugin/resourcequota/controller.go, CheckRequest.
_WORDS = "exceeded quota: "


class QuotaExceededError(KcrError):
    """A create was not sent, because the quota of its namespace has just refused others."""


class QuotaLimits:
    """Which namespaces have used up their quota, and how often their owners may try.

    The first create of each owner is sent, so that its refusal is an event of the owner.
    """

    def __init__(self) -> None:
        """Know of no such namespace."""
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
