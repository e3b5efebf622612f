"""Which failed pods of a Job are kept."""

import pytest

from kcr.api.core import Pod
from kcr.controllers.job.decisions.retention import surplus_failures
from tests.kit.builders import ago, pod


def failed(name: str, age: float) -> Pod:
    return pod(name, "Failed", finished=ago(age), exit_code=1, tracked=False)


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


def test_pods_that_are_being_deleted_are_not_among_those_kept() -> None:
    going = pod("d", "Failed", finished=ago(1), tracked=False, deleted=ago(1))
    assert [one.metadata.name for one in surplus_failures((failed("a", 20), failed("b", 10), going), 1)] == ["a"]
