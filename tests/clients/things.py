"""What every client is asked to do, what is there before, what goes wrong meanwhile, and the words for the outcome."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from aiohttp import web

from tests.clients.proxy import EXPIRED, Fault, Seen

PATCHES = {
    "application/json-patch+json": "JSON patch",
    "application/merge-patch+json": "merge patch",
    "application/strategic-merge-patch+json": "strategic merge patch",
    "application/apply-patch+yaml": "apply",
}
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": one, "image": "busybox", "command": ["sleep", "1000"]} for one in ("a", "b")],
    },
}


class Happened(NamedTuple):
    """What one client did.

    Attributes:
        answer: What its driver said.
        seen: The requests that reached the proxy.
        server: The object of the thing on the server afterwards, empty where there is none.
        seconds: How long it took.
        runs: How often the credential plugin ran.
    """

    answer: Mapping[str, Any]
    seen: Sequence[Seen]
    server: Mapping[str, Any]
    seconds: float
    runs: int


class Thing(NamedTuple):
    """One thing to do.

    Attributes:
        title: In the table.
        method: The method of the driver.
        words: What happened, in words.
        arguments: The arguments of the method.
        objects: What is made before.
        statuses: What their statuses become then, by path below the namespace's.
        result: The path of the object to look at afterwards, below the namespace's, with its API.
        fault: What goes wrong.
        late: Whether a last object is made while the thing is done.
        credentials: How the client proves who it is: `token`, `file` or `plugin`.
        direct: Whether it needs a node and web sockets, so goes past the proxy, to `kcr dev` alone.
    """

    title: str
    method: str
    words: Callable[[Happened], str]
    arguments: Sequence[Any] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    statuses: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    result: str = ""
    fault: type[Fault] = Fault
    late: bool = False
    credentials: str = "token"
    direct: bool = False

    @property
    def ends_watch(self) -> bool:
        """Whether the first watch ends."""
        return issubclass(self.fault, ShortWatch)


def made(api: str, kind: str, name: str, **fields: Any) -> Mapping[str, Any]:
    """Return a manifest."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **fields}


HERE = made("v1", "ConfigMap", "here", data={"a": "1"})
WEB = made(
    "apps/v1", "Deployment", "web",
    spec={"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
)  # fmt: skip
POD = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "busybox"}]}
RUNNER = made("v1", "Pod", "runner", spec={**POD, "containers": [{
    "name": "a", "image": "busybox", "command": ["sh", "-c", "echo one; echo two; sleep 1000"]}]})  # fmt: skip
ENDED = made("v1", "Pod", "runner", spec={**POD, "restartPolicy": "Never", "containers": [{
    "name": "a", "image": "busybox", "command": ["sh", "-c", "echo one; echo two"]}]})  # fmt: skip
# Answers one line of each connection; what replaces PORT is free on this machine.
ANSWERS = """
import socketserver
class Line(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"hello " + self.rfile.readline())
socketserver.TCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", PORT), Line).serve_forever()
"""
LISTENER = made("v1", "Pod", "runner", spec={**POD, "containers": [{
    "name": "a", "image": "python", "command": ["python3", "-c", ANSWERS],
    "readinessProbe": {"tcpSocket": {"port": "PORT"}, "periodSeconds": 1}}]})  # fmt: skip
IDLE = made("v1", "Pod", "idle", spec={**POD, "nodeSelector": {"no": "node"}})
GUARDED: Mapping[str, Any] = {**IDLE, "metadata": {"name": "idle", "labels": {"app": "idle"}}}
BUDGET = made(
    "policy/v1", "PodDisruptionBudget", "all",
    spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "idle"}}},
)  # fmt: skip
# What a node and the controller of budgets would write, for servers that have neither.
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
NONE_ALLOWED = {
    "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
}  # fmt: skip
PORTS = [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "targetPort": 8080}]
FRONT = made("v1", "Service", "front", spec={"type": "LoadBalancer", "selector": {"app": "web"}, "ports": PORTS})
POLICY = made("networking.k8s.io/v1", "NetworkPolicy", "all", spec={"podSelector": {}, "ingress": [{}]})
WHOLE = "2026-11-30T04:00:00.000000Z"
LEASE = made("coordination.k8s.io/v1", "Lease", "lock", spec={"renewTime": WHOLE, "holderIdentity": "a"})
JOB = made("batch/v1", "Job", "work", spec={"suspend": True, "template": {"spec": {**POD, "restartPolicy": "Never"}}})
SECRETS = [made("v1", "Secret", f"s{number}") for number in range(5)]
KEY = made("v1", "Secret", "key", data={"a": "cGFzcw=="})
EARLY = made("v1", "Secret", "early")


