"""A cluster, replicas that compete for a Lease or share the objects, a bystander, Jobs over time, and blows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import NamedTuple

from kcr.api.batch import CronJob, Job, is_finished
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import AlreadyExistsError, ServerError, TransportError
from kcr.runnables import Runnable
from kcr.testing import eventually
from tests.e2e.processes import Start
from tests.e2e.storms.memory import MemorySamples
from tests.e2e.storms.observation import JobHistory, Leadership, PodHistory, Stream
from tests.e2e.storms.supervisor import Supervised
from tests.e2e.storms.workload import PlannedJob

# Where the replicas work, and where the bystander does.
STORMY, CALM = "default", "calm"
CRON_JOB = "tick"
# How many seconds a process may take to begin, and a Job to end: more than any does on a machine with much to do.
PATIENCE = 60.0
SERVES = "kubectl --kubeconfig"
LEASE_SECONDS = 3
LEASE = "kcr-controller-manager"
ELECTION = (
    "--leader-elect-lease-duration", f"{LEASE_SECONDS}s", "--leader-elect-renew-deadline", "2s",
    "--leader-elect-retry-period", "200ms",
)  # fmt: skip
# Lost pods are many: they are replaced soon.
BACKOFF = {"KCR_JOB_POD_FAILURE_BACKOFF": "0.2", "KCR_MAX_JOB_POD_FAILURE_BACKOFF": "2"}
# A controller that writes the name of its replica, again and again: whoever leads.
MARKS = dedent(
    """
    import asyncio
    import os

    from kcr.api.core import ConfigMap
    from kcr.api.meta import Key
    from kcr.errors import ApiError, TransportError

    class Marker:
        name = "marker"

        def __init__(self, client):
            self._client = client

        async def run(self):
            number = 0
            while True:
                number += 1
                data = {"writer": os.environ["HOSTNAME"], "number": str(number)}
                try:
                    await self._client.merge_patch(ConfigMap, Key("default", "marks"), {"data": data})
                except (ApiError, TransportError):
                    pass
                await asyncio.sleep(0.05)

    def setup(manager):
        manager.add(Marker(manager.client))
    """
)


class Weather(NamedTuple):
    """How rough it is; times in seconds.

    Attributes:
        seconds: How long it lasts.
        server: The shortest and the longest time between two blows to the API server.
        replicas: The same for the replicas.
    """

    seconds: float
    server: tuple[float, float]
    replicas: tuple[float, float]


class Processes:
    """All processes of a storm.

    Attributes:
        server: The cluster; with its data folder it comes again as it was.
        replicas: Those that compete for a Lease, or share the objects, by name.
        bystander: Works in a namespace of its own, without a Lease, and is left alone: it lives through all restarts.
        memory: The memory of all of them.
    """

    def __init__(self, kcr: Start, folder: Path, random: Random, *, shards: int = 0) -> None:
        """Make two replicas of which one leads or, with shards, three that share them; `run` runs them."""
        # Of the leader, or of the first shard: its holder marks.
        self.lease = f"{LEASE}-shard-0" if shards else LEASE
        election = ("--shards", str(shards)) if shards else ("--leader-elect",)
        (folder / "marks.py").write_text(MARKS)
        data, kubeconfig = str(folder / "data"), str(folder / "data" / "kubeconfig")
        self.kubeconfig = kubeconfig

        def options(controllers: str, namespace: str) -> tuple[str, ...]:
            where = ("--kubeconfig", kubeconfig, "--namespace", namespace)
            return ("run", *where, "--take-over", "--controllers", controllers)

        def replica(name: str) -> Supervised:
            elected = (*options("job,ttl,cronjob,marks:setup", STORMY), *election, *ELECTION)
            return Supervised(
                lambda number: kcr(*elected, folder=folder, HOSTNAME=f"{name}-{number}", **BACKOFF), random
            )

        self.server = Supervised(lambda _: kcr("dev", "--no-controllers", "--data-dir", data), random)
        self.replicas = {name: replica(name) for name in ("abc" if shards else "ab")}
        self.bystander = Supervised(lambda _: kcr(*options("job,ttl,cronjob", CALM), folder=folder, **BACKOFF), random)
        self.all = {"server": self.server, "bystander": self.bystander, **self.replicas}
        self.memory = {name: MemorySamples(one) for name, one in self.all.items()}

    def wrongs(self) -> list[str]:
        """What processes said that no process must say, and exit codes that none must have."""
        found = []
        for name, one in self.all.items():
            found += [f"{name}: a traceback: {run.err}" for run in one.runs if "Traceback" in run.err]
            # 1: the Lease was lost, or the server was not there at the start. -15: told to stop before it could listen.
            found += [f"{name}: exit code {code}" for code in one.codes if code not in (0, 1, -9, -15)]
        return found


class Histories:
    """What an observer has seen of all objects that matter."""

    def __init__(self, client: Client, lease: str) -> None:
        self.jobs, self.pods, self.leadership = JobHistory(), PodHistory(), Leadership(lease)
        self.streams = (
            Stream(client, Job, self.jobs.on_change), Stream(client, Pod, self.pods.on_change),
            Stream(client, Lease, self.leadership.on_lease), Stream(client, ConfigMap, self.leadership.on_mark),
        )  # fmt: skip

    def last(self, planned: PlannedJob) -> Job | None:
        """The last state of a Job; None before it was seen."""
        return self.jobs.last.get((planned.namespace, planned.name))

    @property
    def runs_of_cron_job(self) -> list[int]:
        """The minutes for which the CronJob has made a Job, in order."""
        names = [name for _, name in self.jobs.last if name.startswith(f"{CRON_JOB}-")]
        return sorted(int(name.removeprefix(f"{CRON_JOB}-")) for name in names)

    def all_ended(self, planned: Sequence[PlannedJob]) -> bool:
        """Whether all Jobs have ended, and those are gone that are to go."""
        unfinished = [
            one.name for one in planned
            if (job := self.last(one)) is None
            or not is_finished(job) or (one.is_deleted and job.metadata.uid not in self.jobs.gone)
        ]  # fmt: skip
        assert not unfinished, f"{len(unfinished)} Jobs have not ended: {unfinished}"
        return True


async def insist(request: Callable[[], Awaitable[object]]) -> None:
    """Send a request until it is answered; that it was answered before without our knowledge is fine."""
    while True:
        try:
            await request()
        except AlreadyExistsError:
            return
        except (TransportError, ServerError):
            await asyncio.sleep(0.1)
        else:
            return


async def prepare(client: Client) -> None:
    """Create the namespace of the bystander, and what the replicas mark."""
    await insist(lambda: client.create(Namespace(metadata=ObjectMeta(name=CALM))))
    await insist(lambda: client.create(ConfigMap(metadata=ObjectMeta(name="marks", namespace=STORMY))))


async def create_cron_job(client: Client) -> None:
    """Create a CronJob that runs every minute."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [container]}}
    manifest = {
        "metadata": {"name": CRON_JOB, "namespace": STORMY},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
    }
    await insist(partial(client.create_manifest, CronJob, manifest, STORMY))


