"""Plain lines."""

import pytest

from kcr.api.meta import Key
from kcr.cli.display import PlainDisplay
from kcr.cli.view import EventView, JobView

VIEW = JobView(Key("default", "pi"), 1, 1, 1, 0, 0, 0, "Running", "", None, None)


def test_logs_are_data_and_the_rest_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    display.log("3.14")
    display.job(VIEW)
    display.event(EventView("job/pi", "FailedCreate", "no", warning=True))
    display.event(EventView("job/pi", "Completed", "Job completed", warning=False))
    shown = capsys.readouterr()
    assert shown.out == "3.14\n"
    assert shown.err.splitlines() == [
        "job pi: Running: 0/1 succeeded, 1 active",
        "  ! job/pi: FailedCreate: no",
        "  - job/pi: Completed: Job completed",
    ]


def test_job_without_news_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    display.job(VIEW._replace(active=0))
    display.job(VIEW)
    display.job(VIEW._replace(ready=1))
    assert capsys.readouterr().err.count("\n") == 1
