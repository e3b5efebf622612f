"""What the server fills in on CronJobs, and what it warns of (BA 3.2, 6).

Source: kubernetes/pkg/apis/batch/v1/defaults_test.go, pkg/registry/batch/cronjob/strategy_test.go.
"""

from functools import partial

import pytest

from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit import manifests
from tests.kit.manifests import CRON_JOBS, UID, cronjob

prepared = partial(manifests.prepared, strategy=CRON_JOBS)

TEMPLATE = "spec.jobTemplate.spec"


def test_minimal_cron_job_is_stored_with_every_default() -> None:
    # BA 3.2: what the Job itself would get is left to the day it is made
    container = {
        "name": "c", "image": "busybox", "imagePullPolicy": "Always", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip
    pod = {
        "containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler",
    }  # fmt: skip
    assert prepared(cronjob()) == {
        "metadata": {"name": "hello", "namespace": "default", "uid": UID},
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "jobTemplate": {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": pod}}},
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
        "status": {},
    }


def test_defaulting_twice_changes_nothing_more() -> None:
    once = prepared(cronjob(timeZone="UTC"))
    assert prepared(once) == once


def test_moments_of_the_status_are_whole_seconds() -> None:
    obj = {**cronjob(), "status": {"lastScheduleTime": "2026-01-01T01:00:00.5+01:00", "lastSuccessfulTime": None}}
    CRON_JOBS.default(obj)
    assert obj["status"] == {"lastScheduleTime": "2026-01-01T00:00:00Z"}


MANY = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}


@pytest.mark.parametrize(
    ("manifest", "start"),
    [
        pytest.param(
            cronjob("hello.v2"), "metadata.name: this is used in Pod names and hostnames", id="name-with-dots"
        ),
        pytest.param(cronjob(job_spec=MANY), f"{TEMPLATE}: In Indexed Jobs with a number of completions", id="many"),
        pytest.param(
            cronjob(pod={"terminationGracePeriodSeconds": -1}),
            f"{TEMPLATE}.template.spec.terminationGracePeriodSeconds: must be >= 0",
            id="grace",
        ),
    ],
)
def test_odd_cron_job_is_warned_about_on_create(manifest: Manifest, start: str) -> None:
    # BA 6
    (warning,) = CRON_JOBS.warnings(prepared(manifest), None)
    assert warning.startswith(start)


def test_plain_cron_job_gives_no_warning() -> None:
    plain = prepared(cronjob())
    assert CRON_JOBS.warnings(plain, None) == CRON_JOBS.warnings(plain, plain) == []


def test_template_is_warned_about_again_when_the_spec_changes() -> None:
    # BA 6: by the generation; the name only once
    old = prepared(cronjob("hello.v2", pod={"terminationGracePeriodSeconds": -1}))
    assert CRON_JOBS.warnings(old, old) == []
    (warning,) = CRON_JOBS.warnings({**old, "spec": {**old["spec"], "suspend": True}}, old)
    assert warning.startswith(f"{TEMPLATE}.template.spec")


def test_zone_within_a_stored_schedule_is_warned_about() -> None:
    # BA 6; the doubled `spec.` is upstream's
    old = prepared(cronjob(schedule="TZ=UTC 0 * * * *"))
    assert CRON_JOBS.warnings(old, old) == [
        "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    ]
