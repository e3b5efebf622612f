"""The lives of Jobs and of sharded replicas with the timers of uvloop: early, in whole milliseconds, out of order."""

import pytest
from structlog.testing import capture_logs

from tests.chaos import job_runs, shard_runs
from tests.kit.loops import COARSE, on_coarse_loops, run_on

NEVER_IDLE = "the event loop is never idle, so virtual time passes although work is left"


@pytest.mark.timeout(60)
@on_coarse_loops
def test_laws_of_jobs_hold_and_no_timer_spins(name: str) -> None:
    seed = int(name.removeprefix("coarse-"))
    with capture_logs() as lines:
        assert run_on(COARSE[name], job_runs.Run(seed, lambda _: None).live()) == []
    assert NEVER_IDLE not in {line["event"] for line in lines}


@pytest.mark.soak
@pytest.mark.timeout(0)
@on_coarse_loops
def test_laws_of_shards_hold_and_no_timer_spins(name: str) -> None:
    seed = int(name.removeprefix("coarse-"))
    with capture_logs() as lines:
        wrongs, _ = run_on(COARSE[name], shard_runs.live(seed))
    assert wrongs == []
    assert NEVER_IDLE not in {line["event"] for line in lines}
