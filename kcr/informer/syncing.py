"""Waiting until the stores of several informers have synced."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import structlog

from kcr.errors import NotSyncedError
from kcr.informer.informer import Informer

# Source: controller-runtime, Controller.CacheSyncTimeout.
SYNC_SECONDS = 120.0
# How often a log line names the caches that are not synced.
UNSYNCED_LINE_SECONDS = 20.0

_log = structlog.get_logger()


async def wait_synced(informers: Iterable[Informer[Any]], *, log: bool = False) -> None:
    """Wait until all stores are synced, those of informers that are added meanwhile as well.

    Args:
        informers: The informers; iterated again after each wait.
        log: Whether a line names from time to time what is waited for, and why.

    Raises:
        NotSyncedError: A store was not filled in two minutes; the message names the cause.
    """
    try:
        async with asyncio.timeout(SYNC_SECONDS):
            while late := _late(informers):
                with suppress(TimeoutError):
                    async with asyncio.timeout(UNSYNCED_LINE_SECONDS):
                        await late[0].wait_synced()
                        continue
                if log:
                    _log.warning(
                        "waiting for caches to sync",
                        kinds=len(_late(informers)), error=_causes(informers), gives_up_after_seconds=SYNC_SECONDS,
                    )  # fmt: skip
    except TimeoutError as error:
        raise NotSyncedError(f"not synced after {SYNC_SECONDS:.0f} s: {_causes(informers)}") from error


def _late(informers: Iterable[Informer[Any]]) -> list[Informer[Any]]:
    return [informer for informer in informers if not informer.store.synced]


def _causes(informers: Iterable[Informer[Any]]) -> str:
    return "; ".join(informer.not_synced_reason for informer in _late(informers))
