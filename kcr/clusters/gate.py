"""The gate of keys of member clusters: a member that does not answer delays its own keys alone."""

import asyncio
import contextvars
from collections.abc import Mapping
from typing import Any, ClassVar

from structlog.contextvars import bind_contextvars, unbind_contextvars

from kcr.api.meta import Key
from kcr.clusters.member import MemberCluster
from kcr.controller import Controller
from kcr.controller.gates import GateDecision
from kcr.informer import Informer
from kcr.scopes.gate import ScopeGate, ScopePhase
from kcr.workqueue import Reason

# How often the watches of a cluster that does not answer are checked, while a key waits for them.
CHECK_SECONDS = 1.0


class MemberGate(ScopeGate[str]):
    """Drops the keys of clusters that are not members, and defers those of members that do not answer.

    That is a member of which a watch fails, or a request waits for an answer. After one without an answer, one key is
    admitted at a time, the probe.

    A deferred key holds no worker and has no backoff. A dropped one is lost for nothing: when a cluster of its name
    joins, all of its objects are enqueued.
    """

    opened_reason: ClassVar[Reason] = Reason("cluster", "answers", detail="its watches had failed")
    settled_reason: ClassVar[Reason] = Reason("cluster", "leaves", detail="a create is not answered yet")

    def __init__(self, controller: Controller, members: Mapping[str, MemberCluster]) -> None:
        """Know of no member.

        Args:
            controller: The controller.
            members: The open clusters by name.
        """
        super().__init__(controller)
        self._members = members
        # The members that have joined the controller, and their informers for it.
        self._joined: dict[MemberCluster, tuple[Informer[Any], ...]] = {}
        self._is_checking = False

    def join(self, member: MemberCluster, informers: tuple[Informer[Any], ...]) -> None:
        """Admit the keys of a member from now on, as long as these informers work."""
        open_members = {one: known for one, known in self._joined.items() if not one.is_closed}
        self._joined = {**open_members, member: informers}

    def scope_of(self, key: Key) -> str | None:
        """Return the cluster of a key; None for the home cluster."""
        return key.cluster or None

    def phase(self, scope: str) -> ScopePhase | None:
        """Return the phase of a member: its keys wait while it does not answer."""
        member = self._members.get(scope)
        if member is None or member not in self._joined:
            return None
        return ScopePhase.OPENING if self._is_unavailable(scope) else ScopePhase.ACTIVE

    def check(self, key: Key) -> GateDecision:
        """Decide about a key, and name its cluster in the log lines of its reconcile."""
        if key.cluster:
            bind_contextvars(cluster=key.cluster)
        else:
            unbind_contextvars("cluster")
        return super().check(key)

    def wait(self, key: Key, scope: str) -> None:
        """Enqueue a key when its member answers again."""
        super().wait(key, scope)
        if not self._is_checking:
            self._schedule()

    def _is_unavailable(self, name: str) -> bool:
        member = self._members.get(name)
        informers = () if member is None else self._joined.get(member, ())
        return any(one.last_error for one in informers) or (member is not None and member.is_silent)

    def _schedule(self) -> None:
        self._is_checking = True
        # An empty context: the timer outlives the reconcile that sets it, and must not log in its name.
        loop = asyncio.get_running_loop()
        loop.call_later(CHECK_SECONDS, self._enqueue_answered, context=contextvars.Context())

    def _enqueue_answered(self) -> None:
        for name in tuple(self._waiting):
            if not self._is_unavailable(name):
                self.opened(name)
        self._is_checking = False
        if self._waiting:
            self._schedule()
