"""The lines of the log, our own and those of the standard library's logging."""

import logging
import os
import subprocess
import sys

import msgspec
import pytest

from kcr.app.logs import configure_logs
from kcr.log import get_logger


@pytest.fixture(autouse=True)
def restored() -> object:
    """Leave the configuration that all other tests have."""
    yield
    configure_logs("json", "debug")


def test_records_of_libraries_are_lines_like_our_own(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info")
    get_logger().info("ours", a=1)
    logging.getLogger("some.library").warning("%s of theirs", "one")
    logging.getLogger("some.library").info("too quiet")
    printed = capsys.readouterr()
    ours, theirs = (msgspec.json.decode(line) for line in printed.err.splitlines())
    assert ours | {"timestamp": ""} == {"event": "ours", "a": 1, "level": "info", "timestamp": ""}
    assert theirs | {"timestamp": ""} == {
        "event": "one of theirs", "level": "warning", "logger": "some.library", "timestamp": "",
    }  # fmt: skip
    assert len(ours["timestamp"]) == len(theirs["timestamp"])
    assert printed.out == ""


def test_exception_of_a_library_is_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info")
    try:
        raise ZeroDivisionError("no such number")
    except ZeroDivisionError:
        logging.getLogger("asyncio").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    assert msgspec.json.decode(line)["exception"].endswith("ZeroDivisionError: no such number")


def test_console_shows_tracebacks_without_values(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("console", "info")
    token = "secret"
    try:
        raise ZeroDivisionError(len(token))
    except ZeroDivisionError:
        logging.getLogger("asyncio").exception("failed")
    printed = capsys.readouterr().err
    assert "[error    ] failed" in printed
    assert "ZeroDivisionError" in printed
    assert token not in printed.replace('token = "secret"', "")


def test_plain_lines_show_the_same_traceback_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("plain", "info")
    for attempt, text in enumerate(("a", "a", "b")):
        try:
            raise ZeroDivisionError(text)
        except ZeroDivisionError as error:
            get_logger().error("failed", attempt=attempt, exc_info=error)
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if not line.startswith(("  ", "Traceback"))]
    assert lines == [
        "Error: failed (attempt=0)", "ZeroDivisionError: a", "Error: failed (attempt=1)", "Error: failed (attempt=2)",
        "ZeroDivisionError: b",
    ]  # fmt: skip
    assert printed.count("Traceback") == 2


def test_plain_line_begins_with_the_controller_and_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("plain", "info")
    get_logger().warning("late", retries=1, name="a", controller="site", namespace="default")
    get_logger().warning("late", name="one", namespace="", controller="site")
    get_logger().warning("late", controller="site")
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        "Warning: site default/a: late (retries=1)", "Warning: site one: late", "Warning: site: late"
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["json", "console"])
def test_same_traceback_is_shown_once_in_every_form(capsys: pytest.CaptureFixture[str], form: str) -> None:
    configure_logs(form, "info")
    for attempt in range(3):
        try:
            raise TimeoutError("billing")
        except TimeoutError as error:
            get_logger().warning("failed", attempt=attempt, exc_info=error)
            logging.getLogger("asyncio").warning("failed", exc_info=error)
    printed = capsys.readouterr().err
    assert printed.count("failed") == 6
    assert printed.count("Traceback") == 1


def test_errors_that_name_objects_show_few_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json", "info")
    for number in range(100):
        try:
            raise TimeoutError(f"https://billing/{number}")
        except TimeoutError as error:
            get_logger().warning("failed", exc_info=error)
    printed = capsys.readouterr().err
    assert printed.count('"failed"') == 100
    assert printed.count("Traceback") == 3


@pytest.mark.parametrize("form", ["json", "console"])
def test_text_that_is_no_unicode_is_a_line(capsys: pytest.CaptureFixture[str], form: str) -> None:
    configure_logs(form, "info")
    logging.getLogger("server").warning("GET /\udcff failed")
    get_logger().warning("odd", path="/\udcff")
    printed = capsys.readouterr().err
    assert printed.count("\n") == 2
    assert "Logging error" not in printed


LOGS_TO_NO_READER = """
import structlog
from kcr.app.logs import configure_logs

configure_logs("json", "info")
structlog.get_logger().info("started")
"""


def test_reader_that_closes_stderr_changes_no_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", LOGS_TO_NO_READER], stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 0


# Source: https://no-color.org
@pytest.mark.parametrize(
    ("environ", "has_colors"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)],
    ids=["terminal", "no-color", "empty"],
)
def test_colors_of_a_terminal_are_switched_off_by_a_variable(environ: dict[str, str], *, has_colors: bool) -> None:
    ours, theirs = os.openpty()
    code = "from kcr.app.logs import configure_logs; from kcr.log import get_logger; "
    code += "configure_logs(None, 'info'); get_logger().warning('hello')"
    others = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, env={**others, **environ}, check=True)
    os.close(theirs)
    line = os.read(ours, 4096).decode()
    os.close(ours)
    assert "hello" in line
    assert ("\x1b[" in line) is has_colors
