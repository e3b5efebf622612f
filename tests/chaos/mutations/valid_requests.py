"""Valid requests of all kinds: every verb and patch, protobuf and JSON, subresources, options of lists and watches."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import yaml

from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.kinds.gangs import with_gangs
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_VERBS, Kind
from kcr_devcluster.apiserver.kinds.views.legacy import LEGACY_KINDS
from kcr_devcluster.apiserver.schema.protobuf import UnknownMessageError
from kcr_devcluster.apiserver.schema.protobuf_encoder import encode, is_encodable
from tests.apiserver.parity.requests import FOLDER, Row, Section, cases, set_fields
from tests.chaos.requests.grammar import APPLY
from tests.chaos.requests.schemas import CUSTOM, GROUP
from tests.kit.custom_resources import Json
from tests.kit.drawn_objects import KIND_TYPES, builtin_object
from tests.kit.invalid_requests import ACCEPTS, DELETE_OPTIONS, PATCHES, POSTS, STATUSES
from tests.kit.protobuf import PROTOBUF
from tests.kit.valid_objects import METADATA, VALID_OBJECTS

BUILTIN_KINDS = (*with_gangs(KINDS, "1.36"), *LEGACY_KINDS)
HEADS = {
    kind.type.plural: {"apiVersion": kind.type.api_version, "kind": kind.type.kind} for kind in reversed(BUILTIN_KINDS)
}
_DEPTH = 500
NAMES = ("a", "a", "a", "b", "c")
_READ_OPTIONS: tuple[Json, ...] = (
    {}, {}, {"limit": 1}, {"limit": 500, "resourceVersion": 0}, {"resourceVersion": 1, "resourceVersionMatch": "Exact"},
    {"labelSelector": "a=1,b!=2,c in (x,y),!d"}, {"fieldSelector": "metadata.name=a,metadata.namespace!=b"},
    {"watch": "true", "timeoutSeconds": 1}, {"watch": "true", "resourceVersion": 1, "allowWatchBookmarks": "true"},
    {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": 1},
    {"timeout": "1s", "pretty": "true"}, {"resourceVersion": 0, "resourceVersionMatch": "NotOlderThan"},
)  # fmt: skip
_WRITE_OPTIONS: tuple[Json, ...] = (
    {}, {}, {}, {"dryRun": "All"}, {"fieldValidation": "Strict"}, {"fieldValidation": "Ignore"}, {"fieldManager": "m"},
)  # fmt: skip


@cache
def _table() -> Sequence[tuple[Section, Row]]:
    """Return objects of which the answer of the real server is known."""
    return tuple(case for file in sorted(FOLDER.glob("validation/*.yaml")) for *_, case in cases(file))


class Draft(NamedTuple):
    """A request before its body is encoded.

    Attributes:
        method: The HTTP method.
        path: Without the query.
        query: The options.
        media: The media type of the body; empty for no body.
        value: The body.
        accept: The media types of the response.
    """

    method: str
    path: str
    query: Json
    media: str = ""
    value: Any = None
    accept: str = "application/json"


class ValidRequests:
    """Draws requests that are valid, or would be with other objects in the server."""

    def __init__(self, random: Random) -> None:
        self._random = random
        # Objects that the server has shown, with the paths of their collections.
        self._recorded: list[tuple[str, Json]] = []

    def record(self, collection: str, items: Sequence[Json]) -> None:
        """Draw from what a server has, too."""
        self._recorded += [(collection, item) for item in items]

    def draw(self) -> Draft:
        """Return a request."""
        draw = self._random
        collection, value, subresources = self._subject()
        name = str(value["metadata"].get("name", "a"))
        match draw.choice(("create", "create", "update", "patch", "patch", "delete", "read", "read", "sub", "post")):
            case "create":
                value["metadata"].pop("resourceVersion", None)
                return self._with_body("POST", collection, value)
            case "update":
                return self._with_body("PUT", f"{collection}/{name}", value)
            case "patch":
                return self._patch(f"{collection}/{name}", value)
            case "delete":
                path = draw.choice((f"{collection}/{name}",) * 9 + (collection,))
                return self._with_body("DELETE", path, draw.choice((None, deepcopy(DELETE_OPTIONS))))
            case "sub" if subresources:
                return self._subresource(f"{collection}/{name}", draw.choice(subresources), value)
            case "post":
                path = draw.choice(tuple(POSTS))
                return self._with_body("POST", path, deepcopy(POSTS[path]))
        return self._read(collection, name)

    def _subject(self) -> tuple[str, Json, Sequence[str]]:
        """Return the path of a collection, an object for it, and the subresources that it may have."""
        draw = self._random
        match draw.choices(("table", "recorded", "custom", "builtin"), (15, 30, 10, 45))[0]:
            case "table":
                return *self._of_table(), ("status",)
            case "recorded" if self._recorded:
                collection, shown = draw.choice(self._recorded)
                value = deepcopy(shown)
                if draw.random() < 0.7:
                    value["metadata"].pop("resourceVersion", None)
                return collection, value, ("status", "scale")
            case "custom":
                return *self._custom(), ("status", "scale")
        kind = draw.choice(BUILTIN_KINDS)
        return collection_of(kind), self.of_kind(kind), kind.subresources

    def _of_table(self) -> tuple[str, Json]:
        """Return an object of the corpus of parity: one that a rule is about."""
        section, row = self._random.choice(_table())
        value = deepcopy(section.object)
        set_fields(row, value)
        head = {"metadata": {}, **HEADS.get(section.path.rpartition("/")[2], {})}
        return section.path.replace("{ns}", "default"), {**head, **value}

    def _custom(self) -> tuple[str, Json]:
        plural = self._random.choice(tuple(CUSTOM))
        kind, scope = CUSTOM[plural]
        place = "namespaces/default/" if scope == "Namespaced" else ""
        spec = {"replicas": 1, "color": "red", "a": self._random.choice((1, "x", None))}
        head = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": self._metadata()}
        return f"/apis/{GROUP}/v1/{place}{plural}", {**head, "spec": spec}

    def of_kind(self, kind: Kind) -> Json:
        """Return an object with valid values, or with values of the right types only."""
        draw, name = self._random, f"{kind.type.api_version} {kind.type.kind}"
        head = {"apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": self._metadata()}
        if kind.type.kind in VALID_OBJECTS and draw.random() < 0.7:
            made: Json = deepcopy(dict(VALID_OBJECTS[kind.type.kind]))
        elif name in KIND_TYPES:
            made = deepcopy(builtin_object(KIND_TYPES[name], draw))
        else:
            made = {"spec": {}}
        status = STATUSES.get(collection_of(kind))
        if status and draw.random() < 0.5:
            made["status"] = deepcopy(status)
        return {**made, **head}

    def _metadata(self) -> Json:
        draw = self._random
        return {"name": draw.choice(NAMES), **(deepcopy(METADATA) if draw.random() < 0.3 else {})}

    def _with_body(self, method: str, path: str, value: Any) -> Draft:
        draw = self._random
        media = draw.choice(("application/json", "application/json", PROTOBUF, "application/yaml"))
        accept = draw.choice(ACCEPTS) if draw.random() < 0.2 else "application/json"
        return Draft(method, path, dict(draw.choice(_WRITE_OPTIONS)), media if value is not None else "", value, accept)

    def _patch(self, path: str, value: Json) -> Draft:
        draw, media = self._random, self._random.choice((*PATCHES, APPLY))
        query = dict(draw.choice(_WRITE_OPTIONS))
        if media == APPLY:
            value.get("metadata", {}).pop("managedFields", None)
            return Draft("PATCH", path, {**query, "fieldManager": "m", "force": "true"}, media, value)
        if media == PATCHES[0]:
            names = [name for name in value if name not in ("apiVersion", "kind")]
            return Draft("PATCH", path, query, media, [
                {"op": "add", "path": f"/{name}", "value": value[name]} for name in names
            ])  # fmt: skip
        return Draft("PATCH", path, query, media, value)

    def _subresource(self, path: str, name: str, value: Json) -> Draft:
        draw = self._random
        verb = draw.choice(SUBRESOURCE_VERBS[name])
        if verb == "get":
            return Draft("GET", f"{path}/{name}", {})
        if verb == "patch":
            return self._patch(f"{path}/{name}", value)
        if name == "scale":
            value = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": value["metadata"],
                "spec": {"replicas": 2},
            }
        if name == "token":
            value = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 600},
            }
        return self._with_body("POST" if verb == "create" else "PUT", f"{path}/{name}", value)

    def _read(self, collection: str, name: str) -> Draft:
        draw = self._random
        accept = draw.choice(ACCEPTS) if draw.random() < 0.4 else "application/json"
        if draw.random() < 0.3:
            return Draft("GET", f"{collection}/{name}", {}, accept=accept)
        if draw.random() < 0.2:
            collection = collection.replace("/namespaces/default/", "/")
        return Draft("GET", collection, dict(draw.choice(_READ_OPTIONS)), accept=accept)


def collection_of(kind: Kind) -> str:
    """Return the path of the collection of a kind, in the namespace `default` if there are such."""
    return kind.type.path("default" if kind.type.namespaced else "")


def encoded(media: str, value: Any) -> tuple[str, bytes]:
    """Return the media type and the bytes of a body; JSON where the value has no other form."""
    if value is None:
        return media, b""
    if not _is_encodable_everywhere(value):
        return media, b"[" * 1_001 + b"]" * 1_001
    try:
        if media == PROTOBUF and isinstance(value, dict) and is_encodable(value["apiVersion"], value["kind"]):
            return media, encode(value)
        if media in (APPLY, "application/yaml"):
            return media, yaml.safe_dump(value).encode("utf-8", "replace")
    except (UnknownMessageError, RecursionError, KeyError, ValueError, TypeError, AttributeError, OverflowError):
        pass
    return ("application/json" if media == PROTOBUF else media), msgspec.json.encode(value)


def _is_encodable_everywhere(value: Any) -> bool:
    """Whether a value nests no deeper than encoders get on every Python: on 3.11 much less deep than on later ones."""
    level = [value]
    for _ in range(_DEPTH):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return True
    return False


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def target(path: str, query: Json) -> str:
    """Return path and query."""
    return f"{path}?{urlencode(query)}" if query else path
