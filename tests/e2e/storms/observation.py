"""What an observer sees of Jobs, pods and leadership, through every restart of the API server.

The observer lists once and watches each kind from then on, without the informer that it observes. A version that has
expired would be a gap, after which nothing could be said; the data folder remembers enough changes that there is none.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Generic, TypeVar

from kcr.api.batch import Job
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key, Resource, controller_of
from kcr.api.pods import is_active
from kcr.client import Client
from kcr.errors import ServerError, TransportError
from tests.kit.observers import JobObserver

R = TypeVar("R", bound=Resource)

KINDS = ("succeeded", "failed")


class Stream(Generic[R]):
    """Every change of a kind, in the order in which the server made them.

    Attributes:
        restarts: How often the stream broke and was resumed.
        wrongs: Versions that went back.
    """

    def __init__(self, client: Client, kind: type[R], on_change: Callable[[str, R], None]) -> None:
        """Make it; `on_change` is called with the type of each event and the object."""
        self.restarts = 0
        self.wrongs: list[str] = []
        self._client = client
        self._kind = kind
        self._on_change = on_change
        self._version = ""

    async def run(self) -> None:
        """Follow the kind until cancelled.

        Raises:
            ApiError: 410, the version of the last event has expired: changes were missed.
        """
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except (TransportError, ServerError):
                self.restarts += 1
            await asyncio.sleep(0.1)

    async def _list(self) -> None:
        metadata, objects = await self._client.list_page(self._kind)
        for one in objects:
            self._on_change("ADDED", one)
        self._version = metadata.resource_version

    async def _watch(self) -> None:
        watch = self._client.watch(self._kind, resource_version=self._version, timeout_seconds=600)
        async with watch as events:
            async for event in events:
                version = event.object.metadata.resource_version
                if int(version) < int(self._version) + (event.type != "BOOKMARK"):
                    self.wrongs.append(f"{self._kind.__name__}: version {version} after {self._version}")
                self._version = version
                if event.type != "BOOKMARK":
                    self._on_change(event.type, event.object)


class PodHistory:
    """All pods that there ever were.

    Attributes:
        last: The last state of each, by its Job's uid and its own.
        most_active: How many pods of a Job were active at once, by its uid.
    """

    def __init__(self) -> None:
        self.last: dict[str, dict[str, Pod]] = defaultdict(dict)
        self.most_active: Counter[str] = Counter()
        self._active: dict[str, set[str]] = defaultdict(set)

    def on_change(self, type_: str, pod: Pod) -> None:
        owner, uid = controller_of(pod.metadata), pod.metadata.uid
        if owner is None:
            return
        self.last[owner.uid][uid] = pod
        active = self._active[owner.uid]
        (active.add if is_active(pod) and type_ != "DELETED" else active.discard)(uid)
        self.most_active[owner.uid] = max(self.most_active[owner.uid], len(active))


class JobHistory:
    """All Jobs that there ever were, and the laws that hold from each state to the next.

    Attributes:
        last: The last state of each by namespace and name.
        gone: Uids of those that were deleted.
        listed: The uids of pods that were ever entered as ended, by the Job's uid and the list's name.
        wrongs: What was not as it has to be.
    """

    def __init__(self) -> None:
        self.last: dict[tuple[str, str], Job] = {}
        self.gone: set[str] = set()
        self.listed: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.wrongs: list[str] = []
        self._laws = JobObserver()

    def on_change(self, type_: str, job: Job) -> None:
        old = self.last.get((job.metadata.namespace, job.metadata.name))
        self.last[job.metadata.namespace, job.metadata.name] = job
        if type_ == "DELETED":
            self.gone.add(job.metadata.uid)
        if old is not None and old.metadata.uid == job.metadata.uid:
            self._laws.on_update(old, job)
            if job.status.succeeded < old.status.succeeded:
                self._laws.wrongs.append(f"successes fell from {old.status.succeeded} to {job.status.succeeded}")
        for kind in KINDS:
            self._count(kind, old, job)
        self.wrongs += [f"{job.metadata.name}: {wrong}" for wrong in self._laws.wrongs]
        self._laws.wrongs.clear()

    def _count(self, kind: str, old: Job | None, job: Job) -> None:
        """Counters and lists together are what was ever listed, each pod once."""
        ever, now = self.listed[job.metadata.uid, kind], uids(job, kind)
        fresh = now - (uids(old, kind) if old is not None else set())
        for uid in fresh & ever:
            self._laws.wrongs.append(f"pod {uid} is entered twice as {kind}")
        ever |= fresh
        if kind == "succeeded" and job.spec.completion_mode == "Indexed":
            return
        counted = getattr(job.status, kind)
        if counted + len(now) != len(ever):
            self._laws.wrongs.append(f"{counted} {kind} and {len(now)} listed, but {len(ever)} were ever listed")


def uids(job: Job, kind: str) -> set[str]:
    uncounted = job.status.uncounted_terminated_pods
    return set(getattr(uncounted, kind)) if uncounted is not None else set()


class Leadership:
    """Who held a Lease, that of the leader or of the first shard, and who wrote meanwhile.

    A controller that marks a ConfigMap with its replica's name runs in each replica, and writes as fast as it can.
    Versions put its marks and the changes of the Lease into one order.
    """

    def __init__(self, lease: str) -> None:
        self._lease = Key("default", lease)
        self._changes: list[tuple[int, str, str]] = []

    def on_lease(self, type_: str, lease: Lease) -> None:
        # Nodes have Leases, too, and so have the other shards.
        if lease.key == self._lease:
            # An identity is the name of the machine and something random.
            self._note(lease, "leads", lease.spec.holder_identity.rpartition("_")[0])

    def on_mark(self, type_: str, mark: ConfigMap) -> None:
        if "writer" in mark.data:
            self._note(mark, "writes", mark.data["writer"])

    def _note(self, obj: Resource, what: str, who: str) -> None:
        self._changes.append((int(obj.metadata.resource_version), what, who))

    @property
    def holders(self) -> list[str]:
        """Who led, in order; each change of leader once."""
        held: list[str] = []
        for _, what, who in sorted(self._changes):
            if what == "leads" and who and held[-1:] != [who]:
                held.append(who)
        return held

    @property
    def marks(self) -> Counter[str]:
        """How many writes of each replica's there were."""
        return Counter(who for _, what, who in self._changes if what == "writes")

    def wrongs(self) -> list[str]:
        """The writes of replicas that did not hold the Lease."""
        found, holder = [], ""
        for version, what, who in sorted(self._changes):
            if what == "leads":
                holder = who
            elif who != holder:
                found.append(f"at version {version} {who} writes, and the holder of the Lease is {holder!r}")
        return found
