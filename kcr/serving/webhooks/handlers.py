"""The review of one request by the handlers of a webhook.

A defaulter gets a typed value and returns another. Only the difference of the two reaches the object as the API server
sent it, as a JSON patch from raw object to raw object: so fields without an attribute in a type survive. A field that
the object lacks is not written when it holds the default of its class on both sides: such a default belongs into the
schema, where `kcr crd generate` writes it.
"""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kcr.annotations import is_list, shown
from kcr.api import codec
from kcr.api.equality import same_json
from kcr.api.meta import Object
from kcr.arguments import refuse
from kcr.client.context import DryRunReview, writing
from kcr.errors import ApiError, leaves
from kcr.log import get_logger
from kcr.serving.webhooks.registration import METHODS, WebhookRule, result_of
from kcr.serving.webhooks.review import (
    AdmissionResponse,
    MisfitError,
    WebhookRequest,
    bad_request,
    decode_object,
    decode_review,
    encode_review,
    has_value,
    limited_warnings,
    status_of,
)

_log = get_logger("kcr.webhooks")


class Defaulted(NamedTuple):
    """The outcome of defaulters: the request with the changed object, and the patch that changes it."""

    request: WebhookRequest
    patch: list[dict[str, Any]]


class AdmissionEndpoint:
    """Reviews the requests of one path.

    Defaulters are a chain: each gets the object as the one before it has changed it. Validators are all called, and
    their denials are merged. A denial of a defaulter ends the chain.
    """

    def __init__(self, rule: WebhookRule) -> None:
        self.rule = rule
        resource = rule.object_kind.resource
        self._kind = (resource.group, resource.version, resource.kind)
        self._methods: dict[str, list[Callable[..., Any]]] = {
            name: [getattr(handler, name) for handler in rule.handlers if hasattr(handler, name)] for name in METHODS
        }
        self._validators = {operation: name for name, (operation, _) in METHODS.items() if operation is not None}

    async def __call__(self, body: bytes) -> bytes:
        """Return the AdmissionReview that answers one.

        Raises:
            BadRequestError: The body is not an AdmissionReview, or one of another kind.
            Exception: A handler failed.
        """
        api_version, request = decode_review(body)
        found = (request.kind.group, request.kind.version, request.kind.kind)
        if found != self._kind:
            expected = f"{self.rule.object_kind.resource.api_version} {self._kind[2]}"
            raise bad_request(f"the object is a {str(request.kind)[:509]}, and this webhook reviews {expected}")
        return encode_review(api_version, await self.review(request))

    async def review(self, request: WebhookRequest) -> AdmissionResponse:
        """Return the answer to a request.

        Raises:
            Exception: A handler failed.
        """
        if not request.dry_run:
            return await self._reviewed(request)
        dry_run = DryRunReview()
        try:
            with writing(dry_run=dry_run):
                return await self._reviewed(request)
        finally:
            dry_run.end()

    async def _reviewed(self, request: WebhookRequest) -> AdmissionResponse:
        return await (self._mutate(request) if self.rule.is_mutating else self._validate(request))

    async def _mutate(self, request: WebhookRequest) -> AdmissionResponse:
        try:
            changed = await self.default(request)
        except MisfitError as misfit:
            return _unreviewed(request, misfit) if _is_terminating(request) else denied(request, [misfit])
        except Exception as error:
            return denied(request, denials_in(error))
        if not changed.patch:
            return AdmissionResponse(uid=request.uid, allowed=True)
        return AdmissionResponse(uid=request.uid, allowed=True, patch=encode(changed.patch), patch_type="JSONPatch")

    async def default(self, request: WebhookRequest) -> "Defaulted":
        """Return the request with the object as the defaulters have changed it, and the patch.

        Raises:
            ApiError: A defaulter denies the request, or the object does not fit its type.
            Exception: A defaulter failed.

        Source: controller-runtime/pkg/webhook/admission/defaulter_custom.go, Handle: none is called on DELETE.
        """
        if request.operation == "DELETE" or not has_value(request.raw_object):
            return Defaulted(request, [])
        kind = self.rule.object_kind
        # Plain values, which share all that no defaulter has changed.
        first: Any = None
        last: Any = None
        for default in self._methods["default"]:
            obj = decode_object(kind, request.raw_object)
            changed = await _result(default(obj, request))
            if changed is None:
                continue
            if not isinstance(changed, kind):
                given = f"{default.__qualname__} returned {shown(changed)}"
                refuse(f"{given}: return the changed {kind.__name__}, or None")
            with _readable():
                if first is None:
                    first = last = _plain(bytes(request.raw_object))
                # Decoded again, because a defaulter may have mutated a map inside the one that it got.
                before = codec.encode(decode_object(kind, request.raw_object))
                last = rebase(last, _plain(before), _plain(codec.encode(changed)))
                request = replace(request, raw_object=msgspec.Raw(encode(last)))
        with _readable():
            return Defaulted(request, json_patch(first, last))

    async def _validate(self, request: WebhookRequest) -> AdmissionResponse:
        try:
            return await self._validated(request, self._validators[request.operation])
        except MisfitError as misfit:
            # It was stored before its class was as strict: its user must be able to mend it, and to delete it.
            if request.operation == "DELETE" or _is_terminating(request):
                return _unreviewed(request, misfit)
            if request.operation != "UPDATE":
                return denied(request, [misfit])
            skipped = _unreviewed(request, misfit)
        try:
            created = await self._validated(request, "validate_create")
        except MisfitError as misfit:
            return denied(request, [misfit])
        return replace(created, warnings=limited_warnings((*skipped.warnings, *created.warnings)))

    async def _validated(self, request: WebhookRequest, name: str) -> AdmissionResponse:
        """Return the answer of all validators.

        Raises:
            MisfitError: An argument does not fit its type; no validator was called.
        """
        warnings: list[str] = []
        denials: list[ApiError] = []
        for validate in self._methods[name]:
            # Decoded for each: a validator may mutate a map.
            arguments = self._arguments(request, name)
            try:
                warnings += _warnings(validate, await _result(validate(*arguments, request)))
            except Exception as error:
                denials += denials_in(error)
        if denials:
            return denied(request, denials, warnings)
        return AdmissionResponse(uid=request.uid, allowed=True, warnings=limited_warnings(warnings))

    def _arguments(self, request: WebhookRequest, name: str) -> tuple[Any, ...]:
        kind, old, new = self.rule.object_kind, request.raw_old_object, request.raw_object
        raw = {"validate_update": (old, new), "validate_delete": (old,)}.get(name, (new,))
        return tuple(decode_object(kind, one) for one in raw)


