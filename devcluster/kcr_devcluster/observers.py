"""Functions that see every request and response of the API servers that are made in a context.

The test kit adds one for the length of a test, before any server exists: this module imports no server.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# Called with an `HTTPRequest` and its `APIResponse`.
Observer = Callable[[Any, Any], None]

# Those of the servers that the running task makes; a server keeps what it finds.
OBSERVERS: ContextVar[tuple[Observer, ...]] = ContextVar("kcr_server_observers", default=())


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let the servers that are made while the context lives call an observer, for as long as they live."""
    token = OBSERVERS.set((*OBSERVERS.get(), observer))
    try:
        yield
    finally:
        OBSERVERS.reset(token)
