"""Metadata of all objects, and the base classes of frozen values.

`Object` is the base of all values on the wire, `Resource` of those with a name of their own. Their
subclasses state fields and nothing else: the metaclass sets the options of msgspec, and ensures a
faithful encoding. Only None and empty values are omitted from the wire form; a field that holds its
default is still written, because the default here need not be the server's.

A value is changed with `msgspec.structs.replace`; there is no mutable form.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import inspect

from kcr.annotations import Name, shown, without_address
from kcr.api.markers import CrdOptions
from kcr.api.resources import ResourceType
from kcr.arguments import check_fields, check_of_call, checked, checked_on_failure, refuse, refuse_unknown

T = TypeVar("T")

_OPTIONS: Mapping[str, object] = {
    "frozen": True, "gc": False, "kw_only": True, "rename": "camel", "omit_defaults": True,
}  # fmt: skip
# The keywords of classes: of kinds, and of their definitions.
_KEYWORDS = ("api_version", "plural", "kind", "namespaced", *CrdOptions._fields)
_TAKEN = frozenset(("api_version", "crd_options", "detached", "kind", "key", "resource"))
_CLUSTER = "cluster://"
_EMPTY: tuple[object, ...] = (None, msgspec.UNSET, "", (), [], {})


def _constant(value: Any) -> Callable[[], object]:
    return value.copy if isinstance(value, list | dict | set) else lambda: value


def _fields(namespace: Mapping[str, Any]) -> Iterable[str]:
    if sys.version_info >= (3, 14) and "__annotations__" not in namespace:
        import annotationlib  # noqa: PLC0415  # since 3.14, which evaluates annotations when they are read

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF) if annotate else ()
    names: Iterable[str] = namespace.get("__annotations__", ())
    return names


def _explicit_defaults(namespace: dict[str, Any]) -> None:
    """Turn every default but None and the empty ones into a factory, which `omit_defaults` never drops."""
    for name in _fields(namespace):
        given = namespace.get(name, msgspec.NODEFAULT)
        is_field = isinstance(given, type(msgspec.field()))
        default = given.default if is_field else given
        if default is msgspec.NODEFAULT or (not is_field and (callable(default) or hasattr(default, "__get__"))):
            continue
        if not any(type(default) is type(empty) and default == empty for empty in _EMPTY):
            namespace[name] = msgspec.field(default_factory=_constant(default), name=given.name if is_field else None)


def _resource_type(name: str, options: dict[str, Any]) -> ResourceType | None:
    given = (other for other, value in options.items() if value != _OPTIONS.get(other))
    refuse_unknown(f"{name}: no keyword of a class", given, _KEYWORDS, _KEYWORDS[:4])
    api_version, plural = options.pop("api_version", None), options.pop("plural", None)
    kind, namespaced = options.pop("kind", name), options.pop("namespaced", True)
    if api_version is None and plural is None:
        return None
    if not api_version or not plural:
        raise TypeError(f"{name}: a resource names both api_version and plural")
    check_fields(name, _Names(api_version, plural, kind, namespaced))
    group, _, version = api_version.rpartition("/")
    return ResourceType(group, version, kind, plural, namespaced)


class _Names(NamedTuple):
    """The names of a kind, as its class gives them."""

    api_version: Annotated[
        str,
        msgspec.Meta(
            pattern=r"^(?!.*\.\.)([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z]([-a-z0-9]*[a-z0-9])?\Z",
            description="a group and a version, such as example.dev/v1",
        ),
    ]
    plural: Name
    kind: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9]*\Z", description="a name such as Website")]
    namespaced: bool


class ObjectType(msgspec.StructMeta):
    """Makes the classes of frozen values; see the module's docstring.

    Class keywords of a `Resource`: `api_version`, `plural`, `kind` (default: the class's name) and
    `namespaced` (default: True). `kcr.crd_manifest` documents those for its CustomResourceDefinition.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: Any) -> Any:
        """Make one class of frozen values."""
        resource = _resource_type(name, options)
        inherited = next((base.crd_options for base in bases if hasattr(base, "crd_options")), CrdOptions())
        crd_options = inherited.extended(name, options)
        _explicit_defaults(namespace)
        try:
            made = super().__new__(cls, name, bases, namespace, **{**_OPTIONS, **options})
        except (TypeError, ValueError) as error:
            refuse(f"{name}: {error}")
        if resource is not None:
            taken = _TAKEN.intersection(_fields(namespace))
            if taken:
                refuse(f"{name}: it has a field {min(taken)!r}: leave it out, kcr has its own")
            made.resource = resource  # type: ignore[attr-defined]  # declared by Resource as a ClassVar
        made.crd_options = crd_options  # type: ignore[attr-defined]  # declared by Object as a ClassVar
        made.__setattr__ = made.__delattr__ = _refuse_change  # type: ignore[method-assign,assignment]  # msgspec's names no remedy
        return made

    def fault(cls) -> str:
        """Return why objects of the class cannot be decoded, and the remedy; empty if they can."""
        return _fault_of(cls)


