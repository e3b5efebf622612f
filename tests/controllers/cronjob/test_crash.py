"""The controller may crash after any write and restart: no run is started twice, and the status is right."""

from collections.abc import Mapping

import pytest

from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import (
    EVERY_LOSS,
    MOST_WRITES,
    WriteFault,
    crash_after_writes,
    in_virtual_time,
    live_undisturbed,
    lose_replies,
)
from tests.kit.cronjob_stories import DIFFERENT, LATE, STORIES, life, live


@pytest.mark.parametrize("name", STORIES)
def test_story_without_faults_is_what_the_others_are_measured_by(name: str) -> None:
    assert live_undisturbed(life(name)) >= 10


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("name", DIFFERENT)
def test_crash_after_any_write_starts_the_same_runs(name: str, most: int | None) -> None:
    crash_after_writes(life(name), most)


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("name", DIFFERENT)
def test_lost_reply_of_any_write_starts_the_same_runs(name: str, most: int | None) -> None:
    lose_replies(life(name), most)


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("name", ["forbid", "replace", "nothing-kept"])
def test_outage_after_any_write_starts_no_run_twice(name: str, most: int | None) -> None:
    crash_after_writes(life(name), most, outage=70)


@pytest.mark.parametrize("name", STORIES)
def test_late_watches_start_the_same_runs(name: str) -> None:
    in_virtual_time(live(WriteFault(late=LATE), STORIES[name]))


@pytest.mark.parametrize("late", [{}, LATE], ids=["watches-in-time", "late-watches"])
@pytest.mark.parametrize("name", DIFFERENT)
def test_two_controllers_by_mistake_start_the_same_runs(name: str, late: Mapping[str, float]) -> None:
    in_virtual_time(live(WriteFault(late=late, concurrent=True), STORIES[name]))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("outage", [0.0, 1.0, 30.0, 70.0, 130.0])
# A Job that is deleted before its run is on record leaves no trace of it.
@pytest.mark.parametrize("name", sorted(set(STORIES) - {"lost-job"}))
def test_crash_under_late_watches_starts_no_run_twice(name: str, outage: float) -> None:
    crash_after_writes(life(name), outage=outage, late=LATE)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("name", STORIES)
def test_lost_reply_under_late_watches_starts_the_same_runs(name: str, loss: Loss) -> None:
    lose_replies(life(name), loss=loss, late=LATE)
