"""The strategy of custom resources: applies the schema of a version to its objects.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/
{strategy,status_strategy,validator}.go.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.kind import ScalePaths
from kcr_devcluster.apiserver.kinds.strategy import Strategy, UndecodableError
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, required
from kcr_devcluster.apiserver.protocol.gotexts import go_type, printed
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_annotations, qualified_name
from kcr_devcluster.apiserver.schema.extensions import EMBEDDED, LIST_TYPE, Schema
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.checks import ROOT, Check
from kcr_devcluster.apiserver.structural.list_types import embedded_errors, embedded_faults, has, list_type_errors
from kcr_devcluster.apiserver.structural.rules import NOT_CHECKED, RuleCheck, blocks, compile_rules
from kcr_devcluster.apiserver.structural.shapes import StructuralShape, default_of
from kcr_devcluster.apiserver.structural.validation import compile_schema

_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_OWN_FIELDS = ("apiVersion", "kind", "metadata")
_INT64 = 1 << 63
_MOST_REPLICAS = (1 << 31) - 1


class CustomResourceStrategy(Strategy):
    """Objects of one version of a custom resource."""

    has_generation = True
    status_resets = ("spec", "metadata")

    def __init__(self, schema: Schema, shape: StructuralShape, *, has_status: bool, scale: ScalePaths | None) -> None:
        """Make a strategy.

        Args:
            schema: The `openAPIV3Schema` of the version.
            shape: Its shape.
            has_status: Whether there is a status subresource.
            scale: The paths that the scale subresource reads and writes; None for no such subresource.
        """
        self._schema = schema
        self._shape = shape
        self._has_status = has_status
        self._scale = scale

    # Compiled for the first object: most definitions in a cluster have none.
    @cached_property
    def _check(self) -> Check:
        return compile_schema(self._schema)

    @cached_property
    def _status_check(self) -> Check:
        return compile_schema((self._schema.get("properties") or {}).get("status") or {})

    @cached_property
    def _rules(self) -> RuleCheck | None:
        return compile_rules(self._schema)

    @cached_property
    def _has_lists(self) -> bool:
        return has(self._schema, (LIST_TYPE,))

    @cached_property
    def _has_embedded(self) -> bool:
        return has(self._schema, (EMBEDDED,))

    def default(self, obj: Manifest) -> None:
        """Prune unknown fields, and fill in the defaults.

        Raises:
            UndecodableError: The metadata of an embedded resource cannot be decoded.
        """
        self._shape.conform(obj)
        for fault in embedded_faults(self._schema, obj) if self._has_embedded else ():
            version = obj["apiVersion"].rpartition("/")[2]
            raise UndecodableError(obj["kind"], version, f"{fault.field}: {fault.message}")

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status where it has a subresource."""
        if self._has_status:
            obj.pop("status", None)

    def finish_create(self, obj: Manifest) -> None:
        """Give a status that was dropped its default: upstream, objects get theirs when they are read as well."""
        if self._has_status:
            self._default_status(obj)

    def _default_status(self, obj: Manifest) -> None:
        field = self._shape.fields.get("status")
        if field is not None and field.default is not ABSENT and "status" not in obj:
            obj["status"] = default_of(field)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status where it has a subresource."""
        if self._has_status:
            super().prepare_update(new, old)
            self._default_status(new)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep everything but the status, metadata as well."""
        super().prepare_status(new, old)
        for name in [name for name in new if name not in (*_OWN_FIELDS, "status")]:
            del new[name]
        new.update({name: value for name, value in old.items() if name not in (*_OWN_FIELDS, "status")})

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether anything but metadata changes; a status with a subresource never does here."""
        names = (new.keys() | old.keys()) - set(_OWN_FIELDS)
        return not all(same_json(new.get(name), old.get(name)) for name in names)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new object."""
        return self._errors(obj, None)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; those of unchanged values are ignored."""
        return self._errors(new, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        errors: list[FieldError] = []
        if "status" in new:
            self._status_check(new["status"], "", old.get("status", ABSENT), errors)
        errors = [
            error._replace(field="status" if error.field == ROOT else f"status.{error.field}") for error in errors
        ]
        errors += _replica_errors(new, self._scale.status_replicas) if self._scale else []
        return [*errors, *self._more_errors(new, old, errors)]

    def _errors(self, obj: Manifest, old: Manifest | None) -> list[FieldError]:
        errors: list[FieldError] = []
        self._check(obj, "", ABSENT if old is None else old, errors)
        if self._scale is not None:
            errors += _replica_errors(obj, self._scale.replicas) + _replica_errors(obj, self._scale.status_replicas)
        return [*errors, *self._more_errors(obj, old, errors)]

    def _more_errors(self, obj: Manifest, old: Manifest | None, before: Sequence[FieldError]) -> list[FieldError]:
        """Return the errors that the schema alone does not find: of embedded resources, list types, and rules."""
        errors = embedded_errors(self._schema, obj) if self._has_embedded else []
        if self._has_lists and (old is None or not list_type_errors(self._schema, old)):
            errors += list_type_errors(self._schema, obj)
        if self._rules is None:
            return errors
        if blocks([*before, *errors, *_metadata_errors(obj["metadata"])]):
            return [*errors, NOT_CHECKED]
        return errors + self._rules(obj, ABSENT if old is None else old).errors

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warnings about rules that unchanged values break, and about new finalizers without a domain."""
        had = () if old is None else old["metadata"].get("finalizers") or ()
        added = sorted(set(new["metadata"].get("finalizers") or ()) - set(had))
        texts = [text for name in added for text in _finalizer_warnings(name)]
        if old is None or self._rules is None:
            return texts
        ratcheted = self._rules(new, old).ratcheted
        return [*(f"{error.field}: {error.message}" for error in ratcheted), *texts]


def _metadata_errors(metadata: Manifest) -> list[FieldError]:
    """Return the errors of metadata that keep rules from being evaluated; the registry reports them."""
    errors = check_annotations(metadata.get("annotations") or {}, "metadata.annotations")
    return errors if metadata.get("name") else [required("metadata.name"), *errors]


def _no_accessor(field: str, value: Any, wanted: str) -> FieldError:
    shown = float(value) if type(value) is int else value
    words = f"{field} accessor error: {printed(shown)} is of the type {go_type(shown)}, expected {wanted}"
    return invalid(field, 0, words)


def _replica_errors(obj: Mapping[str, Any], path: tuple[str, ...]) -> list[FieldError]:
    value: Any = obj
    field = "." + ".".join(path)
    for name in path:
        if not isinstance(value, dict):
            return [_no_accessor(field, value, "map[string]interface{}")]
        if name not in value:
            return []
        value = value[name]
    if type(value) is not int or not -_INT64 <= value < _INT64:
        return [_no_accessor(field, value, "int64")]
    if value < 0:
        return [invalid(field, value, "should be a non-negative integer")]
    if value > _MOST_REPLICAS:
        return [invalid(field, value, f"should be less than or equal to {_MOST_REPLICAS}")]
    return []


def _finalizer_warnings(name: str) -> list[str]:
    found = [f'metadata.finalizers: "{name}": {reason}' for reason in qualified_name(name)]
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        path = " including a path (/)" if "." in name else ""
        words = (
            f"prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )
        found.append(f'metadata.finalizers: "{name}": {words}')
    return found
