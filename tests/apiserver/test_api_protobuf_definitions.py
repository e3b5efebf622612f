"""CustomResourceDefinitions in protobuf, as the typed client of apiextensions sends and reads them.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/{generated.proto,marshal.go}.
"""

from struct import pack
from typing import Any

import pytest

from kcr_devcluster.apiserver.schema.protobuf import decode
from tests.kit.api import Api
from tests.kit.custom_resources import definition, version
from tests.kit.protobuf import PROTOBUF, body, entry, message

pytestmark = pytest.mark.kcr_virtual
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "none", "reason": "FieldValueInvalid"}],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9.5, "default": 3},
                "names": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 0},
                "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
                "rest": {"type": "object", **ANYTHING},
            },
        }
    },
}
COLUMNS = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]
SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
SENT = definition(version("v1", SCHEMA, additionalPrinterColumns=COLUMNS, subresources={"status": {}, "scale": SCALE}))


def double(number: int, value: float) -> bytes:
    """A field with a double, which has eight bytes and no length."""
    return bytes([number << 3 | 1]) + pack("<d", value)


def field(name: str, *schema: tuple[int, int | str | bytes]) -> tuple[int, bytes]:
    """A property of a schema."""
    return 29, entry(name, message(*schema))


def test_schemas_are_read_by_their_numbers() -> None:
    items = message((1, message((5, "string"), (20, message((1, b'"a"'))))))
    size = message((5, "integer"), (8, message((1, b"3")))) + double(11, 1) + double(9, 9.5)
    schema = message(
        (5, "object"), (29, entry("size", size)), field("names", (5, "array"), (16, 0), (24, items)),
        field("labels", (5, "object"), (30, message((1, 1), (2, message((5, "string"), (37, 1)))))),
        field("any", (5, "object"), (30, message((1, 1)))), field("none", (5, "object"), (30, message((1, 0)))),
        (44, message((1, "true"), (2, ""))),
    )  # fmt: skip
    one = message((1, "v1"), (2, 1), (3, 1), (4, message((1, schema))))
    spec = message((1, "ex.io"), (3, message((1, "widgets"), (4, "Widget"))), (4, "Namespaced"), (7, one))
    read = decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, spec))))["spec"]["versions"]
    found = read[0]["schema"]["openAPIV3Schema"]
    assert found["properties"] == {
        "size": {"type": "integer", "default": 3, "minimum": 1, "maximum": 9.5},
        "names": {"type": "array", "maxItems": 0, "items": {"type": "string", "enum": ["a"]}},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        "any": {"type": "object", "additionalProperties": True},
        "none": {"type": "object", "additionalProperties": False},
    }
    assert found["x-kubernetes-validations"] == [{"rule": "true", "message": ""}]


async def test_definition_is_got_and_put_unchanged(api: Api) -> None:
    made = await api.post(DEFINITIONS, SENT)
    target = f"{DEFINITIONS}/{made['metadata']['name']}"
    stored = await api.get(target)
    read = (await api.call("GET", target, accept=PROTOBUF)).body
    assert decode(read)["spec"] == stored["spec"]
    # The same resourceVersion: nothing was written.
    assert (await api.call("PUT", target, read, content_type=PROTOBUF)).body == stored


async def test_kind_is_served_after_its_definition_came_in_protobuf(api: Api) -> None:
    made = await api.call("POST", f"{DEFINITIONS}?dryRun=All", SENT, accept=PROTOBUF)
    reply = await api.call("POST", DEFINITIONS, made.body, content_type=PROTOBUF, accept=PROTOBUF)
    assert (reply.status, reply.headers["Content-Type"]) == (201, PROTOBUF)
    widget = {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    assert (await api.post("/apis/ex.io/v1/namespaces/default/widgets", widget))["spec"] == {"size": 3}
