"""What a change of a definition breaks: on kube-apiserver where `KUBEBUILDER_ASSETS` names one, else on ours."""

import pytest

import kcr
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr.errors import InvalidError
from kcr.testing import eventually
from kcr_devcluster.testing.controlplane import ApiServer
from tests.kit.definition_pairs import PAIRS, definition_of

pytestmark = [pytest.mark.kcr_integration, pytest.mark.asyncio, pytest.mark.timeout(60)]


@pytest.mark.parametrize("name", PAIRS)
async def test_old_object_under_the_new_definition(kcr_apiserver: ApiServer, name: str) -> None:
    pair, client, plural = PAIRS[name], kcr_apiserver.client, f"kinds{[*PAIRS].index(name)}"
    kind = kcr.unstructured("ex.io/v1", plural.title(), plural=plural)
    spec = {"other": "o", **({} if pair.value is None and name != "null" else {"a": pair.value})}

    def manifest(called: str, spec: object) -> dict[str, object]:
        return {"metadata": {"name": called, "namespace": kcr_apiserver.namespace}, "spec": spec}

    async def is_served(default: str | None) -> bool:
        try:
            probe = await client.with_options(dry_run=True).create_manifest(kind, manifest("probe", {}))
        except InvalidError:
            return default is not None
        except kcr.ApiError as error:
            if error.code != 404:
                raise
            return False
        return bool(probe.get("marker") == default)

    await client.create_manifest(CustomResourceDefinition, definition_of(pair.old, plural=plural, is_new=False))
    await eventually(lambda: is_served(None), seconds=20)
    old = await client.create_manifest(kind, manifest("old", spec))
    new = definition_of(pair.new, plural=plural, is_new=True, required=pair.required)
    await client.merge_patch(CustomResourceDefinition, kcr.Key("", f"{plural}.ex.io"), {"spec": new["spec"]})
    await eventually(lambda: is_served("new"), seconds=20)

    broken = set()
    read = await client.get(kind, old.key)
    if any(read.get("spec").get(field) != value for field, value in old.get("spec").items()):
        broken.add("read")
    try:
        await client.merge_patch(kind, old.key, {"spec": {"other": "changed"}})
    except InvalidError:
        broken.add("write")
    try:
        created = await client.create_manifest(kind, manifest("again", spec))
        if "read" not in broken and created.get("spec") != {**created.get("spec"), **old.get("spec")}:
            broken.add("create")
    except InvalidError:
        broken.add("create")
    assert broken == pair.breaks
