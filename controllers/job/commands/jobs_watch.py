"""`kcr jobs --watch`: follows Jobs by an informer."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from kcr.api.batch import Job
from kcr.client import Client
from kcr.clock import Clock
from kcr.controllers.job.commands.jobs import JobEvidence, JobRow, read_evidence, rows_of
from kcr.errors import ApiError, TransportError
from kcr.informer import ChangeHandler, Selection
from kcr.manager import Manager

# How often a watched table is read again: pods and events change without their Job.
_SECONDS = 2.0


async def follow(
    client: Client, selection: Selection[Job], clock: Clock, show_rows: Callable[[list[JobRow]], None]
) -> None:
    """Show Jobs again and again, until it is cancelled.

    Args:
        client: Where to read; the Jobs are watched, their pods and events read again every two seconds.
        selection: Which Jobs.
        clock: The time for ages.
        show_rows: Called with all rows.
    """
    namespace = selection.namespace
    manager = Manager(client, random=random.Random(), namespace=namespace)
    manager.select(selection)
    news, known = asyncio.Event(), JobEvidence()
    # The informer would try again without end if it may not list.
    await client.list_page(Job, namespace, labels=selection.labels, fields=selection.fields, limit=1)
    manager.informer(Job).add_handler(ChangeHandler(lambda _: news.set(), lambda _: news.set()))
    async with manager.running():
        while True:
            news.clear()
            jobs = manager.store(Job).list()
            # A table that is watched survives an outage of the server, as the watch of its Jobs does.
            with suppress(ApiError, TransportError):
                known = await read_evidence(client, namespace, jobs)
            show_rows(rows_of(jobs, known, clock.now()))
            # At most one picture in a while, however many changes there are.
            await asyncio.sleep(_SECONDS / 4)
            try:
                async with asyncio.timeout(_SECONDS):
                    await news.wait()
            except TimeoutError:
                pass
