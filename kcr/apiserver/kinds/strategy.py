"""What a kind does on its way into the storage: defaults, preparation, validation.

Objects are plain manifests here (`dict`s as decoded from JSON): the server keeps every field that the kind's schema
names, known to kcr's types or not.
"""

from typing import Any, NamedTuple

Manifest = dict[str, Any]


class FieldError(NamedTuple):
    """One fault found by validation.

    Attributes:
        field: The path, such as `spec.template.spec.containers[0].name`.
        reason: The cause's reason, such as `FieldValueInvalid`.
        message: The words after the path, such as `Invalid value: -1: must be greater than or equal to 0`.
    """

    field: str
    reason: str
    message: str


class Strategy:
    """The behaviour of one kind. Kinds override what they need.

    Methods that change a manifest do so in place. The server calls, in this order:
    on create `default`, `prepare_create`, `validate`, `finish_create`; on update of the main resource `default`,
    `prepare_update`, `validate_update`; on an update of `/status` `default`, `prepare_status`, `validate_status`.
    Metadata common to all kinds is the server's business, not the strategy's.

    Attributes:
        has_generation: Whether `metadata.generation` is kept: 1 on create, +1 when the spec changes.
        graceful_deletion: Whether a grace period applies on delete (pods).
        default_propagation: The policy when a DELETE names none: `Background`, or `Orphan` for Jobs.
    """

    has_generation = False
    graceful_deletion = False
    default_propagation = "Background"

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults; applied on every decode, reads included."""

    def prepare_create(self, obj: Manifest) -> None:
        """Set what only the server may set; `metadata.uid` and `name` are there already."""

    def finish_create(self, obj: Manifest) -> None:
        """Fill in what follows from an object that was found good, and what no fault is to be blamed on."""

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep what a write to the main resource may not change, above all the status."""
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep what a write to `/status` may not change, above all the spec."""
        if "spec" in old:
            new["spec"] = old["spec"]
        else:
            new.pop("spec", None)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of a new object."""
        return []

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change."""
        return self.validate(new)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change of the status."""
        return []

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return texts for `Warning` headers; `old` is None on create."""
        return []
