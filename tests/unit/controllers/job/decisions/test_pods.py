from datetime import timedelta

import pytest
from msgspec.structs import replace

from kcr.api.batch import JobStatus
from kcr.api.core import Pod, PodStatus
from kcr.api.meta import Condition
from kcr.api.pods import is_active, is_terminating
from kcr.controllers.job.decisions.pods import finish_time, has_failed, index_untracked_failures, surplus_failures
from tests.kit.builders import NOW, ago, job, pod


@pytest.mark.parametrize(
    ("phase", "deleted", "active", "terminating"),
    [
        ("Pending", False, True, False), ("Running", False, True, False), ("Unknown", False, True, False),
        ("", False, True, False), ("Running", True, False, True), ("Succeeded", True, False, False),
        ("Failed", False, False, False),
    ],
)  # fmt: skip
def test_pod_is_active_terminating_or_over(phase: str, deleted: bool, active: bool, terminating: bool) -> None:
    one = pod(phase=phase, deleted=NOW if deleted else None)
    assert (is_active(one), is_terminating(one)) == (active, terminating)


@pytest.mark.parametrize(
    ("phase", "deleted", "policy", "failed"),
    [
        pytest.param("Failed", False, "Failed", True, id="failed"),
        pytest.param("Running", True, "TerminatingOrFailed", True, id="going"),
        pytest.param("Running", True, "Failed", False, id="going-but-not-over"),
        pytest.param("Succeeded", True, "TerminatingOrFailed", False, id="succeeded-and-going"),
        pytest.param("Running", False, "TerminatingOrFailed", False, id="running"),
    ],
)
def test_pod_told_to_go_counts_as_failed_by_policy(phase: str, deleted: bool, policy: str, failed: bool) -> None:
    # job-controller §§9, 22.
    one = pod(phase=phase, deleted=NOW if deleted else None)
    assert has_failed(one, job(pod_replacement_policy=policy)) is failed


@pytest.mark.parametrize("interim", ["FailureTarget", "SuccessCriteriaMet"])
def test_pod_that_goes_for_the_end_on_record_has_not_failed(interim: str) -> None:
    # job-controller §§15, 23: whoever told it to go may have died since.
    ending = job(status=JobStatus(conditions=(Condition(type=interim, status="True"),)))
    assert not has_failed(pod(deleted=NOW), ending)
    assert has_failed(pod(phase="Failed"), ending)


def test_end_of_a_pod_is_taken_from_the_best_source() -> None:
    # job-controller §18, in order of preference.
    created = pod(created=ago(100))
    deleted = replace(
        created,
        metadata=replace(created.metadata, deletion_timestamp=ago(10), deletion_grace_period_seconds=30),
    )
    unready = replace(
        deleted, status=PodStatus(conditions=(Condition(type="Ready", status="False", last_transition_time=ago(7)),))
    )
    ended = pod("d", "Failed", finished=ago(3))
    assert finish_time(created) == ago(100)
    assert finish_time(deleted) == ago(10) - timedelta(seconds=30)
    assert finish_time(unready) == ago(7)
    assert finish_time(ended) == ago(3)


@pytest.mark.parametrize(
    ("found", "values"),
    [
        pytest.param(pod("a", "Failed", tracked=False), (job().metadata.uid,), id="counted"),
        pytest.param(pod("a", "Failed", tracked=False, deleted=ago(1)), (job().metadata.uid,), id="let-go"),
        pytest.param(pod("a", "Failed"), (), id="not-counted-yet"),
        pytest.param(pod("a", "Succeeded", tracked=False), (), id="succeeded"),
        pytest.param(pod("a", tracked=False), (), id="runs"),
    ],
)
def test_failures_without_the_finalizer_are_indexed(found: Pod, values: tuple[str, ...]) -> None:
    assert tuple(index_untracked_failures(found)) == values


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
