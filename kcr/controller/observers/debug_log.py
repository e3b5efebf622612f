"""Logs at level debug why each key is reconciled."""

import logging

from kcr.api.meta import Key
from kcr.controller.observers import Observer, ReconcileRun
from kcr.log import get_logger
from kcr.workqueue import WorkQueue

_log = get_logger()


class DebugLog(Observer):
    """Logs the priority and the reasons of each key that is reconciled; only of use where `is_enabled`."""

    def __init__(self, queue: WorkQueue[Key]) -> None:
        """Log the keys' states in this queue."""
        self._queue = queue

    @staticmethod
    def is_enabled() -> bool:
        """Return whether the program logs at level debug."""
        is_enabled_for = getattr(_log, "is_enabled_for", None)
        return is_enabled_for is not None and bool(is_enabled_for(logging.DEBUG))

    def begin(self, run: ReconcileRun) -> None:
        """Log a line."""
        state = self._queue.state(run.key)
        _log.debug("reconciling", priority=state.processing, reasons=[*map(str, state.processing_reasons)])
