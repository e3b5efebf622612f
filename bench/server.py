"""What the embedded API server does in a second, for Pods and for custom resources."""

import asyncio
import time
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from kcr.clock import SystemClock
from kcr_devcluster.apiserver import APIServer, Storage
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.apiserver.structural.rules import compile_rules

Json = dict[str, Any]
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PODS, _WIDGETS = "/api/v1/namespaces/default/pods", "/apis/bench.dev/v1/namespaces/default/widgets"
_RULES = ("self.replicas < 100", "self.ports.all(p, p.port > 0)", "self.image == oldSelf.image")
_FORTY = tuple(
    rule.replace("0", str(number))
    for number in range(4)
    for rule in (
        "self.replicas >= 0 - 9", "has(self.image) && self.image != '0'", "self.image.startsWith('busy') || 0 > 1",
        "self.ports.all(p, p.port > 0 - 9)", "!self.ports.exists(p, p.name == '0')", "size(self.ports) < 100 + 0",
        "self.ports.map(p, p.port).sum() >= 0 - 9", "self.image.matches('^[a-z]+.*0?$')", "self.replicas in [0, 1, 5]",
        "has(self.since) ? self.since > timestamp('1999-11-11T11:11:11Z') : self.replicas != -1",
    )
)  # fmt: skip
_LABEL = b'{"metadata":{"labels":{"a":"b"}}}'


def server(size: int) -> dict[str, float]:
    """Measure requests per CPU second.

    Args:
        size: How many objects of each kind.
    """
    return asyncio.run(_server(size))


async def _server(size: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for what, path, make, definition in (
        ("Pods", _PODS, _pod, None),
        ("custom resources", _WIDGETS, _widget, _definition(())),
        ("with three rules", _WIDGETS, _widget, _definition(_RULES)),
        ("with forty rules", _WIDGETS, _widget, _definition(_FORTY)),
    ):
        api = APIServer(Storage(), clock=SystemClock(), random=Random(0))
        if definition is not None:
            await _call(api, "POST", _DEFINITIONS, definition)
        figures |= {f"{verb}, {what}": rate for verb, rate in (await _measure(api, path, make, size)).items()}
    return figures | {"bytes of memory per rule": _memory_per_rule()}


def _memory_per_rule() -> float:
    """Return how many bytes a compiled rule takes, of forty in one schema."""
    schema = msgspec.json.decode(_definition(_FORTY))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    compile_rules(schema)
    tracemalloc.start()
    kept = compile_rules(schema)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept is not None
    return size / len(_FORTY)


async def _measure(api: APIServer, path: str, make: Callable[[str], Json], size: int) -> dict[str, float]:
    bodies = [msgspec.json.encode(make(f"o{number}")) for number in range(size)]
    watch = (await api.handle(HTTPRequest("GET", f"{path}?watch=true"))).body
    assert not isinstance(watch, bytes)
    creating = await _timed(size, lambda number: _call(api, "POST", path, bodies[number]))
    start = time.process_time()
    lines = (await anext(aiter(watch))).count(b"\n")
    listed = await _call(api, "GET", path)
    read = time.process_time() - start
    assert (lines, listed.count(b'"uid"')) == (size, size)
    await watch.aclose()
    patching = await _timed(size, lambda number: _call(api, "PATCH", f"{path}/o{number}", _LABEL))
    return {"create": creating, "patch": patching, "list and watch": size / max(read, 1e-9)}


async def _timed(size: int, step: Callable[[int], Any]) -> float:
    start = time.process_time()
    for number in range(size):
        await step(number)
    return size / (time.process_time() - start)


async def _call(api: APIServer, method: str, target: str, body: bytes = b"") -> bytes:
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.handle(HTTPRequest(method, target, {"content-type": content}, body))
    assert answer.status < 300, answer.body
    assert isinstance(answer.body, bytes)
    return answer.body


def _pod(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}


def _widget(name: str) -> Json:
    spec = {"image": "busybox", "ports": [{"name": "a", "port": 1}]}
    return {"apiVersion": "bench.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def _definition(rules: tuple[str, ...]) -> bytes:
    text, number = {"type": "string", "maxLength": 100}, {"type": "integer"}
    port = {"type": "object", "properties": {"name": text, "port": number}}
    spec: Json = {
        "type": "object",
        "properties": {
            "image": {**text, "minLength": 1},
            "replicas": {**number, "minimum": 0, "default": 1},
            "ports": {"type": "array", "items": port, "maxItems": 100},
            "since": {"type": "string", "format": "date-time"},
        },
        "x-kubernetes-validations": [{"rule": rule} for rule in rules],
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return msgspec.json.encode(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.bench.dev"},
            "spec": {
                "group": "bench.dev",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version],
            },
        }
    )
