"""What goes wrong again and again, told now and then."""

import structlog

_EVERY_SECONDS = 30.0

_log = structlog.get_logger("kcr.informer")


class Complaints:
    """Logs errors, one line in 30 s; each line says how many were left out since the one before (IN-15)."""

    def __init__(self) -> None:
        self._told_at = float("-inf")
        self._untold = 0

    def tell(self, now: float, message: str, **details: object) -> None:
        """Log an error, or count it for the next line.

        Args:
            now: The loop's time.
            message: What went wrong.
            details: More of it.
        """
        if now - self._told_at < _EVERY_SECONDS:
            self._untold += 1
            return
        repeated = {"left_out": self._untold} if self._untold else {}
        _log.error(message, **details, **repeated)
        self._told_at, self._untold = now, 0
