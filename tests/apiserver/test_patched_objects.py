"""Patches whose answers a comparison with kube-apiserver 1.36.2 found different, a row each.

Source: kubernetes/vendor/gopkg.in/evanphx/json-patch.v4; k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.kit.api import Api, config_map
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget

pytestmark = pytest.mark.kcr_virtual
NAMESPACE = "/api/v1/namespaces/default"
CONFIG_MAP, NODE, OBJECT = f"{NAMESPACE}/configmaps/a", "/api/v1/nodes/a", f"{WIDGETS}/a"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/a"
JSON, MERGE, STRATEGIC = (f"application/{form}+json" for form in ("json-patch", "merge-patch", "strategic-merge-patch"))
REJECTED = "the server rejected our request due to an error in our request"
SPEC = {"i": 1, "f": 1.5, "l": [1, 2, 3], "o": {"b": 1, "a": 2}, "n": None, "s": "a<b", "e": "é", "sl": "a/b"}
CONTAINER = {"name": "c", "image": "b", "ports": [{"containerPort": 80}]}


@pytest_asyncio.fixture
async def patched(api: Api) -> Api:
    """Store an object of each kind that is patched."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await api.post(DEFINITIONS, definition(version("v1", anything)))
    await api.post(WIDGETS, widget("a", SPEC))
    await api.post(f"{NAMESPACE}/configmaps", config_map("a"))
    await api.post("/api/v1/nodes", {"metadata": {"name": "a"}})
    template = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"selector": {"matchLabels": {"a": "1"}}, "template": template}
    await api.post("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "a"}, "spec": spec})
    return api


async def answer(api: Api, target: str, media: str, patch: bytes) -> tuple[int, Any]:
    """Return the code, and the message of a failure or the patched object."""
    reply = await api.call("PATCH", f"{target}?dryRun=All", patch, content_type=media)
    return reply.status, reply.body["message"] if reply.status >= 400 else reply.body


@pytest.mark.parametrize(
    ("field", "value", "holds"),
    [
        ("i", b"1", True), ("i", b"1.0", False), ("i", b"1e0", False), ("f", b"1.5", True), ("f", b"1.50", False),
        ("l", b"[1, 2,3]", True), ("l", b"[1.0,2,3]", False), ("l", b"[3,2,1]", False), ("l", b'{"0":1}', False),
        ("o", b'{"a":2,"b":1}', True), ("o", b'{"b":1,"a":2.0}', False), ("o", b'{"b":1}', False),
        ("e", '"é"'.encode(), True), ("e", rb'"\u00e9"', False), ("sl", b'"a/b"', True), ("sl", rb'"a\/b"', False),
        ("s", rb'"a\u003cb"', True), ("s", b'"a<b"', False), ("n", b"null", True), ("nope", b"null", True),
        ("i", b"null", False), ("nope/x", b"null", False),
    ],
)  # fmt: skip
async def test_values_are_tested_by_their_text(patched: Api, field: str, value: bytes, holds: bool) -> None:
    """Source: cel-and-bodies.md, B4."""
    patch = b'[{"op":"test","path":"/spec/%s","value":%s}]' % (field.encode(), value)
    code, said = await answer(patched, OBJECT, JSON, patch)
    assert (code, said if code == 422 else None) == ((200, None) if holds else (422, REJECTED))


@pytest.mark.parametrize(
    ("operations", "changes"),
    [
        ('{"op":"add","path":"/spec/i"}', {"i": None}),
        ('{"op":"replace","path":"/spec/l/0"}', {"l": [None, 2, 3]}),
        ('{"op":"replace","path":"/spec/new"}', {"new": None}),
        ('{"op":"add","path":"/spec/l/01","value":9}', {"l": [1, 9, 2, 3]}),
        ('{"op":"replace","path":"/spec/l/+1","value":9}', {"l": [1, 9, 3]}),
        ('{"op":"remove","path":"/spec/l/00"}', {"l": [2, 3]}),
        ('{"op":"remove","path":"/spec/l/-01"}', {"l": [1, 2]}),
        ('{"op":"add","path":"x/spec/q","value":1}', {"q": 1}),
        ('{"op":"copy","path":"x/spec/q","from":"y/spec/i"}', {"q": 1}),
        ('{"op":"add","path":"spec/q","value":1}', {}),
        ('{"op":"add","path":"/spec/q","value":1.0},{"op":"test","path":"/spec/q","value":1.0}', {"q": 1}),
    ],
)
async def test_operation_is_read_as_upstream_reads_it(patched: Api, operations: str, changes: dict[str, Any]) -> None:
    """Source: cel-and-bodies.md, B4 and B25."""
    code, made = await answer(patched, OBJECT, JSON, f"[{operations}]".encode())
    assert (code, made["spec"]) == (200, {**SPEC, **changes})


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (b'{"op":"add"}', "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b"1", "json: cannot unmarshal number into Go value of type []handlers.jsonPatchOp"),
        (b"[[]]", "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
        (b'[{"op":1}]', "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            b'[{"op":"add","path":[]}]',
            "json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
async def test_document_that_is_no_json_patch_is_refused(patched: Api, patch: bytes, said: str) -> None:
    assert await answer(patched, OBJECT, JSON, patch) == (400, f"error decoding patch: {said}")


@pytest.mark.parametrize("patch", [b"null", b"[]"])
async def test_patch_without_operations_changes_nothing(patched: Api, patch: bytes) -> None:
    assert (await answer(patched, OBJECT, JSON, patch))[0] == 200


async def test_whole_object_can_be_tested_and_replaced(patched: Api) -> None:
    whole = await patched.get(CONFIG_MAP)
    test = msgspec.json.encode([{"op": "test", "path": "", "value": whole}])
    assert (await answer(patched, CONFIG_MAP, JSON, test))[0] == 200
    new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"z": "1"}}
    replace = msgspec.json.encode([{"op": "replace", "path": "", "value": new}])
    code, made = await answer(patched, CONFIG_MAP, JSON, replace)
    assert (code, made["data"]) == (200, {"z": "1"})
    other = msgspec.json.encode([{"op": "replace", "path": "", "value": widget("a", {})}])
    assert await answer(patched, OBJECT, JSON, other) == (
        422,
        f'widgets.ex.io "a" is invalid: {NO_VERSION}',
    )  # fmt: skip


NAMELESS = "the name of the object (a based on URL) was undeterminable: name must be provided"
OTHER_NAME = "the name of the object (x) does not match the name on the URL (a)"
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
NO_VERSION = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"


@pytest.mark.parametrize(
    ("target", "patch", "code", "said"),
    [
        *((target, b'{"metadata":{"name":"x"}}', 400, OTHER_NAME) for target in (CONFIG_MAP, NODE, OBJECT)),
        *((target, b'{"metadata":{"name":null}}', 400, NAMELESS) for target in (CONFIG_MAP, NODE, OBJECT)),
        *((target, b'{"metadata":null}', 400, NAMELESS) for target in (CONFIG_MAP, NODE, OBJECT)),
        *((target, b'{"metadata":{"namespace":"x"}}', 400, OTHER_NAMESPACE) for target in (CONFIG_MAP, OBJECT)),
        (NODE, b'{"metadata":{"namespace":"x"}}', 200, ""),
        (CONFIG_MAP, b'{"kind":null}', 200, ""),
        (CONFIG_MAP, b'{"apiVersion":null}', 400, NAMELESS),
        (CONFIG_MAP, b'{"kind":"Foo"}', 422, 'no kind "Foo" is registered for version "v1" in scheme'),
        (CONFIG_MAP, b'{"kind":"Pod"}', 422, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        (CONFIG_MAP, b'{"kind":1}', 422, "json: cannot unmarshal number into Go struct field .kind of type string"),
        (OBJECT, b'{"kind":"Foo"}', 422, 'Foo.ex.io "a" is invalid: kind: Invalid value: "Foo": must be Widget'),
        (OBJECT, b'{"apiVersion":"v2"}', 422, 'Widget "a" is invalid: apiVersion: Invalid value: "v2": must be'),
        (OBJECT, b'{"kind":null}', 422, "Object 'Kind' is missing in '"),
        (OBJECT, b'{"apiVersion":null}', 500, "Object 'apiVersion' is missing in 'object has no apiVersion field'"),
        (OBJECT, b'{"metadata":{"resourceVersion":null}}', 422, NO_VERSION),
        (CONFIG_MAP, b'{"metadata":{"resourceVersion":null}}', 200, ""),
        (CONFIG_MAP, b'{"metadata":{"resourceVersion":"x"}}', 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        (CONFIG_MAP, b"null", 400, "Invalid JSON Patch"),
    ],
)  # fmt: skip
async def test_patch_that_makes_another_object_is_refused(
    patched: Api, target: str, patch: bytes, code: int, said: str
) -> None:
    """Source: cel-and-bodies.md, B8."""
    found, told = await answer(patched, target, MERGE, patch)
    assert (found, said in str(told)) == (code, True), told


async def test_put_to_another_namespace_is_refused_before_its_version_is_read(patched: Api) -> None:
    for target, made in ((CONFIG_MAP, config_map("a")), (OBJECT, widget("a", {})), (f"{CONFIG_MAP}b", config_map("x"))):
        made["metadata"]["namespace"] = "x"
        reply = await patched.call("PUT", target, made)
        assert (reply.status, reply.body["message"]) == (400, OTHER_NAMESPACE)


async def test_strategic_patch_keeps_the_type_and_takes_whole_numbers(patched: Api) -> None:
    """Source: cel-and-bodies.md, B25."""
    ports = (
        b'{"spec":{"replicas":3.0,"template":{"spec":{"containers":[{"name":"c","ports":[{"containerPort":8e1}]}]}}}}'
    )
    code, made = await answer(patched, DEPLOYMENT, STRATEGIC, ports)
    assert (code, made["spec"]["replicas"]) == (200, 3)
    assert (await answer(patched, DEPLOYMENT, STRATEGIC, b'{"spec":{"replicas":3.5}}'))[0] == 422
    assert (await answer(patched, CONFIG_MAP, STRATEGIC, b'{"kind":"Foo","apiVersion":"apps/v1"}'))[1][
        "kind"
    ] == "ConfigMap"
    assert (await answer(patched, CONFIG_MAP, STRATEGIC, b"null"))[0] == 200
    assert await answer(patched, CONFIG_MAP, STRATEGIC, b'{"$patch":"delete"}') == (400, NAMELESS)
    said = "json: cannot unmarshal array into Go value of type map[string]interface {}"
    assert await answer(patched, CONFIG_MAP, STRATEGIC, b"[]") == (400, said)


@pytest.mark.parametrize(
    ("patch", "changes"),
    [
        ('{"l":[1,null,{"a":null}]}', {"l": [1, None, {}]}),
        ('{"l":[[null,{"a":null,"b":{"c":null}}]]}', {"l": [[None, {"b": {}}]]}),
        ('{"new":{"a":null,"l":[{"a":null}]}}', {"new": {"l": [{}]}}),
        ('{"o":[{"a":null}]}', {"o": [{"a": None}]}),
        ('{"i":{"a":null}}', {"i": {}}),
    ],
)
async def test_merge_patch_drops_nulls_of_new_objects(patched: Api, patch: str, changes: dict[str, Any]) -> None:
    """Source: cel-and-bodies.md, B18."""
    code, made = await answer(patched, OBJECT, MERGE, f'{{"spec":{patch}}}'.encode())
    assert (code, made["spec"]) == (200, {**SPEC, **changes})


async def test_refused_merge_patch_is_shown_with_the_fields_that_it_changed_in_order(patched: Api) -> None:
    patch = b'{"metadata":{"labels":{"z":"1","b":"2"}},"data":{"z":"1","b":"2"},"binaryData":{"x":"!"}}'
    code, refused = await answer(patched, CONFIG_MAP, MERGE, patch)
    shown = refused.partition('Invalid value: "')[2].partition('": illegal base64')[0]
    made = msgspec.json.decode(shown.replace('\\"', '"'))
    assert (code, [*made]) == (422, ["apiVersion", "binaryData", "data", "kind", "metadata"])
    assert [*made["metadata"]] == sorted(made["metadata"])
    assert ([*made["data"]], [*made["metadata"]["labels"]]) == (
        sorted(made["data"]),
        sorted(made["metadata"]["labels"]),
    )


async def test_owners_of_one_uid_with_other_names_are_kept(patched: Api) -> None:
    """Source: cel-and-bodies.md, B5."""
    owners = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": "u"} for name in ("x", "y", "x")]
    patch = msgspec.json.encode({"metadata": {"ownerReferences": owners}})
    code, made = await answer(patched, CONFIG_MAP, MERGE, patch)
    assert (code, made["metadata"]["ownerReferences"]) == (200, owners[:2])


async def test_numbers_of_custom_resources_are_stored_as_go_writes_them(patched: Api) -> None:
    """Source: cel-and-bodies.md, B6."""
    given = b"[1.0,1e2,-0.0,12345678901234567890,1e20,0.5,100.50,9223372036854775807]"
    body = b'{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"n"},"spec":{"a":%s}}' % given
    reply = await patched.call("POST", WIDGETS, body)
    stored = await patched.get(f"{WIDGETS}/n")
    expected = "[1, 100, 0, 12345678901234567000, 100000000000000000000, 0.5, 100.5, 9223372036854775807]"
    assert str(reply.body["spec"]["a"]) == str(stored["spec"]["a"]) == expected
    schema = {"type": "object", "properties": {"a": {"type": "number", "default": 1.0, "enum": [1.0, 2.5]}}}
    await patched.post(DEFINITIONS, definition(version("v1", schema), plural="things", kind="Thing"))
    shown = await patched.get(f"{DEFINITIONS}/things.ex.io")
    field = shown["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]
    assert str((field["default"], field["enum"])) == "(1, [1, 2.5])"
