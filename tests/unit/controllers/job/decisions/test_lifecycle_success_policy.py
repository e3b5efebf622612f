import pytest

from kcr.api.batch import SuccessPolicy, SuccessPolicyRule
from kcr.api.indexset import IndexSet
from kcr.controllers.job.decisions.lifecycle import met_rule
from tests.kit.builders import indexed


def rule(indexes: str | None = None, count: int | None = None) -> SuccessPolicyRule:
    return SuccessPolicyRule(succeeded_indexes=indexes, succeeded_count=count)


@pytest.mark.parametrize(
    ("rules", "succeeded", "position"),
    [
        pytest.param((rule("1"),), "1", 0, id="row-114"),
        pytest.param((rule(count=1),), "4", 0, id="row-115"),
        pytest.param((rule(count=2),), "4", None, id="too-few"),
        pytest.param((rule("3-6", 2),), "0-2,4-7", 0, id="row-116-met"),
        pytest.param((rule("3-6", 2),), "0-2,6,7", None, id="row-116-not-met"),
        pytest.param((rule("9"), rule("4,6")), "0-2,4-7", 1, id="row-117"),
        pytest.param((rule("4,6"), rule("5")), "4-6", 0, id="first-wins"),
        pytest.param((rule("20-30"),), "0-9", None, id="names-no-index-it-has"),
        pytest.param((rule("2-4"),), "2,3", None, id="not-all"),
        pytest.param((rule("2", 0),), "", None, id="nothing-has-succeeded"),
    ],
)
def test_first_rule_that_is_met_is_named(
    rules: tuple[SuccessPolicyRule, ...], succeeded: str, position: int | None
) -> None:
    # Rows 114 to 117; job-controller §23.
    one = indexed(10, success_policy=SuccessPolicy(rules=rules))
    assert met_rule(one, IndexSet.parse(succeeded, 10)) == position


def test_job_without_policy_meets_none() -> None:
    assert met_rule(indexed(10), IndexSet.parse("0-9", 10)) is None
