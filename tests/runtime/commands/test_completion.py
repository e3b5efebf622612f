"""What a shell completes: names of the cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kcr.api.coordination import Lease
from kcr.api.meta import ObjectMeta
from kcr.cli.main import kubectl_complete
from tests.kit.harness import create, manifest
from tests.kit.served_cluster import ServedCluster

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


Complete = Callable[[str, Path], list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """Return the completions of the last word that kubectl receives."""

    def call(words: str, kubeconfig: Path) -> list[str]:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setattr("sys.argv", ["kubectl_complete-kcr", *words.split()])
        kubectl_complete()
        return capsys.readouterr().out.split()

    return call


@pytest.fixture(scope="module", autouse=True)
def _objects(served: ServedCluster) -> None:
    served.call(create(served.cluster.client, manifest("good")))
    metadata = ObjectMeta(name="web-shard-0", namespace="default", labels={"kcr.dev/sharding": "web"})
    served.call(served.cluster.client.create(Lease(metadata=metadata)))


@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param("wait job/g", ["job/good"], id="jobs"),
        pytest.param("events --for namespace/kube-s", ["namespace/kube-system"], id="option"),
        pytest.param("explain namespace/kube-s", ["namespace/kube-system"], id="kind"),
        pytest.param("explain namespace kube-s", ["kube-system"], id="kind-and-name-apart"),
        pytest.param("wait job g", ["good"], id="job-and-name-apart"),
        pytest.param("explain deplo", ["deployment/"], id="kinds"),
        pytest.param("logs job/good --container c", ["c"], id="containers"),
        pytest.param("logs job good --container c", ["c"], id="containers-of-a-name-apart"),
        pytest.param("logs -n kube-s", ["kube-system"], id="namespaces"),
        pytest.param("shards --name we", ["web"], id="programs"),
        pytest.param("run --controllers job,c", ["job,cronjob"], id="controllers"),
    ],
)
def test_names_of_the_cluster_are_completed(
    words: str, names: list[str], served: ServedCluster, complete: Complete
) -> None:
    # On a busy machine the cluster may not answer in the two seconds that a shell waits.
    assert [*names, ":4"] in (complete(words, served.kubeconfig) for _ in range(5))


def test_cluster_that_is_gone_completes_nothing(tmp_path: Path, complete: Complete) -> None:
    assert complete("wait job/g", tmp_path / "none") == [":4"]
