"""`kcr crd diff` with the definitions of a cluster."""

from pathlib import Path

import pytest

from kcr.api.full.apiextensions_v1 import CustomResourceDefinition
from kcr_devcluster.yaml_writer import yaml_text
from tests.kit.custom_resources import definition, spec_schema, version
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

OLD = definition(version("v1", spec_schema({"a": {"type": "string"}})))
NEW = definition(version("v1", spec_schema({"a": {"type": "string", "maxLength": 2}})))


def test_cluster_is_compared_with_files(kcr: Command, served: ServedCluster, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(yaml_text(NEW))
    assert kcr("crd", "diff", "cluster", str(file))[:2] == (0, "widgets.ex.io: added\n0 breaking changes, 1 other\n")
    served.call(served.cluster.client.create_manifest(CustomResourceDefinition, OLD))
    code, out, _ = kcr("crd", "diff", "cluster", str(file))
    assert (code, out.splitlines()[-1]) == (1, "1 breaking change, 0 other")
    code, out, _ = kcr("crd", "diff", str(file), "cluster")
    assert (code, out.splitlines()) == (
        0, ["widgets.ex.io v1 spec.a: maxLength: 2 becomes nothing", "0 breaking changes, 1 other"]
    )  # fmt: skip


def test_cluster_that_is_away_is_one_line(kcr: Command, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(yaml_text(NEW))
    code, out, err = kcr("crd", "diff", "cluster", str(file), "--context", "absent")
    assert (code, out, err.count("\n")) == (2, "", 1)
