import pytest

from kcr.controllers.job.decisions.lifecycle import is_complete
from tests.kit.builders import job


@pytest.mark.parametrize(
    ("completions", "succeeded", "active", "complete"),
    [
        pytest.param(2, 1, 0, False, id="too-few"),
        pytest.param(2, 2, 0, True, id="enough"),
        pytest.param(2, 3, 0, True, id="more-than-enough"),
        pytest.param(2, 2, 1, False, id="one-still-active"),
        pytest.param(0, 0, 0, True, id="nothing-to-do"),
        pytest.param(None, 0, 0, False, id="work-queue-untouched"),
        pytest.param(None, 1, 0, True, id="work-queue-done"),
        pytest.param(None, 1, 2, False, id="work-queue-still-active"),
    ],
)
def test_job_is_complete_when_enough_succeeded_and_none_is_active(
    completions: int | None, succeeded: int, active: int, complete: bool
) -> None:
    assert is_complete(job(completions=completions), succeeded, active) is complete
