"""Policies that `kcr policy generate` writes, on the server that evaluates them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import pytest

import kcr
from kcr_devcluster.generators.policies import policy_manifests
from tests.kit.api import Api
from tests.kit.policies import CONFIG_MAPS, DEPLOYMENTS, GROUP, deployment

pytestmark = pytest.mark.kcr_virtual


class Container(kcr.Object):
    name: str
    image: Annotated[str, kcr.Validation("!self.endsWith(':latest')", "pin the image")]


class PodSpec(kcr.Object):
    containers: Annotated[tuple[Container, ...], kcr.ListType("map", keys=("name",))] = ()


class Template(kcr.Object):
    spec: PodSpec


class WorkloadSpec(kcr.Object, validations=(kcr.Validation("self.replicas > 0", "too few"),)):
    replicas: Annotated[
        int,
        kcr.Validation("self <= 10", message_expression="'not ' + string(self)"),
        kcr.Validation("self >= oldSelf", "must not shrink"),
    ]
    template: Template


class Deployment(kcr.Resource, api_version="apps/v1", plural="deployments"):
    spec: WorkloadSpec


class Settings(kcr.Resource, api_version="v1", plural="configmaps", kind="ConfigMap"):
    data: Mapping[str, Annotated[str, kcr.Validation("self.size() < 4", "too long")]] = {}
    until: Annotated[datetime, kcr.Validation("self > timestamp('2026-01-01T00:00:00Z')")] | None = None


async def generated(api: Api, kind: type[kcr.Resource]) -> None:
    policy, binding = policy_manifests(kind, "generated")
    await api.post(f"{GROUP}/validatingadmissionpolicies", policy)
    await api.post(f"{GROUP}/validatingadmissionpolicybindings", binding)


def said(reply: Any) -> str:
    return str(reply.body.get("message", "")).partition("denied request: ")[2]


async def test_rules_of_a_class_are_enforced(api: Api) -> None:
    await generated(api, Deployment)
    good = deployment("d", 2)
    good["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:1"
    assert "pin the image" in said(await api.call("POST", DEPLOYMENTS, deployment("d", 2)))
    assert "not 11" in said(await api.call("POST", DEPLOYMENTS, {**good, "spec": {**good["spec"], "replicas": 11}}))
    made = await api.post(DEPLOYMENTS, good)
    made["spec"]["replicas"] = 1
    assert "must not shrink" in said(await api.call("PUT", f"{DEPLOYMENTS}/d", made))
    made["spec"]["replicas"] = 3
    await api.put(f"{DEPLOYMENTS}/d", made)


async def test_values_of_maps_are_checked(api: Api) -> None:
    await generated(api, Settings)
    long = {"metadata": {"name": "c"}, "data": {"a": "1", "b": "long"}}
    assert "too long" in said(await api.call("POST", CONFIG_MAPS, long))
    await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    await api.post(CONFIG_MAPS, {"metadata": {"name": "without"}})
