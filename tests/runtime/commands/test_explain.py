"""`kcr explain`: kinds that do not exist, missing rights, debug ports that do not answer."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from tests.kit.harness import create, manifest
from tests.kit.served_cluster import ServedCluster, served_cluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

NOWHERE = "127.0.0.1:9"
# A plugin that is not installed.
PLUGIN = """
import kcr
from kcr.api.core import ConfigMap

async def explain_wall(client, wall, events, now):
    return kcr.Explanation(kcr.Code.WAITING, f"waits for the paint {wall.data['paint']}")

@kcr.explains(ConfigMap, explain_wall)
def setup(manager): ...
"""


@pytest.fixture(scope="module")
def served(_quiet: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    with served_cluster(tmp_path_factory.mktemp("cluster"), authorization="rbac", service_accounts="tokens") as served:
        served.call(create(served.cluster.client, manifest("pi")))
        yield served


@pytest.fixture
def account(kcr: Command, tmp_path: Path) -> Path:
    """The kubeconfig of an account without rights."""
    path = tmp_path / "account.kubeconfig"
    path.write_text(kcr("kubeconfig", "create", "--service-account", "default/default").out)
    return path


@pytest.mark.parametrize("command", ["explain", "wait", "logs"])
def test_refusal_is_one_line_with_the_remedy(kcr: Command, account: Path, command: str) -> None:
    refused = kcr(command, "job/pi", kubeconfig=account)
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert 'jobs.batch "pi" is forbidden' in refused.err
    assert "grant it with a Role or ClusterRole, or use another identity" in refused.err


def test_unknown_kind_names_what_is_spelled_alike(kcr: Command) -> None:
    refused = kcr("explain", "deplyoment/x")
    assert (refused.code, refused.err) == (1, "kcr: the server has no kind 'deplyoment': is it deployments.apps?\n")


def test_plugin_that_is_not_installed_explains_its_kind(
    kcr: Command, served: ServedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kcr_test_walls.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    wall = ConfigMap(metadata=ObjectMeta(name="wall", namespace="default"), data={"paint": "red"})
    served.call(served.cluster.client.create(wall))
    explained = kcr("explain", "cm/wall", "--controllers=kcr_test_walls:setup")
    assert (explained.code, explained.lines) == (0, ["configmap default/wall: waits for the paint red"])


def test_named_debug_port_that_does_not_answer_is_one_line(kcr: Command) -> None:
    explained = kcr("explain", "job/pi", f"--debug-address={NOWHERE}")
    assert explained.code == 1
    assert explained.out.startswith("job default/pi: ")
    assert explained.err.count("\n") == 1
    assert explained.err.startswith(f"kcr: the debug port http://{NOWHERE} does not answer: connection refused: ")


def test_port_of_a_kubeconfig_may_be_gone(kcr: Command, served: ServedCluster, tmp_path: Path) -> None:
    # That of a `kcr dev` which has ended since.
    config = yaml.safe_load(served.kubeconfig.read_text())
    extension = {"name": "kcr.dev/debug", "extension": {"address": f"http://{NOWHERE}", "accessToken": "t"}}
    config["clusters"][0]["cluster"]["extensions"] = [extension]
    path = tmp_path / "stale.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    explained = kcr("explain", "job/pi", kubeconfig=path)
    assert (explained.code, explained.err) == (0, "")


def test_debug_command_without_a_port_says_how_to_reach_one(kcr: Command, tmp_path: Path) -> None:
    refused = kcr("debug", "stacks", kubeconfig=tmp_path / "none")
    assert refused.code == 1
    assert refused.err.startswith("kcr: no debug port is known: forward it with `kubectl -n NAMESPACE port-forward")
