"""Columns and printers, and those that a CustomResourceDefinition declares.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor/
tableconvertor.go; pkg/apiserver/customresource_handler.go, defaultPrinterColumns.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from kcr.api.durations import age
from kcr_devcluster.apiserver.http.printers.jsonpath import Finder, compile_path, printed
from kcr_devcluster.apiserver.kinds.kind import ColumnDefinition
from kcr_devcluster.apiserver.protocol.manifests import Manifest

Cells = list[Any]


class Column(NamedTuple):
    """One column; a wide one, or one with a priority above 0, is shown with `-o wide` only."""

    name: str
    type: str = "string"
    wide: bool = False
    description: str = ""
    format: str = ""
    priority: int | None = None


class Printer(NamedTuple):
    """The columns of a kind, and how the cells of an object are made at a given time."""

    columns: tuple[Column, ...]
    cells: Callable[[Manifest, datetime], Cells]


_NAME = Column("Name", format="name")
_AGE = ColumnDefinition("Age", "date", ".metadata.creationTimestamp")


@lru_cache(512)
def custom_printer(declared: tuple[ColumnDefinition, ...] | None) -> Printer:
    """Return the printer of a custom resource; without declared columns it shows the age."""
    columns = (_AGE,) if declared is None else declared
    finders = [(column.type, compile_path(column.json_path)) for column in columns]

    def cells(obj: Manifest, now: datetime) -> Cells:
        return [obj["metadata"]["name"], *(_cell(find, type_name, obj, now) for type_name, find in finders)]

    return Printer((_NAME, *(_column(column, declared=declared is not None) for column in columns)), cells)


def _column(column: ColumnDefinition, *, declared: bool) -> Column:
    described = f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return Column(
        column.name,
        column.type,
        description=column.description or (described if declared else ""),
        format=column.format,
        priority=column.priority,
    )


def _cell(find: Finder, type_name: str, obj: Manifest, now: datetime) -> Any:
    found = find(obj)
    if not found:
        return None
    value = found[0]
    match type_name:
        case "string":
            return printed(value)
        case "integer" if type(value) in (int, float):
            return int(value)
        case "number" if type(value) in (int, float):
            return float(value)
        case "boolean" if type(value) is bool:
            return value
        case "date" if isinstance(value, str):
            return _human_date(value, now)
    return None


def _human_date(text: str, now: datetime) -> str:
    try:
        return age(text, now)
    except ValueError:
        return "<invalid>"
