"""The log of a test: short lines on stderr, in the time of the test's loop, which pytest shows where the test fails.

```
      0.0  info     manager: ready: caches are synced, workers run
     60.0  warning  website default/shop: reconcile failed (error=RetryLater: no ConfigMap texts, retries=1)
```

The columns are those of the timeline. Tracebacks have no values of variables, and each is printed once.
"""

import asyncio
import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from kcr.log import is_configured
from kcr.log.lines import Stderr, TracebackOnce, details_of, who_of
from kcr_devcluster.testing.loop import VirtualLoop

# Fields of no use in a test: the order of lines and their time identify the reconcile.
_LEFT_OUT = ("reconcile_id", "trace_id", "span_id")


@contextmanager
def short_lines(level: str) -> Iterator[None]:
    """Configure structlog while the context lives, unless the project has done so.

    Args:
        level: `debug`, `info`, `warning` or `error`: which lines are printed. `structlog.testing.capture_logs` has all.
    """
    if is_configured():
        yield
        return
    structlog.configure(
        processors=[
            _AtLeast(getattr(logging, level.upper())),
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            TracebackOnce(),
            _ShortLines(),
        ],
        # Lines below the level are dropped by a processor, so that a test can still capture them.
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.WriteLoggerFactory(file=Stderr()),  # type: ignore[arg-type]  # writes and flushes
    )
    ours = structlog.get_config()
    try:
        yield
    finally:
        # The test's own configuration stays.
        if structlog.get_config() == ours:
            structlog.reset_defaults()


class _AtLeast:
    """A structlog processor that drops lines below a level."""

    def __init__(self, level: int) -> None:
        self._level = level

    def __call__(self, _logger: object, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if structlog.processors.NAME_TO_LEVEL.get(method, self._level) < self._level:
            raise structlog.DropEvent
        return fields


class _ShortLines:
    """Renders records: the seconds of the loop, level, who, and the event."""

    def __init__(self) -> None:
        # The time of the first line, on a loop whose time does not begin at 0.
        self._began: float | None = None

    def __call__(self, _logger: object, _method: str, fields: MutableMapping[str, Any]) -> str:
        for name in _LEFT_OUT:
            fields.pop(name, None)
        seconds, level, event, trace = (
            self._seconds(),
            fields.pop("level"),
            fields.pop("event", ""),
            fields.pop("exception", ""),
        )
        who = who_of(fields)
        details = details_of(fields)
        line = f"{seconds:>9}  {level:7}  {who}{event}{f' ({details})' if details else ''}"
        return f"{line}\n{trace}" if trace else line

    def _seconds(self) -> str:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # A thread, or a test without a loop.
            return ""
        if isinstance(loop, VirtualLoop):
            return f"{loop.time():.1f}"
        if self._began is None:
            self._began = loop.time()
        return f"{loop.time() - self._began:.1f}"