def _refuse_change(self: object, name: str, value: object = None) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: make a changed copy, msgspec.structs.replace(…, {name}=…)")


# The server cuts the prefix of a generated name to this: a pod's name is a label value elsewhere, of 63 characters.
MAX_PREFIX = 58
# For a field of a type that a manifest cannot have.
FIELD_REMEDY = "use a scalar, tuple, Mapping or kcr.Object, or carry it as bytes with msgspec.Raw"


@cache
def _fault_of(kind: type[msgspec.Struct]) -> str:
    remedy, name = FIELD_REMEDY, ""
    try:
        # Those of kcr have right ones, and many.
        for field in () if kind.__module__.startswith("kcr.") else msgspec.structs.fields(kind):
            name = field.name
            for foreign in re.findall(r"CustomType\(cls=<class '(?:\w+\.)*(\w+)'", repr(inspect.type_info(field.type))):
                if foreign != MicroTime.__name__:
                    return f"{name}: {foreign} is not a type of a field: {remedy}"
    except NameError as error:
        return f"{error}: import in {kind.__module__} what its annotations name"
    except TypeError as error:
        return f"{name}: {without_address(str(error))}: {remedy}"
    return ""


# Stated here and not on the metaclass: type checkers take the nearest base that states it, and
# msgspec.Struct states its own.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Object(msgspec.Struct, frozen=True, metaclass=ObjectType):
    """Base of all frozen values. Sequences are tuples, maps are `Mapping`; both are never changed."""

    crd_options: ClassVar[CrdOptions]

    if TYPE_CHECKING:
        # The keywords of a class are the metaclass's; ty reads them here, and msgspec.Struct has its own alone.
        def __init_subclass__(cls, **options: Any) -> None: ...


