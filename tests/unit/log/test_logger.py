"""The logger of the library in programs that configure nothing, and in those that do."""

import logging

import pytest
import structlog
from structlog.testing import capture_logs

from kcr.log import get_logger

pytestmark = pytest.mark.usefixtures("unconfigured_logs")

log = get_logger("test")


def test_library_prints_nothing_below_warning(capsys: pytest.CaptureFixture[str]) -> None:
    log.debug("reconciling")
    log.info("ready")
    assert not log.is_enabled_for(logging.INFO)
    assert not structlog.is_configured()
    assert capsys.readouterr() == ("", "")


def test_warning_of_the_library_is_a_plain_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    log.warning("watch closed", kind="pods")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Warning: watch closed (kind=pods)\n")


def test_traceback_without_configuration_has_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    token = "secret"
    for _ in range(2):
        try:
            raise ZeroDivisionError(len(token))
        except ZeroDivisionError as error:
            log.error("failed", exc_info=error)
    printed = capsys.readouterr().err
    assert printed.count("Error: failed") == 2
    assert printed.count("Traceback") == 1
    assert token not in printed.replace("len(token)", "")


def test_configuration_of_the_program_holds(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.configure(processors=[structlog.processors.KeyValueRenderer(key_order=["event"])])
    log.info("ready", kind="pods")
    assert capsys.readouterr() == ("event='ready' kind='pods'\n", "")


def test_logger_of_the_program_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.get_logger().info("mine")  # noqa: TID251  # a program's
    assert "mine" in capsys.readouterr().out


def test_library_is_quiet_again_after_lines_were_captured(capsys: pytest.CaptureFixture[str]) -> None:
    with capture_logs() as lines:
        log.debug("reconciling")
    log.debug("reconciling")
    log.warning("watch closed")
    assert [line["event"] for line in lines] == ["reconciling"]
    assert capsys.readouterr() == ("", "Warning: watch closed\n")


def test_program_that_changes_one_setting_is_configured(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    log.info("ready")
    assert "ready" in capsys.readouterr().out
