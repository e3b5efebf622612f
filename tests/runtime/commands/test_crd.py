"""`kcr crd migrate` on a cluster that listens."""

from typing import Any

from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, Json, definition, spec_schema, version, widget
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

NAME = "widgets.ex.io"
SCHEMA: Json = spec_schema({"a": {"type": "string"}})


def versions(stored: str) -> Json:
    return definition(*(version(name, SCHEMA, storage=name == stored) for name in ("v1", "v2")))


async def prepare(api: Api) -> None:
    """Store objects in version 1, and make version 2 the storage version."""
    await api.post(DEFINITIONS, versions("v1"))
    for number in range(5):
        await api.post(WIDGETS, widget(f"w{number}", {"a": "1"}))
    await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": versions("v2")["spec"]})


async def stored_versions(api: Api) -> Any:
    return (await api.get(f"{DEFINITIONS}/{NAME}"))["status"]["storedVersions"]


def test_objects_are_migrated_with_progress(served: ServedCluster, kcr: Command) -> None:
    api = Api(served.cluster.server)
    served.call(prepare(api))
    dry = kcr("crd", "migrate", NAME, "--dry-run")
    assert (dry.code, dry.lines) == (0, [f"{NAME}: 5 objects are stored in v2; v1 removed (dry run)"])
    assert served.call(stored_versions(api)) == ["v1", "v2"]
    done = kcr("crd", "migrate", NAME, "--chunk-size", "2")
    assert (done.code, done.lines) == (0, [f"{NAME}: 5 objects are stored in v2; v1 removed"])
    assert done.err.splitlines() == [f"{NAME}: {number} of 5 objects" for number in (2, 4, 5)]
    assert served.call(stored_versions(api)) == ["v2"]
    again = kcr("crd", "migrate", NAME)
    assert (again.code, again.lines, again.err) == (0, [f"{NAME}: all objects are stored in v2"], "")


def test_failures_are_one_line(kcr: Command) -> None:
    missing = kcr("crd", "migrate", "nothing.ex.io")
    assert (missing.code, missing.out) == (1, "")
    assert missing.err.startswith("kcr: no CustomResourceDefinition nothing.ex.io exists: name it as PLURAL.GROUP")
    assert missing.err.count("\n") == 1
