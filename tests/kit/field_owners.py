"""Which fields a manager may own that are not stored."""

from collections.abc import Iterable

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.schema.shape import Field


def without_maps(kind: Kind, paths: Iterable[str]) -> set[str]:
    """Return the paths that are no maps: who owns a map still does when others have emptied it.

    Args:
        kind: Of the object.
        paths: Such as `.metadata.labels`.
    """
    return {path for path in paths if not _is_map(kind, path)}


def _is_map(kind: Kind, path: str) -> bool:
    field: Field | None = Field(kind.shape.type)
    for name in path.split(".")[1:]:
        field = field and field.type.field(name)
    return field is not None and field.type.items is not None and not field.type.name.startswith(("[]", "array"))
