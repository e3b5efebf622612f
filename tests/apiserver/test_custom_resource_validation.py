"""Custom resources that their schema refuses, in the words of kube-apiserver.

Source: api-server §21.4; k8s.io/kube-openapi/pkg/validation/errors/schema.go; kubernetes/staging/src/k8s.io/
apiextensions-apiserver/pkg/apiserver/{validation,schema/listtype,schema/objectmeta}/validation.go.
"""

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual
TEXT: Json = {"type": "string"}


async def test_what_did_not_change_is_not_refused(api: Api) -> None:
    free = spec_schema({"x": TEXT, "y": TEXT})
    await api.post(DEFINITIONS, definition(version("v1", free)))
    await api.post(WIDGETS, widget("w", {"x": "long", "y": "a"}))
    strict = spec_schema({"x": {"type": "string", "maxLength": 1}, "y": TEXT})
    await api.patch(f"{DEFINITIONS}/widgets.ex.io", {"spec": {"versions": [version("v1", strict)]}})
    assert (await api.patch(f"{WIDGETS}/w", {"spec": {"y": "b"}}))["spec"] == {"x": "long", "y": "b"}
    reply = await api.call(
        "PATCH", f"{WIDGETS}/w", {"spec": {"x": "other"}}, content_type="application/merge-patch+json"
    )
    assert reply.status == 422


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        pytest.param(
            {"metadata": {"name": "w"}}, 400,
            "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in "
            '\'{"metadata":{"name":"w"}}\'',
            id="no-kind",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": "w"}}, 422,
            'Foo.ex.io "w" is invalid: kind: Invalid value: "Foo": must be Widget', id="other-kind",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v2", "kind": "Widget", "metadata": {"name": "w"}}, 400,
            "the API version in the data (ex.io/v2) does not match the expected API version (ex.io/v1)",
            id="other-version",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": 1}}}, 400,
            'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number', id="label-of-1",
        ),
        pytest.param(
            {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "W"}}, 422,
            'Widget.ex.io "W" is invalid: metadata.name: Invalid value: "W": a lowercase RFC 1123 subdomain',
            id="name",
        ),
    ],
)  # fmt: skip
async def test_object_of_another_type_is_refused(api: Api, body: Json, status: int, message: str) -> None:
    await api.post(DEFINITIONS, definition(version("v1", spec_schema({}))))
    reply = await api.call("POST", WIDGETS, body)
    assert reply.status == status
    assert reply.body["message"].startswith(message)
