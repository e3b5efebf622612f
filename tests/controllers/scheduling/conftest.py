import pytest

from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import FOREVER, RunResult


@pytest.fixture
def cluster(kcr_cluster: EmbeddedCluster) -> EmbeddedCluster:
    """A cluster whose pods run until they are deleted."""
    assert kcr_cluster.node is not None
    kcr_cluster.node.on_run = lambda pod, container, attempt: RunResult(run_for=FOREVER)
    return kcr_cluster
