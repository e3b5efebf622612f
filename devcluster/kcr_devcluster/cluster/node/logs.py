"""Container logs: the output of the present run and of the one before, for as long as the pod exists."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from datetime import datetime
from itertools import islice

from kcr.clock import Clock

LIMIT_BYTES = 10 * 1024 * 1024


class Log:
    """The output of one run of a container. Beyond the limit the oldest lines are dropped."""

    def __init__(self, clock: Clock, limit: int = LIMIT_BYTES) -> None:
        self._clock = clock
        self._limit = limit
        # The output, each piece with its moment. Together they never exceed the limit by more than one piece.
        self._pieces: deque[tuple[datetime, bytes]] = deque()
        self._size = 0
        # How many pieces have been dropped from the front: readers count from the very first.
        self._dropped = 0
        self._closed = False
        self._readers: list[asyncio.Future[None]] = []

    def write(self, data: bytes) -> None:
        """Add output."""
        if not data:
            return
        self._pieces.append((self._clock.now(), data))
        self._size += len(data)
        while self._size > self._limit and len(self._pieces) > 1:
            self._drop_oldest()
        self._notify_readers()

    def _drop_oldest(self) -> None:
        _, piece = self._pieces.popleft()
        self._dropped += 1
        self._size -= len(piece)
        # The remaining output begins with a whole line, when a line ends in the next piece.
        if not piece.endswith(b"\n"):
            moment, following = self._pieces[0]
            cut = following.find(b"\n") + 1
            self._pieces[0] = (moment, following[cut:])
            self._size -= cut

    def close(self) -> None:
        """Mark the end of the output; `follow` ends there."""
        self._closed = True
        self._notify_readers()

    def _notify_readers(self) -> None:
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)
        self._readers.clear()

    def read(self) -> bytes:
        """Return the whole output."""
        return b"".join(piece for _, piece in self._pieces)

    def pieces(self) -> tuple[tuple[datetime, bytes], ...]:
        """Return the whole output, each piece with its time."""
        return tuple(self._pieces)

    async def follow(self, *, from_now: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the output so far, unless `from_now` is set, then further output as it is added, until the end."""
        position = self._dropped + len(self._pieces) if from_now else 0
        while True:
            fresh = tuple(islice(self._pieces, max(position - self._dropped, 0), None))
            if fresh:
                position = self._dropped + len(self._pieces)
                yield b"".join(piece for _, piece in fresh)
            elif self._closed:
                return
            else:
                reader = asyncio.get_running_loop().create_future()
                self._readers.append(reader)
                await reader


class Logs:
    """The logs of all containers of a node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By pod uid, then container: the run before, then the present one.
        self._logs: dict[str, dict[str, tuple[Log | None, Log]]] = {}

    def begin(self, uid: str, container: str) -> Log:
        """Return the empty log of a new run; the one of the run before is kept, older ones are not."""
        logs = self._logs.setdefault(uid, {})
        _, before = logs.get(container, (None, None))
        if before is not None:
            before.close()
        log = Log(self._clock)
        logs[container] = (before, log)
        return log

    def get(self, uid: str, container: str, *, previous: bool = False) -> Log | None:
        """Return the log of the present run or the one before, or None when there has been none."""
        before, present = self._logs.get(uid, {}).get(container, (None, None))
        return before if previous else present

    def drop(self, uid: str) -> None:
        """Drop the logs of a deleted pod."""
        for _, log in self._logs.pop(uid, {}).values():
            log.close()

    def clear(self) -> None:
        """Drop all logs: they are lost with their node."""
        for uid in tuple(self._logs):
            self.drop(uid)
