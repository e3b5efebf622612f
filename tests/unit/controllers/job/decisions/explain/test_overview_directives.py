"""`kcr explain` shows the annotations of a Job: in force, ignored, and the time of their effect."""

from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.explanation import Explanation
from kcr.api.meta import Condition
from kcr.controllers.job.decisions.directives import own_limits
from kcr.controllers.job.decisions.explain import Evidence, explain
from kcr.controllers.job.decisions.plan import Limits
from tests.kit.builders import ago, job, pod, snapshot


def annotated(found: Job, **texts: str) -> Job:
    annotations = {f"kcr.dev/{name.replace('_', '-')}": text for name, text in texts.items()}
    managed = replace(found.spec, managed_by="kcr.dev/job-controller")
    return replace(found, spec=managed, metadata=replace(found.metadata, annotations=annotations))


def explained(found: Job, *pods: object) -> Explanation:
    return explain(snapshot(found, *pods), Evidence(pods=pods, is_own=True))  # type: ignore[arg-type]  # pods


def steps(found: Explanation) -> list[str]:
    return [step.text for step in found.steps]


def test_deadline_of_a_pod_that_has_not_started_is_a_step() -> None:
    shown = explained(annotated(job(), start_deadline="10m"), pod("a", "Pending", created=ago(60), node=""))
    assert "start-deadline 10m" in shown.wanted
    step = next(step for step in shown.steps if "PodsNeverStarted" in step.text)
    assert step.text == "fails with PodsNeverStarted, unless pod a has started (cause other)"
    assert step.at == ago(-540)


def test_running_pod_has_no_deadline() -> None:
    shown = explained(annotated(job(), start_deadline="10m"), pod("a", created=ago(60)))
    assert not any("PodsNeverStarted" in text for text in steps(shown))


def test_backoff_of_the_job_is_the_time_of_the_step() -> None:
    found = annotated(job(), backoff="1m..5m")
    seen = snapshot(found, pod("a", "Failed", finished=ago(15)), limits=own_limits(found, Limits()))
    (step, _) = explain(seen, Evidence(pods=seen.pods, is_own=True)).steps
    assert step.text.startswith("replaces what failed")
    assert step.at == ago(-45)


def test_failed_job_is_removed_after_the_time_of_its_annotation() -> None:
    failed = JobStatus(conditions=(Condition(type="Failed", status="True", last_transition_time=ago(60)),))
    found = annotated(job(status=failed, ttl_seconds_after_finished=10), ttl_after_failure="1h")
    (step,) = explained(found).steps
    assert (step.text, step.at) == ("is deleted with its pods (kcr.dev/ttl-after-failure)", ago(-3540))


def test_ignored_annotation_is_a_reason() -> None:
    shown = explained(annotated(job(), start_deadline="soon"), pod("a"))
    assert any(text.startswith("annotation kcr.dev/start-deadline: 'soon' is ignored") for text in shown.reasons)
