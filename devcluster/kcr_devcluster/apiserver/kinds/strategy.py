"""The strategy of a kind: how its objects are processed between request and storage.

Objects are plain manifests here (`dict`s as decoded from JSON): the server keeps every field that the kind's schema
names, known to kcr's types or not.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go and
pkg/registry/generic/registry/store.go.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.builtin import kind_shape
from kcr_devcluster.apiserver.schema.shape import Shape, TypeMismatchError


class UndecodableError(StatusError):
    """The body is JSON and no object of its kind: 400.

    Attributes:
        text: The decoder's message, which a failed patch wraps in another one.
        converted: The message where the object is converted, as an applied one is: it does not say where.
    """

    def __init__(self, kind: str, version: str, error: ValueError | str) -> None:
        self.text = str(error)
        super().__init__(400, "BadRequest", f'{kind} in version "{version}" cannot be handled as a {kind}: {self.text}')
        self.converted = error.converted() if isinstance(error, TypeMismatchError) else self.text


def conform(shape: Shape, obj: Manifest) -> None:
    """Conform an object to the schema of its kind, in place.

    Raises:
        UndecodableError: It is no object of the kind.
    """
    try:
        shape.conform(obj)
    except ValueError as error:
        raise UndecodableError(shape.short_name, shape.name.partition(".")[0], error) from None


class UpdateRules(NamedTuple):
    """The steps of an update, each called with the new and the stored object.

    Attributes:
        prepare: Resets the fields that this update may not change to their stored values, in place.
        validate: Returns the field errors.
        writes_spec: Whether a change of the spec starts a new generation.
    """

    prepare: Callable[[Manifest, Manifest], None]
    validate: Callable[[Manifest, Manifest], list[FieldError]]
    writes_spec: bool = False


class Strategy:
    """The behaviour of one kind. The strategy of a kind overrides the methods that it needs.

    Methods that change a manifest do so in place. The server calls, in this order:
    on create `default`, `prepare_create`, `validate`, `finish_create`; on update of the main resource `default`,
    `prepare_update`, `validate_update`; on an update of `/status` `default`, `prepare_status`, `validate_status`.
    Metadata, common to all kinds, are validated by the registry.

    Attributes:
        has_generation: Whether `metadata.generation` is kept: 1 on create, +1 when the spec changes.
        graceful_deletion: Whether a grace period applies on delete (pods).
        default_propagation: The policy when a DELETE names none: `Background`, or `Orphan` for Jobs and
            ReplicationControllers.
        status_resets: The fields that a write through `/status` leaves as they are, such as `metadata.labels`; an apply
            there owns none of them.
        stored_as: apiVersion and kind of the objects, where the strategy is for one kind only.
        create_refusal: Why no objects can be created now, `""` for nothing.
    """

    has_generation = False
    graceful_deletion = False
    default_propagation = "Background"
    status_resets: tuple[str, ...] = ("spec",)
    stored_as: tuple[str, str] | None = None
    create_refusal = ""

    def default(self, obj: Manifest) -> None:
        """Conform an object to the schema of its kind, and fill in the defaults; applied on every decode.

        Raises:
            UndecodableError: It is no object of the kind.
        """
        conform(kind_shape(*(self.stored_as or (obj["apiVersion"], obj["kind"]))), obj)

    def prepare_create(self, obj: Manifest) -> None:
        """Set the fields that only the server may set; `metadata.uid` and `name` are set before."""

    def finish_create(self, obj: Manifest) -> None:
        """Set the fields that are derived from a valid object; they are not validated."""

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the fields that an update of the main resource may not change, above all the status."""
        _keep("status", new, old)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep the fields that an update of `/status` may not change, above all the spec."""
        for path in self.status_resets:
            parent, _, name = path.rpartition(".")
            if path == "metadata":
                keep_metadata(new, old)
            else:
                _keep(name, new[parent] if parent else new, old[parent] if parent else old)

    def resets(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that a write of the object (`""`), or through a subresource, leaves as they are."""
        return self.status_resets if subresource else ("status",)

    def update_rules(self, subresource: str) -> UpdateRules:
        """Return the rules of an update of the object (`""`), or of the status through a subresource."""
        if subresource:
            return UpdateRules(self.prepare_status, self.validate_status)
        return UpdateRules(self.prepare_update, self.validate_update, writes_spec=True)

    def prepare_delete(self, obj: Manifest) -> None:
        """Set the fields that the server sets when an object is to be deleted, above all finalizers."""

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether an update of the main resource starts a new generation, that is, changes the spec."""
        return not same_json(new.get("spec"), old.get("spec"))

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new object."""
        return []

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        return self.validate(new)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return []

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return texts for `Warning` headers; `old` is None on create."""
        return []


def _keep(name: str, new: Manifest, old: Manifest) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def keep_metadata(new: Manifest, old: Manifest) -> None:
    """Keep the metadata of an object, in the mapping that `new` has now."""
    metadata: Manifest = new["metadata"]
    metadata.clear()
    metadata.update(old["metadata"])


def found_at(place: str) -> Any:
    """Import a name of a module below `kcr_devcluster.apiserver.kinds`, such as `pods.strategy:PodStrategy`."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"kcr_devcluster.apiserver.kinds.{module}"), name)


def strategy_at(place: str, *arguments: Any, **options: Any) -> Callable[..., Strategy]:
    """Return a function that imports and makes a strategy: a server has many kinds, and a test uses few.

    It takes options that a version of Kubernetes adds.

    Args:
        place: Where its class is, see `found_at`.
        *arguments: For the class.
        **options: For the class.
    """

    def make(**traits: Any) -> Strategy:
        made: Strategy = found_at(place)(*arguments, **options | traits)
        return made

    return make
