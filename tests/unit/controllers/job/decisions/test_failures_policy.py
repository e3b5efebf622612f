import pytest
from msgspec.structs import replace

from kcr.api.batch import PodConditionPattern, PodFailurePolicyRule
from kcr.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.failures import match_rule
from tests.kit.builders import exits, has, job, pod, policy

ENDED_5 = ContainerStatus(name="init", state=ContainerState(terminated=ContainerStateTerminated(exit_code=5)))


def with_init(one: Pod, *statuses: ContainerStatus) -> Pod:
    return replace(one, status=replace(one.status, init_container_statuses=statuses))


@pytest.mark.parametrize(
    ("rule", "code", "matches"),
    [
        pytest.param(exits("FailJob", 42), 42, True, id="listed"),
        pytest.param(exits("FailJob", 42), 1, False, id="not-listed"),
        pytest.param(exits("FailJob", -1073741510), -1073741510, True, id="row-101-negative"),
        pytest.param(exits("FailJob", 5, 6, 7, operator="NotIn"), 42, True, id="row-102-other"),
        pytest.param(exits("FailJob", 5, 6, 7, operator="NotIn"), 5, False, id="row-102-listed"),
        pytest.param(exits("FailJob", 5, operator="NotIn"), 0, False, id="success-never-matches"),
        pytest.param(exits("FailJob", 5, operator="Near"), 5, False, id="unknown-operator"),
        pytest.param(exits("FailJob", 5, container="c"), 5, True, id="named-container"),
        pytest.param(exits("FailJob", 5, container="d"), 5, False, id="another-container"),
    ],
)
def test_exit_codes_decide(rule: PodFailurePolicyRule, code: int, matches: bool) -> None:
    # Rows 97, 99, 101 and 102.
    failed = pod("a", "Failed", exit_code=code)
    assert (match_rule(job(pod_failure_policy=policy(rule)), failed).action == "FailJob") is matches


def test_message_names_container_pod_code_and_rule() -> None:
    # Row 97; job-controller §21.
    found = match_rule(job(pod_failure_policy=policy(exits("Count", 1), exits("FailJob", 42))), pod("a", exit_code=42))
    words = "Container c for pod default/a failed with exit code 42 matching FailJob rule at index 1"
    assert (found.action, found.message, found.counts) == ("FailJob", words, True)


def test_message_names_the_condition() -> None:
    rules = policy(has("FailJob", "ConfigIssue", "DisruptionTarget"))
    found = match_rule(job(pod_failure_policy=rules), pod("a", "Failed", conditions=("DisruptionTarget",)))
    assert found.message == "Pod default/a has condition DisruptionTarget matching FailJob rule at index 0"


def test_init_container_is_named_when_it_matches() -> None:
    # Row 103.
    failed = with_init(pod("a", "Failed", exit_code=143), ENDED_5)
    found = match_rule(job(pod_failure_policy=policy(exits("FailJob", 5))), failed)
    assert found.message.startswith("Container init for pod default/a failed with exit code 5")


def test_first_rule_that_matches_wins() -> None:
    # Rows 100 and 104.
    failed = with_init(pod("a", "Failed", exit_code=6), replace(ENDED_5, name="two"))
    rules = policy(exits("Ignore", 5), exits("FailJob", 6))
    assert match_rule(job(pod_failure_policy=rules), failed).action == "Ignore"
    rules = policy(exits("Count", 10), exits("FailJob", 5, 6, 7))
    assert match_rule(job(pod_failure_policy=rules), pod("a", "Failed", exit_code=10)).action == "Count"


def test_ignored_failures_do_not_count() -> None:
    # Row 98.
    rules = policy(exits("FailJob", 42, container="main"), has("Ignore", "DisruptionTarget"))
    found = match_rule(
        job(pod_failure_policy=rules), pod("a", "Failed", exit_code=137, conditions=("DisruptionTarget",))
    )
    assert (found.action, found.counts) == ("Ignore", False)


def test_unknown_actions_are_passed_over() -> None:
    # job-controller §21.
    rules = policy(exits("Explode", 5), exits("Ignore", 5))
    assert match_rule(job(pod_failure_policy=rules), pod("a", "Failed", exit_code=5)).action == "Ignore"


def test_failure_that_no_rule_knows_counts() -> None:
    found = match_rule(job(pod_failure_policy=policy(exits("Ignore", 5))), pod("a", "Failed", exit_code=1))
    assert (found.action, found.message, found.counts) == ("", "", True)


def test_condition_must_have_the_status_of_its_pattern() -> None:
    pattern = PodConditionPattern(type="Ready", status="False")
    rules = policy(PodFailurePolicyRule(action="Ignore", on_pod_conditions=(pattern,)))
    one = pod("a", "Failed")
    unready = replace(one, status=replace(one.status, conditions=(Condition(type="Ready", status="False"),)))
    assert match_rule(job(pod_failure_policy=rules), unready).action == "Ignore"
    assert match_rule(job(pod_failure_policy=rules), pod("a", "Failed", conditions=("Ready",))).action == ""
