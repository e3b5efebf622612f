"""Requests to the API server as a client would send them, and small objects in them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.authentication import ADMIN, User
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.apiserver.server import HTTPRequest

# Resources of a real server that docs/reference/differences.md names.
NOT_SERVED = (
    "/api/v1/componentstatuses", "/apis/networking.k8s.io/v1/ipaddresses", "/apis/networking.k8s.io/v1/servicecidrs",
)  # fmt: skip
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Reply(NamedTuple):
    """An answer, read and decoded."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Api:
    """Sends requests to the server, and reads the answers."""

    def __init__(self, server: APIServer, user: User = ADMIN) -> None:
        self.server = server
        self.user = user

    def as_user(self, username: str, *groups: str) -> "Api":
        """Return the API as a user sees it."""
        return Api(self.server, user_named(username, groups))

    async def call(self, method: str, target: str, body: object = b"", **headers: str) -> Reply:
        """Send one request; headers are named `content_type`, `accept`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        answer = await self.server.handle(HTTPRequest(method, target, named, data, self.user))
        assert isinstance(answer.body, bytes)
        is_json = answer.headers.get("Content-Type", "").startswith("application/json") and answer.body
        return Reply(answer.status, answer.headers, msgspec.json.decode(answer.body) if is_json else answer.body)

    async def get(self, target: str, **headers: str) -> Any:
        """Return the body of a GET that succeeds."""
        return (await self._good("GET", target, b"", headers)).body

    async def post(self, target: str, body: object) -> Any:
        """Return the body of a POST that succeeds."""
        return (await self._good("POST", target, body, {})).body

    async def put(self, target: str, body: object) -> Any:
        """Return the body of a PUT that succeeds."""
        return (await self._good("PUT", target, body, {})).body

    async def delete(self, target: str, body: object = b"") -> Any:
        """Return the body of a DELETE that succeeds."""
        return (await self._good("DELETE", target, body, {})).body

    async def patch(self, target: str, body: object, form: str = "merge-patch") -> Any:
        """Return the body of a PATCH that succeeds."""
        return (await self._good("PATCH", target, body, {"content_type": f"application/{form}+json"})).body

    async def apply(self, target: str, body: object, manager: str = "m", query: str = "") -> Reply:
        """Send a server-side apply, and return its answer."""
        path = f"{target}?fieldManager={manager}&{query}"
        return await self.call("PATCH", path, body, content_type="application/apply-patch+yaml")

    async def _good(self, method: str, target: str, body: object, headers: Mapping[str, str]) -> Reply:
        reply = await self.call(method, target, body, **headers)
        assert reply.status < 300, reply.body
        return reply

    async def watch(self, target: str, **headers: str) -> "Events":
        """Open a watch; `target` ends where `watch=true` is to follow."""
        answer = await self.server.handle(HTTPRequest("GET", f"{target}watch=true", headers, user=self.user))
        assert answer.status == 200, answer.body
        assert not isinstance(answer.body, bytes)
        return Events(answer.body)


class Events:
    """The events of a watch, decoded."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lines: list[bytes] = []

    async def next(self) -> Any:
        """Return the next event; raises StopAsyncIteration at the end of the watch."""
        while not self._lines:
            self._lines = (await anext(self._stream)).splitlines()
        return msgspec.json.decode(self._lines.pop(0))

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return the types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def close(self) -> None:
        """Give up the rest."""
        await self._stream.aclose()


def names(answer: Any) -> list[str]:
    """Return the names of the objects of a list."""
    return [item["metadata"]["name"] for item in answer["items"]]


def config_map(name: str, **labels: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    """Return a Pod."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def pod_binding(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    """Return a Binding of a pod to a node."""
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


def job(name: str, **metadata: Any) -> dict[str, Any]:
    """Return a Job."""
    return {"metadata": {"name": name, **metadata}, "spec": {"template": {"spec": pod("")["spec"]}}}


def owner(obj: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a reference to an object the server returned."""
    return {
        "apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"], **more,
    }  # fmt: skip


async def exists(api: Api, target: str) -> bool:
    """Return whether a GET finds something."""
    return (await api.call("GET", target)).status == 200


def role(name: str, verbs: str, *resources: str, **rule: Any) -> dict[str, Any]:
    """Return a Role or ClusterRole with one rule about resources of the core group."""
    given = {"verbs": verbs.split(), "apiGroups": [""], "resources": list(resources), **rule}
    return {"metadata": {"name": name}, "rules": [given]}


def binding(name: str, kind: str, role_name: str, *subjects: str) -> dict[str, Any]:
    """Return a RoleBinding or ClusterRoleBinding; subjects are `Kind:name`, accounts also `Kind:namespace/name`."""
    found = [_subject(*subject.split(":", 1)) for subject in subjects]
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role_name}, "subjects": found}


def _subject(kind: str, name: str) -> dict[str, str]:
    namespace, _, name = name.rpartition("/")
    return {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}
