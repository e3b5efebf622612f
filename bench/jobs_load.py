"""The other side of a Job controller: a client that makes Jobs, and a node whose pods end at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from kcr.api.batch import Job
from kcr.api.conditions import find_condition
from kcr.api.core import Pod
from kcr.api.meta import Key, whole_seconds
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.errors import NotFoundError
from kcr.informer import Handler, Informer, Selection

LABEL = "bench"
# How many requests the node, and who makes Jobs, send at a time.
NODE_HANDS = 20
MAKERS = 10
JSON_MERGE = "application/merge-patch+json"


def job(name: str, pods: int, *, label: str, indexed: bool) -> dict[str, Any]:
    """Return the manifest of a Job with so many pods, all at the same time."""
    container = {"name": "main", "image": "registry.example/bench:1", "command": ["true"]}
    return {
        "metadata": {"name": name, "labels": {LABEL: label}},
        "spec": {
            "completions": pods, "parallelism": pods, "completionMode": "Indexed" if indexed else "NonIndexed",
            "template": {
                "metadata": {"labels": {LABEL: label}},
                "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
            },
        },
    }  # fmt: skip


class Ends(Handler[Job]):
    """Records the ends of Jobs.

    Attributes:
        at: When each Job was seen to be complete.
        succeeded: How many pods each has counted.
    """

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.succeeded: dict[str, int] = {}
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def on_add(self, obj: Job, initial: bool) -> None:
        """Look whether it has ended."""
        self.on_update(obj, obj)

    def on_update(self, old: Job, new: Job) -> None:
        """Look whether it has ended."""
        name, conditions = new.metadata.name, new.status.conditions
        if not conditions or self._result(name).done():
            return
        if (failed := find_condition(conditions, "Failed")) is not None and failed.status == "True":
            self._result(name).set_exception(RuntimeError(f"job {name} has failed: {failed.reason} {failed.message}"))
        elif (complete := find_condition(conditions, "Complete")) is not None and complete.status == "True":
            self.at[name] = time.perf_counter()
            self.succeeded[name] = new.status.succeeded
            self._result(name).set_result(None)

    async def wait(self, name: str) -> None:
        """Return when a Job is complete.

        Raises:
            RuntimeError: It has failed.
        """
        await self._result(name)

    def _result(self, name: str) -> asyncio.Future[None]:
        return self._waiting.setdefault(name, asyncio.get_running_loop().create_future())


class Node(Handler[Pod]):
    """Says of each pod, as soon as it hears of it, that it has succeeded."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._clock = SystemClock()
        self._waiting: asyncio.Queue[Key] = asyncio.Queue()

    def on_add(self, obj: Pod, initial: bool) -> None:
        """Take note of a pod."""
        self._waiting.put_nowait(obj.key)

    async def run(self) -> None:
        """End pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(NODE_HANDS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            namespace, name = await self._waiting.get()
            now = whole_seconds(self._clock.now())
            ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
            container = {
                "name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0,
                "state": {"terminated": ended},
            }  # fmt: skip
            body = msgspec.json.encode({"status": {"phase": "Succeeded", "containerStatuses": [container]}})
            with suppress(NotFoundError):  # deleted meanwhile
                await self._client.request("PATCH", Pod.resource.path(namespace, name, "status"), body, JSON_MERGE)


class Load:
    """Makes Jobs and sees to it that their pods end.

    Attributes:
        ends: Records when each Job ended.
        began_at: When each Job was about to be made.
    """

    def __init__(self, client: Client, namespace: str, label: str) -> None:
        """Make one; it does nothing before it runs.

        Args:
            client: The way to the server.
            namespace: Where the Jobs are.
            label: Tells these Jobs and their pods from all others.
        """
        self.ends = Ends()
        self.began_at: dict[str, float] = {}
        self._client = client
        self._namespace = namespace
        self._label = label
        self._node = Node(client)
        labels = f"{LABEL}={label}"
        self._jobs = Informer(client, Selection(Job, namespace, labels))
        # What has ended is none of the node's business.
        self._pods = Informer(client, Selection(Pod, namespace, labels, "status.phase=Pending"))
        self._jobs.add_handler(self.ends)
        self._pods.add_handler(self._node)

    async def run(self) -> None:
        """Play the node until cancelled."""
        async with asyncio.TaskGroup() as group:
            for component in (self._jobs, self._pods, self._node):
                group.create_task(component.run())

    async def make(self, names: list[str], pods: int, *, indexed: bool, one_by_one: bool = False) -> None:
        """Make Jobs, and return when all are complete.

        Args:
            names: Their names.
            pods: How many pods each has.
            indexed: Whether they are Indexed.
            one_by_one: Whether the next Job comes when the one before is complete; else all come at once.
        """

        async def one(name: str) -> None:
            self.began_at[name] = time.perf_counter()
            manifest = job(name, pods, label=self._label, indexed=indexed)
            await self._client.create_manifest(Job, manifest, self._namespace)
            if one_by_one:
                await self.ends.wait(name)

        await in_parallel(names, 1 if one_by_one else MAKERS, one)
        for name in names:
            await self.ends.wait(name)


async def in_parallel(names: Iterable[str], hands: int, work: Callable[[str], Awaitable[object]]) -> None:
    """Do some work for each name, with so many hands, each of which takes the next name when it is done with one."""
    left = iter(names)

    async def hand() -> None:
        for name in left:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(hands):
            group.create_task(hand())
