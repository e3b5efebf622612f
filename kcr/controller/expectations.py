"""Expectations: creates and deletions that were sent and are not yet observed, counted by owner, as in client-go.

The classical form of read-your-writes: before the first write is sent the reconciler says how many objects it is about
to create or delete, and an event handler counts those that the watch shows. The counts are kept in `OwnWrites`, beside
all else that is pending for the owner: `OwnWrites.forget` drops them, and an owner created again under an old name
inherits none. `OwnWrites` alone needs no counting, no handler and no time to live, because it compares with the store;
use this where a controller is ported from Go.
"""

import asyncio
from datetime import timedelta

from kcr.annotations import Count
from kcr.api.meta import Key, Resource, controller_of
from kcr.arguments import checked
from kcr.controller.own_writes import OwnWrites
from kcr.controller.pending_objects import Expected
from kcr.log import get_logger

_log = get_logger()

# A write without an answer may never be observed. Source: controller_utils.go, ExpectationsTimeout.
TTL = timedelta(minutes=5)


class Expectations:
    """Counts, for each owner, the creations and deletions that watch events have yet to show.

    Expect before the first write is sent, or its event may overtake the record. `lower` subtracts failed and unsent
    writes; an unconfirmed write stays expected.

    While they are not met, do everything but create and delete. The events that are waited for bring the key back, and
    `time_left` says when it has to come back without them.

    ```python
    expectations = kcr.Expectations(own_writes)
    ...
    if expectations.expectations_met(website):
        expectations.expect_creations(website, missing)
        attempts = await control.create(website, template, missing)
        expectations.lower(website, creations=attempts.undone)
    ...
    def on_add(self, obj: Pod, initial: bool) -> None:  # of the handler of pods
        expectations.creation_observed(obj)
    ```

    Source: kubernetes/pkg/controller/controller_utils.go, ControllerExpectations; there without uid.
    """

    @checked
    def __init__(self, own_writes: OwnWrites, ttl: timedelta = TTL) -> None:
        """Expect nothing yet.

        Args:
            own_writes: The controller's, in which the counts are kept.
            ttl: The time for which writes are expected; older ones count as observed.
        """
        self._own_writes = own_writes
        self._ttl = ttl.total_seconds()

    @checked
    def expect_creations(self, owner: Resource, count: Count) -> None:
        """Replace all expectations of an owner by a number of creations."""
        self._own_writes.of(owner).expected = Expected(count, 0, _now())

    @checked
    def expect_deletions(self, owner: Resource, count: Count) -> None:
        """Replace all expectations of an owner by a number of deletions."""
        self._own_writes.of(owner).expected = Expected(0, count, _now())

    @checked
    def creation_observed(self, obj: Resource) -> None:
        """Note that a watch event shows a new object; its controller expects one less. One too many does no harm."""
        if (expected := self._of_controller(obj)) is not None:
            expected.creations -= 1

    @checked
    def deletion_observed(self, obj: Resource) -> None:
        """Note that a watch event shows an object deleted; its controller expects one less."""
        if (expected := self._of_controller(obj)) is not None:
            expected.deletions -= 1

    @checked
    def lower(self, owner: Resource, *, creations: int = 0, deletions: int = 0) -> None:
        """Expect so many fewer: writes that failed, or were never sent."""
        expected = self._own_writes.peek(owner).expected
        if expected is not None:
            expected.creations -= creations
            expected.deletions -= deletions

    @checked
    def expectations_met(self, owner: Resource) -> bool:
        """Return whether all expectations are fulfilled; expired ones count as fulfilled.

        Ask before listing objects: one that arrives in between must not be missed by both.
        """
        left = self.time_left(owner)
        if left:
            return False
        pending = self._own_writes.peek(owner)
        if left is not None and pending.expected is not None:
            creations, deletions = pending.expected.creations, pending.expected.deletions
            _log.warning("expectations expired", key=str(owner.key), creations=creations, deletions=deletions)
            pending.expected = None
        return True

    @checked
    def time_left(self, owner: Resource) -> timedelta | None:
        """Return when unmet expectations will expire, never negative; None when nothing is expected."""
        expected = self._own_writes.peek(owner).expected
        if expected is None or expected.is_met:
            return None
        return timedelta(seconds=max(expected.since + self._ttl - _now(), 0.0))

    def _of_controller(self, obj: Resource) -> Expected | None:
        owner = controller_of(obj.metadata)
        if owner is None:
            return None
        # An owner in the object's namespace, or one without a namespace.
        keys = (Key(obj.metadata.namespace, owner.name), Key("", owner.name))
        found = (self._own_writes.find(key, owner.uid) for key in keys)
        return next((pending.expected for pending in found if pending is not None), None)


def _now() -> float:
    return asyncio.get_running_loop().time()
