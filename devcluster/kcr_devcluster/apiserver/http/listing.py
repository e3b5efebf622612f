"""Lists: resourceVersion semantics, and pages with continue tokens.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/{continue.go,cacher/cacher.go,etcd3/store.go},
pkg/apis/meta/internalversion/validation/validation.go.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.http.routes import Route
from kcr_devcluster.apiserver.protocol.field_errors import forbidden, not_supported
from kcr_devcluster.apiserver.protocol.gojson import decode_json
from kcr_devcluster.apiserver.protocol.query import Query, parse_integer
from kcr_devcluster.apiserver.protocol.replay import drawn
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request, expired, invalid_option
from kcr_devcluster.apiserver.storage.records import Record, in_versions, key_of
from kcr_devcluster.apiserver.storage.selection import SelectionPredicate, selection_predicate
from kcr_devcluster.apiserver.storage.storage import StorageReader
from kcr_devcluster.apiserver.storage.watch_cache import WatchCache, ordered

_MATCHES = ("Exact", "NotOlderThan")
_TOKEN_VERSION = "meta.k8s.io/v1"


class ListPage(NamedTuple):
    """One page: the list's metadata and its objects, in order."""

    metadata: Mapping[str, Any]
    records: tuple[Record, ...]


class _ContinueToken(NamedTuple):
    """Where the next page begins: at which revision (-1: the newest) and behind which key."""

    revision: int
    after: str


async def list_page(storage: StorageReader, route: Route, query: Query) -> ListPage:
    """Return the page of a list that is requested.

    Raises:
        StatusError: 400, 404, 410, 422 or 504; see the rules of resourceVersion, limit and continue.
    """
    _check_options(query)
    requested = parse_resource_version(query.text("resourceVersion"))
    selection = selection_predicate(route.kind, route.namespace, route.name, query)
    limit = 0 if requested == 0 and query.text("resourceVersion") else max(0, query.integer("limit") or 0)
    if query.text("continue"):
        return _next_page(storage, route, selection, _parse_continue(query.text("continue"), route), limit)
    if requested:
        await storage.wait_for_revision(requested)
    cache = storage.cache(route.kind)
    exact = query.text("resourceVersionMatch") == "Exact" or (limit and not query.text("resourceVersionMatch"))
    revision = storage.revision_to_read(route.kind, requested if exact else 0)
    if route.kind.converter is not None:
        # Of one revision however often it runs, or busy objects would never all be converted.
        revision = drawn("revision", lambda: revision)
    try:
        records, keys = _snapshot(storage, cache, revision)
    except StatusError:
        raise expired("The resourceVersion for the provided list is too old.") from None
    return _paginate(ordered(records, keys, route.namespace, ""), route, selection, limit, revision)


def _next_page(
    storage: StorageReader, route: Route, selection: SelectionPredicate, token: _ContinueToken, limit: int
) -> ListPage:
    revision = drawn("revision", lambda: storage.revision) if token.revision < 0 else token.revision
    cache = storage.cache(route.kind)
    try:
        records, keys = _snapshot(storage, cache, revision)
    except StatusError:
        message = (
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list."
        )
        raise expired(message, {"continue": _token(-1, token.after, route)}) from None
    return _paginate(ordered(records, keys, route.namespace, token.after), route, selection, limit, revision)


def _snapshot(storage: StorageReader, cache: WatchCache, revision: int) -> tuple[dict[str, Record], list[str]]:
    """Return records and ordered keys as they were at a revision.

    Raises:
        StatusError: It is compacted.
    """
    if revision < storage.compacted_revision:
        raise expired("")
    return cache.snapshot_at(revision)


def _paginate(
    found: Iterable[Record], route: Route, selection: SelectionPredicate, limit: int, revision: int
) -> ListPage:
    if selection.selects_content and route.kind.converter is not None:
        # A webhook may change labels and other fields that are selected by.
        found = in_versions([record for record in found if selection.may_match(record)], route.kind)
    found = tuple(found)
    matching = tuple(filter(selection.matches, found)) if selection.is_filter else found
    shown = matching[:limit] if limit else matching
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    # A full page has a token where anything follows in the order of keys: the next page may be empty.
    if limit and len(shown) == limit and shown[-1] is not found[-1]:
        metadata["continue"] = _token(revision, shown[-1].key, route)
        if not selection.labels and not selection.fields:
            metadata["remainingItemCount"] = len(found) - limit
    if selection.shards is not None:
        metadata["shardInfo"] = {"selector": selection.shards.text}
    return ListPage(metadata, shown)


def parse_resource_version(text: str) -> int:
    """Return a resourceVersion as a number, 0 for none.

    Raises:
        StatusError: 400, it is no number.
    """
    if not text:
        return 0
    try:
        return parse_integer(text, "ParseUint")
    except StatusError as error:
        words = f'invalid resource version: resourceVersion: Invalid value: "{text}": {error.message}'
        raise bad_request(words) from None


def _check_options(query: Query) -> None:
    match, version = query.text("resourceVersionMatch"), query.text("resourceVersion")
    if query.has("sendInitialEvents"):
        words = "sendInitialEvents is forbidden for list"
        raise invalid_option("ListOptions", forbidden("sendInitialEvents", words))
    if not match:
        if query.text("continue") and version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        return
    if query.text("continue"):
        words = "resourceVersionMatch is forbidden when continue is provided"
        raise invalid_option("ListOptions", forbidden("resourceVersionMatch", words))
    if not version:
        words = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise invalid_option("ListOptions", forbidden("resourceVersionMatch", words))
    if match not in _MATCHES:
        raise invalid_option("ListOptions", not_supported("resourceVersionMatch", match, [*_MATCHES, ""]))
    if match == "Exact" and version == "0":
        words = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise invalid_option("ListOptions", forbidden("resourceVersionMatch", words))


def _token(revision: int, after: str, route: Route) -> str:
    start = after.removeprefix(f"{route.namespace}/") if route.namespace else after
    content = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": revision, "start": start + "\0"})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _parse_continue(text: str, route: Route) -> _ContinueToken:
    try:
        content = decode_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    match content:
        case {"v": "meta.k8s.io/v1", "rv": int(revision), "start": str(start)} if type(revision) is int:
            return _ContinueToken(revision, key_of(route.namespace, start.rstrip("\0")))
    raise bad_request("invalid continue token: server does not recognize this encoded version")
