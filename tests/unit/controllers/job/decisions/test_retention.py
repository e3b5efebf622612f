"""Which failed pods of a Job are kept."""

import pytest

from kcr.api.core import Pod
from kcr.controllers.job.decisions.retention import index_counted_failures, surplus_failures
from tests.kit.builders import ago, job, pod


def failed(name: str, age: float, *, tracked: bool = False) -> Pod:
    return pod(name, "Failed", finished=ago(age), exit_code=1, tracked=tracked)


@pytest.mark.parametrize(
    ("keep", "names"),
    [
        pytest.param(0, ["c", "a", "b"], id="none"),
        pytest.param(1, ["c", "a"], id="one"),
        pytest.param(3, [], id="all"),
        pytest.param(9, [], id="more"),
    ],
)
def test_pods_that_ended_first_are_deleted_first(keep: int, names: list[str]) -> None:
    pods = (failed("a", 20), failed("b", 10), failed("c", 30))
    assert [one.metadata.name for one in surplus_failures((*pods, pods[0]), keep)] == names


@pytest.mark.parametrize(
    ("found", "values"),
    [
        pytest.param(failed("a", 1), (job().metadata.uid,), id="counted"),
        pytest.param(failed("a", 1, tracked=True), (), id="not-counted-yet"),
        pytest.param(pod("a", "Succeeded", tracked=False), (), id="succeeded"),
        pytest.param(pod("a", tracked=False), (), id="runs"),
        pytest.param(pod("a", "Failed", tracked=False, deleted=ago(1)), (), id="is-deleted-already"),
    ],
)
def test_only_counted_failures_are_indexed(found: Pod, values: tuple[str, ...]) -> None:
    assert tuple(index_counted_failures(found)) == values
