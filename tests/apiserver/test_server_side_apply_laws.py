"""Laws of server-side apply, on random objects of several kinds, written by random managers in random ways.

After every request: no internal error, versions grow, every manager owns only what is there, nothing is owned twice by
the same manager, and what was applied is applied again without effect.
"""

import random
from copy import deepcopy
from typing import Any, Protocol

import pytest

from kcr_devcluster.apiserver.apply import fieldpath, managed_fields
from kcr_devcluster.apiserver.apply.typed import all_paths
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.schema.shape import Field, Shape, Type
from tests.kit.api import Api, Reply
from tests.kit.field_owners import without_maps

pytestmark = pytest.mark.kcr_virtual

KINDS_USED = ("ConfigMap", "Service", "Deployment", "Job", "ServiceAccount", "Ingress", "ControllerRevision", "Node")
SCALARS: dict[str, tuple[Any, ...]] = {
    "string": ("a", "b", "x.y/z"),
    "bool": (True, False),
    "int32": (0, 1, 2),
    "int64": (0, 1, 2),
    "resource.Quantity": ("1", "1000m", "1Gi"),
    "v1.Time": ("2026-01-01T00:00:00Z",),
    "intstr.IntOrString": (1, "http"),
    "interface {}": ("a", 1, {"a": 1}, {"a": {"b": [1]}}, [1, {"a": 1}]),
}
LABELS = {"app": "a"}
CONTAINERS = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
# What the kinds need that would hardly be drawn; replaced by something else now and then.
SPECS: dict[str, dict[str, Any]] = {
    "Deployment": {
        "selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": CONTAINERS},
    },
    "Job": {"template": {"spec": CONTAINERS}},
}  # fmt: skip
BROKEN: tuple[Any, ...] = (None, "x", 7, True, [], {}, [None], [{"name": "a"}, {"name": "a"}])
MANAGERS = ("a", "b", "kubectl")
LENGTH = 40
TYPED = ("failed to create typed patch object", "failed to convert new object")


