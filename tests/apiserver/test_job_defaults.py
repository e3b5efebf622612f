"""What the server fills in on Jobs (BA 3.1, 3.3, 5; JC 2.1, 2.2).

Source: kubernetes/pkg/apis/batch/v1/defaults_test.go, pkg/registry/batch/job/strategy_test.go.
"""

import pytest

from tests.kit.manifests import JOBS, UID, job, prepared, stored

GENERATED = {
    "controller-uid": UID,
    "job-name": "pi",
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "pi",
}


def test_minimal_job_is_stored_with_every_default() -> None:
    # BA 3.1
    assert stored(job()) == {
        "metadata": {"name": "pi", "namespace": "default", "uid": UID, "labels": GENERATED},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            "template": {
                "metadata": {"labels": GENERATED},
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "image": "busybox",
                            "imagePullPolicy": "Always",
                            "resources": {},
                            "terminationMessagePath": "/dev/termination-log",
                            "terminationMessagePolicy": "File",
                        }
                    ],
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 30,
                    "dnsPolicy": "ClusterFirst",
                    "securityContext": {},
                    "schedulerName": "default-scheduler",
                },
            },
        },
        "status": {},
    }


def test_defaulting_twice_changes_nothing_more() -> None:
    once = stored(job(labels={"app": "pi"}))
    twice = stored(once)
    assert twice == once


def test_user_labels_on_template_are_kept_and_copied() -> None:
    made = stored(job(labels={"app": "pi"}))
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "pi", **GENERATED}
    assert made["metadata"]["labels"] == {"app": "pi", **GENERATED}


def test_labels_removed_from_job_come_back_on_read() -> None:
    # BA 2.3
    read = stored(job())
    del read["metadata"]["labels"]
    JOBS.default(read)
    assert read["metadata"]["labels"] == GENERATED


@pytest.mark.parametrize(
    ("name", "count"),
    [pytest.param("pi", 0, id="label"), pytest.param("pi.v2", 1, id="with-dots")],
)
def test_name_that_is_no_dns_label_is_warned_about(name: str, count: int) -> None:
    # BA 6
    warnings = JOBS.warnings(prepared(job(name)), None)
    assert len(warnings) == count
    assert all(warning.startswith("metadata.name: this is used in Pod names and hostnames") for warning in warnings)


def test_warnings_on_spec_come_again_only_when_it_changes() -> None:
    # BA 6
    old = stored(job(pod={"terminationGracePeriodSeconds": -1}))
    words = "must be >= 0; negative values are invalid and will be treated as 1"
    again = f"spec.template.spec.terminationGracePeriodSeconds: {words}"
    assert JOBS.warnings(old, None) == [again]
    assert JOBS.warnings(old, old) == []
    assert JOBS.warnings({**old, "spec": {**old["spec"], "parallelism": 2}}, old) == [again]
