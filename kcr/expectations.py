"""Expectations: creates and deletions that were sent and are not yet observed, counted by key, as in client-go."""

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from kcr.clock import Clock
from kcr.log import get_logger

K = TypeVar("K", bound=Hashable)

_log = get_logger()

# A write without an answer may never be observed. Source: controller_utils.go, ExpectationsTimeout.
TTL = timedelta(minutes=5)


class _Record:
    __slots__ = ("creations", "deletions", "since")

    def __init__(self, creations: int, deletions: int, since: datetime) -> None:
        self.creations = creations
        self.deletions = deletions
        self.since = since


class Expectations(Generic[K]):
    """Counts, for each key, the creations and deletions that watch events have yet to show.

    Expect before the first write is sent, or its event may overtake the record. Whoever made the write
    reports it as observed when it failed or was never sent; a write without an answer stays expected.
    Keys carry the uid, so that an object of the same name inherits nothing.

    While they are not met, do everything but create and delete. Nothing else needs to bring the key back: the
    events that are waited for do, and `time_left` says when it has to come back without them.

    ```python
    if expectations.expectations_met(website.metadata.uid):
        expectations.expect_creations(website.metadata.uid, missing)
        attempts = await control.create(website, template, missing)
        expectations.creation_observed(website.metadata.uid, attempts.undone)
    ...
    def on_add(self, obj: Pod, initial: bool) -> None:  # of the handler of pods
        expectations.creation_observed(controller_of(obj.metadata).uid)
    ```

    For those who know them from Go. `kcr.OwnWrites` needs no counting, no handler and no time to live.

    Attributes:
        expired: How many records expired before they were met.

    Source: kubernetes/pkg/controller/controller_utils.go, ControllerExpectations; there without uid.
    """

    def __init__(self, clock: Clock, ttl: timedelta = TTL) -> None:
        self.expired = 0
        self._clock = clock
        self._ttl = ttl
        self._records: dict[K, _Record] = {}

    def expect_creations(self, key: K, count: int) -> None:
        """Expect so many creations, and nothing of what was expected before."""
        self._records[key] = _Record(count, 0, self._clock.now())

    def expect_deletions(self, key: K, count: int) -> None:
        """Expect so many deletions, and nothing of what was expected before."""
        self._records[key] = _Record(0, count, self._clock.now())

    def creation_observed(self, key: K, count: int = 1) -> None:
        """Note creations that were seen, or that will not happen. More than expected does no harm."""
        record = self._records.get(key)
        if record is not None:
            record.creations -= count

    def deletion_observed(self, key: K, count: int = 1) -> None:
        """Note deletions that were seen, or that will not happen. More than expected does no harm."""
        record = self._records.get(key)
        if record is not None:
            record.deletions -= count

    def expectations_met(self, key: K) -> bool:
        """Return whether everything expected was seen. What is older than the time to live counts as seen.

        Ask before listing objects: one that arrives in between must not be missed by both.
        """
        record = self._records.get(key)
        if record is None or _is_empty(record):
            return True
        if self._clock.now() - record.since < self._ttl:
            return False
        self.expired += 1
        _log.warning("expectations expired", key=key, creations=record.creations, deletions=record.deletions)
        self.forget(key)
        return True

    def time_left(self, key: K) -> timedelta | None:
        """Return when an unmet record will expire, never negative; None when nothing is expected."""
        record = self._records.get(key)
        if record is None or _is_empty(record):
            return None
        return max(record.since + self._ttl - self._clock.now(), timedelta(0))

    def forget(self, key: K) -> None:
        """Drop what is expected for a key, because its object is gone."""
        self._records.pop(key, None)


def _is_empty(record: _Record) -> bool:
    return record.creations <= 0 and record.deletions <= 0