class Key(NamedTuple):
    """Names one object of a kind; the unit of work. `namespace` is `""` for kinds without namespaces."""

    namespace: str
    name: str

    @property
    def cluster(self) -> str:
        """The member cluster that the object is in; `""` for the cluster of the program."""
        return ""

    @property
    def local(self) -> "Key":
        """The same key without the cluster, as `obj.key` is."""
        return self

    def in_cluster(self, cluster: str) -> "Key":
        """Return the key of this name in a member cluster (`kcr.Clusters`); `""` for the cluster of the program."""
        return MemberKey(self.namespace, self.name, cluster) if cluster else self.local

    def __str__(self) -> str:
        """Return `namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    @checked_on_failure
    def parse(cls, text: str) -> Self:
        """Parse `namespace/name`, or a name for cluster-scoped kinds; the inverse of `str(key)`.

        Raises:
            ValueError: It has no name, or more than one slash.
        """
        cluster, slash, rest = text.removeprefix(_CLUSTER).partition("/")
        if text.startswith(_CLUSTER) and cluster and slash:
            return cast("Self", cls.parse(rest).in_cluster(cluster))
        namespace, slash, name = text.rpartition("/")
        if not name or "/" in namespace or (slash and not namespace):
            raise ValueError(f"{text!r} is not a key: write namespace/name, or name for a kind without namespaces")
        return cls(namespace, name)


def is_key(value: object) -> bool:
    """Return whether a value is a key, of two strings."""
    return isinstance(value, Key) and isinstance(value.namespace, str) and isinstance(value.name, str)


class MemberKey(Key):
    """The key of an object in a member cluster: a triple, so that all other keys stay pairs and cost no more."""

    __slots__ = ()

    def __new__(cls, namespace: str, name: str, cluster: str) -> Self:
        """Make the key of an object in a member cluster."""
        return tuple.__new__(cls, (namespace, name, cluster))

    @property
    def cluster(self) -> str:
        """The member cluster that the object is in."""
        return str(tuple.__getitem__(self, 2))

    @property
    def local(self) -> Key:
        """The same key without the cluster."""
        return Key(self.namespace, self.name)

    def __repr__(self) -> str:
        return f"{self.local!r}.in_cluster({self.cluster!r})"

    def __str__(self) -> str:
        """Return `cluster://cluster/namespace/name`, the form of multicluster-runtime's requests."""
        return f"{_CLUSTER}{self.cluster}/{self.local}"


class MicroTime(datetime):
    """A moment written with exactly six fractional digits (Lease and Event times).

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/micro_time.go.
    """

    def wire(self) -> str:
        """Return the form on the wire, such as `2026-01-01T00:00:00.000000Z`."""
        return self.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """Return a moment, a whole second one microsecond later.

        Other clients write a whole second back without a fraction, and are refused.
        """
        return cls.combine(moment.date(), moment.time(), moment.tzinfo).replace(microsecond=moment.microsecond or 1)


def to_wire(value: object) -> object:
    """Return the wire form of a value that msgspec does not know."""
    if isinstance(value, MicroTime):
        return value.wire()
    raise NotImplementedError(f"{shown(value)} has no form in JSON: give the field a value of its type")


def from_wire(wanted: type, value: object) -> object:
    """Return the value of a type that msgspec does not know."""
    if wanted is MicroTime and isinstance(value, str):
        return MicroTime.fromisoformat(value)
    raise NotImplementedError(f"no value of {wanted.__name__} on the wire")


class OwnerReference(Object):
    """Says which object another one belongs to; at most one reference is the controller's."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Object):
    """The metadata that controllers read. Managed fields are not kept."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Resource(Object):
    """Base of all kinds: `class Website(kcr.Resource, api_version="example.dev/v1", plural="websites")`."""

    resource: ClassVar[ResourceType]

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> Key:
        """The namespace and name of this object."""
        metadata = self.metadata
        # Faster than `Key(…)`: each reconcile makes dozens.
        return tuple.__new__(Key, (metadata.namespace, metadata.name))

    def detached(self) -> Self:
        """Return this value free of the bytes it was decoded from.

        A type with a `msgspec.Raw` field overrides it and copies the field: a Raw that is not copied
        keeps its whole input alive.
        """
        return self


class FullResource(Resource):
    """Base of types that have all fields of their kind, such as those of `kcr.api.full`: `client.update` takes them."""


class ResourceView(Resource):
    """Base of types that have some fields of their kind, to be read, cached and patched.

    `client.create` and `client.apply` refuse them, because fields without an attribute here would be missing.
    """


class PartialObjectMetadata(ResourceView):
    """The metadata of an object of a kind that `metadata_only` names; nothing else is requested, sent or cached."""


