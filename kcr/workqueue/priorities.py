"""The order of keys: by priority, FIFO or fair within a priority, with aging, so that no priority starves.

A key ages: it gains 25 for each 30 s of waiting, up to the highest waiting priority. A key of -100 thus reaches those
of 0 after 120 s. Aged keys, the longest waiting first, then alternate with other keys of the highest priority: first
would be wrong (decision 25; WQ-32). Upstream has no aging (kubernetes-sigs/controller-runtime#3496).

Within a priority each group of keys, such as a namespace, has a FIFO of its own, and the groups take turns (round
robin): a key waits for one key of each other group at most. Upstream has one FIFO.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
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
        entries: The keys, and entries that are stale, because their key has been raised to another class since.
            Invariant: the first entry is not stale.
    """

    __slots__ = ("_since", "_stale", "entries", "priority")

    def __init__(self, priority: int, *, ages: bool) -> None:
        self.priority: int = priority
        self.entries: deque[K] = deque()
        # For each entry the loop's time at which it was added, in whole seconds, so that most share one number. None as
        # long as no class is above this one: then no key ages, and the time is not asked for.
        self._since: deque[int] | None = deque() if ages else None
        # How many entries of a key are stale: those furthest left, for a live one was added after them.
        self._stale: dict[K, int] = {}

    @property
    def depth(self) -> int:
        """The number of keys."""
        return len(self.entries) - sum(self._stale.values())

    @property
    def oldest(self) -> int | None:
        """When the next key was added; None when there is none, or none ages."""
        return self._since[0] if self._since else None

    def set_aging(self, *, ages: bool) -> None:
        """Let the keys age from now on, or no longer."""
        self._since = deque([_now()] * len(self.entries)) if ages else None

    def push(self, key: K) -> None:
        """Append a key."""
        self.entries.append(key)
        if self._since is not None:
            now = _now()
            self._since.append(self._since[-1] if self._since and self._since[-1] == now else now)

    def push_front(self, key: K) -> None:
        """Put back a key that was popped, as the next one."""
        self.entries.appendleft(key)
        if self._since is not None:
            self._since.appendleft(self._since[0] if self._since else _now())

    def pop(self) -> K:
        """Remove the next key, and return it."""
        key = self.entries.popleft()
        if self._since is not None:
            self._since.popleft()
        if self._stale:
            self._drop_stale()
        return key

    def discard(self, key: K) -> None:
        """Make the entry of a key stale."""
        # To search a deque takes time in proportion to its length, and a list of 20,000 keys has many that are raised.
        self._stale[key] = self._stale.get(key, 0) + 1
        self._drop_stale()

    def clear(self) -> None:
        """Drop all keys."""
        self.entries.clear()
        self._stale.clear()
        if self._since is not None:
            self._since.clear()

    def _drop_stale(self) -> None:
        while self.entries and (count := self._stale.get(self.entries[0])) is not None:
            key = self.entries.popleft()
            if self._since is not None:
                self._since.popleft()
            if count > 1:
                self._stale[key] = count - 1
            else:
                del self._stale[key]


class FairClass(Generic[K]):
    """The keys of one priority, by turns of their groups; to the queue it is a `PriorityClass`.

    Attributes:
        priority: The priority.
        entries: The groups that have keys; the first has the next turn.
    """

    __slots__ = ("_ages", "_group_of", "_groups", "_names", "entries", "priority")

    def __init__(self, priority: int, group_of: Callable[[K], Hashable], *, ages: bool) -> None:
        self.priority: int = priority
        self.entries: deque[PriorityClass[K]] = deque()
        self._group_of = group_of
        # Invariant: the groups in `entries`, no others, so that memory follows the keys that are queued.
        self._groups: dict[Hashable, PriorityClass[K]] = {}
        # Those of the keys: an author's function need not say the same twice.
        self._names: dict[K, Hashable] = {}
        self._ages = ages

    @property
    def depth(self) -> int:
        """The number of keys."""
        return sum(group.depth for group in self.entries)

    @property
    def oldest(self) -> int | None:
        """When the next key was added; None when there is none, or none ages."""
        return self.entries[0].oldest if self.entries else None

    def set_aging(self, *, ages: bool) -> None:
        """Let the keys age from now on, or no longer."""
        self._ages = ages
        for group in self.entries:
            group.set_aging(ages=ages)

    def push(self, key: K) -> None:
        """Append a key to its group. A new group has the last turn."""
        self._group(key).push(key)

    def push_front(self, key: K) -> None:
        """Put back a key that was popped, as the next one of its group."""
        self._group(key).push_front(key)

    def _group(self, key: K) -> PriorityClass[K]:
        name = self._names[key] = self._group_of(key)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = PriorityClass(self.priority, ages=self._ages)
            self.entries.append(group)
        return group

    def pop(self) -> K:
        """Remove the first key of the next group, and return it."""
        group = self.entries[0]
        key = group.pop()
        name = self._names.pop(key)
        if not group.entries:
            self.entries.popleft()
            del self._groups[name]
        elif len(self.entries) > 1:
            self.entries.rotate(-1)
        return key

    def discard(self, key: K) -> None:
        """Remove a key from its group."""
        name = self._names.pop(key)
        group = self._groups[name]
        group.discard(key)
        if not group.entries:
            self.entries.remove(group)
            del self._groups[name]

    def clear(self) -> None:
        """Drop all keys."""
        self.entries.clear()
        self._groups.clear()
        self._names.clear()


