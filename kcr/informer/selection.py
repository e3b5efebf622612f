"""Which objects of a kind an informer lists and watches: selections, and the shards of a store that several fill."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kcr.api.codec import WatchEvent
from kcr.api.meta import Key, Resource
from kcr.client.wire.requests import target
from kcr.informer.store import version_of

if TYPE_CHECKING:
    from kcr.informer.informer import Informer

R = TypeVar("R", bound=Resource)

_NAMESPACE = "metadata.namespace"


class Selection(NamedTuple, Generic[R]):
    """Which objects of a kind an informer lists and watches, and what its store keeps of them.

    Predicates of a controller save no memory: what is not needed is best left out here.

    Attributes:
        kind: The kind.
        namespace: The one namespace; empty for all. Kinds without namespaces ignore it.
        labels: A label selector, such as `app=web`; empty for all.
        fields: A field selector, such as `status.phase=Running`; empty for all.
        transform: Returns what is kept of an object, which it must not change otherwise: mostly the object
            without what no controller reads. Called once for each version, and must keep the name, namespace, uid
            and resourceVersion.
    """

    kind: type[R]
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    # Any: a NamedTuple's own type variable makes the tuple invariant.
    transform: Callable[[Any], Any] | None = None

    def normal(self) -> "Selection[R]":
        """Return the same selection, spelled so that the least permission is enough.

        A field selector that names the namespace becomes the namespace's path, which a Role allows (IN-38).
        """
        if not self.kind.resource.namespaced:
            return self._replace(namespace="")
        terms = [term.strip() for term in self.fields.split(",") if term.strip()]
        for term in terms:
            name, _, value = term.replace("==", "=").partition("=")
            if name == _NAMESPACE and value and self.namespace in ("", value):
                others = ",".join(other for other in terms if other != term)
                return self._replace(namespace=value, fields=others)
        return self

    def target(self, query: Mapping[str, object]) -> str:
        """Return the path and query of a request for these objects."""
        selectors = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return target(self.kind.resource.path(self.namespace), {**query, **selectors})

    def __str__(self) -> str:
        """Return the selection as messages name it: `pods`, `pods in team (app=web)`."""
        selectors = ", ".join(filter(None, (self.labels, self.fields)))
        place = f" in {self.namespace}" if self.namespace else ""
        return self.kind.resource.display + place + (f" ({selectors})" if selectors else "")


def disjoint(selections: Sequence[Selection[R]]) -> tuple[Selection[R], ...]:
    """Return selections of one kind that can fill one store together, spelled so that none overlaps another.

    Each has a namespace of its own; one may have none, and then has all others (IN-37).

    Raises:
        ValueError: There is none, or they overlap or are of different kinds.
    """
    normal = [selection.normal() for selection in selections]
    named = [selection.namespace for selection in normal]
    if len({selection.kind for selection in normal}) != 1:
        raise ValueError("an informer follows one kind")
    if len(set(named)) != len(named):
        raise ValueError(f"{normal[0].kind.resource.display}: two selections of one namespace")
    excluded = [f"{_NAMESPACE}!={namespace}" for namespace in named if namespace]
    return tuple(
        selection
        if selection.namespace
        else selection._replace(fields=",".join(filter(None, (selection.fields, *excluded))))
        for selection in normal
    )


class NamespacedShard(Generic[R]):
    """The store writer of one of an informer's selections; objects of the other selections stay as they are.

    Each shard has a watch of its own, and these run ahead of each other. So the store has reached a version once
    all shards have.
    """

    def __init__(self, informer: "Informer[R]", selection: Selection[R], shards: "list[NamespacedShard[R]]") -> None:
        """Make a shard and add it to the others.

        Args:
            informer: The informer.
            selection: What this shard covers.
            shards: All shards of the informer, as far as they are made.
        """
        self._informer = informer
        self._namespace = selection.namespace
        self._shards = shards
        self._version = 0
        self._is_filled = False
        shards.append(self)

    def share(self, obj: R) -> R:
        """Return an object that is about to be stored, made of parts that are stored already."""
        return self._informer.share(obj)

    def replace(self, objects: Iterable[R], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        """Replace everything of this shard by a list."""
        covers, store = self._covers(), self._informer.store
        kept = (obj for obj in store.snapshot() if not covers(obj.metadata.namespace))
        kept_undecodable = {key: error for key, error in store.undecodable.items() if not covers(key.namespace)}
        yield from self._informer.replace_shard((*objects, *kept), {**undecodable, **kept_undecodable})
        self._is_filled = True
        if all(shard._is_filled for shard in self._shards):
            self._informer.declare_synced()
        self.advance(version)

    def apply(self, event: WatchEvent[R]) -> None:
        """Apply one ADDED, MODIFIED or DELETED event."""
        self._informer.apply_object(event)
        self.advance(event.object.metadata.resource_version)

    def advance(self, version: str) -> None:
        """Note that nothing else happened in this shard up to a version."""
        self._informer.advance(self._min_version(version))

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        """Note that the newest version of an object cannot be decoded."""
        self._informer.on_decode_error(key, error, self._min_version(version))

    def _covers(self) -> Callable[[str], bool]:
        if self._namespace:
            return lambda namespace: namespace == self._namespace
        others = {shard._namespace for shard in self._shards}
        return lambda namespace: namespace not in others

    def _min_version(self, version: str) -> str:
        """Return the version that all shards have reached."""
        self._version = max(self._version, version_of(version))
        return str(min(shard._version for shard in self._shards))
