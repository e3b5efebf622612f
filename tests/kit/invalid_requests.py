"""Requests to the embedded server that are almost right: one seed, one request, drawn from valid ones and mutated."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import msgspec
import yaml

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.server import HTTPRequest
from tests.kit.api import config_map, job, pod
from tests.kit.protobuf import PROTOBUF, body, message

ROOT = "/api/v1/namespaces/default"
POD_TEMPLATE = {"template": {"spec": pod("")["spec"]}}
CRON = {"metadata": {"name": "a"}, "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": POD_TEMPLATE}}}
OBJECTS: dict[str, Manifest] = {
    f"{ROOT}/configmaps": config_map("a", app="x"),
    f"{ROOT}/secrets": {"metadata": {"name": "a"}, "data": {"a": "YQ=="}, "stringData": {"b": "c"}},
    f"{ROOT}/pods": pod("a", labels={"app": "x"}, finalizers=["a.b/c"]),
    f"{ROOT}/services": {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
    f"{ROOT}/serviceaccounts": {"metadata": {"name": "a"}, "secrets": [{"name": "s"}]},
    f"{ROOT}/resourcequotas": {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "100k", "cpu": "1e3"}}},
    f"{ROOT}/limitranges": {"metadata": {"name": "a"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
    f"{ROOT}/events": {
        "metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "lastTimestamp": "2026-01-01T00:00:00Z", "series": {"count": 2},
    },
    "/api/v1/namespaces": {"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}},
    "/api/v1/nodes": {
        "metadata": {"name": "a"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "/apis/batch/v1/namespaces/default/jobs": job("a", annotations={"a": "b"}),
    "/apis/batch/v1/namespaces/default/cronjobs": CRON,
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z"},
    },
    "/apis/batch/v1beta1/namespaces/default/cronjobs": CRON,
    "/apis/extensions/v1beta1/namespaces/default/jobs": job("a"),
    "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups": {"metadata": {"name": "a"}, "spec": {"a": 1}},
}  # fmt: skip
STATUSES: dict[str, Manifest] = {
    f"{ROOT}/pods": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "image": "i", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
    },
    "/apis/batch/v1/namespaces/default/jobs": {
        "startTime": "2026-01-01T00:00:00Z", "active": 1, "uncountedTerminatedPods": {"succeeded": ["x"]},
        "conditions": [{"type": "Complete", "status": "True"}], "completedIndexes": "1-3,5",
    },
    "/apis/batch/v1/namespaces/default/cronjobs": {"active": [{"kind": "Job", "name": "x"}]},
    "/api/v1/namespaces": {"phase": "Active"},
    "/api/v1/nodes": {"conditions": [{"type": "Ready", "status": "True"}]},
    f"{ROOT}/resourcequotas": {"hard": {"pods": "1"}, "used": {"pods": "2"}},
}  # fmt: skip
POSTS: dict[str, Manifest] = {
    f"{ROOT}/pods/a/binding": {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}},
    f"{ROOT}/pods/a/eviction": {
        "metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 1, "preconditions": {"uid": "x"}},
    },
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get"}}},
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {
        "spec": {"user": "a", "groups": ["b"], "nonResourceAttributes": {"path": "/", "verb": "get"}}
    },
    "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews": {
        "metadata": {"namespace": "default"},
        "spec": {"user": "a", "resourceAttributes": {"verb": "get", "namespace": "default", "resource": "pods"}},
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {
        "metadata": {"name": "r"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    },
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings": {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s"}],
    },
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": {"metadata": {}},
}  # fmt: skip
DELETE_OPTIONS: Manifest = {
    "gracePeriodSeconds": 5, "propagationPolicy": "Background", "dryRun": ["All"],
    "preconditions": {"uid": "x", "resourceVersion": "1"},
}  # fmt: skip
PARAMETERS = (
    "allowWatchBookmarks", "continue", "container", "dryRun", "fieldManager", "fieldSelector", "fieldValidation",
    "follow", "force", "gracePeriodSeconds", "includeObject", "labelSelector", "limit", "limitBytes",
    "orphanDependents", "pretty", "previous", "propagationPolicy", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "sinceSeconds", "sinceTime", "tailLines", "timeout", "timeoutSeconds", "timestamps",
    "verbose", "watch",
)  # fmt: skip
TEXTS = (
    "", "0", "1", "-1", "true", "false", "All", "Exact", "NotOlderThan", "Strict", "Ignore", "Orphan", "Foreground",
    "a=b", "a in (b,c)", "!a", "a>1", "((", "a=b,", "metadata.name=a", "status.phase!=x", "None", "Object",
    "2026-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "1s", "9" * 400 + "h", "9" * 30, "1" * 5000, "1e9999999",
    "1e-99999", "\x00", "\ufffd", "é", "٣", "²", "a" * 300, "x/y/z", "../..", "%", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "bnVsbA", "W10", "500m", "1Gi", "-1Gi", "1.5e3", "1-3,5", "5-1", "0-99999999999", "* * * * *", "61 * * * *",
    "@every 1s", "UTC", "../x",
    "IfNotPresent", "Never", "Always", "OnFailure", "Indexed", "TerminatingOrFailed", "node.kubernetes.io/x", "tcp",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e300, [], {}, [None], [[]], {"": None}, [{}],
    {"a": None}, {"name": "a"}, ["a", 1], {"$patch": "delete"}, {"$patch": []}, {"$retainKeys": ["a"]}, [1] * 100,
)  # fmt: skip
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json")
DIRECTIVES = (
    "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/env", "$setElementOrder/ownerReferences", "",
)  # fmt: skip
ACCEPTS = (
    "application/json", "application/yaml", "*/*", "text/html", "application/vnd.kubernetes.protobuf", ";;q=x,,",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io;q=0.5,application/json;q=\xe9",
)  # fmt: skip


class RequestMutator:
    """Draws one request."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> HTTPRequest:
        """Return a request."""
        draw = self._random
        method, path, value = self._good()
        for _ in range(draw.choice((0, 1, 1, 2, 3))):
            value = self._spoil(value)
        content_type, data = self._encoded(method, value)
        if draw.random() < 0.15:
            data = self._garbled(data)
        if draw.random() < 0.1:
            path = self._odd_path(path)
        headers = {"Content-Type": content_type, "Accept": draw.choice(ACCEPTS) if draw.random() < 0.3 else "*/*"}
        return HTTPRequest(method, path + self._query(), headers, data)

    def _good(self) -> tuple[str, str, Any]:
        draw = self._random
        collection = draw.choice(list(OBJECTS))
        shown = {**deepcopy(OBJECTS[collection]), "status": deepcopy(STATUSES.get(collection, {}))}
        named = f"{collection}/a{draw.choice(('', '', '/status'))}"
        match draw.choice(("create", "update", "update", "patch", "patch", "delete", "post", "read", "finalize")):
            case "create":
                shown["metadata"]["name"] = draw.choice(("a", f"n{draw.randrange(10**6)}"))
                return "POST", collection, shown
            case "update":
                return "PUT", named, shown
            case "patch":
                return "PATCH", named, shown
            case "delete":
                return "DELETE", draw.choice((f"{collection}/a", collection)), deepcopy(DELETE_OPTIONS)
            case "post":
                path = draw.choice(list(POSTS))
                return "POST", path, deepcopy(POSTS[path])
            case "finalize":
                return "PUT", "/api/v1/namespaces/a/finalize", deepcopy(OBJECTS["/api/v1/namespaces"])
        return "GET", draw.choice((collection, named, f"{ROOT}/pods/a/log", "/version", "/openapi/v3")), None

    def _spoil(self, value: Any) -> Any:
        """Return a value with something else at one place."""
        places = list(_places(value))
        if not places or self._random.random() < 0.03:
            return self._value()
        holder, key = self._random.choice(places)
        match self._random.choice(("value", "value", "value", "drop", "add", "nest", "text")):
            case "drop":
                del holder[key]
            case "add" if isinstance(holder, dict):
                holder[self._random.choice((*DIRECTIVES, "name", "status", "x"))] = self._value()
            case "nest":
                holder[key] = _nested(self._random.choice((10, 150, 300, 1_001)), holder[key])
            case "text":
                holder[key] = self._random.choice(TEXTS)
            case _:
                holder[key] = self._value()
        return value

    def _value(self) -> Any:
        return deepcopy(self._random.choice(self._random.choice((VALUES, TEXTS))))

    def _operations(self, value: Any) -> Any:
        """Return a JSON patch that writes parts of a value, or moves and copies what is there."""
        draw = self._random
        paths = [
            "",
            "/",
            "/metadata",
            "/metadata/name",
            "/spec",
            "/spec/template",
            "/x",
            "/metadata/finalizers/-1",
            "/a/b",
        ]
        operations: Any = [
            {
                "op": draw.choice(("add", "remove", "replace", "move", "copy", "copy", "test", "x", [], None)),
                "path": draw.choice(paths), "from": draw.choice(paths), "value": self._value(),
            }
            for _ in range(draw.choice((0, 1, 2, 40)))
        ]  # fmt: skip
        if isinstance(value, dict) and "spec" in value:
            operations.append({"op": "replace", "path": "/spec", "value": value["spec"]})
        return operations

    def _encoded(self, method: str, value: Any) -> tuple[str, bytes]:
        draw = self._random
        if method == "GET" or (method == "DELETE" and draw.random() < 0.3):
            return "", b""
        if method == "PATCH":
            form = draw.choice(PATCHES)
            return form, _json(self._operations(value) if form == PATCHES[0] else value)
        match draw.choice(("json", "json", "json", "yaml", "protobuf", "other")):
            case "yaml":
                try:
                    return "application/yaml", yaml.safe_dump(value).encode("utf-8", "replace")
                except RecursionError:
                    return "application/yaml", _json(value)
            case "protobuf":
                kind = draw.choice(("ConfigMap", "Job", "CronJob", "Pod", "DeleteOptions", "Secret", "Eviction", ""))
                return PROTOBUF, body("v1", kind, message((1, message((1, "a"))), (2, draw.randbytes(8)), (3, "x")))
            case "other":
                return draw.choice(("text/plain", "", "application/json;charset=\xe9", "a" * 100)), _json(value)
        return "application/json", _json(value)

    def _garbled(self, data: bytes) -> bytes:
        draw = self._random
        at = draw.randrange(len(data) + 1)
        match draw.choice(("cut", "byte", "insert", "deep", "twice", "raw")):
            case "cut":
                return data[:at]
            case "byte":
                return data[:at] + draw.randbytes(1) + data[at + 1 :]
            case "insert":
                return (
                    data[:at] + draw.choice((b"\xff", b"\x00", b"\\ud800", b"&a [*a]", b"[", b"}", b"<<: ")) + data[at:]
                )
            case "deep":
                return (
                    data[:at] + draw.choice((b"[", b'{"a":', b"- ", b"{a: ")) * draw.choice((300, 20_000)) + data[at:]
                )
            case "twice":
                return data + data
        return draw.randbytes(draw.randrange(200))

    def _odd_path(self, path: str) -> str:
        draw = self._random
        steps = path.split("/")
        at = draw.randrange(len(steps))
        steps[at : at + draw.choice((0, 1))] = [
            draw.choice(("", "%00", "%FF", "\udcff", "..", "a b", "é", "x" * 300, "%"))
        ]
        return "/".join(steps)

    def _query(self) -> str:
        draw = self._random
        names = draw.sample(PARAMETERS, draw.choice((0, 0, 1, 2, 3)))
        pairs = [f"{name}={quote(draw.choice(TEXTS))}" for name in names]
        return "?" + "&".join(pairs) if pairs else draw.choice(("", "", "?", "?&&==%", "?\udcff=%FF"))


def _places(value: Any, levels: int = 20) -> Iterator[tuple[Any, Any]]:
    """Yield the holders in a value, with each key or index in them."""
    if isinstance(value, dict | list) and levels:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key], levels - 1)


def _nested(levels: int, value: Any) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return b"[" * 1_001 + b"]" * 1_001
