"""Which Jobs are refused, and in which words (BA 7; rows 4-59 of its catalogue).

Source: kubernetes/pkg/apis/batch/validation/validation_test.go, pkg/registry/batch/job/strategy_test.go.
"""

from copy import deepcopy

from tests.kit.manifests import JOBS, job, prepared, stored


def test_job_posted_again_as_downloaded_is_refused() -> None:
    # BA 5: one error per stale label, and the selector
    again = deepcopy(stored(job()))
    again["metadata"] = {"name": "pi", "namespace": "default", "uid": "another"}
    assert [fault.field for fault in JOBS.validate(prepared(again))] == [
        "spec.template.metadata.labels[controller-uid]",
        "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
        "spec.selector",
    ]
