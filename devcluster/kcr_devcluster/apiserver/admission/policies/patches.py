"""The patches of a MutatingAdmissionPolicy: an apply configuration, merged by the schema, or a JSON patch.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}.go;
pkg/cel/mutation/dynamic/objects.go, CheckTypeNamesMatchFieldPathNames.
"""

from collections.abc import Iterator
from typing import Any

from kcr_devcluster.apiserver.apply.fieldpath import shown
from kcr_devcluster.apiserver.apply.merge import merge
from kcr_devcluster.apiserver.apply.typed import faults, is_atomic
from kcr_devcluster.apiserver.cel.values import Object
from kcr_devcluster.apiserver.patch import json_patch
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.scalars import ANY
from kcr_devcluster.apiserver.schema.shape import Field, Shape

_ROOT, _OPERATION = "Object", "JSONPatch"


class PatchError(Exception):
    """A patch that cannot be applied; the message is upstream's."""


def apply_configuration(obj: Manifest, value: Any, shape: Shape) -> Manifest:
    """Return an object with an apply configuration merged into it; it is not changed itself.

    Args:
        obj: The object.
        value: The value of the expression.
        shape: The fields of the object.

    Raises:
        PatchError: The value is no configuration of such an object, or would replace a list or a map as a whole.
    """
    if not isinstance(value, Object) or value.type_name != _ROOT:
        raise PatchError("unsupported return type from ApplyConfiguration expression")
    _check_types(value)
    field = Field(shape.type)
    config = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **_plain(value)}
    if wrong := list(faults(field, config)):
        words = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
        raise PatchError(f"error applying patch: failed to convert patch object to typed object: {words}")
    if atomic := list(_atomic_paths(field, config, "")):
        raise PatchError(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            + ", ".join(atomic)
        )
    merged: Manifest = merge(field, obj, config)
    return merged


def apply_json_patch(obj: Manifest, value: Any) -> Manifest:
    """Return an object with a JSON patch applied; it is not changed itself, nor by a patch whose `test` fails.

    Raises:
        PatchError: The value is no patch, or an operation cannot be applied.
    """
    if not isinstance(value, list):
        raise PatchError("type mismatch: JSONPatchType.expression should evaluate to array")
    patched = obj
    for operation in value:
        if not isinstance(operation, Object) or operation.type_name != _OPERATION:
            raise PatchError("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
        if isinstance(operation.get("value"), Object):
            _check_types(operation["value"])
        try:
            patched = json_patch(patched, [_plain(operation)])
        except StatusError:
            name, path = operation.get("op", ""), operation.get("path", "")
            if name == "test":
                return obj
            words = f"{name} operation does not apply: doc is missing path: {path}: missing value"
            raise PatchError(f"JSONPath: {words}") from None
    return patched


def _check_types(value: Object) -> None:
    """Refuse an object whose type's name is not the path of the field that it is the value of."""
    if wrong := list(_type_faults(value, value.type_name)):
        raise PatchError("type mismatch: " + "\n".join(wrong))


def _type_faults(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _type_faults(one, path)
    elif isinstance(value, Object):
        if value.type_name != path:
            yield (
                f'unexpected type name "{value.type_name}", expected "{path}", which matches field name path from root '
                "Object type"
            )
        for name, one in value.items():
            yield from _type_faults(one, f"{path}.{name}")
    elif isinstance(value, dict):
        for one in value.values():
            yield from _type_faults(one, path)


def _plain(value: Any) -> Any:
    """Return a constructed value as JSON has it."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _atomic_paths(field: Field, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of lists, maps and objects that a patch would replace as a whole."""
    if not isinstance(value, dict | list):
        return
    shape, items = field.type.shape, field.type.items
    if (shape is not None or items is not None) and is_atomic(field, value):
        yield path
    if isinstance(value, list):
        for position, one in enumerate(value):
            yield from _atomic_paths(Field(items or ANY), one, f"{path}[{position}]")
        return
    for name, one in value.items():
        if shape is not None and (known := shape.fields.get(name)) is not None:
            yield from _atomic_paths(known, one, path + shown(f"f:{name}"))
