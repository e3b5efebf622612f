"""Which status rules look at what a write changes only (batch-api §§9.1, 9.2, 9.3).

A Job stored under older rules must stay writable: each rule is asked about when its own part changes.

Source: kubernetes/pkg/registry/batch/job/strategy.go, getStatusValidationOptions.
"""

from typing import Any, NamedTuple

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import indexed, job, refused_status, status, stored

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


class Case(NamedTuple):
    """A Job that breaks a rule as it is stored, and writes that keep breaking it while they touch its parts."""

    manifest: Manifest
    stored: Manifest
    touching: tuple[Manifest, ...]
    fault: str


CASES = {
    "complete-and-failed": Case(
        job(),
        status("Complete", "Failed", end=T1),
        (),
        "cannot set Complete=True and Failed=true conditions",
    ),
    "complete-and-about-to-fail": Case(
        job(),
        status("Complete", "FailureTarget", end=T1),
        (),
        "cannot set Complete=True and FailureTarget=true conditions",
    ),
    "completion-time-alone": Case(
        job(),
        status(end=T1),
        (),
        "cannot set completionTime when there is no Complete=True condition",
    ),
    "complete-without-time": Case(
        job(),
        status("Complete", "SuccessCriteriaMet"),
        (),
        "completionTime is required for Complete jobs",
    ),
    "ended-before-the-start": Case(
        job(suspend=True),
        status("Complete", "SuccessCriteriaMet", start=T1, end=T0),
        (status("Complete", "SuccessCriteriaMet", start=T2, end=T0),),
        "must be equal to or after `startTime`",
    ),
    "failed-without-target": Case(
        indexed(backoffLimitPerIndex=1),
        status("Failed"),
        (status("Failed", failedIndexes="1"),),
        "cannot set Failed=True condition without the FailureTarget=true condition",
    ),
    "complete-without-criteria": Case(
        job(),
        status("Complete", end=T1),
        (),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    ),
    "ended-with-active-pods": Case(
        job(),
        status("Failed", "FailureTarget", active=1),
        (status("Failed", "FailureTarget", active=2),),
        "active>0 is invalid for finished job",
    ),
    "ended-without-a-start": Case(
        job(),
        status("Failed", "FailureTarget", start=None),
        (),
        "startTime is required for finished job",
    ),
    "ended-with-uncounted-pods": Case(
        job(),
        status("Failed", "FailureTarget", uncountedTerminatedPods={"failed": ["a"]}),
        (status("Failed", "FailureTarget", uncountedTerminatedPods={"failed": ["b"]}),),
        "must be empty for finished job",
    ),
    "ended-with-terminating-pods": Case(
        job(),
        status("Failed", "FailureTarget", terminating=1),
        (status("Failed", "FailureTarget", terminating=2),),
        "terminating>0 is invalid for finished job",
    ),
    "malformed-completed-indexes": Case(
        indexed(),
        status(completedIndexes="x"),
        (status(completedIndexes="y"),),
        "error parsing completedIndexes: ",
    ),
    "completed-indexes-without-mode": Case(
        job(),
        status(completedIndexes="0"),
        (status(completedIndexes="0,1"),),
        "cannot set non-empty completedIndexes when non-indexed completion mode",
    ),
    "malformed-failed-indexes": Case(
        indexed(backoffLimitPerIndex=1),
        status(failedIndexes="x"),
        (status(failedIndexes="y"),),
        "error parsing failedIndexes: ",
    ),
    "failed-indexes-without-limit": Case(
        indexed(),
        status(failedIndexes="1"),
        (status(failedIndexes="2"), status(failedIndexes="")),
        "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
    ),
    "indexes-in-both": Case(
        indexed(backoffLimitPerIndex=1),
        status(failedIndexes="1", completedIndexes="1"),
        (
            status(failedIndexes="1,2", completedIndexes="1"),
            status(failedIndexes="1", completedIndexes="1,3"),
        ),
        "failedIndexes and completedIndexes overlap at index: 1",
    ),
    "more-ready-than-active": Case(
        job(),
        status(ready=2, active=1),
        (status(ready=3, active=1), status(ready=2)),
        "cannot set more ready pods than active",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_broken_rule_does_not_keep_other_writes_out(case: Case) -> None:
    # §9.2: what changes is an unknown condition.
    after = {**case.stored, "conditions": [*case.stored["conditions"], {"type": "Seen", "status": "True"}]}
    assert refused_status(stored(case.manifest, case.stored), after) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rule_refuses_the_write_that_breaks_it(case: Case) -> None:
    # §9.2: nothing was there before, so every part of the rule changes.
    found = refused_status(stored(case.manifest), case.stored)
    assert any(case.fault in one for one in found), found


TOUCHING = [
    pytest.param(case, after, id=f"{name}-{number}")
    for name, case in CASES.items()
    for number, after in enumerate(case.touching)
]


@pytest.mark.parametrize(("case", "after"), TOUCHING)
def test_rule_is_asked_when_its_part_changes(case: Case, after: Manifest) -> None:
    # §9.2
    found = refused_status(stored(case.manifest, case.stored), after)
    assert any(case.fault in one for one in found), found


UNCOUNTED = {"failed": ["a"]}


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        pytest.param(
            status("Complete", end=T1), status("Complete", "Failed", end=T1),
            "cannot set Complete=True and Failed=true conditions", id="fails-after-completing",
        ),
        pytest.param(
            status("Failed"), status("Failed", "Complete", end=T1),
            "cannot set Complete=True and Failed=true conditions", id="completes-after-failing",
        ),
        pytest.param(
            status("Complete", end=T1), status("Complete", "FailureTarget", end=T1),
            "cannot set Complete=True and FailureTarget=true conditions", id="is-to-fail-after-completing",
        ),
        pytest.param(
            status("FailureTarget"), status("FailureTarget", "Complete", end=T1),
            "cannot set Complete=True and FailureTarget=true conditions", id="completes-when-it-is-to-fail",
        ),
        pytest.param(
            status("SuccessCriteriaMet", "Complete", end=T1), status("Complete", end=T1),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition", id="criteria-dropped",
        ),
        pytest.param(
            status(active=1), status("Failed", "FailureTarget", active=1),
            "active>0 is invalid for finished job", id="ends-with-active-pods",
        ),
        pytest.param(
            status(terminating=1), status("Failed", "FailureTarget", terminating=1),
            "terminating>0 is invalid for finished job", id="ends-with-terminating-pods",
        ),
        pytest.param(
            status(uncountedTerminatedPods=UNCOUNTED),
            status("Failed", "FailureTarget", uncountedTerminatedPods=UNCOUNTED),
            "must be empty for finished job", id="ends-with-uncounted-pods",
        ),
        pytest.param(
            status("Failed", "FailureTarget"), status("Failed", "FailureTarget", start=None),
            "startTime is required for finished job", id="start-dropped-after-the-end",
        ),
    ],
)  # fmt: skip
def test_one_part_that_changes_is_enough(before: Manifest, after: Manifest, fault: str) -> None:
    # §9.2
    found = refused_status(stored(job(), before), after)
    assert any(fault in one for one in found), found


