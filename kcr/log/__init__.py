"""The logger of the library.

A library that is imported does not configure logging, and is quiet: as long as its program has not configured
structlog, warnings and errors are plain lines on stderr, and all else is dropped. Once structlog is configured, by the
program itself, by `kcr.run` and the commands, or by the test kit, that configuration holds.
"""

import logging
from typing import Any

import structlog

from kcr.log.lines import Stderr, plain_lines

__all__ = ["Logger", "get_logger"]


class Logger:
    """A structlog logger that is quiet as long as structlog is not configured."""

    def __init__(self, *names: str) -> None:
        self._configured: Any = structlog.get_logger(*names)  # noqa: TID251  # where it is wrapped

    def __getattr__(self, name: str) -> Any:
        """Return a method of the logger that holds at the moment."""
        return getattr(self._configured if structlog.is_configured() else _unconfigured, name)


_unconfigured: Any = structlog.wrap_logger(
    structlog.WriteLogger(Stderr()),  # type: ignore[arg-type]  # writes and flushes
    processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, *plain_lines()],
    wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
)


def get_logger(*names: str) -> Any:
    """Return a logger of the library; use it in place of `structlog.get_logger` in all of its modules.

    Args:
        names: As for `structlog.get_logger`.
    """
    return Logger(*names)