class _Metadata(Object):
    deletion_timestamp: Any = None


class _Terminating(Object):
    metadata: _Metadata = _Metadata()


def _is_terminating(request: WebhookRequest) -> bool:
    """Return whether an object that is being deleted is updated: its finalizers must still be removed."""
    try:
        obj = codec.decode(_Terminating, bytes(request.raw_object))
    except msgspec.DecodeError:
        return False
    return request.operation == "UPDATE" and obj.metadata.deletion_timestamp is not None


def _unreviewed(request: WebhookRequest, misfit: MisfitError) -> AdmissionResponse:
    text = f"not reviewed, because the object does not fit its type: {misfit.message}"
    return AdmissionResponse(uid=request.uid, allowed=True, warnings=limited_warnings((text,)))


@contextmanager
def _readable() -> Iterator[None]:
    """Refuse an object that is read in part only: its unknown fields are no text, or nested too deep to be encoded."""
    try:
        yield
    except RecursionError as error:
        raise bad_request("the object is nested too deep to be changed") from error
    except msgspec.DecodeError as error:
        raise bad_request(f"the object cannot be changed: {error}") from error


async def _result(returned: Any) -> Any:
    return await returned if inspect.isawaitable(returned) else returned


def denials_in(error: Exception) -> list[ApiError]:
    """Return the denials that an exception stands for: itself, or all in a group.

    Raises:
        Exception: The exception itself, if there is something else in it.
    """
    found = list(leaves(error))
    denials = [one for one in found if isinstance(one, ApiError)]
    if len(denials) < len(found):
        raise error
    return denials


def denied(request: WebhookRequest, denials: list[ApiError], warnings: Iterable[str] = ()) -> AdmissionResponse:
    """Return the answer that denies a request."""
    status, kind = status_of(denials), request.kind
    if status.details is not None:
        # Of refused fields kubectl shows nothing else than the object and the causes.
        details = replace(status.details, name=request.name, group=kind.group, kind=kind.kind)
        status = replace(status, details=details)
    _log.debug(
        "request denied", kind=str(request.kind), namespace=request.namespace, name=request.name,
        operation=request.operation, user=request.user.name, error="; ".join(one.message for one in denials),
    )  # fmt: skip
    return AdmissionResponse(uid=request.uid, allowed=False, status=status, warnings=limited_warnings(tuple(warnings)))


def _warnings(method: Callable[..., Awaitable[Any] | Any], returned: Any) -> list[str]:
    if returned is None:
        return []
    found: list[Any] = (
        [returned] if isinstance(returned, str) else list(returned) if is_list(type(returned)) else [None]
    )
    if not all(isinstance(one, str) for one in found) or isinstance(returned, Mapping):
        refuse(f"{method.__qualname__} returned {shown(returned)}: {result_of(method.__name__)}")
    return found


