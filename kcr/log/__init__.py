"""The logger of the library.

A library that is imported does not configure logging, and is quiet: as long as its program has not configured
structlog, warnings and errors are plain lines on stderr, and all else is dropped. Once structlog is configured, by the
program itself, by `kcr.run` and the commands, or by the test kit, that configuration holds. The defaults of
structlog are no configuration, also where `structlog.testing.capture_logs` has restored it.
"""

import contextvars
import logging
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any, NamedTuple

from kcr.log.lines import Stderr, plain_lines

__all__ = ["about_no_object", "context_setters", "get_logger", "is_configured"]


class Logger:
    """A structlog logger that is quiet as long as structlog is not configured."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._configured: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return a method of the logger that holds at the moment."""
        found = _structlog()
        if not found.is_configured():
            return getattr(found.unconfigured, name)
        if self._configured is None:
            self._configured = found.module.get_logger(*self._names)
        return getattr(self._configured, name)


class _Structlog(NamedTuple):
    """Structlog, imported when the first line is logged: the pytest plugin of kcr loads in every project.

    Attributes:
        module: The library.
        defaults: The configuration that it begins with.
        unconfigured: The logger that holds while it has no other.
    """

    module: Any
    defaults: dict[str, Any]
    unconfigured: Any

    def is_configured(self) -> bool:
        return bool(self.module.is_configured() and self.module.get_config() != self.defaults)


@cache
def _structlog() -> _Structlog:
    import structlog  # noqa: PLC0415  # see above

    # Also where another configuration holds already.
    present = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    # `capture_logs` changes the list of processors in place.
    defaults = {name: copy(value) if name == "processors" else value for name, value in structlog.get_config().items()}
    if present is not None:
        structlog.configure(**present)
    unconfigured: Any = structlog.wrap_logger(
        structlog.WriteLogger(Stderr()),  # type: ignore[arg-type]  # writes and flushes
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, *plain_lines()],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    return _Structlog(structlog, defaults, unconfigured)


def is_configured() -> bool:
    """Return whether structlog has another configuration than the one that it begins with."""
    return _structlog().is_configured()


def get_logger(*names: str) -> Any:
    """Return a logger of the library; use it in place of `structlog.get_logger` in all of its modules.

    Args:
        names: As for `structlog.get_logger`.
    """
    return Logger(*names)


def about_no_object(log: Callable[..., object], *arguments: object, **fields: object) -> None:
    """Log a line that is about no object, without the object of the reconcile that happens to meet its cause.

    Args:
        log: Logs it, such as `get_logger().info`.
        arguments: Its arguments.
        fields: The fields of the line.
    """
    contextvars.copy_context().run(_log_unbound, log, arguments, fields)


def _log_unbound(log: Callable[..., object], arguments: tuple[object, ...], fields: dict[str, object]) -> None:
    from structlog.contextvars import unbind_contextvars  # noqa: PLC0415  # see `_Structlog`

    unbind_contextvars("namespace", "name", "reconcile_id")
    log(*arguments, **fields)


def context_setters(*names: str) -> tuple[Callable[[object], object], ...]:
    """Return functions that set fields of the log lines of a task, four times as fast as `bind_contextvars`.

    Args:
        names: The fields, each of which has one function.
    """
    from structlog.contextvars import bind_contextvars, reset_contextvars  # noqa: PLC0415  # see `_Structlog`

    tokens = bind_contextvars(**dict.fromkeys(names))
    setters = tuple(tokens[name].var.set for name in names)
    reset_contextvars(**tokens)
    return setters
