"""At most so many keys of a group in flight: a key whose group has no slot left is held until one is free.

A ready key that a worker takes gets a slot of its group, or is held, and the worker takes the next one. `done` gives
the slot to the held key that is next by priority and age; it returns to the front of its priority, for it has had its
turn, and keeps the slot while it waits for a worker. So there is no search, no poll, and no key that starves.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from kcr.workqueue.priorities import PriorityFIFO

K = TypeVar("K", bound=Hashable)


class InFlight(Generic[K]):
    """The slots of the groups of one queue.

    Attributes:
        held: The keys that wait for a slot, and their groups.
    """

    def __init__(self, group_of: Callable[[K], Hashable], most: int) -> None:
        self.held: dict[K, Hashable] = {}
        self._group_of, self._most = group_of, most
        # The groups of the keys that have a slot. An author's function need not say the same twice.
        self._slots: dict[K, Hashable] = {}
        self._counts = Counter[Hashable]()
        # Invariant: the groups of the held keys, no others.
        self._waiting: dict[Hashable, PriorityFIFO[K]] = {}

    def admit(self, key: K, priority: int) -> bool:
        """Return whether a ready key has a slot, or gets one; otherwise it is held."""
        if key in self._slots:
            return True
        group = self._group_of(key)
        if self._counts[group] < self._most:
            self._counts[group] += 1
            self._slots[key] = group
            return True
        self.held[key] = group
        self._waiting.setdefault(group, PriorityFIFO()).push(key, priority)
        return False

    def release(self, key: K) -> K | None:
        """Free the slot of a key that is done, and return the held key that gets it; None without one."""
        group = self._slots.pop(key)
        if (waiting := self._waiting.get(group)) is None:
            self._counts[group] -= 1
            if not self._counts[group]:
                del self._counts[group]
            return None
        following = waiting.pop()
        if not any(waiting.depths().values()):
            del self._waiting[group]
        self._slots[following] = self.held.pop(following)
        return following

    def move(self, key: K, old: int, new: int) -> None:
        """Change the priority of a held key."""
        self._waiting[self.held[key]].move(key, old, new)

    def clear(self) -> None:
        """Drop the held keys."""
        self.held.clear()
        self._waiting.clear()

    def depths(self, ready: Mapping[int, int]) -> Mapping[int, int]:
        """Return how many keys there are of each priority, ready ones and held ones."""
        depths = Counter(ready)
        for waiting in self._waiting.values():
            depths.update(waiting.depths())
        return depths
