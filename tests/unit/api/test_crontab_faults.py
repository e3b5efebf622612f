"""The words in which schedules are refused. Sections are those of the CronJob controller's specification."""

import pytest

from kcr.api.crontab import CronError, parse

NOT_A_NUMBER = 'failed to parse int from {0}: strconv.Atoi: parsing "{0}": invalid syntax'
MINUTES_FIRST = [
    # cronjob-controller §8.3
    ("x", NOT_A_NUMBER.format("x")),
    ("5-", NOT_A_NUMBER.format("")),
    ("-5", NOT_A_NUMBER.format("")),
    ("*/", NOT_A_NUMBER.format("")),
    ("/5", NOT_A_NUMBER.format("")),
    ("9" * 20, f'failed to parse int from {"9" * 20}: strconv.Atoi: parsing "{"9" * 20}": value out of range'),
    ("*/-5", "negative number (-5) not allowed: -5"),
    ("1-2-3", "too many hyphens: 1-2-3"),
    ("*/5/2", "too many slashes: */5/2"),
    ("*/0", "step of range should be a positive number: */0"),
    ("60", "end of range (60) above maximum (59): 60"),
    ("60/5", "beginning of range (60) beyond end of range (59): 60/5"),
    ("5-1", "beginning of range (5) beyond end of range (1): 5-1"),
    # §8.2
    ("*5", NOT_A_NUMBER.format("*5")),
    ("1_0", NOT_A_NUMBER.format("1_0")),
    ("0x1", NOT_A_NUMBER.format("0x1")),
    ("\uff19", NOT_A_NUMBER.format("\uff19")),
    ("1,*/0", "step of range should be a positive number: */0"),
    ("*", ""),
    ("?", ""),
    ("*-5", ""),
    ("*/100", ""),
    ("5/100", ""),
    (",", ""),
    ("1,,2", ""),
    ("+5", ""),
    ("05", ""),
]
WHOLE = [
    ("", "empty spec string"),
    ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    ("* * * * FRI-MON", "beginning of range (5) beyond end of range (1): FRI-MON"),
    ("* * * * 0-7", "end of range (7) above maximum (6): 0-7"),
    ("* * * JAN-dec Sun,mon-fri", ""),
    ("* * * */jan *", NOT_A_NUMBER.format("jan")),
    ("* * * * L", NOT_A_NUMBER.format("L")),
    ("\u3000* \t * *\u00a0* * ", ""),
    ("*\x1f* * * * *", NOT_A_NUMBER.format(r"*\x1f*").replace(r"from *\x1f*", "from *\x1f*")),
    ("TZ=UTC 0 * * * *", ""),
    ("TZ= 0 * * * *", ""),
    ("CRON_TZ=Europe/Berlin  @hourly ", ""),
    ("TZ=UTC ", "expected exactly 5 fields, found 0: []"),
    ("TZ=Bad/Zone * * * * *", "provided bad location Bad/Zone: unknown time zone Bad/Zone"),
    ("TZ=Europe * * * * *", "provided bad location Europe: is a directory"),
    ("TZ=Europe/Berlin/x * * * * *", "provided bad location Europe/Berlin/x: not a directory"),
    ("TZ=zone.tab * * * * *", "provided bad location zone.tab: malformed time zone information"),
    ("TZ=UTC.. * * * * *", "provided bad location UTC..: time: invalid location name"),
    ("TZ=/etc/localtime * * * * *", "provided bad location /etc/localtime: time: invalid location name"),
    (f"TZ={'a/' * 5000} * * * * *", f"provided bad location {'a/' * 5000}: file name too long"),
    ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
    # §8.4
    ("@yearly", ""),
    ("@annually", ""),
    ("@monthly", ""),
    ("@weekly", ""),
    ("@daily", ""),
    ("@midnight", ""),
    ("@hourly", ""),
    ("@Hourly", "unrecognized descriptor: @Hourly"),
    ("@hourly ", "unrecognized descriptor: @hourly "),
    (" @hourly", "expected exactly 5 fields, found 1: [@hourly]"),
    ("@every", "unrecognized descriptor: @every"),
]
BEYOND = "2562047h47m16.854775808s"
DURATIONS = [
    ("1s", ""),
    ("0", ""),
    ("-1.5h30m", ""),
    ("1us1\u00b5s1\u03bcs1ns.5ms", ""),
    (f"-{BEYOND}", ""),
    (BEYOND, f'time: invalid duration "{BEYOND}"'),
    ("9" * 5000 + "h", f'time: invalid duration "{"9" * 5000}h"'),
    ("1d", 'time: unknown unit "d" in duration "1d"'),
    ("1\u00b5d", r'time: unknown unit "\xc2\xb5d" in duration "1\xc2\xb5d"'),
    ("5", 'time: missing unit in duration "5"'),
    ("1h5", 'time: missing unit in duration "1h5"'),
    ("", 'time: invalid duration ""'),
    ("-", 'time: invalid duration "-"'),
    (".s", 'time: invalid duration ".s"'),
    (" 1s", 'time: invalid duration " 1s"'),
    ('"', r'time: invalid duration "\""'),
]
TABLE = [
    *((f"{item} * * * *", fault) for item, fault in MINUTES_FIRST),
    *WHOLE,
    *(
        (f"@every {text}", fault and f"failed to parse duration @every {text}: {fault}")
        for text, fault in DURATIONS
    ),
]  # fmt: skip


def fault_of(text: str) -> str:
    try:
        parse(text)
    except CronError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("text", "fault"), TABLE)
def test_fault_is_told_in_the_parsers_words(text: str, fault: str) -> None:
    assert fault_of(text) == fault


@pytest.mark.parametrize("text", ["{} * * * *", "@every {}h"])
def test_thousands_of_leading_zeros_are_a_number(text: str) -> None:
    assert fault_of(text.format("0" * 5000 + "5")) == ""
