"""Recording of the changes of a hot key's objects, and the hot loop that they show."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcr.api import codec
from kcr.api.meta import Key, Resource

# A finding takes so many changes; a field that returns so often to a value has two writers.
_CHANGES, _RETURNS = 12, 3
# Without a finding in so many changes, the search ends.
_MOST_CHANGES = 60
# Every write changes them.
_BOOKKEEPING = frozenset({("metadata", "resourceVersion"), ("metadata", "generation")})

Path = tuple[str, ...]


class HotObject(NamedTuple):
    """An object that changes all the time."""

    kind: type[Resource]
    key: Key


class HotLoop(NamedTuple):
    """A hot loop: the object, the changing fields, and whether they return to earlier values."""

    by_turns: bool
    subject: HotObject
    fields: tuple[Path, ...]


class Recording:
    """The changes of the objects of one hot key, and their analysis."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.finding: HotLoop | None = None
        self.writers: set[str] = set()
        self.looks = 0
        self._count = 0
        # The values that each field took, as they print. They are compared, and never shown: some are secrets.
        self._values: dict[HotObject, dict[Path, list[str]]] = {}

    @property
    def follows_others(self) -> bool:
        """Whether other objects of the key change too, and no second writer of the field is known."""
        return len(self._values) > 1 and len(self.writers) < 2

    def add(self, kind: type[Resource], old: Resource, new: Resource) -> None:
        """Record one change, until there is a finding."""
        changed = {path: value for path, value in _leaves(codec.difference(old, new)) if path not in _BOOKKEEPING}
        if self.finding is not None or self._count >= _MOST_CHANGES or not changed:
            return
        self._count += 1
        fields = self._values.setdefault(HotObject(kind, new.key), {})
        for path, value in changed.items():
            fields.setdefault(path, []).append(repr(value))
        if self._count >= _CHANGES:
            self.finding = self._judge()

    def _judge(self) -> HotLoop | None:
        for subject, fields in self._values.items():
            by_turns = tuple(path for path, values in fields.items() if len(values) - len(set(values)) >= _RETURNS)
            if by_turns:
                return HotLoop(True, subject, by_turns)
        if len(self._values) > 1:
            # Others change too: the key follows them.
            return None
        ((subject, fields),) = self._values.items()
        always_new = tuple(path for path, values in fields.items() if len(values) >= _CHANGES // 2)
        return HotLoop(False, subject, always_new) if always_new else None


def _leaves(difference: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(difference, Mapping) and difference:
        for name, value in difference.items():
            yield from _leaves(value, (*path, name))
    elif path:
        yield path, difference
