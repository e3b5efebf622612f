"""Log lines on stderr, as JSON or for people."""

import logging
import sys
from typing import Any

import msgspec
import structlog


class _Stderr:
    """Writes to whatever stderr is at the moment: the live display of `kcr dev` stands in for it for a while."""

    def write(self, text: str) -> None:
        """Write to the present stderr."""
        sys.stderr.write(text)

    def flush(self) -> None:
        """Flush the present stderr."""
        sys.stderr.flush()


class _Forward(logging.Handler):
    """Hands the lines of libraries that use the standard library's logging to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record under the name of its logger."""
        line = structlog.get_logger(logger=record.name)
        line.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def _as_json(value: object, **_: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def configure_logs(form: str | None, level: str) -> None:
    """Set up structlog, and route the standard library's logging into it.

    Args:
        form: `json` or `console`; None chooses by whether stderr is a terminal.
        level: `debug`, `info`, `warning` or `error`.
    """
    number: int = getattr(logging, level.upper())
    human = form == "console" or (form is None and sys.stderr.isatty())
    chain: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if human:
        chain.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()))
    else:
        chain += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_as_json)]
    structlog.configure(
        processors=chain,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=_Stderr()),  # type: ignore[arg-type]  # writes and flushes
        cache_logger_on_first_use=False,
    )
    # Libraries are quieter than we are: their info lines are about every request.
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[_Forward()], force=True)
