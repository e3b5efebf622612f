"""The patches of a MutatingAdmissionPolicy: an apply configuration, merged by the schema, or a JSON patch.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/{smd,json_patch}.go;
pkg/cel/mutation/dynamic/objects.go, CheckTypeNamesMatchFieldPathNames.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.apply.fieldpath import shown
from kcr_devcluster.apiserver.apply.merge import merge
from kcr_devcluster.apiserver.apply.typed import faults, is_atomic
from kcr_devcluster.apiserver.cel.values import Object
from kcr_devcluster.apiserver.patch import json_patch
from kcr_devcluster.apiserver.protocol.gotexts import quoted
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.scalars import ANY
from kcr_devcluster.apiserver.schema.shape import Field, Shape

_ROOT, _OPERATION = "Object", "JSONPatch"

_NO_TARGET = "doc is missing destination path"


class _Kind(NamedTuple):
    """How messages speak of a path that leads nowhere, and of the path of another fault."""

    missing: str = "doc is missing path"
    what: str = "path"


_KINDS: Mapping[str, _Kind] = {
    "add": _Kind(), "remove": _Kind(), "replace": _Kind(), "test": _Kind("is missing path"),
    "move": _Kind("doc is missing from path"), "copy": _Kind("doc is missing from path", "from"),
}  # fmt: skip


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
    config = {**_plain(value), "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
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
            if why := _why(patched, operation):
                raise PatchError(f"JSON Patch: {why}") from None
            return obj
    return patched


def _why(obj: Manifest, operation: Manifest) -> str:
    """Return why an operation cannot be applied, `""` for a `test` of a value that is another one.

    Source: kubernetes/vendor/gopkg.in/evanphx/json-patch.v4/patch.go.
    """
    name, path, source = (operation.get(member, "") for member in ("op", "path", "from"))
    if name not in _KINDS:
        return f"Unexpected kind: {name}"
    kind, place = _KINDS[name], source if name in ("copy", "move") else path
    holder, key = _holder(obj, place)
    if holder is None:
        shown = f'"{place}"' if name in ("add", "remove") else place
        return f"{name} operation does not apply: {kind.missing}: {shown}: missing value"
    if fault := _fault(holder, key, name):
        if name == "replace":
            return f"replace operation does not apply: doc is missing key: {path}: missing value"
        return f"error in {name} for {kind.what}: '{key if name == 'move' else place}': {fault}"
    return "" if name == "test" else f"{name} operation does not apply: {_NO_TARGET}: {path}: missing value"


def _holder(obj: Any, path: str) -> tuple[Any, str]:
    """Return the object or list that a path ends in, None where there is none, and the last step."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
    found = obj if tokens else None
    for token in tokens[:-1]:
        if isinstance(found, list):
            at = parse_int(token)
            found = found[at] if at is not None and -len(found) <= at < len(found) else None
        else:
            found = found.get(token) if isinstance(found, dict) else None
    return found if isinstance(found, dict | list) else None, tokens[-1] if tokens else ""


def _fault(holder: Any, key: str, name: str) -> str:
    """Return what is wrong with the last step of a path, `""` for nothing."""
    if isinstance(holder, dict):
        is_missing = name in ("move", "remove") and key not in holder
        return f"Unable to remove nonexistent key: {key}: missing value" if is_missing else ""
    at = parse_int(key)
    if at is None:
        words = f"strconv.Atoi: parsing {quoted(key)}: invalid syntax"
        return f"value was not a proper array index: '{key}': {words}" if name == "add" else words
    most = len(holder) + (name == "add")
    return "" if -most <= at < most else f"Unable to access invalid index: {at}: invalid index referenced"


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
