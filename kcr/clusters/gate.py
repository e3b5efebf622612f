"""The gate of keys of member clusters: a member that does not answer delays its own keys alone."""

import asyncio
import contextvars
from collections.abc import Mapping
from typing import Any

from structlog.contextvars import bind_contextvars, unbind_contextvars

from kcr.api.meta import Key
from kcr.clusters.member import MemberCluster
from kcr.controller.gates import GateDecision
from kcr.informer import Informer
from kcr.workqueue import Reason, WorkQueue

# How often the watches of a cluster that does not answer are checked, while a key waits for them.
CHECK_SECONDS = 1.0

_ANSWERS = Reason("cluster", "answers", detail="its watches had failed")


class MemberGate:
    """Drops the keys of clusters that are not members, and defers those of members that do not answer.

    That is a member of which a watch fails, or a request waits for an answer. After one without an answer, one key is
    admitted at a time, the probe.

    A deferred key holds no worker and has no backoff. A dropped one is lost for nothing: when a cluster of its name
    joins, all of its objects are enqueued.
    """

    def __init__(self, queue: WorkQueue[Key], members: Mapping[str, MemberCluster]) -> None:
        """Know of no member.

        Args:
            queue: The controller's queue.
            members: The open clusters by name.
        """
        self._queue = queue
        self._members = members
        # The members that have joined the controller, and their informers for it.
        self._joined: dict[MemberCluster, tuple[Informer[Any], ...]] = {}
        # The deferred keys, and their priorities. Invariant: a check is scheduled while there are any.
        self._deferred: dict[Key, int] = {}

    def join(self, member: MemberCluster, informers: tuple[Informer[Any], ...]) -> None:
        """Admit the keys of a member from now on, as long as these informers work."""
        open_members = {one: known for one, known in self._joined.items() if not one.is_closed}
        self._joined = {**open_members, member: informers}

    def check(self, key: Key) -> GateDecision:
        """Decide about a key, and name its cluster in the log lines of its reconcile."""
        if not key.cluster:
            unbind_contextvars("cluster")
            return GateDecision.ADMIT
        bind_contextvars(cluster=key.cluster)
        member = self._members.get(key.cluster)
        if member is None or member not in self._joined:
            return GateDecision.DROP
        if not self._is_unavailable(member):
            return GateDecision.ADMIT
        if not self._deferred:
            self._schedule()
        self._deferred[key] = self._queue.priority(key)
        return GateDecision.DEFER

    def _is_unavailable(self, member: MemberCluster | None) -> bool:
        informers = () if member is None else self._joined.get(member, ())
        return any(one.last_error for one in informers) or (member is not None and member.is_silent)

    def _schedule(self) -> None:
        # An empty context: the timer outlives the reconcile that sets it, and must not log in its name.
        loop = asyncio.get_running_loop()
        loop.call_later(CHECK_SECONDS, self._enqueue_answered, context=contextvars.Context())

    def _enqueue_answered(self) -> None:
        waiting, self._deferred = self._deferred, {}
        for key, priority in waiting.items():
            if self._is_unavailable(self._members.get(key.cluster)):
                self._deferred[key] = priority
            else:
                self._queue.add(key, priority, _ANSWERS)
        if self._deferred:
            self._schedule()
