"""What a status write may do to a Job (BA 9; rows 101-118 of its catalogue).

Source: kubernetes/pkg/registry/batch/job/strategy_test.go, TestStatusStrategy_ValidateUpdate.
"""

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import JOBS, indexed, job, refused_status, status, stored, true

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"
NO_SUCCESS = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
NO_TARGET = "cannot set Failed=True condition without the FailureTarget=true condition"
NO_COMPLETE = "cannot set completionTime when there is no Complete=True condition"


def never_both(one: str, other: str) -> str:
    return f"status.conditions: Invalid value: cannot set {one}=True and {other}=true conditions"


COMPLETE = status("SuccessCriteriaMet", "Complete", end=T1)
FAILED = status("FailureTarget", "Failed")


@pytest.mark.parametrize(
    ("spec", "before", "after"),
    [
        pytest.param({}, {}, status(active=1, ready=0, uncountedTerminatedPods={}), id="101-starts"),
        pytest.param({}, status(), COMPLETE, id="completes-in-one-write"),
        pytest.param({}, status("SuccessCriteriaMet"), COMPLETE, id="completes-in-two-writes"),
        pytest.param({}, status(), FAILED, id="fails-in-one-write"),
        pytest.param({}, status(), status("FailureTarget", active=1, terminating=1), id="interim-keeps-pods"),
        pytest.param(
            {"suspend": True, "completions": 0},
            {},
            status("SuccessCriteriaMet", "Complete", start=None, end=T1),
            id="104-suspended-with-nothing-to-do",
        ),
        pytest.param(
            {},
            status("Suspended"),
            {"conditions": true("Suspended", status="False"), "startTime": T1},
            id="112-resumes",
        ),
        pytest.param({"suspend": True}, status(), status("Suspended", start=None), id="suspends"),
        pytest.param({}, status(), status("Foo", conditions=[{"type": "Foo", "status": "Bar"}]), id="117-unknown"),
        pytest.param({}, status("Failed"), status("Failed", ready=0), id="118-old-failure-without-target"),
        pytest.param({}, status("Complete", end=T1), status("Complete", end=T1, ready=0), id="old-success-alone"),
        pytest.param(
            {}, status("FailureTarget", "Failed", active=1), status("FailureTarget", "Failed", active=1, ready=0),
            id="finished-with-pods-stays-writable",
        ),
        pytest.param({}, COMPLETE, {**COMPLETE, "conditions": true("Complete", "SuccessCriteriaMet")}, id="reordered"),
        pytest.param({}, status(), status(start="2026-01-01T01:00:00.9+01:00"), id="same-moment-written-otherwise"),
    ],
)  # fmt: skip
def test_honest_write_is_accepted(spec: Manifest, before: Manifest, after: Manifest) -> None:
    assert refused_status(stored(job(**spec), before), after) == []


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        pytest.param(
            status(), status("Complete", end=T1), [f"status.conditions: Invalid value: {NO_SUCCESS}"], id="102"
        ),
        pytest.param(
            status(),
            status("SuccessCriteriaMet", "Complete"),
            ["status.completionTime: Required value: completionTime is required for Complete jobs"],
            id="103",
        ),
        pytest.param(
            {},
            status("SuccessCriteriaMet", "Complete", start=None, end=T1),
            ["status.startTime: Required value: startTime is required for finished job"],
            id="104",
        ),
        pytest.param(status(), status("Failed"), [f"status.conditions: Invalid value: {NO_TARGET}"], id="105"),
        pytest.param(
            status(),
            status("FailureTarget", "Failed", active=1),
            ["status.active: Invalid value: 1: active>0 is invalid for finished job"],
            id="106",
        ),
        pytest.param(
            FAILED,
            status("FailureTarget"),
            ["status.conditions: Invalid value: cannot disable the terminal Failed=True condition"],
            id="107-removed",
        ),
        pytest.param(
            FAILED,
            {**FAILED, "conditions": [*true("FailureTarget"), *true("Failed", status="False")]},
            ["status.conditions: Invalid value: cannot disable the terminal Failed=True condition"],
            id="107-false",
        ),
        pytest.param(
            COMPLETE,
            status("SuccessCriteriaMet", end=T1),
            [
                f'status.completionTime: Invalid value: "{T1}": {NO_COMPLETE}',
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            ],
            id="108",
        ),
        pytest.param(
            status(failed=2),
            status(failed=1),
            ["status.failed: Invalid value: 1: cannot decrease the failed counter"],
            id="109",
        ),
        pytest.param(
            status(succeeded=2),
            status(succeeded=1),
            ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
            id="110",
        ),
        pytest.param(
            status(),
            status(start=T1),
            [f'status.startTime: Invalid value: "{T1}": field is immutable for unsuspended job once set'],
            id="111-changed",
        ),
        pytest.param(
            status(),
            status(start=None),
            ["status.startTime: Invalid value: null: field is immutable for unsuspended job once set"],
            id="111-removed",
        ),
        pytest.param(
            status("Suspended"),
            status(start=T1),
            [f'status.startTime: Invalid value: "{T1}": field is immutable for unsuspended job once set'],
            id="resume-needs-the-condition-false",
        ),
        pytest.param(
            status(active=1),
            status(active=1, ready=2),
            ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
            id="115",
        ),
        pytest.param(
            status(),
            status("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet", end=T1),
            [
                never_both("Complete", "Failed"),
                never_both("Complete", "FailureTarget"),
                never_both("SuccessCriteriaMet", "Failed"),
                never_both("SuccessCriteriaMet", "FailureTarget"),
            ],
            id="116",
        ),
        pytest.param(
            COMPLETE, {**COMPLETE, "completionTime": T2},
            [f'status.completionTime: Invalid value: "{T2}": field is immutable'], id="completion-time-changed",
        ),
        pytest.param(
            status(start=T1),
            status("SuccessCriteriaMet", "Complete", start=T1, end=T0),
            [f'status.completionTime: Invalid value: "{T0}": must be equal to or after `startTime`'],
            id="ends-before-it-starts",
        ),
        pytest.param(
            status(), status(end=T1), [f'status.completionTime: Invalid value: "{T1}": {NO_COMPLETE}'],
            id="completion-time-without-complete",
        ),
        pytest.param(
            status(),
            status("FailureTarget", "Failed", terminating=1),
            ["status.terminating: Invalid value: 1: terminating>0 is invalid for finished job"],
            id="finished-with-terminating-pods",
        ),
        pytest.param(
            status(),
            status("FailureTarget", "Failed", uncountedTerminatedPods={"failed": ["a"]}),
            ['status.uncountedTerminatedPods: Invalid value: {"failed":["a"]}: must be empty for finished job'],
            id="finished-with-uncounted-pods",
        ),
        pytest.param(
            status("SuccessCriteriaMet"),
            status(),
            ["status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition"],
            id="criteria-dropped",
        ),
        pytest.param(
            status("Complete", end=T1),
            COMPLETE,
            [
                "status.conditions: Invalid value: "
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
            ],
            id="criteria-after-the-fact",
        ),
        pytest.param(
            status(),
            status(uncountedTerminatedPods={"succeeded": ["a", ""], "failed": ["a"]}),
            [
                'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
                'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
            ],
            id="uncounted-uids-repeat",
        ),
        pytest.param(
            status(),
            status(active=-1, ready=-2),
            [
                "status.active: Invalid value: -1: must be greater than or equal to 0",
                "status.ready: Invalid value: -2: must be greater than or equal to 0",
            ],
            id="negative",
        ),
        pytest.param(
            status(),
            status(completedIndexes="0"),
            [
                'status.completedIndexes: Invalid value: "0": '
                "cannot set non-empty completedIndexes when non-indexed completion mode"
            ],
            id="indexes-on-a-job-without",
        ),
    ],
)  # fmt: skip
def test_dishonest_write_is_refused(before: Manifest, after: Manifest, faults: list[str]) -> None:
    stored_job = stored(job(), before)
    if "completedIndexes" in after:
        del stored_job["spec"]["completions"]
    assert refused_status(stored_job, after) == faults