@pytest.mark.parametrize(
    ("failed", "completed", "shared"),
    [
        ("1,1", "1", 1),
        ("1,1", "1,1", 1),
        ("0-1,1", "1", 1),
        ("3,3", "0-2,3", 3),
        ("x,2", "0,y,1-2", 2),
        ("1", "2,1-x", None),
        ("2,2", "1", None),
    ],
)
def test_malformed_indexes_overlap_as_well(failed: str, completed: str, shared: int | None) -> None:
    """Source: recorded; cel-and-bodies.md, B27."""
    found = refused_status(
        stored(indexed(backoffLimitPerIndex=1)), status(failedIndexes=failed, completedIndexes=completed)
    )
    words = f'status.failedIndexes: Invalid value: "{failed}": failedIndexes and completedIndexes overlap at index: '
    overlaps = [one.removeprefix(words) for one in found if "overlap" in one]
    assert overlaps == ([] if shared is None else [str(shared)])


def test_ends_of_an_interval_are_read_before_its_place() -> None:
    """Source: kubernetes/pkg/apis/batch/validation/validation.go, validateIndexesFormat."""
    found = refused_status(stored(indexed()), status(completedIndexes="1,1-x"))
    words = 'error parsing completedIndexes: cannot convert string to integer for index: "x"'
    assert found == [f'status.completedIndexes: Invalid value: "1,1-x": {words}']


