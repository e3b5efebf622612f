"""Plain lines."""

import pytest

from kcr.api.meta import Key
from kcr.cli.display import PlainDisplay
from kcr.cli.view import JobView

VIEW = JobView(Key("default", "pi"), 1, 1, 1, 0, 0, 0, "Running", "", None, None)


def test_logs_are_data_and_the_rest_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    display.log("3.14")
    display.job(VIEW)
    display.event("job/pi FailedCreate: no", warning=True)
    shown = capsys.readouterr()
    assert shown.out == "3.14\n"
    assert shown.err.splitlines() == [
        "job pi: Running: 1 active (0 ready), 0/1 succeeded, 0 failed",
        "warning: job/pi FailedCreate: no",
    ]


def test_job_that_looks_the_same_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    display.job(VIEW)
    display.job(VIEW)
    assert capsys.readouterr().err.count("\n") == 1