@pytest.mark.parametrize(
    ("manifest", "before", "after", "faults"),
    [
        pytest.param(indexed(5, 5), status(succeeded=2), status(succeeded=1), [], id="110-elastic-shrinks"),
        pytest.param(
            indexed(5, 2),
            status(succeeded=2),
            status(succeeded=1),
            ["status.succeeded: Invalid value: 1: cannot decrease the succeeded counter"],
            id="110-indexed-and-not-elastic",
        ),
        pytest.param(
            indexed(),
            status(),
            status(completedIndexes="0,9"),
            ['status.completedIndexes: Invalid value: "0,9": error parsing completedIndexes: too large index: "9"'],
            id="113",
        ),
        pytest.param(
            indexed(), status(completedIndexes="0,9"), status(completedIndexes="0,9", active=1), [], id="113-unchanged"
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=1),
            status(),
            status(failedIndexes="1-3", completedIndexes="0,2"),
            [
                'status.failedIndexes: Invalid value: "1-3": '
                "failedIndexes and completedIndexes overlap at index: 2"
            ],
            id="114",
        ),
        pytest.param(
            indexed(),
            status(),
            status(failedIndexes=""),
            [
                'status.failedIndexes: Invalid value: "": '
                "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            ],
            id="failed-indexes-need-their-limit",
        ),
        pytest.param(
            indexed(backoffLimitPerIndex=1),
            status(),
            status(failedIndexes="x"),
            [
                'status.failedIndexes: Invalid value: "x": '
                'error parsing failedIndexes: cannot convert string to integer for index: "x"'
            ],
            id="failed-indexes-malformed",
        ),
        pytest.param(
            indexed(successPolicy={"rules": [{"succeededCount": 1}]}),
            status(),
            status("Complete", end=T1),
            [
                f"status.conditions: Invalid value: {NO_SUCCESS}",
                "status.conditions: Invalid value: "
                "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            ],
            id="policy-completes-by-criteria",
        ),
    ],
)  # fmt: skip
def test_indexed_job_is_held_to_its_indexes(
    manifest: Manifest, before: Manifest, after: Manifest, faults: list[str]
) -> None:
    assert refused_status(stored(manifest, before), after) == faults


def test_spec_sent_to_status_is_ignored_and_metadata_kept() -> None:
    # BA 4
    old = stored(job())
    new = stored(job(backoffLimit=0))
    new["metadata"]["annotations"] = {"a": "b"}
    JOBS.prepare_status(new, old)
    assert new["spec"] == old["spec"]
    assert new["metadata"]["annotations"] == {"a": "b"}


def test_status_sent_to_main_resource_is_ignored() -> None:
    # BA 4
    old = stored(job(), status(active=1))
    new = stored(job(), status(active=5))
    JOBS.prepare_update(new, old)
    assert new["status"] == old["status"]


def test_zero_counters_are_left_out_and_told_zeros_kept() -> None:
    # `ready` and `terminating` are pointers upstream: zero says more than nothing
    shown = stored(job(), {"active": 0, "succeeded": 0, "failed": 0, "ready": 0, "terminating": 0})["status"]
    assert shown == {"ready": 0, "terminating": 0}
