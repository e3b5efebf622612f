"""`kcr jobs --watch`: follows Jobs by an informer."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from kcr.api.batch import Job
from kcr.client import Client
from kcr.informer import ChangeHandler, Selection
from kcr.manager import Manager

# How often a watched table is read again: pods and events change without their Job.
_SECONDS = 2.0


async def follow(client: Client, selection: Selection[Job], show: Callable[[Sequence[Job]], Awaitable[None]]) -> None:
    """Show Jobs again and again, until it is cancelled.

    Args:
        client: Where to read; the Jobs are watched.
        selection: Which Jobs.
        show: Called with all Jobs, also every two seconds.
    """
    namespace = selection.namespace
    manager = Manager(client, random=random.Random(), namespace=namespace)
    manager.select(selection)
    news = asyncio.Event()
    # The informer would try again without end if it may not list.
    await client.list_page(Job, namespace, labels=selection.labels, fields=selection.fields, limit=1)
    manager.informer(Job).add_handler(ChangeHandler(lambda _: news.set(), lambda _: news.set()))
    async with manager.running():
        while True:
            news.clear()
            await show(manager.store(Job).list())
            # At most one picture in a while, however many changes there are.
            await asyncio.sleep(_SECONDS / 4)
            try:
                async with asyncio.timeout(_SECONDS):
                    await news.wait()
            except TimeoutError:
                pass
