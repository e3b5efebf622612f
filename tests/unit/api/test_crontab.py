"""The schedule language. Sections are of cronjob-controller."""

from datetime import UTC, timedelta
from zoneinfo import ZoneInfo

import pytest

from kcr.api.crontab import CronError, Every, UnknownZoneError, load_zone, parse
from tests.kit.cron_oracles import fields


def values(bits: int) -> list[int]:
    return [value for value in range(bits.bit_length()) if bits >> value & 1]


def message_of(text: str) -> str:
    with pytest.raises(CronError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("item", "minutes"),
    [
        pytest.param("7", [7], id="number"),
        pytest.param("1-4", [1, 2, 3, 4], id="range"),
        pytest.param("1,3,5-7", [1, 3, 5, 6, 7], id="list"),
        pytest.param("1,,2", [1, 2], id="empty-item-skipped"),
        pytest.param(",", [], id="only-empty-items"),
        pytest.param("*/20", [0, 20, 40], id="step"),
        pytest.param("?/20", [0, 20, 40], id="step-of-question-mark"),
        pytest.param("50/4", [50, 54, 58], id="step-from-a-number-to-the-end"),
        pytest.param("10-20/5", [10, 15, 20], id="step-in-a-range"),
        pytest.param("*/100", [0], id="step-beyond-the-range"),
        pytest.param("*-5/30", [0, 30], id="text-after-star-hyphen-ignored"),
        pytest.param("+5", [5], id="sign"),
        pytest.param("05", [5], id="leading-zero"),
    ],
)
def test_item_of_a_field_means_these_values(item: str, minutes: list[int]) -> None:
    assert values(fields(f"{item} * * * *").minutes) == minutes  # §8.2


def test_star_and_question_mark_mean_every_value() -> None:
    star = fields("* * * * *")
    assert star == fields("? ? ? ? ?")
    assert values(star.minutes) == list(range(60))
    assert values(star.hours) == list(range(24))
    assert values(star.days) == list(range(1, 32))
    assert values(star.months) == list(range(1, 13))
    assert values(star.weekdays) == list(range(7))


