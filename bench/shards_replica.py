"""A replica of `kcr run --shards` as a process: its metrics, and the moves of shards as its log has them."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from socket import socket
from typing import NamedTuple, Self

import aiohttp

from bench.jobs_controller import Controller, kcr_run

_BEGINS, _ENDS = "handing over shards", "shards are active"


class LogLine(NamedTuple):
    """A line about shards: when it was written, what happened, and to which of them."""

    at: datetime
    event: str
    shards: frozenset[int]


def read_log(text: str) -> Iterator[LogLine]:
    """Yield the lines of a log that are about shards."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        fields = json.loads(line)
        if fields["event"] in (_BEGINS, _ENDS):
            yield LogLine(datetime.fromisoformat(fields["timestamp"]), fields["event"], parse_shards(fields["shards"]))


def parse_shards(text: str) -> frozenset[int]:
    """Read shards as messages name them, `0-3, 7`."""
    found: set[int] = set()
    for part in filter(None, text.split(", ")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


class ShardReplica:
    """A replica that runs for as long as its context lives, or until `stop`."""

    def __init__(self, folder: Path, kubeconfig: Path, shards: int) -> None:
        """Make one.

        Args:
            folder: For its log and its ready file; it is created.
            kubeconfig: The API server.
            shards: How many shards there are; 0 for a program that is not sharded.
        """
        folder.mkdir()
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        options = [f"--shards={shards}"] if shards else []
        command = kcr_run(
            "job", *options, "--log-level=info", "--log-format=json", f"--metrics-bind-address={self._address}"
        )
        self.process: Controller = Controller(command, kubeconfig, folder)
        self._log = folder / "controller.log"

    async def __aenter__(self) -> Self:
        """Start it, and wait until it is ready."""
        await self.process.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        """End it."""
        await self.stop()

    async def stop(self) -> None:
        """End it by SIGTERM; one that has ended stays so."""
        await self.process.__aexit__()

    async def metrics(self) -> str:
        """Return its page of metrics."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{self._address}/metrics") as answer:
            return await answer.text()

    def lines(self) -> list[LogLine]:
        """Return what its log has about shards."""
        return list(read_log(self._log.read_text(errors="replace")))

    def active(self) -> frozenset[int]:
        """Return the shards that it reconciles."""
        found: frozenset[int] = frozenset()
        for line in self.lines():
            found = found | line.shards if line.event == _ENDS else found - line.shards
        return found


def handovers(replicas: Sequence[ShardReplica], stops: Sequence[tuple[datetime, ShardReplica]]) -> list[float]:
    """Return for each shard that moved how many seconds no replica reconciled it.

    Args:
        replicas: All replicas that there were.
        stops: When replicas were told to end.
    """
    began = [line for one in replicas for line in one.lines() if line.event == _BEGINS]
    began += [LogLine(at, _BEGINS, held_at(one.lines(), at)) for at, one in stops]
    ends = sorted((line for one in replicas for line in one.lines() if line.event == _ENDS), key=lambda line: line.at)
    return [
        (next(end.at for end in ends if end.at >= line.at and shard in end.shards) - line.at).total_seconds()
        for line in began
        for shard in line.shards
    ]


def held_at(lines: Sequence[LogLine], moment: datetime) -> frozenset[int]:
    """Return the shards that a replica reconciled at a moment."""
    found: frozenset[int] = frozenset()
    for line in lines:
        if line.at <= moment:
            found = found | line.shards if line.event == _ENDS else found - line.shards
    return found
