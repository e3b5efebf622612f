"""Which objects of a kind an informer lists and watches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kcr.annotations import FieldSelector, NamespaceName, Selector
from kcr.api.meta import ObjectMeta, PartialObjectMetadata, Resource
from kcr.arguments import checked
from kcr.client.wire.transport import target
from kcr.informer.slots import SlotSelection

R = TypeVar("R", bound=Resource)

_NAMESPACE = "metadata.namespace"


@checked
class Selection(NamedTuple, Generic[R]):
    """The objects of a kind that an informer lists and watches, and the transform for its store.

    Predicates of a controller save no memory: exclude unneeded objects and fields here.

    ```python
    manager.select(kcr.Selection(Pod, labels="app=web"))
    manager.select(kcr.Selection(Secret, namespace="team"), kcr.Selection(Secret, namespace="shared"))
    ```

    Attributes:
        kind: The kind.
        namespace: The one namespace; empty for all. Kinds without namespaces ignore it.
        labels: A label selector, such as `app=web`; empty for all.
        fields: A field selector, such as `status.phase=Running`; empty for all.
        transform: Returns the stored form of an object, usually the object without the fields that no controller
            reads; it must not change anything else. Called once for each version, and must keep the name, namespace,
            uid and resourceVersion.
        excluded: Namespaces left out, such as `{"kube-system"}`; those of other selections always are.
        slots: The slots that a replica keeps under sharding; set by the informer, None without sharding.
    """

    kind: type[R]
    namespace: NamespaceName = ""
    labels: Selector = ""
    fields: FieldSelector = ""
    # Any: a NamedTuple's own type variable makes the tuple invariant.
    transform: Callable[[Any], Resource] | None = None
    excluded: frozenset[str] = frozenset()
    slots: SlotSelection | None = None

    def normal(self) -> "Selection[R]":
        """Return the same selection, spelled so that the least permission is enough.

        A field selector that names the namespace becomes the namespace's path, which a Role allows (IN-38).
        """
        if not self.kind.resource.namespaced:
            return self._replace(namespace="", excluded=frozenset())
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
        if self.slots is not None:
            selectors["labelSelector"] = ",".join(filter(None, (self.labels, self.slots.labels)))
            selectors["shardSelector"] = self.slots.shard_selector
        return target(self.kind.resource.path(self.namespace), {**query, **selectors})

    def covers(self, metadata: ObjectMeta) -> bool:
        """Return whether an object of the kind is selected, as far as its namespace and its slot decide."""
        if metadata.namespace in self.excluded or (self.namespace and metadata.namespace != self.namespace):
            return False
        return self.slots is None or self.slots.covers(metadata)

    def __str__(self) -> str:
        """Return the selection as messages name it: `pods`, `pods in team (app=web)`, `nodes (metadata only)`."""
        metadata = "metadata only" if issubclass(self.kind, PartialObjectMetadata) else ""
        selectors = ", ".join(filter(None, (metadata, self.labels, self.fields, str(self.slots or ""))))
        place = f" in {self.namespace}" if self.namespace else ""
        return self.kind.resource.display + place + (f" ({selectors})" if selectors else "")


def namespaces_in(namespaces: str) -> tuple[str, ...]:
    """Return the names in a list with commas, each once; one empty name, which stands for all, when there is none."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, namespaces.split(","))))) or ("",)


def selections_in(kind: type[R], namespaces: str) -> tuple[Selection[R], ...]:
    """Return the selections of a kind in some namespaces, so that a Role in each of them is enough.

    Args:
        kind: The kind; one without namespaces has one selection.
        namespaces: The names, separated by commas; empty for all.
    """
    names = namespaces_in(namespaces) if kind.resource.namespaced else ("",)
    return tuple(Selection(kind, name) for name in names)


def as_selections(selection: Selection[R] | type[R] | Sequence[Selection[R]]) -> Sequence[Selection[R]]:
    """Return one selection, a whole kind or several selections as a sequence of selections."""
    if isinstance(selection, Selection):
        return (selection,)
    return (Selection(selection),) if isinstance(selection, type) else selection


def disjoint(selections: Sequence[Selection[R]]) -> tuple[Selection[R], ...]:
    """Return selections of one kind that can fill one store together, spelled so that none overlaps another.

    Each has a namespace of its own; one may have none, and then has all others (IN-37).

    Raises:
        ValueError: The sequence is empty, or the selections overlap or are of different kinds.
    """
    if not selections:
        raise ValueError("there is no selection: give it one, such as kcr.Selection(Pod)")
    normal = [selection.normal() for selection in selections]
    named = [selection.namespace for selection in normal]
    if len({selection.kind for selection in normal}) != 1:
        raise ValueError("the selections are of several kinds: select each kind by itself")
    if len(set(named)) != len(named):
        raise ValueError(f"{normal[0].kind.resource.display}: two selections of one namespace")
    return tuple(
        one if one.namespace else _without(one, (*sorted(one.excluded), *filter(None, named))) for one in normal
    )


def _without(selection: Selection[R], namespaces: Sequence[str]) -> Selection[R]:
    terms = dict.fromkeys(f"{_NAMESPACE}!={namespace}" for namespace in namespaces)
    new = [term for term in terms if term not in selection.fields.split(",")]
    return selection._replace(fields=",".join(filter(None, (selection.fields, *new))), excluded=frozenset(namespaces))