@checked
def metadata_only(kind: type[Resource] | ResourceType) -> type[PartialObjectMetadata]:
    """Return the type of a kind's objects without spec and status, the same one each time.

    For controllers that need names, labels, owner references or deletion timestamps and nothing else. Use it like
    any other kind: `client.list(…)`, `manager.store(…)`, `kcr.watch(…)`, each with an informer of its own. The server
    sends little, and the cache is small.

    ```python
    Metadata = kcr.metadata_only(Pod)
    manager.add_controller("labels", reconciler, watches=[kcr.watch(Metadata)])
    ```

    Source: controller-runtime/pkg/builder/options.go, OnlyMetadata; metav1.PartialObjectMetadata.
    """
    return _metadata_type(kind if isinstance(kind, ResourceType) else kind.resource)


@cache
def _metadata_type(resource: ResourceType) -> type[PartialObjectMetadata]:
    made: type[PartialObjectMetadata] = ObjectType(
        f"{resource.kind}Metadata", (PartialObjectMetadata,), {"__module__": __name__}, kind=resource.kind,
        api_version=resource.api_version, plural=resource.plural, namespaced=resource.namespaced,
    )  # fmt: skip
    return made


class ListMeta(Object):
    """The metadata of a list. `continue_` is empty on the last page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class StatusCause(Object):
    """One cause in a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Object):
    """The details of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int = 0


class Status(Object):
    """The server's answer where it has no object to give, above all its errors."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None
    metadata: ListMeta | None = None


class PodCondition(Object):
    """One condition of a Pod. `status` is `True`, `False` or `Unknown`.

    A type of its own, because caches hold five of them for each pod: a field more is 80 bytes per pod.
    """

    type: str
    status: str
    reason: str = ""
    message: str = msgspec.field(default_factory=str)
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None


class Condition(PodCondition):
    """One condition of a status. `status` is `True`, `False` or `Unknown`.

    It serves metav1's conditions and those of Jobs. Only metav1's have `observed_generation`, the generation of the
    spec that the condition was set for, and only the others have `last_probe_time`. `message` is written even when it
    is empty, for metav1 requires it.
    """

    observed_generation: int | None = None


def copy_raw(value: T) -> T:
    """Return a value free of the bytes it was decoded from: its `msgspec.Raw` fields, at whatever depth, are copied.

    For `Resource.detached` of types that hold such fields; one that is not copied keeps its whole input alive (ST-7).
    """
    return cast("T", _copied(value))


def _copied(value: object) -> object:
    match value:
        case msgspec.Raw():
            return value.copy()
        case msgspec.Struct():
            given = ((name, getattr(value, name)) for name in value.__struct_fields__)
            changed = {name: made for name, old in given if (made := _copied(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        case tuple():
            made = tuple(_copied(one) for one in value)
            return value if all(one is old for one, old in zip(made, value, strict=True)) else made
        case Mapping():
            found = {name: _copied(one) for name, one in value.items()}
            return value if all(found[name] is one for name, one in value.items()) else found
    return value


def whole_seconds(moment: datetime) -> datetime:
    """Cut a moment to whole seconds, as the server does with all times but MicroTime."""
    return moment.replace(microsecond=0)


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the one owner reference whose `controller` is true, or None."""
    for reference in metadata.owner_references:
        if reference.controller:
            return reference
    return None


@checked_on_failure
def controller_reference(owner: Resource) -> OwnerReference:
    """Return the reference with which `owner` controls another object.

    It blocks the owner's foreground deletion until the other object is deleted.

    Source: apimachinery/pkg/apis/meta/v1/controller_ref.go, NewControllerRef.
    """
    return OwnerReference(
        api_version=owner.resource.api_version,
        kind=owner.resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def is_controlled_by(obj: Resource, owner: Resource) -> bool:
    """Return whether `owner` itself controls the object, and not just something of its name."""
    try:
        reference = controller_of(obj.metadata)
        return reference is not None and reference.uid == owner.metadata.uid
    except Exception:
        check_of_call(is_controlled_by)((obj, owner), {})
        raise
