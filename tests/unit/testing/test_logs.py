"""The lines that a test's log shows."""

import asyncio

import pytest
import structlog
from structlog.contextvars import bound_contextvars
from structlog.testing import capture_logs

from kcr.log import get_logger, is_configured
from kcr.testing import VirtualClock
from kcr_devcluster.testing.logs import short_lines

log = get_logger()
CONTEXT = {"controller": "website", "namespace": "default", "name": "shop", "reconcile_id": "1"}


@pytest.mark.kcr_virtual
@pytest.mark.usefixtures("unconfigured_logs")
async def test_line_has_virtual_time_level_controller_and_key(
    kcr_clock: VirtualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    with short_lines("info"):
        log.info("ready")
        await kcr_clock.advance(90)
        with bound_contextvars(**CONTEXT):
            log.warning("reconcile failed", error="RetryLater: no text", retries=1)
            log.debug("reconciling")
    assert capsys.readouterr() == (
        "",
        "      0.0  info     ready\n"
        "     90.0  warning  website default/shop: reconcile failed (error=RetryLater: no text, retries=1)\n",
    )


@pytest.mark.asyncio
@pytest.mark.usefixtures("unconfigured_logs")
async def test_real_time_is_that_since_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    with short_lines("info"):
        log.info("begins")
        await asyncio.to_thread(log.info, "in a thread")
    assert capsys.readouterr().err == "      0.0  info     begins\n           info     in a thread\n"


@pytest.mark.usefixtures("unconfigured_logs")
def test_traceback_in_a_test_is_short_and_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with short_lines("info"):
        for _ in range(3):
            try:
                raise TimeoutError("billing")
            except TimeoutError as error:
                log.warning("reconcile failed", exc_info=error)
    printed = capsys.readouterr().err
    assert printed.count("reconcile failed\n") == 3
    assert printed.count("Traceback") == 1
    assert len(printed.splitlines()) <= 8


@pytest.mark.usefixtures("unconfigured_logs")
def test_lines_below_the_level_can_be_captured() -> None:
    with short_lines("error"), capture_logs() as lines:
        log.debug("reconciling")
    assert [line["event"] for line in lines] == ["reconciling"]


@pytest.mark.usefixtures("unconfigured_logs")
def test_nothing_is_left_configured() -> None:
    with short_lines("info"):
        assert structlog.is_configured()
    assert not structlog.is_configured()


@pytest.mark.usefixtures("unconfigured_logs")
def test_configuration_of_the_project_is_kept() -> None:
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    before = structlog.get_config()
    with short_lines("info"):
        assert structlog.get_config() == before
    assert structlog.get_config() == before


@pytest.mark.usefixtures("unconfigured_logs")
def test_configuration_made_by_a_test_stays() -> None:
    with short_lines("info"):
        structlog.configure(processors=[structlog.processors.JSONRenderer()])
    assert structlog.is_configured()


@pytest.mark.usefixtures("unconfigured_logs")
def test_lines_stay_short_after_others_were_captured(capsys: pytest.CaptureFixture[str]) -> None:
    with capture_logs():
        log.info("captured")
    with short_lines("info"):
        log.info("ready")
    assert capsys.readouterr() == ("", "           info     ready\n")
    assert not is_configured()
