"""Configurations that are applied without a name, with empty fields, or with items that lack their key.

The answers are those of kube-apiserver 1.36.2. Source: sigs.k8s.io/structured-merge-diff, typed/helpers.go;
k8s.io/apiserver/pkg/endpoints/handlers/patch.go, applyPatcher.
"""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget

pytestmark = pytest.mark.kcr_virtual
NAMESPACE = "/api/v1/namespaces/default"
CONFIG_MAP, SECRET = f"{NAMESPACE}/configmaps/a", f"{NAMESPACE}/secrets/a"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/a"
OBJECT = f"{WIDGETS}/a"


def config_map(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **members}


def secret(**members: Any) -> dict[str, Any]:
    return {**config_map(**members), "kind": "Secret"}


def owned(reply: Any) -> dict[str, Any]:
    """Return the fields that managers own, by their names."""
    return {entry["manager"]: entry["fieldsV1"] for entry in reply.body["metadata"]["managedFields"]}


async def test_empty_maps_are_owned_and_conflict(api: Api) -> None:
    """Source: cel-and-bodies.md, B7."""
    reply = await api.apply(CONFIG_MAP, config_map(metadata={"name": "a", "annotations": {}}, data={}))
    assert owned(reply) == {"m": {"f:data": {}, "f:metadata": {"f:annotations": {}}}}
    reply = await api.apply(CONFIG_MAP, config_map(metadata={"name": "a", "annotations": {"a": "1"}}), "n")
    said = 'Apply failed with 1 conflict: conflict with "m": .metadata.annotations'
    assert (reply.status, reply.body["message"]) == (409, said)


async def test_text_of_a_secret_is_owned_and_conflicts(api: Api) -> None:
    """Source: cel-and-bodies.md, B7."""
    reply = await api.apply(SECRET, secret(stringData={"a": "1"}))
    assert owned(reply) == {"m": {"f:stringData": {"f:a": {}}}}
    reply = await api.apply(SECRET, secret(stringData={"a": "2"}), "n")
    said = 'Apply failed with 1 conflict: conflict with "m": .stringData.a'
    assert (reply.status, reply.body["message"]) == (409, said)
    reply = await api.apply(SECRET, secret(data={"a": "Mw=="}), "o")
    assert owned(reply) == {"m": {"f:stringData": {"f:a": {}}}, "o": {"f:data": {"f:a": {}}}}


async def test_configuration_without_a_name_has_that_of_the_live_object(api: Api) -> None:
    """Source: cel-and-bodies.md, B9."""
    refused = await api.apply(CONFIG_MAP, config_map(metadata={}))
    said = "the name of the object (a based on URL) was undeterminable: name must be provided"
    assert (refused.status, refused.body["message"]) == (400, said)
    await api.post(f"{NAMESPACE}/configmaps", config_map())
    nameless: tuple[Any, ...] = ({}, None)
    for metadata in nameless:
        reply = await api.apply(CONFIG_MAP, config_map(metadata=metadata, data={"a": "1"}))
        assert (reply.status, reply.body["data"]) == (200, {"a": "1"})
    reply = await api.apply(CONFIG_MAP, config_map(metadata={"name": "b"}))
    assert (reply.status, reply.body["message"]) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )


@pytest.mark.parametrize(
    ("containers", "code", "said"),
    [
        ([{"image": "b"}], 422, "spec.template.spec.containers[0].name: Required value"),
        ([{"name": "c", "image": "b"}, {"image": "b"}], 422, "spec.template.spec.containers[1].name: Required value"),
        ([{"name": None, "image": "b"}], 422, "spec.template.spec.containers[0].name: Required value"),
        ([{"image": "b"}, {"image": "d"}], 500, '.spec.template.spec.containers: duplicate entries for key [name=""]'),
        ([None], 500, "element 0: associative list with keys may not have a null element"),
    ],
)
async def test_item_of_a_built_in_kind_has_an_empty_key_where_it_lacks_one(
    api: Api, containers: list[Any], code: int, said: str
) -> None:
    """Source: cel-and-bodies.md, B9."""
    template = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "1"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    reply = await api.apply(DEPLOYMENT, body)
    assert (reply.status, said in reply.body["message"]) == (code, True), reply.body


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        (
            {"l": [{"v": 1}]},
            500,
            'element 0: associative list with keys has an element that omits all key fields ["k"]',
        ),
        ({"l": [{"k": None}]}, 422, "spec.l[0].k"),
        ({"s": [None]}, 500, "element 0: associative list without keys has an element that's an explicit null"),
        ({"s": [{}]}, 500, "element 0: associative list without keys has an element that's a map type"),
        ({"s": [["x"]]}, 500, "element 0: not supported: associative list with lists as elements"),
    ],
)
async def test_item_of_a_custom_resource_needs_its_key(api: Api, spec: Any, code: int, said: str) -> None:
    key = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}
    by_key = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": key}
    texts = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    fields = {"spec": {"type": "object", "properties": {"l": by_key, "s": texts}}}
    await api.post(DEFINITIONS, definition(version("v1", {"type": "object", "properties": fields})))
    reply = await api.apply(OBJECT, widget("a", spec))
    assert (reply.status, said in reply.body["message"]) == (code, True), reply.body


async def test_lists_that_go_always_writes_are_null_where_they_are_empty(api: Api) -> None:
    """Source: cel-and-bodies.md, B7; fields of k8s.io/api without omitempty."""
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    empty: tuple[dict[str, Any], ...] = ({}, {"endpoints": [], "ports": []})
    for number, given in enumerate(empty):
        made = await api.post(slices, {"metadata": {"name": f"e{number}"}, "addressType": "IPv4", **given})
        assert (made["endpoints"], made["ports"]) == (None, None)
    images = [{}, {"names": [], "sizeBytes": 5}]
    node = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"images": images}})
    assert node["status"]["images"] == [{"names": None}, {"names": None, "sizeBytes": 5}]
    limits = await api.post(f"{NAMESPACE}/limitranges", {"metadata": {"name": "l"}})
    assert limits["spec"] == {"limits": None}
