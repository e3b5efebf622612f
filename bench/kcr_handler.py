"""The same as `kopf_handler` with a kcr informer: `python -m bench.kcr_handler KUBECONFIG EVENTS`."""

import asyncio
import json
import sys
import time

import psutil

from kcr.api.core import Pod
from kcr.client import Client, HttpTransport, load_config
from kcr.informer import Handler, Informer


class Count(Handler[Pod]):
    """Counts pod events, and says when it has seen enough."""

    def __init__(self, wanted: int) -> None:
        self.enough = asyncio.Event()
        self._left = wanted

    def on_add(self, obj: Pod, initial: bool) -> None:
        self._count()

    def on_update(self, old: Pod, new: Pod) -> None:
        self._count()

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            self.enough.set()


async def main(kubeconfig: str, wanted: int) -> None:
    """See so many events."""
    began = time.process_time()
    async with HttpTransport(load_config(kubeconfig, None)) as transport:
        informer = Informer(Client(transport), Pod)
        count = Count(wanted)
        informer.add_handler(count)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(informer.run())
            await count.enough.wait()
            figures = {"cpu": time.process_time() - began, "rss": psutil.Process().memory_info().rss}
            print(json.dumps(figures), flush=True)
            running.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
