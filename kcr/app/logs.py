"""The standard streams, and log lines on stderr, as JSON or for people."""

import io
import json
import logging
import os
import sys

import msgspec
import structlog
from structlog.typing import Processor

from kcr.log.lines import Stderr, TracebackOnce, plain_lines
from kcr.log.ratelimited import KeyLogLimit
from kcr.tracing import add_trace_ids


def _as_json(value: object, **_: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        # A surrogate, as in the path of a request that is not UTF-8: it is escaped.
        return json.dumps(value, default=str)


def configure_logs(form: str | None, level: str) -> None:
    """Set up structlog, and render the records of the standard library's logging in the same form.

    Args:
        form: `json`, `console` or `plain`; None chooses `json` or `console` by whether stderr is a terminal.
        level: `debug`, `info`, `warning`, `error` or `critical`; no line has the last.
    """
    number: int = getattr(logging, level.upper())
    human = form == "console" or (form is None and sys.stderr.isatty())
    chain: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without the values of variables, also for people: tokens are among them.
    renderers: list[Processor] = [TracebackOnce(), structlog.processors.JSONRenderer(serializer=_as_json)]
    if form == "plain":
        renderers = plain_lines()
    elif human:
        plain = structlog.dev.plain_traceback
        # Source: https://no-color.org
        colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        renderers[1] = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)
    structlog.configure(
        processors=[chain[0], KeyLogLimit(), *chain[1:], *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=Stderr()),  # type: ignore[arg-type]  # writes and flushes
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(Stderr())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *chain],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    # Libraries are quieter than we are: their info lines are about every request.
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def open_standard_streams() -> None:
    """Make the standard streams usable: closed ones get the null device, or the next file would take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # As stderr does: where the locale has no UTF-8, a character of a log is no error.
        sys.stdout.reconfigure(errors="backslashreplace")
