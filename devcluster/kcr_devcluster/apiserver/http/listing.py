"""Lists: resourceVersion semantics, and pages with continue tokens.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/storage/{continue.go,cacher/cacher.go,etcd3/store.go},
pkg/apis/meta/internalversion/validation/validation.go.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.http.routes import Route
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, not_supported
from kcr_devcluster.apiserver.protocol.gojson import decode_json
from kcr_devcluster.apiserver.protocol.query import Query, parse_integer
from kcr_devcluster.apiserver.protocol.replay import drawn
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request, expired, invalid
from kcr_devcluster.apiserver.schema.base64 import decode_url_base64
from kcr_devcluster.apiserver.storage.records import Record, in_versions, key_of
from kcr_devcluster.apiserver.storage.selection import SelectionPredicate, selection_predicate
from kcr_devcluster.apiserver.storage.storage import StorageReader
from kcr_devcluster.apiserver.storage.watch_cache import WatchCache, ordered

_MATCH, _NOT_OLDER = "resourceVersionMatch", "NotOlderThan"
_MATCHES = ("Exact", _NOT_OLDER)
_WITH_CONTINUE = f"{_MATCH} is forbidden when continue is provided"
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
    check_options(query)
    token = _parse_continue(query.text("continue"), route) if query.text("continue") else None
    if token is not None and query.text("resourceVersion") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    requested = parse_resource_version(query.text("resourceVersion"), is_list=True)
    selection = selection_predicate(route.kind, route.namespace, route.name, query)
    limit = 0 if requested == 0 and query.text("resourceVersion") else max(0, query.integer("limit") or 0)
    if token is not None:
        return _next_page(storage, route, selection, token, limit)
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


def parse_resource_version(text: str, *, is_list: bool = False) -> int:
    """Return a resourceVersion as a number, 0 for none.

    Args:
        text: The version.
        is_list: Whether it is that of a list, where upstream does not take a wrong one for an internal error.

    Raises:
        StatusError: 400 or 500, it is no number.
    """
    if not text:
        return 0
    try:
        return parse_integer(text, "ParseUint")
    except StatusError as error:
        words = f'resourceVersion: Invalid value: "{text}": {error.message}'
        raise bad_request(f"invalid resource version: {words}") if is_list else StatusError(500, "", words) from None


def check_options(query: Query) -> None:
    """Refuse the options of a list, or of a watch, that contradict each other.

    Raises:
        StatusError: 400 or 422.

    Source: k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go.
    """
    for name in ("limit", "timeoutSeconds"):
        query.integer(name)
    errors = list(_watch_faults(query) if query.flag("watch") else _list_faults(query))
    if errors:
        raise invalid("ListOptions", "meta.k8s.io", "", errors)


def _list_faults(query: Query) -> Iterator[FieldError]:
    match, version = query.text(_MATCH), query.text("resourceVersion")
    if match:
        if not version:
            yield forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided")
        if query.text("continue"):
            yield forbidden(_MATCH, _WITH_CONTINUE)
        if match not in _MATCHES:
            yield not_supported(_MATCH, match, [*_MATCHES, ""])
        if match == "Exact" and version == "0":
            yield forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"')
    if query.has("sendInitialEvents"):
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _watch_faults(query: Query) -> Iterator[FieldError]:
    match, initial = query.text(_MATCH), query.has("sendInitialEvents")
    if match and not initial:
        yield forbidden(_MATCH, f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided")
    if initial and match != _NOT_OLDER:
        yield forbidden(_MATCH, f"sendInitialEvents requires setting {_MATCH} to {_NOT_OLDER}")
    if match and match != _NOT_OLDER:
        yield not_supported(_MATCH, match, [_NOT_OLDER])
    if query.text("continue"):
        yield forbidden(_MATCH, _WITH_CONTINUE)


def _token(revision: int, after: str, route: Route) -> str:
    start = after.removeprefix(f"{route.namespace}/") if route.namespace else after
    content = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": revision, "start": start + "\0"})
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _parse_continue(text: str, route: Route) -> _ContinueToken:
    try:
        content = decode_json(decode_url_base64(text))
    except ValueError as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    match content:
        case {"v": "meta.k8s.io/v1", "rv": int(revision), "start": str(start)} if revision and start:
            return _ContinueToken(revision, key_of(route.namespace, start.rstrip("\0")))
        case {"v": "meta.k8s.io/v1", "rv": int(revision)} if revision:
            why = "encoded start key empty (version meta.k8s.io/v1)"
        case {"v": "meta.k8s.io/v1"}:
            why = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        case {"v": version}:
            why = f"server does not recognize this encoded version {version}"
        case _:
            why = "server does not recognize this encoded version "
    raise bad_request(f"invalid continue token: continue key is not valid: {why}")
