"""States of the cluster: as invariants see them, and without what differs from run to run, to be compared."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kcr.api import codec
from kcr.api.meta import Key, Resource
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.apiserver.storage.storage import Storage

R = TypeVar("R", bound=Resource)

# Another client's harmless change, see `process.py`.
TOUCHED = "explore.kcr.dev/touched"
# Kinds that say nothing about what an operator has achieved.
_IGNORED = frozenset({"events", "events.events.k8s.io", "leases.coordination.k8s.io"})
_VOLATILE = frozenset({"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"})
# Drawn by the cluster.
_ALLOCATED = frozenset({
    "podIP", "podIPs", "hostIP", "hostIPs", "containerID", "clusterIP", "clusterIPs", "nodePort",
})  # fmt: skip
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MISSING = object()
# The name of what a scenario returns, among the objects.
RESULT = "the scenario's result"


def is_ignored(record: Record) -> bool:
    """Return whether an object says nothing about what the operator has achieved: an event, or a lease."""
    return record.kind.type.display in _IGNORED


class State:
    """The objects of the cluster at one moment, for invariants."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def list(self, kind: type[R], namespace: str = "") -> tuple[R, ...]:
        """Return the objects of a kind, in the order of their names.

        Args:
            kind: Their type, in the version that is stored.
            namespace: Their namespace; empty for all.

        Raises:
            ValueError: The server stores another version of the kind, or none.
        """
        found = [one for one in self._storage.records() if one.kind.type.display == kind.resource.display]
        for record in found:
            if record.kind.type.version != kind.resource.version:
                raise ValueError(
                    f"State: {kind.resource.display} is stored as {record.kind.type.version}: ask for that version "
                    f"instead of {kind.resource.version}"
                )
        wanted = [one for one in found if namespace in ("", one.metadata.namespace)]
        return tuple(codec.decode(kind, one.data) for one in sorted(wanted, key=lambda one: one.key))

    def get(self, kind: type[R], key: Key) -> R | None:
        """Return an object, None where there is none."""
        return next((one for one in self.list(kind, key.namespace) if one.key == key), None)


class Names:
    """Stable names for what is drawn anew in each run: uids and generated names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, record: Record) -> None:
        """Note an object that was created."""
        metadata = record.metadata
        name = f"{metadata.generate_name}*" if metadata.generate_name else metadata.name
        if metadata.generate_name:
            self._names[metadata.name] = name
        self._names[metadata.uid] = f"uid of {record.kind.type.display} {name}"
        self._pattern = None

    def stable(self, text: str) -> str:
        """Return a text without what differs from run to run."""
        if self._pattern is None:
            longest_first = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        text = self._pattern.sub(lambda found: self._names[found[0]], text)
        return _UID.sub("uid", _TIME.sub("time", text))


def content_of(record: Record, names: Names) -> str:
    """Return what is wanted of an object: its labels, annotations and all fields but the status, as stable text."""
    body = json.loads(record.body)
    metadata = body.pop("metadata")
    body.pop("status", None)
    kept = {name: metadata.get(name) for name in ("labels", "annotations")}
    return names.stable(json.dumps([kept, body], sort_keys=True))


def canonical(records: Iterable[Record], names: Names) -> dict[str, Any]:
    """Return the objects by kind, namespace and name, without what differs from run to run.

    Several objects with one generated name are numbered in the order of their content.

    Args:
        records: The objects.
        names: Of all objects that there have been.
    """
    named: list[tuple[str, str]] = []
    for record in records:
        body = json.loads(record.body)
        generation = body["metadata"].get("generation")
        stable = _stable(json.loads(names.stable(json.dumps(body))), generation)
        metadata = record.metadata
        name = "/".join(filter(None, (metadata.namespace, names.stable(metadata.name))))
        named.append((f"{record.kind.type.display} {name}", json.dumps(stable, sort_keys=True)))
    found: dict[str, Any] = {}
    for name, text in sorted(named):
        number = sum(one == name or one.startswith(f"{name} #") for one in found)
        found[f"{name} #{number + 1}" if number else name] = json.loads(text)
    return found


def _stable(value: Any, generation: int | None) -> Any:
    if isinstance(value, list):
        items = [_stable(item, generation) for item in value]
        is_map = all(isinstance(item, Mapping) and "type" in item for item in items)
        return sorted(items, key=lambda item: str(item["type"])) if is_map else items
    if not isinstance(value, dict):
        return value
    found = {name: _stable(item, generation) for name, item in value.items() if name not in _VOLATILE | _ALLOCATED}
    if generation is not None and isinstance(observed := found.get("observedGeneration"), int):
        # Generations count the changes of the spec, which may be more with a fault.
        found["observedGeneration"] = "current" if observed == generation else f"{generation - observed} behind"
    if isinstance(annotations := found.get("annotations"), dict):
        annotations.pop(TOUCHED, None)
        if not annotations:
            del found["annotations"]
    return found


def differences(found: Any, wanted: Any, path: str = "") -> Iterator[str]:
    """Yield in words where two canonical values differ.

    Args:
        found: The value of a run with a fault.
        wanted: That of the run without.
        path: Where the values are.
    """
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() | wanted.keys()):
            at = f"{path}.{name}" if path else name
            yield from differences(found.get(name, _MISSING), wanted.get(name, _MISSING), at)
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif found != wanted:
        yield f"{path}: {_shown(found)}, without a fault {_shown(wanted)}"


def surplus(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words what one state has more than the other: objects, entries in them, and more of the result.

    Args:
        found: The state of a run with a fault.
        wanted: That of the run without.
    """
    for name in sorted(found):
        if name == RESULT:
            yield from _more(found[name], wanted.get(name), name)
        elif name not in wanted:
            yield f"{name}: {_shown(found[name])}"
        else:
            # A status says how it came to it.
            yield from _entries({**found[name], "status": None}, {**wanted[name], "status": None}, name)


def _entries(found: Mapping[str, Any], wanted: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in found.items():
        if name not in wanted:
            yield f"{path}.{name}: {_shown(value)}"
        elif isinstance(value, dict) and isinstance(wanted[name], dict):
            yield from _entries(value, wanted[name], f"{path}.{name}")


def _more(found: Any, wanted: Any, path: str) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name, value in found.items():
            yield from _more(value, wanted.get(name), f"{path}.{name}")
    elif isinstance(found, list) and isinstance(wanted, list):
        left = list(wanted)
        for one in found:
            if one in left:
                left.remove(one)
            else:
                yield f"{path}: {_shown(one)}"
    elif isinstance(found, int | float) and isinstance(wanted, int | float):
        if found > wanted:
            yield f"{path}: {_shown(found)}, without a fault {_shown(wanted)}"
    elif found and not wanted:
        yield f"{path}: {_shown(found)}"


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    text = json.dumps(value)
    if isinstance(value, dict):
        return "there" if "metadata" in value else text[:60]
    return text if len(text) <= 60 else f"{text[:60]}…"
