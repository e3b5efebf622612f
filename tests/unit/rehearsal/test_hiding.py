"""Data of Secrets and ConfigMaps in a snapshot."""

import base64
from typing import Any

import pytest

from kcr_devcluster.rehearsal.hiding import DataHider

PASSWORD = base64.b64encode(b"hunter2").decode()
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def secret(name: str, **data: str) -> dict[str, Any]:
    annotations = {APPLIED: f'{{"data":{{"password":"{PASSWORD}"}}}}', "team": "blue"}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def config(**data: str) -> dict[str, Any]:
    binary = {"logo": PASSWORD}
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data, "binaryData": binary,
    }  # fmt: skip


def test_no_value_is_left_and_everything_else_is() -> None:
    found = DataHider(()).hidden(secret("one", password=PASSWORD))
    assert PASSWORD not in str(found)
    assert base64.b64decode(found["data"]["password"]).startswith(b"hash:")
    assert found["metadata"]["annotations"]["team"] == "blue"
    assert found["metadata"]["annotations"][APPLIED].startswith("hash:")
    assert found["type"] == "Opaque"


def test_equal_values_have_equal_hashes_in_one_snapshot_only() -> None:
    hider = DataHider(())
    one, other = (hider.hidden(secret(name, password=PASSWORD, user="YQ=="))["data"] for name in ("one", "other"))
    assert one == other
    assert one["password"] != one["user"]
    assert DataHider(()).hidden(secret("one", password=PASSWORD))["data"]["password"] != one["password"]


def test_config_maps_have_text_and_base64() -> None:
    found = DataHider(("secrets",)).hidden(config(mode="fast"))
    assert found["data"]["mode"].startswith("hash:")
    assert base64.b64decode(found["binaryData"]["logo"]).startswith(b"hash:")


@pytest.mark.parametrize("obj", [secret("one", password=PASSWORD), config(mode="fast")])
def test_kinds_that_are_asked_for_are_as_they_were(obj: dict[str, Any]) -> None:
    assert DataHider(("secrets", "configmaps")).hidden(obj) is obj


def test_other_kinds_are_as_they_were() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "data": {"a": "b"}}
    own = {"apiVersion": "example.dev/v1", "kind": "Secret", "metadata": {"name": "web"}, "data": {"a": "b"}}
    assert [DataHider(()).hidden(one) for one in (pod, own)] == [pod, own]
