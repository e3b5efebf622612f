"""Log lines for what goes wrong again and again: one now and then, with a count of those left out."""

from typing import Any

EVERY_SECONDS = 30.0


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
        self.left_out = 0
        self._log = log
        self._every = every_seconds
        self._logged_at = float("-inf")

    def error(self, now: float, message: str, **details: object) -> None:
        """Log an error, or count it for the next line.

        Args:
            now: The loop's time.
            message: What went wrong.
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
