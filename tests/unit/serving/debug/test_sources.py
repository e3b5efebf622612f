import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.core import Pod
from kcr.serving.debug.sources import is_called, retried


@pytest.mark.parametrize("name", ["jobs", "job", "Job", "JOBS", "jobs.batch", "job.batch", "jobs.v1.batch"])
def test_kind_is_called_as_kubectl_calls_it(name: str) -> None:
    assert is_called(Job.resource, name)
    assert not is_called(CronJob.resource, name)


@pytest.mark.parametrize("name", ["jobs.apps", "jo", "", "cronjobs"])
def test_other_names_are_not_its_own(name: str) -> None:
    assert not is_called(Job.resource, name)


def test_short_names_count() -> None:
    assert is_called(CronJob.resource, "cj")
    assert is_called(CronJob.resource, "cj.batch")
    assert is_called(Pod.resource, "po")
    assert is_called(Pod.resource, "pods")


def test_change_while_reading_is_read_again() -> None:
    attempts: list[int] = []

    def read() -> str:
        attempts.append(len(attempts))
        if len(attempts) < 3:
            raise RuntimeError("dictionary changed size during iteration")
        return "read"

    assert retried(read) == "read"