def status(code: int, body: Mapping[str, Any], **headers: str) -> web.Response:
    """Return an answer with a Status."""
    # Without a charset, as kube-apiserver: some clients compare the whole.
    return web.Response(
        body=json.dumps(body).encode(), status=code, headers=headers | {"Content-Type": "application/json"}
    )


class OldToken(Fault):
    """Every token to go on with is too old."""

    def answer(self, seen: Seen, number: int) -> web.Response | None:
        return status(410, EXPIRED) if "continue" in seen.query else None


class ShortWatch(Fault):
    """The first watch ends after two seconds."""

    def __init__(self) -> None:
        self._ended = False
        self._lasts = 0

    def query(self, seen: Seen, number: int) -> Mapping[str, str]:
        first = "watch" in seen.query and not self._ended
        self._ended = self._ended or "watch" in seen.query
        return {**seen.query, "timeoutSeconds": "2"} if first else seen.query


class ExpiredWatch(ShortWatch):
    """The first watch ends with an error 410."""

    def last(self, number: int) -> bytes:
        self._lasts += 1
        return json.dumps({"type": "ERROR", "object": EXPIRED}).encode() + b"\n" if self._lasts == 1 else b""


class Bookmarks(Fault):
    """A watch has a bookmark behind its first event."""

    def line(self, number: int) -> bytes:
        mark = {
            "kind": "Secret",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "999999", "creationTimestamp": None},
        }
        return json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n"


class Busy(Fault):
    """The first request of its kind is to be sent again after a second."""

    def answer(self, seen: Seen, number: int) -> web.Response | None:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
                "message": "too many requests", "details": {"retryAfterSeconds": 1}}  # fmt: skip
        return status(429, body, **{"Retry-After": "1"}) if number == 1 else None


class OldCredential(Fault):
    """From the second request on, the token is the new one."""

    def answer(self, seen: Seen, number: int) -> web.Response | None:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401,
                "message": "Unauthorized"}  # fmt: skip
        return status(401, body) if number > 1 and seen.authorization != "Bearer two" else None


class NewField(Fault):
    """Objects have a field of a later version."""

    def body(self, seen: Seen, body: bytes) -> bytes:
        return body.replace(b'"spec":{', b'"spec":{"ofTomorrow":{"a":1},', 1) if seen.method == "GET" else body


def failed(happened: Happened) -> str:
    """Return the words for an error, none where there is none."""
    answer = happened.answer
    if "raised" not in answer:
        return ""
    code = f" ({answer['code']})" if answer.get("code") else ""
    return f"raises `{answer['raised']}`{code}"


def plain(words: Callable[[Happened], str]) -> Callable[[Happened], str]:
    """Return the words of an error, else these."""
    return lambda happened: failed(happened) or words(happened)


def _creation(happened: Happened) -> str:
    return f"sent as {happened.seen[-1].content_type or 'no type of content'}"


def _reading(happened: Happened) -> str:
    listed = any("fieldSelector" in one.query for one in happened.seen)
    how = "a list with a field selector" if listed else "a read by name"
    return how if len(happened.seen) == 1 else f"{how}, {len(happened.seen)} requests"


def _pages(happened: Happened) -> str:
    return f"{happened.answer['value']} of 5 objects, {len(happened.seen)} requests"


def _watch(happened: Happened) -> str:
    value = happened.answer["value"]
    if isinstance(value["end"], dict):
        return f"raises `{value['end']['raised']}`"
    watches = [one for one in happened.seen if "watch" in one.query]
    if "ADDED late" not in value["events"]:
        if any(event.startswith("ERROR") for event in value["events"]):
            return "an event ERROR, and the end"
        return "ends without an error" if value["end"] == "ended" else "no event afterwards"
    if any(event.startswith("DELETED") for event in value["events"]):
        return "goes on, after a deletion that was none"
    again = value["events"].count("ADDED early") > 1
    if len(watches) == 1:
        return "goes on"
    return "starts anew: objects come again" if again else "goes on where it was"


