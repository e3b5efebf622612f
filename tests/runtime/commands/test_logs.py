"""`kcr logs`: what the pods of a Job have printed, by their completion indexes."""

import pytest

from kcr.api.batch import COMPLETION_INDEX
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.harness import create, finished, manifest
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
# Seconds by index. The higher the index, the earlier the pod ends: the order of the logs is not that of the ends.
ENDS = {"0": 0.3, "1": 0.2, "2": 0.1}


def run_of(pod: KubeletPod, container: str, attempt: int) -> RunResult:
    seconds = ENDS[pod.metadata.annotations[COMPLETION_INDEX]]
    return RunResult(run_for=seconds, logs="first\n", last_logs="last\n")


def indexes(lines: list[str]) -> list[str]:
    return [line.split("-")[1] for line in lines]


@pytest.fixture(scope="module")
def three(served: ServedCluster) -> str:
    """A Job of three pods that have begun."""
    assert served.cluster.node is not None
    served.cluster.node.on_run = run_of
    job = manifest("three", completions=3, parallelism=3, completionMode="Indexed")
    served.call(create(served.cluster.client, job))
    return "job/three"


def test_logs_are_followed_until_the_job_has_ended(kcr: Command, three: str) -> None:
    followed = kcr("logs", "-f", three)
    assert followed.code == 0
    for index in ENDS:
        lines = [line for line in followed.lines if indexes([line]) == [index]]
        assert [line.partition(" | ")[2] for line in lines] == ["first", "last"]


def test_logs_of_all_pods_come_by_index(kcr: Command, served: ServedCluster, three: str) -> None:
    served.call(finished(served.cluster.client, "three"))
    printed = kcr("logs", three)
    assert (printed.code, indexes(printed.lines)) == (0, ["0", "0", "1", "1", "2", "2"])
    printed = kcr("logs", three, "--tail", "1", "--no-prefix")
    assert (printed.code, printed.lines) == (0, ["last"] * 3)


def test_container_that_pods_have_not_is_refused(kcr: Command, three: str) -> None:
    refused = kcr("logs", three, "-c", "nope")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith("has no container 'nope': choose one of c\n")
