from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.conditions import is_condition_true
from kcr.api.meta import is_controlled_by
from kcr.testing import build


def test_pod_is_as_its_phase_says() -> None:
    pending, failed = build.pod(), build.pod(phase="Failed", exit_code=3)
    assert (pending.spec.node_name, pending.status.container_statuses) == ("", ())
    ended = failed.status.container_statuses[0].state.terminated
    assert ended is not None
    assert ended.exit_code == 3
    assert is_condition_true(build.pod(phase="Running", ready=True).status.conditions, "Ready")


def test_job_takes_fields_of_its_spec_and_of_its_metadata() -> None:
    job = build.job("pi", completions=3, labels={"a": "b"})
    assert (job.spec.completions, job.spec.parallelism, job.metadata.labels) == (3, 1, {"a": "b"})
    assert codec.decode(Job, codec.encode(job)) == job


def test_owner_controls_what_is_built_for_it() -> None:
    job = build.job("pi")
    assert is_controlled_by(build.pod("pi-1", owner=job), job)
