"""How long the parts of a list take."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import structlog

_SLOW_SECONDS = 10.0

_log = structlog.get_logger("kcr.informer")


class Timing:
    """Measures one reading of the present state, and logs where the time went when it took long (RF-10)."""

    def __init__(self, began: float) -> None:
        """Begin to measure.

        Args:
            began: The loop's time when the reading began.
        """
        self._began = began
        self._parts = {"request": 0.0, "decode": 0.0, "apply": 0.0}

    @contextmanager
    def of(self, part: Literal["request", "decode", "apply"]) -> Iterator[None]:
        """Add the time that the body takes to a part."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        yield
        self._parts[part] += loop.time() - began

    def finish(self, kind: str) -> float:
        """Return how long it took in all, in seconds."""
        seconds = asyncio.get_running_loop().time() - self._began
        if seconds > _SLOW_SECONDS:
            parts = {part: round(spent, 3) for part, spent in self._parts.items()}
            _log.warning("list took long", kind=kind, seconds=round(seconds, 3), **parts)
        return seconds
