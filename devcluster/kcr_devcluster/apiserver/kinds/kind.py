"""A kind as the server serves it, and the parts of it that depend on the version."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain
from kcr_devcluster.apiserver.schema.builtin import kind_shape, type_of_kind
from kcr_devcluster.apiserver.schema.protobuf_encoder import is_encodable
from kcr_devcluster.apiserver.schema.shape import Shape


class ScalePaths(NamedTuple):
    """The paths of the fields that `/scale` shows, in the objects of a kind.

    Attributes:
        replicas: The desired number of replicas.
        status_replicas: The actual number of replicas.
        selector: The label selector of the pods, its text, or their labels; `()` where there is none.
    """

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


class Conversion(NamedTuple):
    """How the objects of a kind, the hub, are converted to and from another version that is served.

    Attributes:
        hub: The kind whose objects they are.
        shape: The fields of the version.
        to_hub: Converts a manifest of the version to one of `hub`, in place.
        from_hub: Converts a manifest of `hub` to one of the version, in place.
        warning: The warning in every response.
        same_fields: Whether nothing but the apiVersion differs.
        rules: The hub with the rules for objects that are written through the version; None where they are the hub's.
    """

    hub: "Kind"
    shape: Shape
    to_hub: Callable[[Manifest], None]
    from_hub: Callable[[Manifest], None]
    warning: str = ""
    same_fields: bool = False
    rules: "Kind | None" = None


class Converter(Protocol):
    """Converts the objects of a definition by its webhook."""

    @property
    def kinds(self) -> Mapping[str, "Kind"]:
        """The kinds of all versions that objects may be stored in, by version."""

    def converted(self, objects: Sequence[Manifest], version: str) -> list[Manifest]:
        """Return objects in a version, those that are in it as they are.

        Raises:
            PendingError: The webhook has to be called for some of them.
            StatusError: 500, the webhook failed.
        """

    async def convert(self, objects: Sequence[Manifest], version: str) -> list[Manifest]:
        """Return objects in a version, those that are in it as they are.

        Raises:
            StatusError: 500, the webhook failed.
        """


class ColumnDefinition(NamedTuple):
    """A column that a CustomResourceDefinition declares; one with a priority above 0 is shown with `-o wide` only."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class CustomVersion(NamedTuple):
    """One version of a kind, as its CustomResourceDefinition declares it.

    Attributes:
        shape: The fields of its objects.
        openapi_schema: The schema as the definition has it.
        schema_hash: Hash of the version as declared, and of the names of the kind, by which changes are detected.
        singular: The name of one.
        list_kind: The kind of lists.
        columns: The columns of tables; None where none are declared.
        warning: The warning in every response, of a deprecated version.
        converter: Calls the webhook that converts objects between versions; None where there is none.
    """

    shape: Shape
    openapi_schema: Mapping[str, Any]
    schema_hash: str
    singular: str
    list_kind: str
    columns: tuple[ColumnDefinition, ...] | None = None
    warning: str = ""
    converter: Converter | None = None


