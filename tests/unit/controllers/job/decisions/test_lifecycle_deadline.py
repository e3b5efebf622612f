from datetime import datetime, timedelta

import pytest

from kcr.api.batch import JobStatus
from kcr.controllers.job.decisions.lifecycle import time_to_deadline
from tests.kit.builders import NOW, ago, job


@pytest.mark.parametrize(
    ("limit", "started", "suspend", "left"),
    [
        pytest.param(None, ago(60), False, None, id="no-deadline"),
        pytest.param(100, None, False, None, id="not-started"),
        pytest.param(100, ago(60), True, None, id="suspended"),
        pytest.param(100, ago(60), False, timedelta(seconds=40), id="running"),
        pytest.param(60, ago(60), False, timedelta(), id="just-over"),
        pytest.param(10, ago(60), False, timedelta(seconds=-50), id="long-over"),
    ],
)
def test_deadline_counts_from_start_unless_suspended(
    limit: int | None, started: datetime | None, suspend: bool, left: timedelta | None
) -> None:
    one = job(active_deadline_seconds=limit, suspend=suspend, status=JobStatus(start_time=started))
    assert time_to_deadline(one, NOW) == left
