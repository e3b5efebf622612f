"""Recording of the changes of a hot key's objects, and the hot loop that they show."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from kcr.api import codec
from kcr.api.batch import Job, is_finished
from kcr.api.core import Pod
from kcr.api.meta import Key, Resource, controller_of
from kcr.api.pods import is_terminal

# A finding takes so many changes; a field that returns so often to a value has two writers.
_CHANGES, _RETURNS = 12, 3
# Without a finding in so many changes, the search ends.
_MOST_CHANGES = 60
# Every write changes them.
_BOOKKEEPING = frozenset({("metadata", "resourceVersion"), ("metadata", "generation")})
# A deletion that takes its time changes them.
_DELETION = frozenset({("metadata", "deletionTimestamp"), ("metadata", "deletionGracePeriodSeconds")})
# A finding takes so many objects that were deleted soon after their creation.
_DELETIONS = 6
# The changes that `generation_changed` drops.
_DROPPED = ("status", "metadata")

Path = tuple[str, ...]


class HotObject(NamedTuple):
    """An object that changes all the time."""

    kind: type[Resource]
    key: Key


class HotLoop(NamedTuple):
    """A hot loop.

    Attributes:
        form: Whether the fields return to earlier values (`by turns`) or not (`by itself`), or whether objects are
            deleted and created again (`recreated`) or created without end (`created`).
        subject: The object; of several that were created, the last one.
        fields: The changing fields; empty where objects are created.
        is_droppable: Whether the predicate `generation_changed` drops the changes: not those of a kind without
            generations.
    """

    form: Literal["by turns", "by itself", "recreated", "created"]
    subject: HotObject
    fields: tuple[Path, ...] = ()
    is_droppable: bool = False


class Recording:
    """The changes of the objects of one hot key, and their analysis."""

    def __init__(self, began: float, key: Key) -> None:
        self.began = began
        self._name = key.name
        self.finding: HotLoop | None = None
        self.writers: set[str] = set()
        self.looks = 0
        self._count = 0
        # The objects as they were created, the deletions of each, and by kind the deletions soon after a creation.
        self._created: dict[HotObject, Resource] = {}
        # How many of them the key's object controls; a pod or Job of it has ended.
        self._own = 0
        self._has_ended = False
        self._deletions: Counter[HotObject] = Counter()
        self._recreations: Counter[type[Resource]] = Counter()
        # The kinds whose objects have generations.
        self._generations: set[type[Resource]] = set()
        # The values that each field took, as they print. They are compared, and never shown: some are secrets.
        self._values: dict[HotObject, dict[Path, list[str]]] = {}

    @property
    def follows_others(self) -> bool:
        """Whether other objects of the key change too, and no second writer of the field is known."""
        is_field = self.finding is None or bool(self.finding.fields)
        return is_field and len(self._values) > 1 and len(self.writers) < 2

    def created(self, kind: type[Resource], obj: Resource) -> None:
        """Record the creation of an object; so many of the key are a finding if none was deleted or has ended."""
        subject, owner = HotObject(kind, obj.key), controller_of(obj.metadata)
        if len(self._created) < _MOST_CHANGES:
            self._created[subject] = obj
            self._own += owner is not None and owner.name == self._name
        elif self._own == _MOST_CHANGES and not (self._deletions or self._has_ended or self.finding):
            self.finding = HotLoop("created", subject)

    def deleted(self, kind: type[Resource], obj: Resource) -> None:
        """Record the deletion of an object, until there is a finding.

        It counts when the object was created since the recording began, and either had a name that was deleted before,
        or was never put to use: nobody has written to it, or it is a pod that has not ended.
        """
        subject = HotObject(kind, obj.key)
        created = self._created.pop(subject, None)
        self._deletions[subject] += 1
        if created is None or self.finding is not None:
            return
        if self._deletions[subject] > 1 or _is_unused(created, obj):
            self._recreations[kind] += 1
        if self._recreations[kind] >= _DELETIONS:
            self.finding = HotLoop("recreated", subject)

    def add(self, kind: type[Resource], old: Resource, new: Resource) -> None:
        """Record one change, until there is a finding."""
        self._has_ended |= is_terminal(new) if isinstance(new, Pod) else isinstance(new, Job) and is_finished(new)
        changed = {path: value for path, value in _leaves(codec.difference(old, new)) if path not in _BOOKKEEPING}
        if self.finding is not None or self._count >= _MOST_CHANGES or not changed:
            return
        self._count += 1
        if new.metadata.generation:
            self._generations.add(kind)
        fields = self._values.setdefault(HotObject(kind, new.key), {})
        for path, value in changed.items():
            fields.setdefault(path, []).append(repr(value))
        if self._count >= _CHANGES:
            self.finding = self._judge()

    def _judge(self) -> HotLoop | None:
        for subject, fields in self._values.items():
            by_turns = tuple(path for path, values in fields.items() if len(values) - len(set(values)) >= _RETURNS)
            if by_turns:
                return HotLoop("by turns", subject, by_turns)
        if 2 * self._recreations.total() >= _DELETIONS:
            # The fields follow the objects that come and go; these decide.
            return None
        if len(self._values) > 1:
            # Others change too: the key follows them.
            return None
        ((subject, fields),) = self._values.items()
        always_new = tuple(path for path, values in fields.items() if len(values) >= _CHANGES // 2)
        is_droppable = subject.kind in self._generations and all(path[0] in _DROPPED for path in always_new)
        return HotLoop("by itself", subject, always_new, is_droppable) if always_new else None


def _is_unused(created: Resource, deleted: Resource) -> bool:
    if isinstance(deleted, Pod):
        return not is_terminal(deleted)
    changed = {path for path, _ in _leaves(codec.difference(created, deleted))}
    return changed <= _BOOKKEEPING | _DELETION


def _leaves(difference: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(difference, Mapping) and difference:
        for name, value in difference.items():
            yield from _leaves(value, (*path, name))
    elif path:
        yield path, difference
