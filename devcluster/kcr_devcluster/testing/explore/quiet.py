"""No log lines while a scenario runs hundreds of times: each fault would log its warnings."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

from kcr.log import is_configured


@contextmanager
def quiet() -> Iterator[None]:
    """Drop all log lines while the context lives."""
    if not is_configured():
        structlog.configure(processors=[_drop])
        try:
            yield
        finally:
            structlog.reset_defaults()
        return
    # In place, as `structlog.testing.capture_logs` does: loggers have the list already.
    processors = structlog.get_config()["processors"]
    kept = list(processors)
    processors[:] = [_drop]
    try:
        yield
    finally:
        processors[:] = kept


def _drop(_logger: object, _method: str, _fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    raise structlog.DropEvent
