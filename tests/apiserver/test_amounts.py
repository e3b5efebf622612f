"""Amounts of resources in quotas and limits, as kube-apiserver 1.36.2 reads and checks them.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateResourceQuantityValue; apimachinery's Quantity.
"""

from typing import Any

import pytest

from tests.kit.api import Api

pytestmark = pytest.mark.kcr_virtual
QUOTAS, PODS = "/api/v1/namespaces/default/resourcequotas", "/api/v1/namespaces/default/pods"
STORAGE = "gold.storageclass.storage.k8s.io/requests.storage"


@pytest.mark.parametrize("amount", ["100m", "1.5", ".5", "1n", "1e-3", "1Ei"])
@pytest.mark.parametrize("name", ["example.com/gpu", STORAGE, "count/pods", "services.nodeports"])
async def test_quota_of_things_that_are_counted_is_an_integer(api: Api, name: str, amount: str) -> None:
    """Source: cel-and-bodies.md, B19."""
    reply = await api.call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {name: amount}}})
    assert (reply.status, reply.body["message"].endswith("must be an integer")) == (422, True)


@pytest.mark.parametrize("name", ["requests.example.com/gpu", "cpu", "requests.storage"])
async def test_quota_of_anything_else_may_be_a_fraction(api: Api, name: str) -> None:
    assert (await api.call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {name: "1.5"}}})).status == 201


@pytest.mark.parametrize(("limit", "code"), [("1Ei", 422), ("8Ei", 201), ("9223372036854775807", 201), ("1e-3", 422)])
async def test_limit_of_a_device_fits_into_thousandths(api: Api, limit: str, code: int) -> None:
    resources = {"limits": {"example.com/gpu": limit}}
    spec = {"containers": [{"name": "c", "image": "b", "resources": resources}]}
    assert (await api.call("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})).status == code


@pytest.mark.parametrize(
    ("given", "stored"),
    [(" 1", "1"), ("1 ", "1"), (" 1Gi", "1Gi"), (".", "0"), ("Ki", "0"), (1.5, "1500m"), (1000, "1k")],
)
async def test_amount_is_trimmed_and_may_lack_digits(api: Api, given: Any, stored: str) -> None:
    """Source: cel-and-bodies.md, B20."""
    made = await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": given}}})
    assert made["spec"]["hard"] == {"cpu": stored}


@pytest.mark.parametrize("given", [True, {}, [1], "1 Gi", "0x10", "1_000", ""])
async def test_value_that_is_no_amount_is_refused_by_its_form(api: Api, given: Any) -> None:
    reply = await api.call("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": given}}})
    assert (reply.status, "quantities must match the regular expression" in reply.body["message"]) == (400, True)
