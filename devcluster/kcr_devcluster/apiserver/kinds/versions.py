"""The parts of a kind that depend on the version: paths of `/scale`, conversion, the declaration of custom kinds."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.shape import Shape

if TYPE_CHECKING:  # it imports these
    from kcr_devcluster.apiserver.kinds.catalogue import Kind


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