# Fields that Go's types hold by value: absent, they compare as their zero.
ZEROS: Mapping[str, str] = {"status.successful": "0", "spec.unschedulable": "false", "spec.hostNetwork": "false"}
_EVERY_KIND = ("metadata.name", "metadata.namespace")
_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_DEPRECATED = {"endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
MAIN_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# The verbs of each subresource.
SUBRESOURCE_VERBS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("approval", "ephemeralcontainers", "resize", "scale", "status"), ("get", "patch", "update")),
    **dict.fromkeys(("attach", "exec", "portforward"), ("create", "get")),
    **dict.fromkeys(("binding", "eviction", "token"), ("create",)),
    "finalize": ("update",),
    "log": ("get",),
    "proxy": ("create", "delete", "get", "patch", "update"),
}
# Subresources with a kind of their own: group, version and kind; `""` for the object's group and version.
SUBRESOURCE_KINDS: Mapping[str, tuple[str, str, str]] = {
    "attach": ("", "", "PodAttachOptions"),
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "", "PodExecOptions"),
    "portforward": ("", "", "PodPortForwardOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind as this server serves it.

    Attributes:
        type: Group, version, kind, plural and scope.
        make_strategy: Makes its strategy when the kind is first used.
        short_names: Its other names in kubectl.
        categories: `all` for a kind that `kubectl get all` lists.
        subresources: Keys of `SUBRESOURCE_VERBS`.
        fields: Paths that field selectors may name; a path maps to where its value is.
        unknown_field_message: The refusal of another path, with `{}` for the path.
        requires_resource_version: Whether a PUT must name the resourceVersion.
        allow_create_on_update: Whether a PUT of an absent object creates it.
        returns_deleted_object: Whether the response to a DELETE is the object, not with a Status.
        name_rule: Returns the reasons why a text is not a valid name.
        garbage_collected: Whether the garbage collector's finalizers apply.
        scale: The fields that `/scale` reads and writes; None for a kind without this subresource.
        conversion: Set where the objects are those of another kind.
        custom: Set for custom resources.
        field_fallbacks: Where the value of a path in `fields` is when its own place has none.
        printer: The name of its columns in tables, where another version of Kubernetes has others.
        is_computed: Whether objects are computed when they are read, and cannot be written or watched.
    """

    type: ResourceType
    make_strategy: Callable[..., Strategy] = Strategy
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown_field_message: str = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    requires_resource_version: bool = False
    allow_create_on_update: bool = False
    returns_deleted_object: bool = False
    name_rule: Callable[[str], tuple[str, ...]] = dns_subdomain
    garbage_collected: bool = True
    scale: ScalePaths | None = None
    conversion: Conversion | None = None
    custom: CustomVersion | None = None
    field_fallbacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    printer: str = ""
    is_computed: ClassVar[bool] = False

    @cached_property
    def strategy(self) -> Strategy:
        """Its defaults, preparation and validation."""
        return self.make_strategy()

    @property
    def stored(self) -> "Kind":
        """The kind whose objects these are: itself, but for views."""
        return self if self.conversion is None else self.conversion.hub

    @cached_property
    def stored_name(self) -> str:
        """The name of that kind, such as `jobs.batch`; made once, for every request asks."""
        return self.stored.type.display

    @property
    def written(self) -> "Kind":
        """The kind by whose rules objects are written: custom resources have their own in each version."""
        if self.conversion is None or self.custom is not None:
            return self
        return self.conversion.rules or self.conversion.hub

    @cached_property
    def converter(self) -> Converter | None:
        """Converts objects that are stored in other versions by a webhook; None where no webhook does."""
        return None if self.custom is None else self.custom.converter

    @cached_property
    def shape(self) -> Shape:
        """The fields of its objects as they are stored: those of all versions of Kubernetes."""
        if self.custom is not None:
            return self.custom.shape
        return kind_shape(self.type.api_version, self.type.kind) if self.conversion is None else self.conversion.shape

    def shape_in(self, version: str) -> Shape:
        """Return the fields of its objects in requests to a server of a version of Kubernetes."""
        if self.custom is not None or type_of_kind(self.type.api_version, self.type.kind, version) is None:
            return self.shape
        return kind_shape(self.type.api_version, self.type.kind, version) if self.conversion is None else self.shape

    @cached_property
    def has_protobuf(self) -> bool:
        """Whether its objects have a form in protobuf; custom resources have none."""
        return self.custom is None and is_encodable(self.type.api_version, self.type.kind)

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs of the kind, in the order of discovery."""
        if self.custom is not None:
            return _CUSTOM_VERBS
        return tuple(verb for verb in MAIN_VERBS if verb != "deletecollection" or self.type.plural != "namespaces")

    @cached_property
    def head(self) -> bytes:
        """How the JSON of an object begins: kind and apiVersion, which the storage leaves out."""
        return f'{{"kind":"{self.type.kind}","apiVersion":"{self.type.api_version}",'.encode()

    @cached_property
    def stored_head(self) -> bytes:
        """How the JSON of an object begins in a journal."""
        return f'{{"apiVersion":"{self.type.api_version}",'.encode()

    @property
    def singular(self) -> str:
        """The name of one."""
        return self.type.kind.lower() if self.custom is None else self.custom.singular

    @property
    def list_kind(self) -> str:
        """The kind of lists of its objects."""
        return f"{self.type.kind}List" if self.custom is None else self.custom.list_kind

    @property
    def openapi_schema(self) -> Mapping[str, Any] | None:
        """The `openAPIV3Schema` of a custom resource; None for built-in kinds."""
        return None if self.custom is None else self.custom.openapi_schema

    @property
    def schema_hash(self) -> str:
        """Hash of the served version of a custom resource, by which changes are detected; `""` for built-in kinds."""
        return "" if self.custom is None else self.custom.schema_hash

    @property
    def warning(self) -> str:
        """The warning in every response, `""` for none."""
        if self.custom is not None:
            return self.custom.warning
        if self.type.display in _DEPRECATED:
            return _DEPRECATED[self.type.display]
        return "" if self.conversion is None else self.conversion.warning

    def has_field(self, path: str) -> bool:
        """Return whether field selectors may name this path."""
        if path == "metadata.namespace" and not self.type.namespaced:
            return not self.fields
        return path in _EVERY_KIND or path in self.fields
