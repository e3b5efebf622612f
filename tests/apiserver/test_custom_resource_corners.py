"""Corners of custom resources and their definitions that random requests have found."""

import pytest

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual

SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
REPLICAS = spec_schema({"replicas": {"type": "integer"}})


async def test_scale_of_no_replicas_is_read_and_written(api: Api) -> None:
    """In JSON, a Scale leaves the zero out. Source: customresource/etcd.go, scaleFromCustomResource."""
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS, subresources=SCALE)))
    await api.post(WIDGETS, widget("w", {"replicas": 0}))
    assert (await api.get(f"{WIDGETS}/w/scale"))["spec"] == {}
    await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 2}})
    assert (await api.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 0}}))["spec"] == {}
    assert (await api.get(f"{WIDGETS}/w"))["spec"] == {"replicas": 0}


async def test_terminating_definition_can_be_written(api: Api) -> None:
    """Source: apimachinery/pkg/api/validation/objectmeta.go, ValidateFinalizers; no rule of the core's is added."""
    target = f"{DEFINITIONS}/widgets.ex.io"
    await api.post(DEFINITIONS, definition(version("v1", REPLICAS)))
    await api.post(WIDGETS, widget("w", metadata={"name": "w", "finalizers": ["a.b/c"]}))
    await api.delete(target)
    found = await api.get(target)
    assert (await api.put(target, found)) == found
    await api.patch(target, {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    assert (await api.call("GET", target)).status == 404
