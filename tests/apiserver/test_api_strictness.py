"""`fieldValidation`: members that no type has, and members named twice (AS 12.2).

Source: kubernetes/test/integration/apiserver/field_validation_test.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, job

pytestmark = pytest.mark.kcr_virtual
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
STRAYS = b"""{
  "metadata": {"name": "a", "lables": {}}, "Data": 1,
  "spec": {"backofLimit": 3, "backoffLimit": 1, "backoffLimit": 2, "template": {"spec": {
    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "imagePullPolice": "Never"}]}}}
}"""
FOUND = [
    'unknown field "metadata.lables"', 'unknown field "Data"', 'unknown field "spec.backofLimit"',
    'duplicate field "spec.backoffLimit"', 'unknown field "spec.template.spec.containers[0].imagePullPolice"',
]  # fmt: skip


async def test_strict_validation_refuses_stray_members(api: Api) -> None:
    reply = await api.call("POST", f"{JOBS}?fieldValidation=Strict", STRAYS)
    words = f'Job in version "v1" cannot be handled as a Job: strict decoding error: {", ".join(FOUND)}'
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (400, "BadRequest", words)
    made = await api.post(JOBS, job("a"))
    reply = await api.call("PUT", f"{JOBS}/a?fieldValidation=Strict", {**made, "bogus": 1})
    assert (reply.status, reply.body["message"].rpartition(": ")[2]) == (400, 'unknown field "bogus"')


@pytest.mark.parametrize("form", ["merge-patch", "strategic-merge-patch"])
async def test_strict_validation_refuses_stray_members_of_patches(api: Api, form: str) -> None:
    await api.post(JOBS, job("a"))
    body, content_type = b'{"spec": {"backofLimit": 1, "suspend": true, "suspend": true}}', f"application/{form}+json"
    reply = await api.call("PATCH", f"{JOBS}/a?fieldValidation=Strict", body, content_type=content_type)
    assert reply.status == 422
    assert reply.body["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    strays = 'duplicate field "spec.suspend", unknown field "spec.backofLimit"'
    assert reply.body["message"].endswith(f'": strict decoding error: {strays}')
    assert (await api.get(f"{JOBS}/a"))["spec"]["suspend"] is False


@pytest.mark.parametrize(
    ("query", "warned"),
    [
        pytest.param("", FOUND, id="default"),
        pytest.param("?fieldValidation=Warn", FOUND, id="warn"),
        pytest.param("?fieldValidation=Ignore", [], id="ignore"),
    ],
)
async def test_stray_members_are_dropped_with_a_warning(api: Api, query: str, warned: list[str]) -> None:
    reply = await api.call("POST", f"{JOBS}{query}", STRAYS)
    said = ", ".join('299 - "{}"'.format(text.replace('"', '\\"')) for text in warned)
    assert (reply.status, reply.headers.get("Warning", "")) == (201, said)
    spec = reply.body["spec"]
    assert (spec["backoffLimit"], "backofLimit" in spec, "Data" in reply.body) == (2, False, False)
    assert "imagePullPolice" not in spec["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("method", "target", "body", "code"),
    [
        pytest.param("POST", CONFIG_MAPS, {"metadata": {"name": "A_"}, "dat": {}}, 422, id="create"),
        pytest.param("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}, "dat": {}}, 400, id="update"),
        pytest.param("PATCH", f"{CONFIG_MAPS}/a", {"data": {"/": "x"}, "dat": {}}, 422, id="patch"),
        pytest.param(
            "POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "a"}, "dat": {}}, 404, id="gone"
        ),
    ],
)
async def test_refusals_carry_the_warnings(api: Api, method: str, target: str, body: dict[str, Any], code: int) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    reply = await api.call(method, target, body, content_type=content_type)
    assert (reply.status, reply.headers.get("Warning")) == (code, '299 - "unknown field \\"dat\\""')


async def test_fields_of_kinds_without_rules_of_their_own_are_checked(api: Api) -> None:
    services = "/api/v1/namespaces/default/services"
    stray = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80, "prot": "x"}], "sessionAffinity": "None"}}
    reply = await api.call("POST", f"{services}?fieldValidation=Strict", stray)
    words = 'Service in version "v1" cannot be handled as a Service: strict decoding error: '
    assert (reply.status, reply.body["message"]) == (400, f'{words}unknown field "spec.ports[0].prot"')
    reply = await api.call("POST", services, stray)
    assert reply.headers["Warning"].startswith(
        '299 - "unknown field \\"spec.ports[0].prot\\"", 299 - "the address of a Service leads nowhere here: '
    )
    assert reply.body["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    reply = await api.call("POST", services, {"metadata": {"name": "b"}, "spec": {"ports": {"port": 80}}})
    words = "json: cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort"
    assert (reply.status, reply.body["message"].partition(": ")[2]) == (400, words)


async def test_warning_that_no_header_can_carry_is_left_out(api: Api) -> None:
    reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "line\nbreak": 1})
    assert (reply.status, "Warning" in reply.headers) == (201, False)