class PriorityFIFO(Generic[K]):
    """Queued keys in the order of their processing; each key once.

    Attributes:
        plain: All keys while they form one FIFO: only priority 0, no aging, no groups. The queue then appends and pops
            here directly, once per watch event. None otherwise.
    """

    __slots__ = ("_classes", "_group_of", "_has_plain", "_normal", "_normal_ages", "_order", "_served_aged", "plain")

    def __init__(self, group_of: Callable[[K], Hashable] | None = None, *, has_plain: bool = True) -> None:
        """Make an empty one.

        Args:
            group_of: Returns the group of a key: groups of a priority take turns; None for one FIFO.
            has_plain: Whether the queue may pop in `plain`.
        """
        self._group_of, self._has_plain = group_of, has_plain
        # The class of 0 always exists. The others exist as long as they have keys.
        self._normal = self._make_class(0, ages=False)
        # Whether its keys age, because there are or were keys above them.
        self._normal_ages = False
        self._classes = {0: self._normal}
        # The highest priority first.
        self._order = [self._normal]
        # Whether the last key came from a class that has caught up.
        self._served_aged = False
        self.plain: deque[K] | None = None
        self._set_plain()

    def push(self, key: K, priority: int) -> None:
        """Append a key to those of its priority."""
        queued = self._classes.get(priority)
        if queued is None:
            queued = self._add_class(priority)
        queued.push(key)

    def push_front(self, key: K, priority: int) -> None:
        """Put back a key that was popped, as the next one of its priority."""
        (self._classes.get(priority) or self._add_class(priority)).push_front(key)

    def pop(self) -> K:
        """Remove the next key, and return it. There must be one."""
        queued = self._choose() if len(self._order) > 1 else self._normal
        key = queued.pop()
        if not queued.entries:
            self._drop_class(queued)
        return key

    def move(self, key: K, old: int, new: int) -> None:
        """Change the priority of a key; it becomes the last key of that priority."""
        queued = self._classes[old]
        queued.discard(key)
        if not queued.entries:
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

    def _choose(self) -> "PriorityClass[K] | FairClass[K]":
        top, *below = (queued for queued in self._order if queued.entries)
        if not below:
            return top
        now = _now()
        aged = [
            (since, index)
            for index, one in enumerate(below)
            if (since := one.oldest) is not None and now - since >= _aging_seconds(one.priority, top.priority)
        ]
        # By turns, so that a change waits for one aged key at most, and an aged key for one change.
        self._served_aged = bool(aged) and not self._served_aged
        return below[min(aged)[1]] if self._served_aged else top

    def _make_class(self, priority: int, *, ages: bool) -> "PriorityClass[K] | FairClass[K]":
        if self._group_of is None:
            return PriorityClass(priority, ages=ages)
        return FairClass(priority, self._group_of, ages=ages)

    def _add_class(self, priority: int) -> "PriorityClass[K] | FairClass[K]":
        added = self._classes[priority] = self._make_class(priority, ages=True)
        self._order = sorted(self._classes.values(), key=lambda one: -one.priority)
        if priority > 0 and not self._normal_ages:
            self._normal_ages = True
            self._normal.set_aging(ages=True)
        self.plain = None
        return added

    def _drop_class(self, queued: "PriorityClass[K] | FairClass[K]") -> None:
        if queued is not self._normal:
            del self._classes[queued.priority]
            self._order.remove(queued)
        if len(self._order) == 1 and not (self._normal_ages and self._normal.entries):
            # There is no key whose age would be lost.
            self._normal_ages = False
            self._normal.set_aging(ages=False)
            self._set_plain()

    def _set_plain(self) -> None:
        self.plain = self._normal.entries if self._has_plain and isinstance(self._normal, PriorityClass) else None


def _aging_seconds(priority: int, top: int) -> int:
    """Return the seconds after which a key has aged from one priority to a higher one."""
    return -((priority - top) // AGING_STEP) * AGING_SECONDS


def _now() -> int:
    return int(asyncio.get_running_loop().time())
