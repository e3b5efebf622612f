"""What holds for any schedule, zone and moment, by oracles that know nothing of how the controller searches."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError

from kcr.api.cron import HORIZON, MOST_STEPS, next_run, search
from kcr.api.crontab import parse
from kcr.controllers.cronjob.decisions.schedule import WALK, Timetable, last_run
from tests.kit.cron_oracles import (
    ODD_ZONES,
    PLAIN_ZONES,
    Literal,
    changes,
    drawn_moment,
    drawn_schedule,
    fields,
    scanned,
)

# Halving two years to a second takes 26 looks; the longest pause of a schedule is eight years.
HALVINGS = 30


def assert_agreement_with_a_scan(random: Random, moments: int) -> None:
    """Draw a schedule, a zone and a change of the clocks; compare the next runs after some moments around it."""
    schedule, zone, change = drawn_schedule(random), *drawn_change(random, PLAIN_ZONES)
    end = change + timedelta(days=10)
    expression, runs = parse(schedule.text), scanned(schedule, zone, change - timedelta(days=3), end)
    for _ in range(moments):
        after = drawn_moment(random, change, days=3)
        found, position = next_run(expression, after, zone), bisect_right(runs, after)
        told = f"{schedule.text!r} in {zone} after {after}: {found}"
        if position < len(runs):
            assert found == runs[position], told
        else:
            assert found is None or found >= end, told


def assert_agreement_with_the_words(random: Random, moments: int) -> None:
    """Draw a schedule, a zone of any kind and a change of its clocks; search as the specification words it."""
    schedule, zone, change = drawn_schedule(random), *drawn_change(random, ODD_ZONES + PLAIN_ZONES)
    expression = fields(schedule.text)
    for _ in range(moments):
        after = drawn_moment(random, change, days=random.choice((3, 40)))
        found, steps = search(expression, after, zone)
        assert found == Literal(schedule, zone, after).run(), f"{schedule.text!r} in {zone} after {after}: {found}"
        assert steps < MOST_STEPS / 2


def drawn_change(random: Random, zones: tuple[str, ...]) -> tuple[ZoneInfo, datetime]:
    zone = random.choice(zones)
    return ZoneInfo(zone), random.choice(changes(zone))


# Each seed draws 20 schedules of 25 moments: 1,000 triples, and 100,000 in the soak.
@pytest.mark.parametrize("seed", range(2))
def test_next_run_agrees_with_a_scan_of_minutes(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        assert_agreement_with_a_scan(random, 25)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 202))
def test_next_run_agrees_with_many_scans_of_minutes(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        assert_agreement_with_a_scan(random, 25)


@pytest.mark.parametrize("seed", range(4))
def test_next_run_is_what_the_specification_words(seed: int) -> None:
    random = Random(seed)
    for _ in range(125):
        assert_agreement_with_the_words(random, 4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 204))
def test_next_run_is_what_the_specification_words_many_times(seed: int) -> None:
    random = Random(seed)
    for _ in range(125):
        assert_agreement_with_the_words(random, 4)


def plain_field(random: Random, low: int, high: int) -> str:
    """Numbers, ranges and steps, or a star alone: what every cron understands alike."""
    items = []
    for _ in range(random.choice((1, 1, 2))):
        first, last = sorted(random.sample(range(low, high + 1), 2))
        items.append(random.choice((f"{first}", f"{first}-{last}", f"{first}-{last}/{random.randint(1, 9)}")))
    return random.choice(("*", ",".join(items)))


def assert_agreement_with_cronsim(random: Random) -> None:
    text = " ".join(plain_field(random, *span) for span in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6)))
    after = drawn_moment(random, datetime(2026, 1, 1, tzinfo=UTC), days=3_000)
    found = next_run(parse(text), after, UTC)
    try:
        expected = next(CronSim(text, after))
    except (CronSimError, StopIteration):  # it refuses some schedules that never fall due, and gives up on others
        expected = None
    if expected is not None and expected.year > after.year + HORIZON:
        expected = None
    assert found == expected, f"{text!r} after {after}: {found}"


@pytest.mark.parametrize("seed", range(4))
def test_plain_fields_in_utc_mean_what_cronsim_says(seed: int) -> None:
    random = Random(seed)
    for _ in range(500):
        assert_agreement_with_cronsim(random)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4, 104))
def test_plain_fields_in_utc_mean_what_cronsim_says_many_times(seed: int) -> None:
    random = Random(seed)
    for _ in range(1_000):
        assert_agreement_with_cronsim(random)


# What is rare, what is impossible, and what no field allows at all.
HARD = (
    "0 0 29 2 *", "59 23 29 2 *", "0 0 31 12 *", "59 23 31 12 *", "0 0 31 4,6,9,11 *", "0 0 30,31 2 *", "0 0 31 */2 *",
    ", * * * *", "* , * * *", "* * , * *", "* * * , *", "* * * * ,", "* * , * ,", "30 2 29 2 *", "0 0 1 1 *",
    "0 12 30 12 *",
)  # fmt: skip


@pytest.mark.parametrize("zone", ODD_ZONES + PLAIN_ZONES)
def test_every_search_ends_within_its_steps(zone: str) -> None:
    place = ZoneInfo(zone)
    for text in HARD:
        for year in (1900, 1970, 2011, 2026, 2096, 2099, 9998):
            for month in (2, 3, 12):
                found, steps = search(fields(text), datetime(year, month, 28, 23, 59, 59, tzinfo=UTC), place)
                assert steps <= MOST_STEPS / 4, f"{text!r} in {zone} after {year}-{month}: {found}"


def walked(timetable: Timetable, start: datetime, now: datetime) -> datetime | None:
    found, run = None, timetable.next(start)
    while run is not None and run <= now:
        found, run = run, timetable.next(run)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_last_run_is_the_end_of_the_whole_walk(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        schedule, zone = drawn_schedule(random), ZoneInfo(random.choice(PLAIN_ZONES))
        timetable = Timetable(parse(schedule.text), zone)
        start = drawn_moment(random, datetime(2026, 1, 1, tzinfo=UTC), days=500)
        now = start + timedelta(hours=random.expovariate(1 / 24))
        found, steps = last_run(timetable, start, now)
        assert found == walked(timetable, start, now), f"{schedule.text!r} in {zone} from {start} to {now}: {found}"
        assert steps <= WALK + HALVINGS


# Runs that crowd behind a pause: with months between the first two, up to 260,000 lie behind.
@pytest.mark.parametrize(
    "text", ["* * * 1-2 *", "* * * 1-6 *", "* * 1-7 * *", "* * 29 2 *", "* * * 1-11 *", "*/2 8-9 * 3 1-5", "* * * * 0"]
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Africa/Cairo", "Pacific/Apia"])
def test_walk_over_missed_runs_is_bounded(text: str, zone: str) -> None:
    expression, place = fields(text), ZoneInfo(zone)
    for days in range(10, 4_000, 211):
        now = datetime(2012, 3, 4, 12, 7, 30, tzinfo=UTC) + timedelta(days=days)
        found, steps = last_run(Timetable(expression, place), now - timedelta(days=3_000), now)
        assert found is not None
        assert steps <= WALK + HALVINGS
        following = next_run(expression, found, place)
        assert found <= now
        assert following is not None
        assert following > now