def _bookmark(happened: Happened) -> str:
    if not any(one.query.get("allowWatchBookmarks", "").lower() == "true" for one in happened.seen):
        return "not asked for"
    value = happened.answer["value"]
    if isinstance(value["end"], dict):
        told = f"raises `{value['end']['raised']}`"
    else:
        told = "are events" if any(event.startswith("BOOKMARK") for event in value["events"]) else "are hidden"
    return f"asked for, {told}"


def _again(happened: Happened) -> str:
    if len(happened.seen) == 1:
        return "not sent again"
    # kcr waits up to half a second more than it was told.
    about = "a second or two" if happened.seconds < 2.5 else f"{happened.seconds:.0f} s"
    return f"sent again after {about}"


def _refused(happened: Happened) -> str:
    posts = sum(one.method == "POST" for one in happened.seen)
    return (failed(happened) or "returns without an error") + (f", sent {posts} times" if posts > 1 else "")


def _patch(happened: Happened) -> str:
    sent = next((one for one in reversed(happened.seen) if one.method in ("PATCH", "PUT", "POST")), None)
    if sent is None:
        return "sends nothing"
    return PATCHES.get(sent.content_type, "PUT" if sent.method == "PUT" else sent.content_type)


def _default_patch(happened: Happened) -> str:
    return "; ".join(filter(None, (_patch(happened), failed(happened))))


def _strategic(happened: Happened) -> str:
    count = len(happened.server["spec"]["template"]["spec"]["containers"])
    return f"{count} of 2 containers are left"


def _apply(happened: Happened) -> str:
    return f"{_patch(happened)}, force={happened.seen[-1].query.get('force', 'absent')}"


def _status(happened: Happened) -> str:
    return "written" if happened.server["status"].get("loadBalancer", {}).get("ingress") else "accepted, not written"


def _scale(happened: Happened) -> str:
    sent = happened.seen[-1] if happened.seen[-1].method != "GET" else next(
        one for one in reversed(happened.seen) if one.method != "GET")  # fmt: skip
    where = "subresource" if sent.path.endswith("/scale") else "object"
    return f"{_patch(happened)} of the {where}"


def _value(happened: Happened) -> str:
    return f"`{happened.answer['value']}`".replace("\n", " ")


def _log(happened: Happened) -> str:
    lines = [line.strip() for line in happened.answer["value"]]
    if lines == ["one", "two"]:
        return "ends with it"
    return "begins again, and again" if lines == ["one", "two"] * 3 else _value(happened)


def _put(happened: Happened) -> Any:
    return next((one.body for one in reversed(happened.seen) if one.method in ("PUT", "PATCH")), {})


def _kept(path: Sequence[str], wanted: Any) -> Callable[[Happened], str]:
    def words(happened: Happened) -> str:
        found: Any = _put(happened)
        for name in path:
            found = found.get(name, {}) if isinstance(found, dict) else {}
        kept = "kept" if found == wanted else "lost" if found in ({}, None) else f"becomes `{json.dumps(found)}`"
        refused = failed(happened)
        return f"{kept}; {refused}" if refused else kept

    return words


def _lease(happened: Happened) -> str:
    found = _put(happened).get("spec", {}).get("renewTime", "absent")
    return f"sent as `{found}`" + ("; " + failed(happened) if failed(happened) else "")


def _rotated(happened: Happened) -> str:
    tokens = [one.authorization.removeprefix("Bearer ") for one in happened.seen]
    if tokens and not any(tokens):
        return "no credentials are sent"
    return failed(happened) or ("the new one is used" if tokens[1] == "two" else "read again after a 401")


def _plugin(happened: Happened) -> str:
    unsent = all(not one.authorization for one in happened.seen)
    told = "no credentials are sent" if unsent else f"{happened.runs} runs for three requests"
    return failed(happened) or told


def _deleted(happened: Happened) -> str:
    sent = happened.seen[-1]
    policy = sent.query.get("propagationPolicy") or (sent.body or {}).get("propagationPolicy") if isinstance(
        sent.body, dict) or sent.query else None  # fmt: skip
    return f"sends {policy}" if policy else "sends no policy: pods are orphaned"


def _ports(happened: Happened) -> str:
    ports = _put(happened).get("spec", {}).get("ports") or []
    found = [port.get("targetPort") for port in ports]
    kept = "kept" if found == ["http", 8080] else f"become `{json.dumps(found)}`"
    return f"{kept}; {failed(happened)}" if failed(happened) else kept


