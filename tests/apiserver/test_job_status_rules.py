"""What a status write may do to a Job (BA 9; rows 101-118 of its catalogue).

Source: kubernetes/pkg/registry/batch/job/strategy_test.go, TestStatusStrategy_ValidateUpdate.
"""

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit.manifests import JOBS, indexed, job, refused_status, status, stored

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


COMPLETE = status("SuccessCriteriaMet", "Complete", end=T1)


@pytest.mark.parametrize(
    ("spec", "before", "after"),
    [
        pytest.param({}, status("Failed"), status("Failed", ready=0), id="118-old-failure-without-target"),
        pytest.param({}, status("Complete", end=T1), status("Complete", end=T1, ready=0), id="old-success-alone"),
        pytest.param(
            {}, status("FailureTarget", "Failed", active=1), status("FailureTarget", "Failed", active=1, ready=0),
            id="finished-with-pods-stays-writable",
        ),
    ],
)  # fmt: skip
def test_honest_write_is_accepted(spec: Manifest, before: Manifest, after: Manifest) -> None:
    assert refused_status(stored(job(**spec), before), after) == []


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        pytest.param(
            status("Complete", end=T1),
            COMPLETE,
            [
                "status.conditions: Invalid value: "
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
            ],
            id="criteria-after-the-fact",
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
        pytest.param(
            indexed(), status(completedIndexes="0,9"), status(completedIndexes="0,9", active=1), [], id="113-unchanged"
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
