"""API servers of older releases, as far as kcr can notice: what it writes there, and what they refuse.

The schema of each is the one that Kubernetes has published; what it knows is carried out by the embedded server. What
no schema says stands here: WatchList is off by default in 1.31 and 1.33.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/features/kube_features.go;
kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kcr.app import checks
from kcr.client import Request, Response, Transport
from tests.kit.scripted_transport import Say, failure
from tools.schema import table

OLDEST, NEWEST = (f"{major}.{minor}.0" for major, minor in (checks.OLDEST, checks.NEWEST))
WITHOUT_WATCH_LIST = ("1.31.0", "1.33.0")
_NO_WATCH_LIST = (
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
)
_PATCH = "application/json-patch+json"


class Schema:
    """The schema of one version of Kubernetes, for bodies of requests."""

    def __init__(self, version: str) -> None:
        parsed = msgspec.json.decode(table(version))
        self._types: Mapping[str, Mapping[str, Any]] = parsed["types"]
        self._kinds = {name: one if isinstance(one, str) else one["type"] for name, one in parsed["kinds"].items()}
        self._paths = {
            (name.split(" ")[0], one["plural"]): one["type"]
            for name, one in parsed["kinds"].items()
            if not isinstance(one, str)
        }

    def unknown(self, request: Request) -> list[str]:
        """Return the fields of a request's body that this version does not know, such as `batch.v1.JobStatus.ready`.

        A kind or resource that it does not know is returned by itself.
        """
        if not request.body:
            return []
        body = msgspec.json.decode(request.body)
        if request.method in ("POST", "DELETE"):
            name = f"{body['apiVersion']} {body['kind']}"
            found = "meta.v1.DeleteOptions" if body["kind"] == "DeleteOptions" else self._kinds.get(name)
        else:
            _, root, *parts = urlsplit(request.target).path.split("/")
            group, rest = (parts[0], parts[1:]) if root == "api" else ("/".join(parts[:2]), parts[2:])
            name = f"{group} {rest[2] if rest[0] == 'namespaces' and len(rest) > 2 else rest[0]}"
            found = self._paths.get((group, name.split(" ")[1]))
        if found is None:
            return [name]
        if request.headers["content-type"] == _PATCH:
            return [path for step in body for path in self._in_step(found, step)]
        return list(self._in_value(found, body))

    def _in_step(self, kind: str, step: Mapping[str, Any]) -> Iterator[str]:
        """Look at one operation of a JSON patch."""
        for part in step["path"].removeprefix("/").split("/"):
            if kind.startswith("["):
                kind = kind.removeprefix("[]")
                continue
            fields = self._types.get(kind)
            if fields is None:
                return
            if part not in fields:
                yield f"{kind}.{part}"
                return
            kind = _type(fields[part])
        yield from self._in_value(kind, step.get("value"))

    def _in_value(self, kind: str, value: Any) -> Iterator[str]:
        """Look at a value of a type; `null` in a patch is none."""
        if kind.startswith("[]"):
            for item in value or ():
                yield from self._in_value(kind.removeprefix("[]"), item)
        elif kind.startswith("map[string]"):
            for item in (value or {}).values():
                yield from self._in_value(kind.removeprefix("map[string]"), item)
        elif kind in self._types:
            for name, item in (value or {}).items():
                # Directives of strategic merge patch name the field behind a slash.
                field = name.rpartition("/")[2] if name.startswith("$") else name
                if field in self._types[kind]:
                    yield from () if name.startswith("$") else self._in_value(_type(self._types[kind][field]), item)
                elif not field.startswith("$"):
                    yield f"{kind}.{field}"


def _type(facts: Any) -> str:
    found: str = facts if isinstance(facts, str) else facts["type"]
    return found


@cache
def schema(version: str) -> Schema:
    """Return the schema of a version such as `1.31.0`."""
    return Schema(version)


class OldestSchema:
    """A transport that compares what is sent with the schema of the oldest server that kcr supports.

    Attributes:
        unknown: The fields that were sent and that such a server does not know.
    """

    version = OLDEST

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.unknown: set[str] = set()

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send one request."""
        self.unknown.update(schema(self.version).unknown(request))
        return self.inner.send(request)


class OlderServer(OldestSchema):
    """The way to a server of an older release, which also refuses what that refuses."""

    def __init__(self, inner: Transport, version: str) -> None:
        super().__init__(inner)
        self.version = version

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request, or answer it as the older release does."""
        if request.target == "/version":
            yield Say({"gitVersion": f"v{self.version}"})
        elif "sendInitialEvents" in request.target and self.version in WITHOUT_WATCH_LIST:
            yield failure(422, "Invalid", _NO_WATCH_LIST)
        else:
            async with super().send(request) as response:
                yield response
