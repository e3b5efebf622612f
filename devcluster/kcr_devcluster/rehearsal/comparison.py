"""What the new version of an operator does otherwise than the old one: the objects at the end of two rehearsals.

An object of the snapshot is known by its uid. One that was created is matched with one of the other version by kind,
namespace, owner and role: the name, or what is not drawn of it. What is drawn or a moment is no difference: uids,
versions, times, addresses, nodes, generated names, also where other objects mention them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kcr_devcluster.rehearsal.snapshot_file import Snapshot
from kcr_devcluster.rehearsal.versions import Outcome

What = Literal["deletes", "replaces", "creates", "changes", "keeps", "lacks"]
# What an upgrade must not do.
BREAKING: tuple[What, ...] = ("deletes", "replaces")

# They say nothing about what an operator has achieved, or are the cluster's own.
_IGNORED = frozenset({
    "events", "events.events.k8s.io", "leases.coordination.k8s.io", "nodes", "endpoints",
    "endpointslices.discovery.k8s.io", "customresourcedefinitions.apiextensions.k8s.io", "controllerrevisions.apps",
})  # fmt: skip
_VOLATILE = frozenset({
    "apiVersion", "kind", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
    "ownerReferences",
})  # fmt: skip
# Drawn by the cluster.
_ALLOCATED = frozenset({
    "podIP", "podIPs", "hostIP", "hostIPs", "containerID", "clusterIP", "clusterIPs", "nodePort", "nodeName",
})  # fmt: skip
_HASHES = ("pod-template-hash", "controller-revision-hash")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WORD = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")
# The fields by which items of lists are told apart.
_ITEM_KEYS = ("type", "name", "uid")
_MISSING = object()

Identity = tuple[str, ...]


class Difference(NamedTuple):
    """What the new version does otherwise.

    Attributes:
        what: `deletes` or `replaces` what the old one keeps; `creates` what the old one does not, and `lacks` what it
            creates; `keeps` what the old one deletes; `changes` a field.
        kind: The kind, such as `jobs.batch`.
        object: Namespace and name.
        field: The path of the field that differs; empty for the whole object.
        old: Its value with the old version.
        new: Its value with the new one.
    """

    what: What
    kind: str
    object: str
    field: str = ""
    old: str = ""
    new: str = ""


class Condition(NamedTuple):
    """How many objects of a kind have a condition at the end.

    Attributes:
        kind: The kind.
        type: The type of the condition.
        status: Its status.
        reason: Its reason.
        old: With the old version.
        new: With the new one.
    """

    kind: str
    type: str
    status: str
    reason: str
    old: int
    new: int


class _Object:
    """An object at the end of a rehearsal."""

    def __init__(self, kind: str, manifest: dict[str, Any]) -> None:
        self.kind, self.manifest = kind, manifest
        self.metadata: dict[str, Any] = manifest["metadata"]
        self.uid: str = self.metadata["uid"]
        self.name: str = "/".join(filter(None, (self.metadata.get("namespace"), self.metadata["name"])))

    @property
    def owner(self) -> dict[str, Any] | None:
        owners = self.metadata.get("ownerReferences") or ()
        return next((one for one in owners if one.get("controller")), owners[0] if owners else None)


class _Side:
    """The objects of one version, by what they are to the operator."""

    def __init__(self, outcome: Outcome, known: frozenset[str]) -> None:
        found = [
            _Object(display, item)
            for one in outcome.lists
            if (display := _display(one.api_version, one.plural)) not in _IGNORED
            for item in one.items
        ]
        self.by_uid: dict[str, _Object] = {one.uid: one for one in found}
        self.names: dict[str, str] = {}
        self._identities: dict[str, Identity] = {}
        self.created: dict[Identity, list[_Object]] = {}
        made = [one for one in self.by_uid.values() if one.uid not in known]
        made.sort(key=lambda one: (one.metadata.get("creationTimestamp", ""), one.name))
        self._known = known
        for one in made:
            self.created.setdefault(self._identity(one), []).append(one)

    def _identity(self, one: _Object) -> Identity:
        """Return what tells an object apart that was created: kind, namespace, owner and role."""
        if one.uid in self._known:
            return (one.uid,)
        if one.uid not in self._identities:
            # Before its owner is asked: owners may form a circle.
            self._identities[one.uid] = (one.uid,)
            owner = one.owner
            parent = self.by_uid.get(owner["uid"]) if owner is not None else None
            whose = self._identity(parent) if parent is not None else ()
            role = self._role(one, parent)
            self._identities[one.uid] = (one.kind, one.metadata.get("namespace", ""), role, *whose)
            if role != one.metadata["name"]:
                self.names[one.metadata["name"]] = role
        return self._identities[one.uid]

    def _role(self, one: _Object, parent: _Object | None) -> str:
        prefix = one.metadata.get("generateName")
        role = f"{prefix}*" if prefix else str(one.metadata["name"])
        labels = one.metadata.get("labels") or {}
        for drawn in filter(None, (labels.get(name) for name in _HASHES)):
            self.names[drawn] = "*"
            role = role.replace(drawn, "*")
        if parent is not None and parent.metadata["name"] in self.names:
            role = role.replace(parent.metadata["name"], self.names[parent.metadata["name"]])
        return role

    def stable(self, text: str) -> str:
        """Return a text without what differs from run to run."""
        text = _UID.sub("uid", _TIME.sub("time", text))
        return _WORD.sub(lambda word: self.names.get(word[0], word[0]), text) if self.names else text


def _display(api_version: str, plural: str) -> str:
    group = api_version.rpartition("/")[0]
    return f"{plural}.{group}" if group else plural


def compare(snapshot: Snapshot, old: Outcome, new: Outcome) -> list[Difference]:
    """Return the differences, those that break something first.

    Args:
        snapshot: The objects at the beginning.
        old: The end with the old version.
        new: The end with the new one.
    """
    known = frozenset(one["metadata"]["uid"] for one in snapshot.objects)
    sides = _Side(old, known), _Side(new, known)
    before = _before(snapshot)
    found = [*_fates(before, *sides), *_created(frozenset((one.kind, one.name) for one in before), *sides)]
    for uid in sorted(known & sides[0].by_uid.keys() & sides[1].by_uid.keys()):
        found += _changes(sides[0].by_uid[uid], sides[1].by_uid[uid], *sides)
    order = ("deletes", "replaces", "keeps", "creates", "lacks", "changes")
    return sorted(found, key=lambda one: (order.index(one.what), one))


def _before(snapshot: Snapshot) -> list[_Object]:
    plurals = {(kind.api_version, kind.kind): kind.resource.display for kind in snapshot.head.kinds}
    found = [_Object(plurals[one["apiVersion"], one["kind"]], one) for one in snapshot.objects]
    return [one for one in found if one.kind not in _IGNORED]


def _fates(before: Iterable[_Object], old: _Side, new: _Side) -> Iterator[Difference]:
    """Yield the objects of the snapshot that one version deletes and the other keeps."""
    present = {(one.kind, one.name) for one in new.by_uid.values()}
    for one in before:
        if (one.uid in old.by_uid) == (one.uid in new.by_uid):
            continue
        if one.uid in new.by_uid:
            yield Difference("keeps", one.kind, one.name)
        else:
            yield Difference("replaces" if (one.kind, one.name) in present else "deletes", one.kind, one.name)


def _created(before: frozenset[tuple[str, str]], old: _Side, new: _Side) -> Iterator[Difference]:
    for identity in sorted(old.created.keys() | new.created.keys()):
        pairs, only_old, only_new = _matched(old.created.get(identity, []), new.created.get(identity, []), old, new)
        for one, other in pairs:
            yield from _changes(one, other, old, new)
        unmatched: tuple[tuple[What, list[_Object]], ...] = (("lacks", only_old), ("creates", only_new))
        for what, those in unmatched:
            # That one version has replaced an object of the snapshot is told already.
            yield from (Difference(what, one.kind, one.name) for one in those if (one.kind, one.name) not in before)


def _matched(
    one: Sequence[_Object], other: Sequence[_Object], old: _Side, new: _Side
) -> tuple[list[tuple[_Object, _Object]], list[_Object], list[_Object]]:
    """Match objects of one role: the same ones first, the others in the order in which they were created."""
    pairs: list[tuple[_Object, _Object]] = []
    if len(one) == len(other) == 1:
        return [(one[0], other[0])], [], []
    same: dict[str, list[_Object]] = {}
    for obj in other:
        same.setdefault(_content(obj, new), []).append(obj)
    rest: list[_Object] = []
    for obj in one:
        equal = same.get(_content(obj, old))
        if equal:
            place = next((number for number, each in enumerate(equal) if each.name == obj.name), 0)
            pairs.append((obj, equal.pop(place)))
        else:
            rest.append(obj)
    matched = {obj.uid for _, obj in pairs}
    others = [obj for obj in other if obj.uid not in matched]
    pairs += zip(rest, others, strict=False)
    return pairs, rest[len(others) :], others[len(rest) :]


def _content(one: _Object, side: _Side) -> str:
    body = {name: value for name, value in one.manifest.items() if name not in ("metadata", "apiVersion", "kind")}
    kept = {name: one.metadata.get(name) for name in ("labels", "annotations")}
    return side.stable(json.dumps([kept, body], sort_keys=True))


def _changes(one: _Object, other: _Object, old: _Side, new: _Side) -> Iterator[Difference]:
    if one.manifest == other.manifest:
        return
    lag = (_Lag.of(one.manifest), _Lag.of(other.manifest))
    for path, before, after in _different(one.manifest, other.manifest, ""):
        texts = old.stable(_shown(before)), new.stable(_shown(after))
        if path.endswith("observedGeneration"):
            texts = lag[0].words(before), lag[1].words(after)
        if path != "metadata.name" and texts[0] != texts[1]:
            yield Difference("changes", one.kind, one.name, path, *texts)
    if (owners := (_owners(one, old), _owners(other, new)))[0] != owners[1]:
        yield Difference("changes", one.kind, one.name, "metadata.ownerReferences", *owners)


def _owners(one: _Object, side: _Side) -> str:
    """Return the owners in words: their uids and names may have been drawn."""
    owners = one.metadata.get("ownerReferences") or ()
    return side.stable(", ".join(sorted(f"{each['kind']} {each['name']}" for each in owners))) or "none"


class _Lag(NamedTuple):
    """How far a status is behind; generations count the changes of a spec, which may be more with one version."""

    generation: int

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> "_Lag":
        return cls(manifest["metadata"].get("generation", 0))

    def words(self, observed: object) -> str:
        if not isinstance(observed, int):
            return _shown(observed)
        return "current" if observed == self.generation else f"{self.generation - observed} behind"


def _different(one: Any, other: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths at which two values differ, with the values."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            if name in _ALLOCATED or (path in ("", "metadata") and name in _VOLATILE):
                continue
            at = f"{path}.{name}" if path else name
            yield from _different(one.get(name, _MISSING), other.get(name, _MISSING), at)
    elif isinstance(one, list) and isinstance(other, list):
        yield from _different_items(one, other, path)
    else:
        yield path, one, other


def _different_items(one: list[Any], other: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    key = next((name for name in _ITEM_KEYS if all(_has(item, name) for item in (*one, *other))), None)
    if key is not None:
        named = ({str(item[key]): item for item in items} for items in (one, other))
        before, after = named
        for name in sorted(before.keys() | after.keys()):
            yield from _different(before.get(name, _MISSING), after.get(name, _MISSING), f"{path}[{name}]")
    elif len(one) == len(other):
        for number, (item, another) in enumerate(zip(one, other, strict=True)):
            yield from _different(item, another, f"{path}[{number}]")
    else:
        yield path, one, other


def _has(item: object, name: str) -> bool:
    return isinstance(item, dict) and isinstance(item.get(name), str)


def _shown(value: object) -> str:
    return "missing" if value is _MISSING else json.dumps(value, sort_keys=True, ensure_ascii=False)


def conditions(snapshot: Snapshot, old: Outcome, new: Outcome) -> list[Condition]:
    """Return how many objects have which conditions at the end, of the kinds that the controllers work with."""
    kinds = {kind.resource.display for kind in snapshot.head.kinds if kind.whole} - _IGNORED
    counts: dict[tuple[str, str, str, str], list[int]] = {}
    for side, outcome in enumerate((old, new)):
        for one in outcome.lists:
            display = _display(one.api_version, one.plural)
            if display in kinds:
                for type_, status, reason in _conditions_of(one.items):
                    counts.setdefault((display, type_, status, reason), [0, 0])[side] += 1
    return [Condition(*key, *both) for key, both in sorted(counts.items())]


def _conditions_of(items: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for item in items:
        status = item.get("status")
        listed = status.get("conditions") if isinstance(status, dict) else None
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict):
                yield str(one.get("type")), str(one.get("status")), str(one.get("reason", ""))
