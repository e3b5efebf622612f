import random

import pytest

from kcr.controllers.job.decisions.lifecycle import surplus, wanted_active
from tests.kit.builders import ago, job, pod


@pytest.mark.parametrize(
    ("parallelism", "completions", "active", "succeeded", "expected"),
    [
        pytest.param(5, 3, 0, 0, 3, id="never-more-than-completions"),
        pytest.param(2, 4, 2, 3, 1, id="what-is-missing"),
        pytest.param(2, 4, 0, 5, 0, id="never-below-zero"),
        pytest.param(5, None, 2, 0, 5, id="work-queue"),
        pytest.param(5, None, 2, 1, 2, id="work-queue-after-success"),
        pytest.param(0, None, 2, 0, 0, id="paused-by-zero"),
    ],
)
def test_number_of_active_pods_follows_spec_and_successes(
    parallelism: int, completions: int | None, active: int, succeeded: int, expected: int
) -> None:
    assert wanted_active(job(parallelism=parallelism, completions=completions), active, succeeded) == expected


def test_pods_that_got_least_far_go_first() -> None:
    # job-controller §14.4 and rows 16, 17.
    order = [
        pod("unscheduled", "Pending", node=""),
        pod("pending", "Pending"),
        pod("unknown", "Unknown"),
        pod("running-restarted", restarts=3),
        pod("running-young", created=ago(5)),
        pod("running-old", created=ago(50)),
        pod("ready-lately", ready_since=ago(5)),
        pod("ready-long", ready_since=ago(50)),
    ]
    shuffled = order[:]
    random.Random(7).shuffle(shuffled)
    assert surplus(shuffled, len(order)) == tuple(order)
    assert surplus(shuffled, 1) == (order[0],)


def test_nothing_goes_when_there_are_too_few() -> None:
    assert surplus([pod()], 0) == surplus([pod()], -3) == ()
