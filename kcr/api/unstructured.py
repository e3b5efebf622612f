"""Objects of kinds that have no type here: metadata is typed, all else stays bytes until it is read."""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Self, TypeVar, overload

import msgspec
from msgspec.structs import replace

from kcr.api.equality import difference
from kcr.api.meta import FullResource, ObjectMeta, ObjectType, from_wire, to_wire
from kcr.arguments import check_of_call, checked, checked_on_failure

T = TypeVar("T")

# The first form of a decoded object. The raw values keep the whole input alive, so none of them is kept (ST-7).
RawFields = dict[str, msgspec.Raw]

# Known from the class, not from the object.
_TYPE_FIELDS = ("apiVersion", "kind")
_metadata_decoder = msgspec.json.Decoder(ObjectMeta)
_encode = msgspec.json.Encoder(enc_hook=to_wire, order="deterministic").encode


class Unstructured(FullResource):
    """An object of a kind that `unstructured` names.

    It is whole, except for managed fields: it may be written back with a PUT.

    Attributes:
        fields: The JSON of every top-level field but `apiVersion`, `kind` and `metadata`, by its name on the wire.
    """

    fields: Mapping[str, bytes] = {}

    @classmethod
    @checked_on_failure
    def of(cls, manifest: Mapping[str, object]) -> Self:
        """Return the object that a manifest describes.

        Raises:
            ValueError: The manifest says that it is of another kind, or its metadata does not fit.
        """
        for name, own in zip(_TYPE_FIELDS, (cls.resource.api_version, cls.resource.kind), strict=True):
            if manifest.get(name, own) != own:
                raise ValueError(f"{cls.__name__}: the manifest has {name} {manifest[name]!r}, not {own!r}")
        return cls.from_fields(msgspec.json.decode(_encode(manifest), type=RawFields))

    @classmethod
    def from_fields(cls, found: RawFields) -> Self:
        """Return the object made of decoded fields, free of the bytes these were decoded from.

        Raises:
            msgspec.ValidationError: The metadata does not fit.
        """
        raw = found.get("metadata")
        try:
            metadata = _metadata_decoder.decode(raw) if raw is not None else ObjectMeta()
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"metadata: {error}") from error
        kept = (name for name in found if name != "metadata" and name not in _TYPE_FIELDS)
        return cls(metadata=metadata, fields={sys.intern(name): bytes(found[name]) for name in kept})

    @overload
    def get(self, name: str) -> Any: ...
    @overload
    def get(self, name: str, kind: type[T]) -> T | None: ...
    @checked_on_failure
    def get(self, name: str, kind: Any = Any) -> Any:
        """Decode a top-level field, None when the object has none of this name.

        Each call decodes again, so read once and keep the value; the caller owns it.

        Args:
            name: The field's name on the wire, such as `spec`.
            kind: The type to decode: a `kcr.Object`, for example. By default plain values.

        Raises:
            msgspec.ValidationError: The field does not fit the type; the message has the path.
        """
        raw = self.fields.get(name)
        if raw is None and not isinstance(name, str):
            check_of_call(Unstructured.get)((self, name), {})
        return None if raw is None else msgspec.json.decode(raw, type=kind, dec_hook=from_wire)

    @checked_on_failure
    def changed(self, **fields: object) -> Self:
        """Return a copy with other values in some top-level fields; None removes one."""
        kept = {name: raw for name, raw in self.fields.items() if name not in fields}
        written = {name: _encode(value) for name, value in fields.items() if value is not None}
        return replace(self, fields={**kept, **written})

    def fields_unlike(self, old: "Unstructured") -> dict[str, Any]:
        """Return the JSON merge patch that turns the fields of `old` into these; empty when they say the same."""
        names = [name for name in {**old.fields, **self.fields} if old.fields.get(name) != self.fields.get(name)]
        return difference({name: old.get(name) for name in names}, {name: self.get(name) for name in names}) or {}


@checked
def unstructured(api_version: str, kind: str, *, plural: str, namespaced: bool = True) -> type[Unstructured]:
    """Return the type of a kind's objects, the same one each time.

    Use it like any other: `client.get(Widget, …)`, `manager.store(Widget)`, `kcr.watch(Widget)`.

    Args:
        api_version: Group and version as in manifests: `example.dev/v1`, `v1`.
        kind: The kind, as in manifests: `Widget`.
        plural: Its name in paths: `widgets`.
        namespaced: Whether its objects live in namespaces.
    """
    return _made(api_version, kind, plural, namespaced)


@cache
def _made(api_version: str, kind: str, plural: str, namespaced: bool) -> type[Unstructured]:
    options = {"api_version": api_version, "plural": plural, "namespaced": namespaced}
    made: type[Unstructured] = ObjectType(kind, (Unstructured,), {"__module__": __name__}, **options)
    return made