def test_completed_indexes_can_be_cleared_where_they_are_wrong() -> None:
    # §9.2
    old = stored(job(), status(completedIndexes="0"))
    assert refused_status(old, status()) == []


@pytest.mark.parametrize("name", ["active", "succeeded", "failed", "ready", "terminating"])
def test_no_counter_is_negative(name: str) -> None:
    # §9.1
    found = refused_status(stored(job()), {name: -1})
    assert f"status.{name}: Invalid value: -1: must be greater than or equal to 0" in found


def test_terminal_conditions_are_missed_in_their_order() -> None:
    # §9.1
    words = "status.conditions: Invalid value: cannot disable the {} condition"
    old = stored(job(), status("FailureTarget", "Complete", "Failed", "SuccessCriteriaMet", end=T1))
    found = refused_status(old, status())
    terminal = [words.format(f"terminal {one}=True") for one in ("Failed", "Complete", "FailureTarget")]
    assert found == [*terminal, words.format("SuccessCriteriaMet=True")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("SuccessCriteriaMet", "Failed", id="failed"),
        pytest.param("SuccessCriteriaMet", "FailureTarget", id="failure-target"),
    ],
)
def test_success_and_failure_exclude_each_other_always(first: str, second: str) -> None:
    # §9.1: even where nothing of it changes.
    old = stored(job(), status(first, second, start=T0))
    fault = f"status.conditions: Invalid value: cannot set {first}=True and {second}=true conditions"
    assert fault in refused_status(old, status(first, second, start=T0, ready=0))


def test_completion_time_may_go_with_nothing_else() -> None:
    # §9.1: another value is refused; none is another rule's business.
    old = stored(job(), status("SuccessCriteriaMet", "Complete", end=T1))
    assert refused_status(old, status("SuccessCriteriaMet", "Complete")) == [
        "status.completionTime: Required value: completionTime is required for Complete jobs"
    ]


@pytest.mark.parametrize(
    ("spec", "before", "after", "accepted"),
    [
        pytest.param({"suspend": True}, status(), status("Suspended", start=None), True, id="suspends"),
        pytest.param({"suspend": True}, status(), status(start=T1), True, id="moves-while-suspended"),
        pytest.param({}, status(start=None), status(start=T1), True, id="starts"),
        pytest.param(
            {}, status("Suspended"),
            {"startTime": T1, "conditions": [{"type": "Suspended", "status": "False"}]}, True, id="resumes",
        ),
        pytest.param({}, status("Suspended"), status(start=T1), False, id="resumes-by-removing-the-condition"),
        pytest.param(
            {}, {"startTime": T0, "conditions": [{"type": "Suspended", "status": "False"}]},
            {"startTime": T1, "conditions": [{"type": "Suspended", "status": "False"}]}, False, id="was-resumed-before",
        ),
        pytest.param(
            {}, status("Suspended"),
            {"startTime": None, "conditions": [{"type": "Suspended", "status": "False"}]}, True,
            id="resumes-without-a-time",
        ),
    ],
)  # fmt: skip
def test_start_time_moves_with_suspension_alone(
    spec: dict[str, Any], before: Manifest, after: Manifest, accepted: bool
) -> None:
    # §§9.2, 9.3, rows 15.111 and 15.112
    assert (refused_status(stored(job(**spec), before), after) == []) is accepted


@pytest.mark.parametrize(
    "after",
    [
        pytest.param([{"type": "A", "status": "B"}, {"type": "A", "status": "C"}], id="repeated"),
        pytest.param([{"type": "", "status": ""}], id="nameless"),
        pytest.param([{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}], id="future"),
    ],
)
def test_conditions_are_otherwise_nobodys_business(after: list[Manifest]) -> None:
    # §9.2, row 15.117
    assert refused_status(stored(job()), {"conditions": after, "active": 9, "ready": 1}) == []