def test_names_of_months_and_weekdays_take_any_case() -> None:
    named = fields("0 0 * jan,MAR-May SUN,tue-Thu")
    assert values(named.months) == [1, 3, 4, 5]
    assert values(named.weekdays) == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "both"),
    [
        pytest.param("0 0 1,15 * 1", False, id="neither-is-a-star"),
        pytest.param("0 0 * * 1", True, id="day-is-a-star"),
        pytest.param("0 0 ? * 1", True, id="day-is-a-question-mark"),
        pytest.param("0 0 1 * *", True, id="weekday-is-a-star"),
        pytest.param("0 0 */2 * 1", False, id="step-drops-the-star"),
        pytest.param("0 0 */1 * 1", True, id="step-of-one-keeps-the-star"),
        pytest.param("0 0 1 * */1", True, id="step-of-one-in-the-weekday"),
        pytest.param("0 0 1-31 * 1", False, id="full-range-is-no-star"),
        pytest.param("0 0 3,* * 1", True, id="a-star-in-a-list"),
        pytest.param("0 0 *-5 * 1", True, id="star-with-ignored-text"),
    ],
)
def test_star_in_either_day_field_asks_for_both(text: str, both: bool) -> None:
    assert fields(text).both_days is both  # §8.5


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        (" \t0  0\u00a01 *\n* ", "0 0 1 * *"),
    ],
)
def test_descriptors_and_blanks_mean_plain_fields(text: str, same: str) -> None:
    assert parse(text) == parse(same)  # §8.4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # §8.2
        ("", "empty spec string"),
        (" ", "expected exactly 5 fields, found 0: []"),
        ("nope", "expected exactly 5 fields, found 1: [nope]"),
        ("*  * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]"),
        (" @hourly", "expected exactly 5 fields, found 1: [@hourly]"),
        ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("TZ=Bad/Zone * * * * *", "provided bad location Bad/Zone: unknown time zone Bad/Zone"),
        ("CRON_TZ=europe/berlin2 * * * * *", "provided bad location europe/berlin2: unknown time zone europe/berlin2"),
        # §8.3
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("*5 * * * *", 'failed to parse int from *5: strconv.Atoi: parsing "*5": invalid syntax'),
        ("1_0 * * * *", 'failed to parse int from 1_0: strconv.Atoi: parsing "1_0": invalid syntax'),
        ("0x1 * * * *", 'failed to parse int from 0x1: strconv.Atoi: parsing "0x1": invalid syntax'),
        ("\uff15 * * * *", 'failed to parse int from \uff15: strconv.Atoi: parsing "\uff15": invalid syntax'),
        ("+ * * * *", 'failed to parse int from +: strconv.Atoi: parsing "+": invalid syntax'),
        ('" * * * *', 'failed to parse int from ": strconv.Atoi: parsing "\\"": invalid syntax'),
        ("5- * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("-5 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("*/ * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("/5 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("*/mon * * * *", 'failed to parse int from mon: strconv.Atoi: parsing "mon": invalid syntax'),
        ("0 0 * * L", 'failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        ("0 0 15W * *", 'failed to parse int from 15W: strconv.Atoi: parsing "15W": invalid syntax'),
        ("0 0 * * 5#2", 'failed to parse int from 5#2: strconv.Atoi: parsing "5#2": invalid syntax'),
        ("0 0 * * monday", 'failed to parse int from monday: strconv.Atoi: parsing "monday": invalid syntax'),
        (
            "9223372036854775808 * * * *",
            'failed to parse int from 9223372036854775808: strconv.Atoi: parsing "9223372036854775808": '
            "value out of range",
        ),
        ("*/-5 * * * *", "negative number (-5) not allowed: -5"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/5/2 * * * *", "too many slashes: */5/2"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("60/5 * * * *", "beginning of range (60) beyond end of range (59): 60/5"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("* * * * FRI-MON", "beginning of range (5) beyond end of range (1): FRI-MON"),
        ("* * * * 0-7", "end of range (7) above maximum (6): 0-7"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("0 24 * * *", "end of range (24) above maximum (23): 24"),
        ("0 0 0-40/0 * *", "beginning of range (0) below minimum (1): 0-40/0"),
        ("0 0 9-40/0 * *", "end of range (40) above maximum (31): 9-40/0"),
        ("5-1/0 * * * *", "beginning of range (5) beyond end of range (1): 5-1/0"),
        ("60 24 * * *", "end of range (60) above maximum (59): 60"),
        ("1,60,x * * * *", "end of range (60) above maximum (59): 60"),
        # §8.4
        ("@reboot", "unrecognized descriptor: @reboot"),
        ("@Hourly", "unrecognized descriptor: @Hourly"),
        ("@hourly ", "unrecognized descriptor: @hourly "),
        ("@every", "unrecognized descriptor: @every"),
        ("@every 1d", 'failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("@every ", 'failed to parse duration @every : time: invalid duration ""'),
        ("@every -", 'failed to parse duration @every -: time: invalid duration "-"'),
        ("@every h", 'failed to parse duration @every h: time: invalid duration "h"'),
        ("@every .s", 'failed to parse duration @every .s: time: invalid duration ".s"'),
        ("@every 1m.", 'failed to parse duration @every 1m.: time: invalid duration "1m."'),
        ("@every 1 h", 'failed to parse duration @every 1 h: time: unknown unit " h" in duration "1 h"'),
        ("@every 2562048h", 'failed to parse duration @every 2562048h: time: invalid duration "2562048h"'),
    ],
)
def test_text_that_is_no_schedule_says_why(text: str, message: str) -> None:
    assert message_of(text) == message


@pytest.mark.parametrize("digits", [21, 10_000])
def test_numbers_of_any_length_are_out_of_range(digits: int) -> None:
    number = "9" * digits
    expected = f'failed to parse int from {number}: strconv.Atoi: parsing "{number}": value out of range'
    assert message_of(f"{number} * * * *") == expected
    assert message_of(f"@every {number}h").endswith(f'time: invalid duration "{number}h"')


@pytest.mark.parametrize(
    ("duration", "delay"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("+1.5h", timedelta(minutes=90)),
        ("1.9s", timedelta(seconds=1)),
        (".5m", timedelta(seconds=30)),
        ("2.m", timedelta(minutes=2)),
        ("61000ms", timedelta(seconds=61)),
        ("2000000us", timedelta(seconds=2)),
        ("2000000\u00b5s", timedelta(seconds=2)),
        ("2000000\u03bcs", timedelta(seconds=2)),
        ("3000000000ns", timedelta(seconds=3)),
        ("0", timedelta(seconds=1)),
        ("1ms", timedelta(seconds=1)),
        ("-5m", timedelta(seconds=1)),
        ("2562047h47m16s", timedelta(hours=2562047, minutes=47, seconds=16)),
    ],
)
def test_every_waits_whole_seconds_and_at_least_one(duration: str, delay: timedelta) -> None:
    assert parse(f"@every {duration}") == Every(delay)  # §8.4


@pytest.mark.parametrize("prefix", ["TZ=Europe/Rome ", "CRON_TZ=Europe/Rome   "])
def test_prefix_names_the_zone_of_fields(prefix: str) -> None:
    assert fields(f"{prefix}0 6 * * *").zone is ZoneInfo("Europe/Rome")
    assert fields(f"{prefix}@daily ") == fields(f"{prefix}0 0 * * *")
    assert parse(f"{prefix}@every 1h") == parse("@every 1h")


def test_empty_zone_of_a_prefix_is_utc() -> None:
    assert fields("TZ= 0 6 * * *").zone is UTC


def test_fields_without_prefix_leave_the_zone_open() -> None:
    assert fields("0 12 * * *").zone is None


@pytest.mark.parametrize("name", ["", "UTC"])
def test_utc_has_two_names(name: str) -> None:
    assert load_zone(name) is UTC  # §9.1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Bad/Zone", "unknown time zone Bad/Zone"),
        ("Europe/\ud800", "unknown time zone Europe/\ud800"),
        ("Europe", "is a directory"),
        ("/etc/passwd", "time: invalid location name"),
        ("../UTC", "time: invalid location name"),
        ("Europe/Berlin\0", "malformed time zone information"),
        ("x" * 5_000, "file name too long"),
        ("zone.tab", "malformed time zone information"),
    ],
)
def test_names_of_no_zone_are_refused_with_the_cause(name: str, words: str) -> None:
    """Source: Go's time.LoadLocation."""
    with pytest.raises(UnknownZoneError) as caught:
        load_zone(name)
    assert str(caught.value) == words
