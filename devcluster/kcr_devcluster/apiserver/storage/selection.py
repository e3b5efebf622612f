"""The selection predicate of a list or watch: namespace, label, field and shard selector."""

from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import bad_request
from kcr_devcluster.apiserver.protocol.shard_selectors import ShardSelector, parse_shard_selector
from kcr_devcluster.apiserver.storage.records import Change, Record
from kcr_devcluster.apiserver.storage.selectors import FieldTerm, LabelTerm, parse_fields, parse_labels

_NAMES = ("metadata.name", "metadata.namespace")


class SelectionPredicate(NamedTuple):
    """A namespace (`""`: all), the terms of label and field selector, and a shard selector; all must hold."""

    namespace: str
    labels: tuple[LabelTerm, ...]
    fields: tuple[FieldTerm, ...]
    shards: ShardSelector | None = None

    @property
    def is_filter(self) -> bool:
        """Whether selectors leave anything out."""
        return bool(self.labels or self.fields or self.shards)

    def matches(self, record: Record) -> bool:
        """Return whether an object belongs to the selection."""
        if self.namespace and record.metadata.namespace != self.namespace:
            return False
        if self.shards is not None and not self.shards.holds(record.hash_of(self.shards.field)):
            return False
        if not self.labels and not self.fields:
            return True
        if not all(term.holds(record.metadata.labels) for term in self.labels):
            return False
        return all(term.holds(record.field) for term in self.fields)

    @property
    def selects_content(self) -> bool:
        """Whether selectors leave out objects for anything but their names."""
        return bool(self.labels) or any(term.path not in _NAMES for term in self.fields)

    def may_match(self, record: Record) -> bool:
        """Return whether an object matches in some version: versions can differ in all but the names and the uid."""
        if self.namespace and record.metadata.namespace != self.namespace:
            return False
        if self.shards is not None and not self.shards.holds(record.hash_of(self.shards.field)):
            return False
        return all(term.holds(record.field) for term in self.fields if term.path in _NAMES)

    def event(self, change: Change) -> tuple[str, Record] | None:
        """Return type and object of the watch event for a change, None for no event.

        Entering the selection is ADDED; leaving it is DELETED, with the old content and the new version.
        """
        was = change.old is not None and self.matches(change.old)
        if change.new is not None and self.matches(change.new):
            return ("MODIFIED" if was else "ADDED"), change.new
        return ("DELETED", change.deleted_record()) if was else None


def selection_predicate(kind: Kind, namespace: str, name: str, query: Query) -> SelectionPredicate:
    """Return the selection predicate of a request.

    Args:
        kind: The kind.
        namespace: `""` for all namespaces.
        name: The one object; `""` for all.
        query: Has the selectors.

    Raises:
        StatusError: 400, a selector cannot be parsed or names a field that the kind does not offer; 500, a shard
            selector.
    """
    fields = parse_fields(query.text("fieldSelector"))
    if name:
        fields = (*fields, FieldTerm("metadata.name", name, negated=False))
    _check_fields(kind, fields)
    fields = _stored_fields(kind, fields)
    # Computed kinds belong to another server, metrics-server, which has no shard selectors.
    shards = None if kind.is_computed else parse_shard_selector(query.text("shardSelector"))
    return SelectionPredicate(namespace, parse_labels(query.text("labelSelector")), fields, shards)


def _stored_fields(kind: Kind, fields: tuple[FieldTerm, ...]) -> tuple[FieldTerm, ...]:
    """Return the terms by the paths of the kind that is stored: a view may have other names for them."""
    if kind.conversion is None or kind.custom is not None:
        return fields
    paths = {location: path for path, location in kind.stored.fields.items()}
    return tuple(
        term._replace(path=paths.get(kind.fields[term.path], term.path)) if term.path in kind.fields else term
        for term in fields
    )


def _check_fields(kind: Kind, fields: tuple[FieldTerm, ...]) -> None:
    for term in fields:
        if not kind.has_field(term.path):
            raise bad_request(kind.unknown_field_message.format(term.path))
