"""Kinds by the names that people give them, on the embedded server's discovery."""

import json

import pytest

from kcr.api.resources import ResourceType
from kcr.client.discovery import ServedKind, all_served_kinds, find_kind, near_names
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.custom_resources import DEFINITIONS, definition, spec_schema, version

pytestmark = pytest.mark.kcr_virtual

DEPLOYMENT = ResourceType("apps", "v1", "Deployment", "deployments")
WIDGET = ResourceType("ex.io", "v1", "Widget", "widgets")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deployments", DEPLOYMENT),
        ("deployment", DEPLOYMENT),
        ("Deployment", DEPLOYMENT),
        ("deploy", DEPLOYMENT),
        ("deployments.apps", DEPLOYMENT),
        ("deployment.v1.apps", DEPLOYMENT),
        ("node", ResourceType("", "v1", "Node", "nodes", namespaced=False)),
        ("events.v1", ResourceType("", "v1", "Event", "events")),
        ("Widget", WIDGET),
        ("wd.ex.io", WIDGET),
        ("deployments.ex.io", None),
        ("deployments.v2.apps", None),
        ("gizmos", None),
    ],
)
async def test_kinds_are_found_as_kubectl_finds_them(
    kcr_cluster: EmbeddedCluster, text: str, expected: ResourceType | None
) -> None:
    made = json.dumps(definition(version("v1", spec_schema({})), shortNames=["wd"]))
    await kcr_cluster.client.request("POST", DEFINITIONS, made.encode())
    await eventually(lambda: _is_served(kcr_cluster))
    found = find_kind(await all_served_kinds(kcr_cluster.client), text)
    assert (found.resource if found else None) == expected


async def _is_served(cluster: EmbeddedCluster) -> bool:
    return find_kind(await all_served_kinds(cluster.client), "widgets") is not None


async def test_names_that_are_spelled_alike_are_near(kcr_cluster: EmbeddedCluster) -> None:
    kinds = await all_served_kinds(kcr_cluster.client)
    assert near_names(kinds, "deploymnet")[0] == "deployments.apps"
    assert near_names(kinds, "xyzzy") == ()


def test_short_name_goes_before_the_whole_name_of_another_kind() -> None:
    db = ServedKind(ResourceType("a.dev", "v1", "DB", "dbs"), "db", ())
    database = ServedKind(ResourceType("shop.dev", "v1", "Database", "databases"), "database", ("db",))
    assert find_kind((db, database), "db") == database
    assert find_kind((db, database), "db.a.dev") == db
    assert find_kind((db, database), "dbs") == db
