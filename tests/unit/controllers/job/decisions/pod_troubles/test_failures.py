"""The failed pods of a Job by cause."""

from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job, JobStatus
from kcr.api.core import Pod
from kcr.api.meta import Condition, PodCondition
from kcr.controllers.job.decisions.pod_troubles.failures import cause_of, digest_of, end_text, termination_message
from kcr.controllers.job.decisions.pod_troubles.pod import explain_pod
from kcr.controllers.job.decisions.pod_troubles.problems import DetailedPod, PodContext
from tests.kit.builders import NOW, ago, exits, job, pod, policy


def failed(name: str, exit_code: int, *, index: int | None = None, seconds: float = 10) -> Pod:
    return pod(name, "Failed", exit_code=exit_code, index=index, finished=ago(seconds), tracked=False)


def told(one: Pod, **fields: str) -> Pod:
    """A pod whose container ended with these words."""
    status = one.status.container_statuses[0]
    assert status.state.terminated is not None
    end = msgspec.structs.replace(status.state.terminated, **fields)
    state = msgspec.structs.replace(status.state, terminated=end)
    statuses = (msgspec.structs.replace(status, state=state),)
    return msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, container_statuses=statuses))


def ended(reason: str, *, count: int = 0, **fields: Any) -> Job:
    condition = Condition(type="Failed", status="True", reason=reason)
    return job(status=JobStatus(failed=count, conditions=(condition,)), **fields)


def test_pods_are_counted_by_cause_with_their_indexes() -> None:
    pods = [failed(f"pi-{index}", 3, index=index) for index in (0, 1, 2, 5)]
    pods += [told(failed("pi-7", 137, index=7), reason="OOMKilled"), pod("pi-8", "Succeeded", index=8)]
    found = digest_of(ended("BackoffLimitExceeded", count=6, backoff_limit=4), pods)
    assert found.text == (
        "backoffLimit 4: 6 pods failed: 4 with exit code 3 (indexes 0-2,5), "
        "1 with exit code 137 (SIGKILL), OOMKilled (index 7), 1 deleted since"
    )


def test_long_lists_of_indexes_are_cut() -> None:
    pods = [failed(f"pi-{index}", 3, index=index) for index in range(0, 40, 2)]
    assert digest_of(ended("Other", count=20), pods).counts == (
        "20 pods failed: 20 with exit code 3 (indexes 0,2,4,6,8,10,12,14,16,18,…)"
    )


def test_rare_causes_are_counted_together() -> None:
    pods = [failed(f"pi-{code}", code) for code in range(1, 9)]
    assert digest_of(ended("Other", count=8), pods).text == (
        "8 pods failed: 1 with exit code 1, 1 with exit code 2, 1 with exit code 3, 1 with exit code 4, "
        "1 with exit code 5, 3 with 3 other causes"
    )


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param(ended("DeadlineExceeded", active_deadline_seconds=60), "activeDeadlineSeconds 60", id="deadline"),
        pytest.param(ended("MaxFailedIndexesExceeded", max_failed_indexes=1), "maxFailedIndexes 1", id="indexes"),
        pytest.param(ended("FailedIndexes", backoff_limit_per_index=0), "backoffLimitPerIndex 0", id="per-index"),
        pytest.param(
            ended("PodFailurePolicy", pod_failure_policy=policy(exits("FailJob", 3))), "podFailurePolicy", id="policy"
        ),
        pytest.param(ended("ByAnotherController"), "", id="foreign"),
        pytest.param(job(), "", id="unfinished"),
    ],
)
def test_rule_names_the_field_that_ended_the_job(ends: Job, expected: str) -> None:
    assert digest_of(ends, ()).rule == expected


def test_job_without_failed_pods_says_so() -> None:
    found = digest_of(ended("DeadlineExceeded", active_deadline_seconds=60), [pod()])
    assert (found.text, found.last) == ("activeDeadlineSeconds 60: no pod failed", None)


def test_pod_that_ended_last_is_named() -> None:
    pods = [failed("pi-a", 1, seconds=30), failed("pi-b", 2, index=4, seconds=5), failed("pi-c", 3, seconds=20)]
    last = digest_of(job(), pods).last
    assert last is not None
    assert end_text(last) == "pod pi-b (index 4): container c: exit code 2"


def test_main_container_is_to_blame_before_its_sidecar() -> None:
    one = failed("pi-a", 7)
    (side,) = failed("pi-b", 137).status.container_statuses
    sidecars = (msgspec.structs.replace(side, name="side"),)
    one = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, init_container_statuses=sidecars))
    assert end_text(one) == "pod pi-a: container c: exit code 7"
    alone = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, container_statuses=()))
    assert end_text(alone) == "pod pi-a: container side: exit code 137 (SIGKILL)"


def test_output_of_a_failed_pod_is_that_of_its_failed_container() -> None:
    end = {"terminated": {"exitCode": 5, "finishedAt": ago(60)}}
    status = {
        "phase": "Failed", "initContainerStatuses": [{"name": "i", "state": end}], "containerStatuses": [{"name": "c"}],
    }  # fmt: skip
    one = msgspec.convert({"metadata": {"name": "a", "namespace": "default"}, "status": status}, DetailedPod)
    found = explain_pod(one, PodContext(), NOW)
    assert found.headline == "has failed: container i ended 60s ago with exit code 5"
    assert found.remedies == ("see its output: kubectl -n default logs a -c i",)


def test_disruption_is_part_of_the_cause() -> None:
    one = failed("pi-a", 143)
    drained = PodCondition(type="DisruptionTarget", status="True", reason="DeletionByTaintManager")
    one = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, conditions=(drained,)))
    assert cause_of(one) == "exit code 143 (SIGTERM), DeletionByTaintManager"


def test_pod_without_a_failed_container_has_its_own_reason() -> None:
    one = pod("pi-a", "Failed")
    evicted = msgspec.structs.replace(one, status=msgspec.structs.replace(one.status, reason="Evicted"))
    assert [cause_of(one), cause_of(evicted)] == ["no exit code", "Evicted"]
    assert end_text(evicted) == "pod pi-a: Evicted"


def test_termination_message_is_its_last_line() -> None:
    one = told(failed("pi-a", 1), message="Traceback\nValueError: boom\n\n")
    assert termination_message(one) == "ValueError: boom"
    assert [termination_message(failed("pi-b", 1)), termination_message(pod())] == ["", ""]
