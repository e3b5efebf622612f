"""The order of keys: by priority, FIFO within a priority, with aging, so that no priority starves.

A key ages: it gains 25 for each 30 s of waiting, up to the highest waiting priority. A key of -100 thus reaches those
of 0 after 120 s. Aged keys, the longest waiting first, then alternate with other keys of the highest priority.
Processing aged keys first would be wrong: two minutes after a restart all keys of a long initial list have aged, and a
change would wait for all of them (so WQ-32 alone; decision 25 has the figures). Upstream has no aging
(kubernetes-sigs/controller-runtime#3496).
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# The priority of keys for which nothing has changed: of initial lists and resyncs.
# Source: controller-runtime/pkg/handler/eventhandler.go, LowPriority.
LOW_PRIORITY = -100
# How much a key gains, and how often.
AGING_STEP = 25
AGING_SECONDS = 30


class PriorityClass(Generic[K]):
    """The keys of one priority, in the order in which they were added.

    Attributes:
        priority: The priority.
        keys: The keys, and entries that are stale, because their key has been raised to another class since.
            Invariant: the first entry is not stale.
        since: For each entry the loop's time at which it was added, in whole seconds, so that most share one number.
            None as long as no class is above this one: then no key ages, and the time is not asked for.
    """

    __slots__ = ("keys", "priority", "since", "stale")

    def __init__(self, priority: int, since: deque[int] | None) -> None:
        self.priority: int = priority
        self.keys: deque[K] = deque()
        self.since: deque[int] | None = since
        # How many entries of a key are stale: those furthest left, for a live one was added after them.
        self.stale: dict[K, int] = {}

    @property
    def depth(self) -> int:
        """The number of keys."""
        return len(self.keys) - sum(self.stale.values())

    def push(self, key: K) -> None:
        """Append a key."""
        self.keys.append(key)
        if self.since is not None:
            now = _now()
            self.since.append(self.since[-1] if self.since and self.since[-1] == now else now)

    def pop(self) -> K:
        """Remove the first key, and return it."""
        key = self.keys.popleft()
        if self.since is not None:
            self.since.popleft()
        if self.stale:
            self.drop_stale()
        return key

    def discard(self, key: K) -> None:
        """Make the entry of a key stale."""
        # To search a deque takes time in proportion to its length, and a list of 20,000 keys has many that are raised.
        self.stale[key] = self.stale.get(key, 0) + 1
        self.drop_stale()

    def clear(self) -> None:
        """Drop all keys."""
        self.keys.clear()
        self.stale.clear()
        if self.since is not None:
            self.since.clear()

    def drop_stale(self) -> None:
        """Drop the stale entries that come before all keys."""
        while self.keys and (count := self.stale.get(self.keys[0])) is not None:
            key = self.keys.popleft()
            if self.since is not None:
                self.since.popleft()
            if count > 1:
                self.stale[key] = count - 1
            else:
                del self.stale[key]

    def catches_up_after(self, priority: int) -> int:
        """Return the seconds after which a key has aged to a higher priority."""
        return -((self.priority - priority) // AGING_STEP) * AGING_SECONDS


class PriorityFIFO(Generic[K]):
    """Queued keys in the order of their processing; each key once.

    Attributes:
        plain: All keys, as long as there is nothing but keys of 0 that do not age: then whoever is in a hurry, as the
            queue is with every watch event, appends and pops here. None when there is more.
    """

    __slots__ = ("_classes", "_normal", "_order", "_served_aged", "plain")

    def __init__(self) -> None:
        # The class of 0 is always there. The others are there as long as they have keys.
        self._normal: PriorityClass[K] = PriorityClass(0, None)
        self._classes = {0: self._normal}
        # The highest priority first.
        self._order = [self._normal]
        # Whether the last key came from a class that has caught up.
        self._served_aged = False
        self.plain: deque[K] | None = self._normal.keys

    def push(self, key: K, priority: int) -> None:
        """Append a key to those of its priority."""
        queued = self._classes.get(priority)
        if queued is None:
            queued = self._add_class(priority)
        queued.push(key)

    def pop(self) -> K:
        """Remove the next key, and return it. There must be one."""
        queued = self._choose() if len(self._order) > 1 else self._normal
        key = queued.pop()
        if not queued.keys:
            self._drop_class(queued)
        return key

    def move(self, key: K, old: int, new: int) -> None:
        """Change the priority of a key; it becomes the last key of that priority."""
        queued = self._classes[old]
        queued.discard(key)
        if not queued.keys:
            self._drop_class(queued)
        self.push(key, new)

    def clear(self) -> None:
        """Drop all keys."""
        for queued in tuple(self._order):
            queued.clear()
            self._drop_class(queued)

    def depths(self) -> dict[int, int]:
        """Return how many keys there are of each priority; 0 is always among them."""
        return {queued.priority: queued.depth for queued in self._order}

    def _choose(self) -> PriorityClass[K]:
        top, *below = (queued for queued in self._order if queued.keys)
        if not below:
            return top
        now = _now()
        aged = [one for one in below if one.since and now - one.since[0] >= one.catches_up_after(top.priority)]
        # By turns, so that a change waits for one aged key at most, and an aged key for one change.
        self._served_aged = bool(aged) and not self._served_aged
        return min(aged, key=lambda one: one.since[0] if one.since else now) if self._served_aged else top

    def _add_class(self, priority: int) -> PriorityClass[K]:
        added = self._classes[priority] = PriorityClass(priority, deque())
        self._order = sorted(self._classes.values(), key=lambda one: -one.priority)
        if priority > 0 and self._normal.since is None:
            # The keys of 0 age from now on.
            self._normal.since = deque([_now()] * len(self._normal.keys))
        self.plain = None
        return added

    def _drop_class(self, queued: PriorityClass[K]) -> None:
        if queued is not self._normal:
            del self._classes[queued.priority]
            self._order.remove(queued)
        if len(self._order) == 1 and (self._normal.since is None or not self._normal.keys):
            # There is no key whose age would be lost.
            self._normal.since = None
            self.plain = self._normal.keys


def _now() -> int:
    return int(asyncio.get_running_loop().time())
