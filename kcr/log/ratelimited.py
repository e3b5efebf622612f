"""Rate-limited log lines for repeated failures: one per interval, with a count of the omitted ones."""

import asyncio
import contextvars
from collections.abc import MutableMapping
from typing import Any, NamedTuple

import structlog

from kcr.log import get_logger

EVERY_SECONDS = 30.0
# So many warnings and errors of one key are written within a minute.
MOST_LINES, MINUTE_SECONDS = 20, 60.0
_COUNTED = frozenset({"warning", "error", "critical"})


class RateLimitedLogger:
    """Logs one line in 30 s; each says how many were left out since the one before (IN-15).

    Attributes:
        left_out: How many lines were left out since the last one.
    """

    def __init__(self, log: Any, every_seconds: float = EVERY_SECONDS) -> None:
        """Make a logger.

        Args:
            log: The structlog logger that writes the lines.
            every_seconds: How long the lines after one are left out.
        """
        self.left_out: int = 0
        self._log = log
        self._every = every_seconds
        self._logged_at = float("-inf")

    def error(self, now: float, message: str, **details: object) -> None:
        """Log an error, or count it for the next line.

        Args:
            now: The loop's time.
            message: The fault.
            details: More of it.
        """
        self._write(self._log.error, now, message, details)

    def warning(self, now: float, message: str, **details: object) -> None:
        """Log a warning, or count it for the next line; the arguments are those of `error`."""
        self._write(self._log.warning, now, message, details)

    def reset(self) -> None:
        """Let the next line be written whenever it comes, and count from zero."""
        self.left_out, self._logged_at = 0, float("-inf")

    def _write(self, write: Any, now: float, message: str, details: dict[str, object]) -> None:
        if now - self._logged_at < self._every:
            self.left_out += 1
            return
        counted = {"left_out": self.left_out} if self.left_out else {}
        write(message, **details, **counted)
        self.left_out, self._logged_at = 0, now


class LogKey(NamedTuple):
    """Whose reconcile a log line is of."""

    controller: str
    namespace: str
    name: str


class KeyLogLimit:
    """A structlog processor: limits the warnings and errors of one key to twenty within a minute, and counts the rest.

    A key whose every event fails would fill the log, and hide the others. So at most `MOST_LINES` of its lines are
    written within a minute; the first such line after that minute, of whatever key, follows one that says how many more
    there were. The context of the reconcile says whose a line is. The lines of one handler or index are limited alike.
    Other lines of no reconcile pass, and so do those of other levels and those of threads.
    """

    def __init__(self) -> None:
        # By key: the lines within the present minute, which is that of all keys.
        self._counts: dict[LogKey, int] = {}
        self._minute_end = float("-inf")

    def __call__(self, _logger: object, method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Pass a line on, or count it and drop it.

        Raises:
            structlog.DropEvent: The key has had its lines.
        """
        # The author's function for handlers or an index, which may fail for each of many objects.
        function = fields.get("handler") or fields.get("index", "")
        if method not in _COUNTED or not (function or "reconcile_id" in fields):
            return fields
        try:
            now = asyncio.get_running_loop().time()
        except RuntimeError:
            # A thread that a reconcile has called has its context, and no loop.
            return fields
        if now >= self._minute_end:
            self._begin_minute(now)
        key = LogKey(fields.get("controller", ""), fields.get("namespace", ""), function or fields.get("name", ""))
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count > MOST_LINES:
            raise structlog.DropEvent
        return fields

    def _begin_minute(self, now: float) -> None:
        counts, self._counts = self._counts, {}
        self._minute_end = now + MINUTE_SECONDS
        for key, count in counts.items():
            if count > MOST_LINES:
                # In an empty context: the reconcile that logs just now is another key's.
                contextvars.Context().run(_summarize, key, count - MOST_LINES)


def _summarize(key: LogKey, suppressed: int) -> None:
    message = f"further {suppressed} line{'s' * (suppressed > 1)} of this key suppressed"
    get_logger().warning(message, **key._asdict(), within_seconds=MINUTE_SECONDS)
