"""Server-side apply of objects that a webhook converts: managers own fields in their own versions.

Source: sigs.k8s.io/structured-merge-diff, merge/{update,multiple_appliers_test,obsolete_versions_test}.go.
"""

from typing import Any

import pytest

from kcr.client import Client
from kcr_devcluster.generators.migration import migrate_definition
from kcr_devcluster.transport import InProcessTransport
from tests.kit.api import Api
from tests.kit.conversion_webhooks import V1, V2, install, redefine, v1, v2
from tests.kit.custom_resources import DEFINITIONS, Json

pytestmark = pytest.mark.kcr_virtual


def owned(obj: Json) -> dict[str, tuple[str, list[str]]]:
    """Return the version and the fields of the spec that each manager owns."""
    return {
        one["manager"]: (
            one["apiVersion"],
            sorted(name[2:] for name in one["fieldsV1"].get("f:spec", {}) if name != "."),
        )
        for one in obj["metadata"]["managedFields"]
    }


async def apply(api: Api, path: str, body: Json, manager: str, query: str = "") -> Any:
    reply = await api.apply(f"{path}/w", body, manager, query)
    assert reply.status < 300, reply.body
    return reply.body


async def test_write_in_another_version_keeps_unchanged_fields(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w", {"host": "a", "port": 1, "replicas": 2}), "m")
    found = await api.patch(f"{V2}/w", {"metadata": {"labels": {"a": "b"}}})
    assert owned(found)["m"] == ("ex.io/v1", ["host", "port", "replicas"])
    found = await api.patch(f"{V2}/w?fieldManager=other", {"spec": {"address": "b:1"}})
    assert owned(found) == {
        "m": ("ex.io/v1", ["port", "replicas"]), "unknown": ("ex.io/v2", []), "other": ("ex.io/v2", ["address"]),
    }  # fmt: skip


async def test_conflict_names_the_field_of_the_other_version(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w"), "m")
    reply = await api.apply(f"{V2}/w", v2("w", {"address": "b:1"}), "n")
    assert reply.status == 409
    assert reply.body["message"] == 'Apply failed with 1 conflict: conflict with "m": .spec.host'
    found = await apply(api, V2, v2("w", {"address": "b:1"}), "n", "force=true")
    assert owned(found) == {"m": ("ex.io/v1", ["port"]), "n": ("ex.io/v2", ["address"])}


async def test_same_value_in_another_version_is_no_conflict(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w"), "m")
    found = await apply(api, V2, v2("w"), "n")
    assert owned(found) == {"m": ("ex.io/v1", ["host", "port"]), "n": ("ex.io/v2", ["address"])}


async def test_manager_that_changes_its_version_gives_up_the_rest(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w", {"host": "a", "port": 1, "replicas": 2}), "m")
    found = await apply(api, V2, v2("w"), "m")
    assert (found["spec"], owned(found)) == ({"address": "a:1"}, {"m": ("ex.io/v2", ["address"])})
    assert (await api.get(f"{V1}/w"))["spec"] == {"host": "a", "port": 1}


async def test_field_that_another_version_owns_is_not_pruned(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w", {"host": "a", "port": 1, "replicas": 2}), "m")
    await apply(api, V2, v2("w", {"size": 2}), "n")
    found = await apply(api, V1, v1("w"), "m")
    assert found["spec"] == {"host": "a", "port": 1, "replicas": 2}
    assert owned(found) == {"m": ("ex.io/v1", ["host", "port"]), "n": ("ex.io/v2", ["size"])}


async def test_scale_is_owned_in_the_version_that_was_written(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w", {"host": "a", "port": 1, "replicas": 2}), "m")
    scale: Json = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 5}}
    reply = await api.apply(f"{V2}/w/scale", scale, "autoscaler")
    assert (reply.status, reply.body["message"]) == (
        409, 'Apply failed with 1 conflict: conflict with "m": .spec.replicas',
    )  # fmt: skip
    assert (await api.apply(f"{V2}/w/scale", scale, "autoscaler", "force=true")).status == 200
    found = await api.get(f"{V1}/w")
    assert owned(found) == {"m": ("ex.io/v1", ["host", "port"]), "autoscaler": ("ex.io/v2", ["size"])}


async def test_managers_of_a_version_that_is_gone_own_nothing(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w"), "m")
    await redefine(api, "v2")
    await migrate_definition(Client(InProcessTransport(api.server)), "widgets.ex.io")
    path = f"{DEFINITIONS}/widgets.ex.io"
    versions = (await api.get(path))["spec"]["versions"]
    await api.patch(path, {"spec": {"versions": [one for one in versions if one["name"] == "v2"]}})
    found = await apply(api, V2, v2("w", {"address": "b:1"}), "n")
    assert owned(found) == {"n": ("ex.io/v2", ["address"])}


async def test_apply_that_changes_nothing_stores_nothing(api: Api) -> None:
    await install(api)
    await apply(api, V1, v1("w"), "m")
    made = await apply(api, V2, v2("w"), "n")
    assert await apply(api, V2, v2("w"), "n") == made


async def test_managers_stay_where_the_webhook_fails_for_a_plain_write(api: Api) -> None:  # kubernetes#136919
    converter = await install(api)
    await apply(api, V1, v1("w"), "m")
    before = await apply(api, V2, v2("w"), "n")
    converter.status = 500
    found = await api.patch(f"{V1}/w", {"metadata": {"labels": {"a": "b"}}})
    assert found["metadata"]["labels"] == {"a": "b"}
    assert owned(found) == owned(before)
    reply = await api.apply(f"{V1}/w", v1("w", {"host": "c", "port": 1}), "m")
    assert (reply.status, "conversion webhook" in reply.body["message"]) == (500, True)
    converter.status = 200
    found = await api.patch(f"{V1}/w?fieldManager=o", {"metadata": {"labels": {"a": "c"}}})
    assert set(owned(found)) == {"m", "n", "o"}
