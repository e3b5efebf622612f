"""Laws of defaulters: the patched object decodes to what they return, and no unknown field is lost."""

import base64
import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import kcr
from kcr.api import codec
from kcr.serving.webhooks import WebhookOptions
from kcr.serving.webhooks.handlers import AdmissionEndpoint
from kcr.serving.webhooks.registration import register
from kcr.testing import admit
from kcr_devcluster.apiserver.patch.json_patch import json_patch
from tests.kit.reviews import review


class Port(kcr.Object):
    number: int = 80
    protocol: str = "TCP"


class Container(kcr.Object):
    name: str
    image: str = ""
    ports: tuple[Port, ...] = ()
    env: Mapping[str, str] = {}


class AppSpec(kcr.Object):
    replicas: int = 1
    paused: bool | None = None
    note: str | None = "none"
    containers: tuple[Container, ...] = ()
    limits: Port | None = None


class App(kcr.Resource, api_version="example.dev/v1", plural="apps"):
    spec: AppSpec = AppSpec()


UNKNOWN: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["x-a", "x/b", "x~c"]), st.none() | st.integers(-1, 1) | st.just([{"d": {}}]), max_size=2
)
PORTS = st.builds(Port, number=st.integers(79, 81), protocol=st.sampled_from(["TCP", "UDP"]))
CONTAINERS = st.lists(
    st.builds(
        Container, name=st.sampled_from("abcd"), image=st.sampled_from(["", "1", "2"]),
        ports=st.lists(PORTS, max_size=3).map(tuple),
        env=st.dictionaries(st.sampled_from("pq/"), st.sampled_from(["", "v"]), max_size=2),
    ),
    max_size=4, unique_by=lambda one: one.name,
).map(tuple)  # fmt: skip
SPECS = st.builds(
    AppSpec, replicas=st.integers(0, 2), paused=st.none() | st.booleans(), note=st.sampled_from([None, "none", "n"]),
    containers=CONTAINERS, limits=st.none() | PORTS,
)  # fmt: skip
METADATA = st.builds(kcr.ObjectMeta, name=st.just("web"), labels=st.dictionaries(st.sampled_from("lm"), st.just("v")))
APPS = st.builds(App, metadata=METADATA, spec=SPECS)


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an object as a user may send it: with unknown fields, and without some defaults."""
    made: dict[str, Any] = json.loads(codec.encode(draw(APPS)))

    def disturb(value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                # A map has no unknown fields.
                if name != "env":
                    disturb(inner)
            value |= draw(UNKNOWN)
            if value.get("replicas") == 1 or draw(st.booleans()):
                value.pop("replicas", None)
        elif isinstance(value, list):
            for inner in value:
                disturb(inner)

    disturb(made["spec"])
    made["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    return made


class Returns:
    def __init__(self, obj: App) -> None:
        self._obj = obj

    def default(self, obj: App, request: kcr.WebhookRequest) -> App:
        return self._obj


async def patched(manifest: dict[str, Any], wanted: App) -> Any:
    (rule,) = register(App, Returns(wanted), WebhookOptions())
    answer = json.loads(await AdmissionEndpoint(rule)(json.dumps(review(manifest)).encode()))["response"]
    assert answer["allowed"], answer
    if "patch" not in answer:
        return manifest
    return json_patch(copy.deepcopy(manifest), json.loads(base64.b64decode(answer["patch"])))


def unknown_of(value: Any) -> Any:
    return {name: inner for name, inner in value.items() if name.startswith("x")}


@pytest.mark.asyncio
@given(manifests(), APPS)
async def test_patched_object_is_what_the_defaulter_returns(manifest: dict[str, Any], wanted: App) -> None:
    result = await patched(manifest, wanted)
    assert codec.decode(App, json.dumps(result).encode()) == wanted


@pytest.mark.asyncio
@given(manifests(), APPS)
async def test_unknown_fields_survive_a_defaulter(manifest: dict[str, Any], wanted: App) -> None:
    result = await patched(manifest, wanted)
    assert result["metadata"]["managedFields"] == manifest["metadata"]["managedFields"]
    assert unknown_of(result["spec"]) == unknown_of(manifest["spec"])
    before = {one["name"]: unknown_of(one) for one in manifest["spec"].get("containers", ())}
    for one in result["spec"].get("containers", ()):
        assert unknown_of(one) == before.get(one["name"], {})


@pytest.mark.asyncio
@given(APPS, APPS)
async def test_admit_gives_what_the_defaulter_returns(obj: App, wanted: App) -> None:
    assert (await admit(Returns(wanted), obj)).object == wanted


@pytest.mark.asyncio
@given(manifests())
async def test_unchanged_object_is_left_alone(manifest: dict[str, Any]) -> None:
    same = codec.decode(App, json.dumps(manifest).encode())
    assert await patched(manifest, replace(same)) is manifest
