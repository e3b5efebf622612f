"""Lists and watches as tables, which `kubectl get` shows. The cells are in `printers`.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go,
kubernetes/pkg/printers/tablegenerator.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kcr.clock import Clock
from kcr_devcluster.apiserver.http.printers.columns import Column
from kcr_devcluster.apiserver.http.printers.printers import OTHERS, printer_of
from kcr_devcluster.apiserver.http.serialization import (
    MediaType,
    MetadataEncoder,
    ObjectEncoder,
    bookmark_metadata,
    event_line,
    transformed_metadata,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.field_errors import invalid
from kcr_devcluster.apiserver.protocol.gojson import encode_json
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import bad_request
from kcr_devcluster.apiserver.storage.records import Change, Record


def included_object(text: str) -> str:
    """Return the part of the object that rows carry, from the query's `includeObject`.

    Raises:
        StatusError: 400, it is no choice.
    """
    if text not in ("", "None", "Metadata", "Object"):
        error = invalid("includeObject", text, "must be 'Metadata', 'Object', 'None', or empty")
        raise bad_request(f"Unable to convert to Table as requested: {error.field}: {error.message}")
    return text or "Metadata"


def accepted_encoder(accepted: MediaType, query: Query, clock: Clock) -> ObjectEncoder:
    """Return the encoder of a response.

    Args:
        accepted: The media type that was negotiated.
        query: Has the options of tables.
        clock: For ages.

    Raises:
        StatusError: 400, an option is no choice.
    """
    match accepted.transformation:
        case "Table":
            return TableEncoder(accepted.version, included_object(query.text("includeObject")), clock)
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return MetadataEncoder(accepted.version)
    return ObjectEncoder()


class TableEncoder(ObjectEncoder):
    """Objects as rows. In a watch the columns come with the first row only."""

    def __init__(self, version: str, include: str, clock: Clock) -> None:
        """Make the encoder of one response.

        Args:
            version: The version of meta.k8s.io that was requested.
            include: The part of the object in a row, beside its cells: `None`, `Metadata` or `Object`.
            clock: For ages.
        """
        self._type = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}"}
        self._partial = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
        self._include = include
        self._clock = clock
        self._columns_sent = False

    def encode_object(self, record: Record) -> bytes:
        """Return the table of one object."""
        return self.encode_list(record.kind, {"resourceVersion": str(record.revision)}, [record])

    def encode_list(self, kind: Kind, metadata: Mapping[str, Any], records: Sequence[Record]) -> bytes:
        """Return the table of a list."""
        rows = [self._row(record) for record in records]
        # Where upstream has no printer of the kind, no rows are null.
        shown = rows or (None if printer_of(kind) is OTHERS else rows)
        return encode_json(self._table(kind, transformed_metadata(metadata), shown)) + b"\n"

    def encode_event(self, event: str, record: Record, change: Change | None) -> bytes:
        """Return a line whose object is a table of one row."""
        metadata = {"resourceVersion": str(record.revision)}
        return event_line(event, self._stream_table(record.kind, metadata, [self._row(record)]))

    def encode_bookmark(self, kind: Kind, revision: int, *, initial_end: bool) -> bytes:
        """Return a line whose only row carries the bookmark."""
        members = bookmark_metadata(revision, initial_end)
        empty = [""] * len(printer_of(kind).columns)
        row = {"cells": empty, "object": {**self._partial, **members}}
        return event_line("BOOKMARK", self._stream_table(kind, {"resourceVersion": str(revision)}, [row]))

    def _stream_table(self, kind: Kind, metadata: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
        table = self._table(kind, metadata, rows)
        if self._columns_sent:
            table["columnDefinitions"] = None
        self._columns_sent = True
        return table

    def _table(self, kind: Kind, metadata: Mapping[str, Any], rows: list[dict[str, Any]] | None) -> dict[str, Any]:
        columns = [_definition(column) for column in printer_of(kind).columns]
        return {**self._type, "metadata": metadata, "columnDefinitions": columns, "rows": rows}

    def _row(self, record: Record) -> dict[str, Any]:
        manifest = record.manifest()
        row: dict[str, Any] = {"cells": printer_of(record.kind).cells(manifest, self._clock.now())}
        phase = (manifest.get("status") or {}).get("phase") if record.kind.type.kind == "Pod" else None
        if phase in ("Succeeded", "Failed"):
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase}]
        if self._include == "None":
            row["object"] = None
        elif self._include == "Object":
            row["object"] = manifest
        else:
            row["object"] = {**self._partial, "metadata": manifest["metadata"]}
        return row


def _definition(column: Column) -> dict[str, Any]:
    return {
        "name": column.name, "type": column.type, "format": "name" if column.name == "Name" else column.format,
        "description": column.description,
        "priority": (1 if column.wide else 0) if column.priority is None else column.priority,
    }  # fmt: skip