class Draw:
    """Draws objects by the schema."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, of: Type, depth: int) -> Any:
        """Return a value of a type; now and then one of another type."""
        if self.random.random() < 0.01:
            return self.random.choice(BROKEN)
        if of.shape is not None:
            return self.fields(of.shape, depth)
        if of.items is not None and of.name.startswith("map"):
            return {name: self.value(of.items, depth - 1) for name in self.some("abc")}
        if of.items is not None:
            items = [self.value(of.items, depth - 1) for _ in self.some("ab")]
            return [item for position, item in enumerate(items) if item not in items[:position]]
        return self.random.choice(SCALARS.get(of.name, ("a",)))

    def some(self, names: Any) -> list[Any]:
        """Return some of a few things."""
        found = list(names)
        return self.random.sample(found, self.random.randint(0, len(found)))

    def fields(self, shape: Shape, depth: int) -> dict[str, Any]:
        """Return an object with what identifies it, and a few more of its fields."""
        known = shape.fields
        wanted = [name for name in known if name in ("name", "port", "containerPort", "spec", "template", "containers")]
        if depth > 0:
            wanted += self.random.sample(sorted(known), min(3, len(known)))
        return {name: self.value(known[name].type, depth - 1) for name in dict.fromkeys(wanted)}

    def manifest(self, kind: Any) -> dict[str, Any]:
        """Return an object of a kind with the name `a`."""
        members = [name for name in kind.shape.fields if name not in ("apiVersion", "kind", "metadata")]
        metadata: dict[str, Any] = {"name": "a"}
        for name, value in (("labels", dict.fromkeys(self.some("xyz"), self.random.choice("12"))),
                            ("annotations", dict.fromkeys(self.some("pq"), self.random.choice("12"))),
                            ("finalizers", [f"{name}/f" for name in self.some("uv")])):  # fmt: skip
            # An empty map is not stored, but owned: who repeats an apply of it may conflict with others.
            if self.random.random() < 0.5 and value:
                metadata[name] = value
        drawn = {name: self.value(kind.shape.fields[name].type, 4) for name in self.some(members)}
        if needed := SPECS.get(kind.type.kind):
            spec = drawn.get("spec")
            kept = self.random.sample(sorted(spec), min(2, len(spec))) if isinstance(spec, dict) else []
            drawn["spec"] = {**deepcopy(needed), **({name: spec[name] for name in kept} if spec else {})}
        return {
            "apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": metadata,
            **drawn,
        }  # fmt: skip


class Sender(Protocol):
    """Sends requests, as `Api` does."""

    async def call(self, method: str, target: str, body: object = b"", *, content_type: str = ...) -> Reply:
        """Send one request."""
        ...

    async def apply(self, target: str, body: object, manager: str = ..., query: str = ...) -> Reply:
        """Send a server-side apply."""
        ...


class Session:
    """One object, written again and again."""

    def __init__(self, api: Sender, kind: Any, draw: Draw) -> None:
        self.api, self.kind, self.draw = api, kind, draw
        namespace = "namespaces/default/" if kind.type.namespaced else ""
        root = "apis/" + kind.type.group if kind.type.group else "api"
        self.target = f"/{root}/{kind.type.version}/{namespace}{kind.type.plural}/a"
        self.version = 0

    async def step(self) -> None:
        """Send one request, and check what it leaves."""
        before = await self.current()
        reply, again = await self.write(before)
        fine = reply.status < 500 or reply.body["message"].startswith(TYPED)
        assert fine, reply.body
        after = await self.current()
        if reply.status >= 400:
            assert after == before
        self.check(before, after)
        if again is not None and reply.status < 300 and after is not None:
            if before is None and self.kind.type.kind == "Node" and "taints" in (again[1].get("spec") or {}):
                # Admission adds a taint to a new node, which is no part of the list that was applied.
                return
            repeated = await self.api.apply(*again)
            assert repeated.body == reply.body, again

    async def current(self) -> Any:
        """Return the object as it is, or None."""
        reply = await self.api.call("GET", self.target)
        return reply.body if reply.status == 200 else None

    async def write(self, before: Any) -> tuple[Reply, tuple[str, Any, str, str] | None]:
        """Send one request of a random form, and return the apply that it was."""
        random = self.draw.random
        manifest, manager = self.draw.manifest(self.kind), random.choice(MANAGERS)
        path = "/status" if "status" in self.kind.subresources and random.random() < 0.2 else ""
        query = f"?fieldManager={manager}"
        match random.choice(("apply", "apply", "apply", "patch", "put", "reset", "delete")):
            case "apply":
                again = (self.target + path, manifest, manager, random.choice(("", "force=true")))
                return await self.api.apply(*again), again
            case "patch":
                body = {name: value for name, value in manifest.items() if name not in ("apiVersion", "kind")}
                merge = "application/merge-patch+json"
                return await self.api.call("PATCH", self.target + path + query, body, content_type=merge), None
            case "put":
                return await self.api.call("PUT", self.target + path + query, manifest), None
            case "reset" if before is not None:
                body = {
                    "metadata": {"managedFields": random.choice(([], [{}], before["metadata"].get("managedFields")))}
                }
                merge = "application/merge-patch+json"
                return await self.api.call("PATCH", self.target + query, body, content_type=merge), None
            case "delete" if random.random() < 0.1:
                return await self.api.call("DELETE", self.target), None
        return await self.api.call("GET", self.target), None

    def check(self, before: Any, after: Any) -> None:
        """Check the object that a request left, and its managers."""
        if after is None or after == before:
            return
        version = int(after["metadata"]["resourceVersion"])
        assert version > self.version
        self.version = version
        there = all_paths(Field(self.kind.shape.type), after)
        entries = after["metadata"].get("managedFields", [])
        decoded = managed_fields.decode(entries)
        assert len(decoded) == len(entries)
        for entry in decoded.values():
            assert entry.fields
            # Who applies also owns what is not stored: empty maps, nulls, and fields that the server resets. Who
            # updates owns maps that others have emptied.
            if entry.operation == managed_fields.UPDATE:
                assert not without_maps(self.kind, fieldpath.paths(fieldpath.difference(entry.fields, there)))


async def run(api: Api, seed: int) -> None:
    """Write one object again and again."""
    draw = Draw(seed)
    kind = next(kind for kind in KINDS if kind.type.kind == KINDS_USED[seed % len(KINDS_USED)])
    session = Session(api, kind, draw)
    for _ in range(LENGTH):
        await session.step()


@pytest.mark.parametrize("seed", range(16))
async def test_updaters_own_what_is_there_and_applies_repeat(api: Api, seed: int) -> None:
    await run(api, seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(16, 416))
async def test_updaters_own_what_is_there_on_all_seeds(api: Api, seed: int) -> None:
    await run(api, seed)
