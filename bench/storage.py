"""What an object costs in the storage of the embedded server: in memory, and with a journal."""

import asyncio
import gc
import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kcr.clock import SystemClock
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.apiserver.storage.journal import Journal
from kcr_devcluster.apiserver.storage.storage import Storage

_TARGET = "/api/v1/namespaces/default/pods"


def creates(count: int) -> dict[str, float]:
    """Return how many Pods are created per CPU second."""
    figures = {}
    for name, storage in _storages():
        started = time.process_time()
        asyncio.run(_create(storage, count))
        figures[name] = count / (time.process_time() - started)
    return figures


def stored(count: int) -> dict[str, float]:
    """Return how many bytes of memory a Pod takes that is there after a start."""
    figures, kept = {}, []
    for name, storage in _storages():
        # Both stay, so that the second takes no memory that the first has freed.
        kept.append(storage)
        gc.collect()
        before = _resident_bytes()
        asyncio.run(_create(storage, count))
        gc.collect()
        figures[name] = (_resident_bytes() - before) / count
    return figures


def _storages() -> Iterator[tuple[str, Storage]]:
    yield "in memory", Storage()
    with _journal() as journal:
        yield "with a journal", Storage(journal)


@contextmanager
def _journal() -> Iterator[Journal]:
    with tempfile.TemporaryDirectory() as folder, closing(Journal(Path(folder) / "kcr.db")) as journal:
        yield journal


async def _create(storage: Storage, count: int) -> None:
    server = APIServer(storage, clock=SystemClock(), random=random.Random(0))
    request = HTTPRequest("POST", _TARGET, {"Content-Type": "application/json"}, json.dumps(_pod()).encode())
    for _ in range(count):
        response = await server.handle(request)
        assert response.status == 201, response.body


def _pod() -> dict[str, Any]:
    variables = [{"name": f"SETTING_{number}", "value": f"value {number}"} for number in range(10)]
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", "exit 0"], "env": variables}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"generateName": "pod-", "labels": {"app": "bench"}}, "spec": spec}


def _resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
