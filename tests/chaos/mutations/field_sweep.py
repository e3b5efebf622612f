"""Objects in which one field of the published schema is left out, null or empty, of every built-in kind."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.authorization.rbac import Rbac
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.registry.bootstrap import with_rbac
from kcr_devcluster.apiserver.schema.shape import Type
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster.effects.advice import absent_controller_warnings, process_warnings
from kcr_devcluster.testing.loop import VirtualClock
from tests.chaos.mutations.valid_requests import BUILTIN_KINDS, collection_of
from tests.chaos.requests.grammar import APPLY
from tests.kit.api import TABLE
from tests.kit.custom_resources import Json
from tests.kit.valid_objects import VALID_OBJECTS

_LEFT_OUT: Any = object()
# Samples of scalar types; all others are texts.
_SAMPLES = {
    "int32": 1, "int64": 1, "float64": 0.5, "bool": True, "[]uint8": "YQ==", "v1.Time": "2026-01-01T00:00:00Z",
    "v1.MicroTime": "2026-01-01T00:00:00.000000Z", "resource.Quantity": "1", "intstr.IntOrString": 1,
    "interface {}": {"a": None},
}  # fmt: skip
# A type is entered so often on one path: schemas hold schemas.
_REPEATS = 1
# All templates of pods have the same rules.
_POD_SPEC, _WITH_PODS = "v1.PodSpec", ("Pod", "Job", "Deployment")
_MERGE, _APPLY = {"content-type": "application/merge-patch+json"}, {"content-type": APPLY}
_NAMESPACE = "/api/v1/namespaces/default"
# What the server looks at when it admits pods and claims.
_SURROUNDINGS: Mapping[str, Json] = {
    f"{_NAMESPACE}/serviceaccounts": {"metadata": {"name": "default"}, "imagePullSecrets": [{}]},
    f"{_NAMESPACE}/resourcequotas": {"metadata": {"name": "all"}, "spec": {"hard": {
        "pods": "1k", "requests.cpu": "1k", "limits.memory": "1Ti", "requests.storage": "1Ti", "services": "1k"}}},
    f"{_NAMESPACE}/limitranges": {"metadata": {"name": "all"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1", "memory": "1Mi"}, "max": {"cpu": "9"}}, {"type": "Pod"},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}]}},
    "/apis/storage.k8s.io/v1/storageclasses": {"metadata": {"name": "default", "annotations": {
        "storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "a.io/b"},
    "/apis/networking.k8s.io/v1/ingressclasses": {"metadata": {"name": "default", "annotations": {
        "ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "a.io/b"}},
    "/apis/node.k8s.io/v1/runtimeclasses": {
        "metadata": {"name": "a"}, "handler": "a", "overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {}},
}  # fmt: skip
_JSON = {"content-type": "application/json"}


Steps = tuple[str | int, ...]


class Place(NamedTuple):
    """A field of a kind, by the steps to it: names, 0 for the item of a list, `k` for the entry of a map."""

    steps: Steps
    type: Type


class Swept(NamedTuple):
    """An object with one field changed; `text` says which, and to what."""

    kind: Kind
    text: str
    value: Json


def places(kind: Kind) -> Iterator[Place]:
    """Yield the fields of a kind, at every depth; those in the templates of pods for a few kinds only."""
    entered = () if kind.type.kind in _WITH_PODS else (_POD_SPEC,) * _REPEATS
    for name, field in kind.shape.fields.items():
        yield from _below((name,), field.type, entered)


def _below(steps: Steps, of: Type, seen: tuple[str, ...]) -> Iterator[Place]:
    yield Place(steps, of)
    if of.shape is not None:
        if seen.count(of.name) < _REPEATS:
            for name, field in of.shape.fields.items():
                yield from _below((*steps, name), field.type, (*seen, of.name))
    elif of.items is not None:
        yield from _below((*steps, 0 if of.name.startswith("[]") else "k"), of.items, seen)


def _emptied(of: Type) -> list[Any]:
    """Return what a field may hold in the place of a value."""
    values: list[Any] = [_LEFT_OUT, None]
    if of.shape is not None:
        return [*values, {}]
    if of.items is not None:
        return [*values, *([[], [None]] if of.name.startswith("[]") else [{}, {"k": None}])]
    sample = _SAMPLES.get(of.name, "a")
    return [*values, type(sample)()]


def filled(of: Type, seen: tuple[str, ...] = ()) -> Any:
    """Return a value of a type that has all its fields."""
    if of.shape is not None:
        if seen.count(of.name) >= _REPEATS:
            return {}
        return {name: filled(field.type, (*seen, of.name)) for name, field in of.shape.fields.items()}
    if of.items is not None:
        item = filled(of.items, seen)
        return [item] if of.name.startswith("[]") else {"k": item}
    return deepcopy(_SAMPLES.get(of.name, "a"))


def swept_objects(kind: Kind) -> Iterator[Swept]:
    """Yield objects of a kind, each with one field changed, for all fields."""
    for place in places(kind):
        yield from swept_field(kind, place)


def swept_field(kind: Kind, place: Place) -> Iterator[Swept]:
    """Yield objects of a kind with one field changed: in a valid object, and in one that has all fields.

    In a valid object, the field is once beside those that are there, and once in an added item of each list around it
    that has required fields only: of many types only one field may be set.
    """
    valid, full = _bases(kind)
    lists = [position for position, step in enumerate(place.steps) if step == 0]
    for value in _emptied(place.type):
        made = [_with(valid, kind, place.steps, value, added) for added in (len(place.steps), *lists)]
        if kind.type.kind == "Pod" or "template" not in place.steps[:-1]:
            made.append(_with(full, kind, place.steps, value, len(place.steps)))
        shown = "left out" if value is _LEFT_OUT else msgspec.json.encode(value).decode()
        for number, one in enumerate(made):
            if one not in made[:number]:
                yield Swept(kind, f"{kind.type.kind} {'.'.join(map(str, place.steps))}: {shown}", one)


@cache
def _bases(kind: Kind) -> tuple[Json, Json]:
    """Return a valid object of a kind, as far as one is known, and one that has all fields."""
    head = {"apiVersion": kind.type.api_version, "kind": kind.type.kind}
    return {**VALID_OBJECTS.get(kind.type.kind, {}), **head}, {**filled(kind.shape.type), **head}


def _with(base: Json, kind: Kind, steps: Steps, value: Any, added: int) -> Json:
    """Return an object with a value at a place; the list before the step `added` gets an item of its own for it."""
    made = deepcopy(base)
    made["metadata"] = {"name": "a", "labels": {"a": "1"}}
    holder: Any = made
    of = kind.shape.type
    for position, step in enumerate(steps[:-1]):
        of = _type_at(of, step)
        given = holder.get(step) if isinstance(holder, dict) else next(iter(holder), None)
        if position >= added or not isinstance(given, type(_required(of))):
            given = _required(of)
        if not isinstance(holder, list):
            holder[step] = given
        elif position == added:
            holder.append(given)
        else:
            holder[:1] = [given]
        holder = given
    if value is _LEFT_OUT:
        holder.clear() if isinstance(holder, list) else holder.pop(steps[-1], None)
    elif isinstance(holder, list):
        start = len(holder) if added == len(steps) - 1 else 0
        holder[start : start + 1] = [value]
    else:
        holder[steps[-1]] = value
    return made


def _type_at(of: Type, step: str | int) -> Type:
    if of.shape is not None:
        return of.shape.fields[str(step)].type
    assert of.items is not None  # paths lead through lists, maps and objects
    return of.items


def _required(of: Type) -> Any:
    """Return the value of a type that has its required fields only."""
    if of.shape is not None:
        required = ((name, field.type) for name, field in of.shape.fields.items() if field.required)
        made = {name: filled(one) if one.shape is None else _required(one) for name, one in required}
        return {**made, "image": "a"} if of.name == "v1.Container" else made
    return filled(of) if of.items is None else [] if of.name.startswith("[]") else {}


async def sweep_server() -> APIServer:
    """Return a server with everything that reads objects on their way: rights, quotas, limits, accounts, warnings."""
    storage = Storage()
    kinds = tuple(with_rbac(BUILTIN_KINDS))
    server = APIServer(
        storage, clock=VirtualClock(), random=Random(0), kinds=kinds, authorizer=Rbac(storage), accounts="tokens"
    )
    server.advisers += [process_warnings, absent_controller_warnings]
    for path, made in _SURROUNDINGS.items():
        await _send(server, HTTPRequest("POST", path, _JSON, msgspec.json.encode(made)))
    for kind in BUILTIN_KINDS:
        if kind.type.kind in VALID_OBJECTS:
            made = {**VALID_OBJECTS[kind.type.kind], "metadata": {"name": "valid"}}
            await _send(server, HTTPRequest("POST", collection_of(kind), _JSON, msgspec.json.encode(made)))
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("audit", "warn")}
    body = msgspec.json.encode({"metadata": {"labels": labels}})
    await _send(server, HTTPRequest("PATCH", "/api/v1/namespaces/default", _MERGE, body))
    return server


async def faults_of(server: APIServer, swept: Swept) -> list[str]:
    """Write an object in every way, and return the responses that are faults of the server."""
    collection = collection_of(swept.kind)
    renamed = dict(swept.value)
    if isinstance(renamed.get("metadata"), dict):
        renamed["metadata"] = {**renamed["metadata"], "name": "valid"}
    new, update = msgspec.json.encode(swept.value), msgspec.json.encode(renamed)
    requests = [
        HTTPRequest("POST", collection, _JSON, new),
        HTTPRequest("GET", collection, {"accept": TABLE}),
        HTTPRequest("PUT", f"{collection}/valid?dryRun=All", _JSON, update),
        HTTPRequest("PUT", f"{collection}/valid/status?dryRun=All", _JSON, update),
        HTTPRequest("PATCH", f"{collection}/valid?dryRun=All&fieldManager=m&force=true", _APPLY, update),
        HTTPRequest("DELETE", f"{collection}/a?gracePeriodSeconds=0", _JSON),
    ]
    found = []
    for request in requests:
        if "Error: " in (answer := await _send(server, request)):
            found.append(f"{swept.text}\n{request.method} {request.target}: {answer}")
    return found


async def _send(server: APIServer, request: HTTPRequest) -> str:
    """Send a request; return the body of a response that is a fault of the server, else an empty text."""
    response = await server.handle(request._replace(advised=True))
    assert isinstance(response.body, bytes)
    return response.body.decode() if response.status == 500 else ""