THINGS: Mapping[str, Thing] = {
    "create": Thing("Create a ConfigMap", "create", plain(_creation)),
    "read": Thing("Read by name", "read", plain(_reading), ["here", 1], [HERE]),
    "absent": Thing("Read what is absent", "read", plain(lambda _: "returns without an error"), ["absent", 1]),
    "pages": Thing("List in pages of 2", "pages", plain(_pages), (), SECRETS),
    "expired": Thing("The token of the next page expired", "pages", plain(_pages), (), SECRETS, fault=OldToken),
    "watch-end": Thing("A watch ends cleanly", "follow", plain(_watch), (), [EARLY], fault=ShortWatch, late=True),
    "watch-410": Thing("410 in a watch", "follow", plain(_watch), (), [EARLY], fault=ExpiredWatch, late=True),
    "bookmark": Thing("Bookmarks", "follow", plain(_bookmark), (), [EARLY], fault=Bookmarks, late=True),
    "busy-read": Thing("429 with Retry-After: 1, to a read", "read", plain(_again), ["here", 1], [HERE], fault=Busy),
    "busy-write": Thing("429 with Retry-After: 1, to a create", "create", plain(_again), fault=Busy),
    "patch": Thing("Its patch by default", "patch", _default_patch, [{"data": {"b": "2"}}], [HERE]),
    "json-patch": Thing(
        "JSON patch", "json_patch", plain(_patch), [[{"op": "add", "path": "/data/b", "value": "2"}]], [HERE]),
    "merge-patch": Thing("Merge patch", "merge_patch", plain(_patch), [{"data": {"b": "2"}}], [HERE]),
    "strategic-patch": Thing(
        "Strategic merge patch of one container", "strategic_patch", plain(_strategic),
        [{"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "other"}]}}}}], [WEB],
        result="apis/apps/v1/{}/deployments/web"),
    "apply": Thing("Apply", "apply", plain(_apply), ["made"]),
    "apply-conflict": Thing("Apply, with a conflict", "apply", plain(_apply), ["here"], [HERE]),
    "status": Thing(
        "Write a status", "status", plain(_status), [{"status": {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}}],
        [FRONT], result="api/v1/{}/services/front"),
    "scale": Thing("Scale", "scale", plain(_scale), (), [WEB]),
    "execute": Thing("Exec: `echo hello`", "execute", plain(_value), (), [RUNNER], direct=True),
    "logs": Thing("Logs of two lines", "logs", plain(_value), (), [RUNNER], direct=True),
    "log-end": Thing("Follow the log of a pod that has ended", "follow_log", plain(_log), (), [ENDED], direct=True),
    "evict": Thing("Evict a pod", "evict", plain(lambda _: "evicted"), (), [IDLE]),
    "evict-refused": Thing(
        "Evict a pod that a budget protects", "evict", _refused, (), [GUARDED, BUDGET],
        {"pods/idle": READY, "poddisruptionbudgets/all": NONE_ALLOWED}),
    "forward": Thing(
        "Port-forward, and a line each way", "forward", plain(_value), ["PORT"], [LISTENER], direct=True),
    "table": Thing("A Table", "table", plain(_value), (), [HERE]),
    "rotate": Thing(
        "`tokenFile` is rotated", "read", _rotated, ["here", 2], [HERE], fault=OldCredential, credentials="file"),
    "plugin": Thing(
        "Exec plugin, expiry in two minutes", "read", _plugin, ["here", 3], [HERE], credentials="plugin"),
    "unknown": Thing(
        "Read and write back a field of a later version", "rewrite", _kept(["spec", "ofTomorrow"], {"a": 1}),
        ["Deployment", "web"], [WEB], fault=NewField),
    "empty": Thing(
        "Read and write back `podSelector: {}` and `ingress: [{}]`", "rewrite",
        _kept(["spec", "ingress"], [{}]), ["NetworkPolicy", "all"], [POLICY]),
    "int-or-string": Thing(
        "Read and write back ports as number and text", "rewrite",
        _ports, ["Service", "front"], [FRONT]),
    "lease": Thing("Read and write back a Lease of a whole second", "rewrite", _lease, ["Lease", "lock"], [LEASE]),
    "stale": Thing("Replace with an old version", "stale", plain(lambda _: "the second write wins"), (), [HERE]),
    "secret": Thing("A value of a Secret", "secret", plain(_value), (), [KEY]),
    "delete-job": Thing("Delete a Job", "delete_job", plain(_deleted), (), [JOB]),
}  # fmt: skip
