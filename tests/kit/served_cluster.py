"""A cluster with the Job controller on a thread of its own, for commands that run on the thread of the test."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import job_controller

T = TypeVar("T")
SECONDS = 30


class ServedCluster:
    """A cluster that listens, and runs until the context ends.

    Attributes:
        cluster: The cluster, whose coroutines run on its own thread.
        kubeconfig: The file that names it.
    """

    def __init__(self, cluster: EmbeddedCluster, kubeconfig: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.cluster = cluster
        self.kubeconfig = kubeconfig
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread of the cluster, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)


@contextmanager
def served_cluster(folder: Path, **options: Any) -> Iterator[ServedCluster]:
    """Serve a cluster for as long as the context lives.

    Args:
        folder: Where the kubeconfig is written.
        options: Those of `EmbeddedCluster`.
    """
    started: Future[ServedCluster] = Future()
    stopped = asyncio.Event()

    async def serve() -> None:
        async with (
            EmbeddedCluster(random=Random(0), **options) as cluster,
            job_controller(cluster, SystemClock(), job_pod_failure_backoff=0.01),
        ):
            path = folder / "cluster.kubeconfig"
            path.write_text((await cluster.serve()).kubeconfig)
            started.set_result(ServedCluster(cluster, path, asyncio.get_running_loop()))
            await stopped.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # the thread of the test raises it
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=run, name="cluster")
    thread.start()
    try:
        served = started.result(SECONDS)
        try:
            yield served
        finally:
            # Also where the test has failed: the thread would never end.
            served.call(_set(stopped))
    finally:
        thread.join()


async def _set(event: asyncio.Event) -> None:
    event.set()