def _plain(data: bytes) -> Any:
    return codec.decode(dict, data)


# By which the items of lists of objects are known, in the built-in kinds and most others.
_ITEM_KEYS = ("name", "key", "type", "uid")
_MISSING: Any = msgspec.UNSET

encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode


def rebase(raw: Any, before: Any, after: Any) -> Any:
    """Return `raw` with the changes that turn `before` into `after`; it is not mutated.

    Args:
        raw: The object as the API server sent it, in plain values.
        before: The part of it that a type knows, with the defaults of the type.
        after: The same, changed.
    """
    if same_json(before, after):
        return raw
    if isinstance(before, dict) and isinstance(after, dict):
        return _rebased_fields(raw if isinstance(raw, dict) else {}, before, after)
    if isinstance(raw, list) and isinstance(before, list) and isinstance(after, list) and len(raw) == len(before):
        return _rebased_items(raw, before, after)
    return after


def _rebased_fields(raw: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    made = dict(raw)
    for name in {**before, **after}:
        old, new = before.get(name, _MISSING), after.get(name, _MISSING)
        if new is _MISSING:
            made.pop(name, None)
        elif old is _MISSING:
            made[name] = new
        elif not same_json(old, new):
            made[name] = rebase(raw.get(name), old, new)
    return made


def _rebased_items(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Return the new items, each with the unknown fields of the old item that it was.

    A new item without an old one gets no unknown fields: none is better than those of another item.
    """
    origins = _same_items(before, after)
    free = set(range(len(before))).difference(origins.values())
    # A changed item is known by its name, where that is unique, or by its place where no item was added or removed.
    olds, news = _unique_keys(before), _unique_keys(after)
    places = {key: index for index, key in olds.items()}
    for index, item in enumerate(after):
        if index in origins:
            continue
        if index in news and news[index] in places:
            origin = places[news[index]]
        elif len(before) == len(after) and _item_key(before[index]) == _item_key(item):
            origin = index
        else:
            continue
        if origin in free:
            free.discard(origin)
            origins[index] = origin
    return [
        rebase(raw[origins[index]], before[origins[index]], item) if index in origins else item
        for index, item in enumerate(after)
    ]


def _same_items(before: list[Any], after: list[Any]) -> dict[int, int]:
    """Return for each new item that is an old one its old place: the same place, or the first that is left."""
    origins = {index: index for index, (old, new) in enumerate(zip(before, after, strict=False)) if same_json(old, new)}
    if len(origins) == len(after):
        return origins
    left: dict[bytes, list[int]] = {}
    for index in range(len(before) - 1, -1, -1):
        if index not in origins:
            left.setdefault(encode(before[index]), []).append(index)
    for index, item in enumerate(after):
        if index not in origins and (found := left.get(encode(item))):
            origins[index] = found.pop()
    return origins


def _unique_keys(items: list[Any]) -> dict[int, tuple[str, Any]]:
    """Return the keys of items by place: those that no other item has, as `key` of tolerations is not."""
    keys = {index: key for index, item in enumerate(items) if (key := _item_key(item)) is not None}
    counts = Counter(keys.values())
    return {index: key for index, key in keys.items() if counts[key] == 1}


def _item_key(item: Any) -> tuple[str, Any] | None:
    if not isinstance(item, dict):
        return None
    return next(((name, item[name]) for name in _ITEM_KEYS if isinstance(item.get(name), str)), None)


def json_patch(old: Any, new: Any) -> list[dict[str, Any]]:
    """Return the operations of the JSON patch that turns one plain value into another; empty when they are the same.

    A list that became shorter, or whose items have all moved, is replaced; of others, only the changed and added items
    are in the patch.

    Source: RFC 6902.
    """
    return list(_operations(old, new, ""))


def _operations(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if same_json(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _field_operations(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and _keep_places(old, new):
        yield from _item_operations(old, new, path)
    else:
        yield {"op": "replace", "path": path, "value": new}


def _field_operations(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    for name in {**old, **new}:
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            yield {"op": "remove", "path": pointer}
        elif name not in old:
            yield {"op": "add", "path": pointer, "value": new[name]}
        else:
            yield from _operations(old[name], new[name], pointer)


def _keep_places(old: Sequence[Any], new: Sequence[Any]) -> bool:
    if not 0 < len(old) <= len(new):
        return False
    return len(old) == len(new) or any(same_json(*pair) for pair in zip(old, new, strict=False))


def _item_operations(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[dict[str, Any]]:
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        yield from _operations(before, after, f"{path}/{index}")
    for item in new[len(old) :]:
        yield {"op": "add", "path": f"{path}/-", "value": item}