async def create_jobs(client: Client, planned: Sequence[PlannedJob], pause: float) -> None:
    """Create one Job after the other, and resume the suspended ones some time later."""
    suspended: list[PlannedJob] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, one in enumerate(planned, 1):
        await insist(partial(client.create_manifest, Job, one.manifest, one.namespace))
        for other in suspended:
            await _resume(client, other)
        suspended = [one] if one.sort.spec.get("suspend") else []
        # Whatever the server's absences have cost.
        await asyncio.sleep(began + number * pause - loop.time())
    for other in suspended:
        await _resume(client, other)


async def _resume(client: Client, planned: PlannedJob) -> None:
    key = Key(planned.namespace, planned.name)
    await insist(lambda: client.merge_patch(Job, key, {"spec": {"suspend": False}}))


async def strike_server(server: Supervised, weather: Weather, random: Random) -> None:
    """Kill the server or tell it to stop, again and again, some time after it serves; until cancelled."""
    while True:
        await eventually(lambda: server.has_said(SERVES), seconds=PATIENCE)
        await asyncio.sleep(random.uniform(*weather.server))
        await random.choice((server.kill, server.stop))()


async def strike_replicas(
    replicas: Mapping[str, Supervised], seen: Leadership, weather: Weather, random: Random
) -> None:
    """Kill, stop or freeze a replica, again and again, until cancelled: mostly the leader while it leads."""
    while True:
        if random.random() < 0.8:
            await eventually(lambda: any(one.has_said("workers run") for one in replicas.values()), seconds=PATIENCE)
        await asyncio.sleep(random.uniform(*weather.replicas))
        leader = seen.holders[-1].partition("-")[0] if seen.holders else "a"
        victim = replicas[leader if random.random() < 0.7 else random.choice(sorted(replicas))]
        blow = random.choice(("kill", "stop", "stop", "freeze"))
        await (victim.freeze(1.3 * LEASE_SECONDS) if blow == "freeze" else getattr(victim, blow)())


@asynccontextmanager
async def running(processes: Processes) -> AsyncIterator[tuple[Client, Histories]]:
    """Run processes and observer for as long as the context lives; it begins when the bystander works."""
    async with _all([processes.server]):
        await eventually(lambda: processes.server.has_said(SERVES), seconds=PATIENCE)
        async with HttpTransport(load_config(processes.kubeconfig)) as transport:
            client = Client(transport)
            seen = Histories(client, processes.lease)
            await prepare(client)
            async with _all(
                [processes.bystander, *processes.replicas.values(), *processes.memory.values(), *seen.streams]
            ):
                await eventually(lambda: processes.bystander.has_said("workers run"), seconds=PATIENCE)
                yield client, seen


@asynccontextmanager
async def storming(processes: Processes, seen: Leadership, weather: Weather, random: Random) -> AsyncIterator[None]:
    """Strike for as long as the context lives."""
    async with asyncio.TaskGroup() as group:
        blows = [
            group.create_task(strike_server(processes.server, weather, random)),
            group.create_task(strike_replicas(processes.replicas, seen, weather, random)),
        ]
        yield
        for task in blows:
            task.cancel()


@asynccontextmanager
async def _all(everything: Sequence[Runnable]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run()) for one in everything]
        yield
        for task in tasks:
            task.cancel()
