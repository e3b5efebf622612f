"""`kcr logs`: the logs of all pods of a Job, in the order of their indexes."""

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from kcr.api import selectors
from kcr.api.batch import COMPLETION_INDEX, Job
from kcr.api.core import Pod
from kcr.api.meta import Key, OwnerReference, controller_of, is_controlled_by
from kcr.api.pods import is_terminal
from kcr.cli import options as shared
from kcr.cli.completers import complete_containers, complete_jobs
from kcr.cli.connection import connected, find, run_quietly
from kcr.cli.display import Display
from kcr.cli.target import ObjectName, named
from kcr.client import Client, LogOptions
from kcr.controllers.job.commands.job_progress import JobProgress
from kcr.errors import ApiError, ConfigError, KcrError, TransportError
from kcr.informer import ChangeHandler, Selection, Store
from kcr.manager import Manager


@click.command(
    "logs",
    context_settings={"auto_envvar_prefix": "KCR"},
    epilog="Exit codes: 0, 1 when the Job or a log cannot be read, 130 after Ctrl-C, 2 on a wrong option.",
)
@named(Job, complete_jobs)
@shared.object_options
@click.option("-f", "--follow", is_flag=True, help="Go on, with the pods to come too, until the Job has ended.")
@click.option(
    "-c", "--container", metavar="NAME", default="", shell_complete=complete_containers,
    help="Only this container; by default all.",
)  # fmt: skip
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Lines from the end of each log; by default all.")
@click.option(
    "--since", metavar="DURATION", callback=shared.optional_seconds, help="Only lines not older than this, such as 5m."
)
@click.option("--timestamps", is_flag=True, help="Begin each line with the time at which it was written.")
@click.option(
    "--prefix/--no-prefix", default=None, help="Begin each line with the pod's name; by default when there are several."
)
def command(job: ObjectName, **values: Any) -> int:
    """Print the logs of all pods of a Job.

    They are in the order of their completion indexes, then of their creation.
    """
    return run_quietly(lambda: _logs(job, values))


async def _logs(name: ObjectName, values: Mapping[str, Any]) -> int:
    since = values["since"]
    options = LogOptions(
        values["container"], timestamps=values["timestamps"], tail_lines=values["tail"],
        since_seconds=None if since is None else math.ceil(since),
    )  # fmt: skip
    async with connected(values) as (client, namespace, _):
        job = await find(client, Job, Key(namespace, name.name))
        pods = await pods_of(job, client)
        _check_container(pods, options.container)
        several = len(pods) > 1 or (values["follow"] and _may_have_several(job))
        output = _Output(client, options, several if values["prefix"] is None else values["prefix"])
        if not pods and not values["follow"]:
            see = f"see why: kcr explain -n {namespace} job/{name.name}"
            click.echo(f"{name} has no pods: {see}", err=True)
        for pod in pods:
            # Those that run are followed below, side by side.
            if is_terminal(pod) or not values["follow"]:
                await output.print(pod)
        if values["follow"]:
            await _follow(job, output, tuple(pod for pod in pods if is_terminal(pod)))
        return 1 if output.has_failed else 0


async def _follow(job: Job, output: "_Output", printed: Sequence[Pod]) -> None:
    """Follow the logs of pods that run or begin to, until the Job has ended and they have."""
    client, namespace = output.client, job.metadata.namespace
    manager = Manager(client, random=random.Random(), namespace=namespace)
    manager.select(Selection(Job, namespace, fields=f"metadata.name={job.metadata.name}"))
    manager.select(Selection(Pod, namespace, labels=_labels(job)))
    progress = JobProgress(manager, Display(manager.clock), [job.key])
    follower = LogFollower(
        client, manager.store(Pod), output.write, on_end=progress.notify, on_error=output.report, options=output.options
    )
    for pod in printed:
        follower.skip(pod)

    def observe(pod: Pod) -> None:
        if is_controlled_by(pod, job):
            follower.observe(pod)

    manager.informer(Pod).add_handler(ChangeHandler(observe, follower.forget))
    manager.add(follower)
    async with manager.running():
        await progress.find_unseen(client, [job.key])
        await progress.ended([job.key])
        # The watch of pods may be behind that of Jobs.
        for pod in await pods_of(job, client):
            follower.observe(pod)
        while follower.open:
            await progress.next_change()


async def pods_of(job: Job, client: Client, *, fields: str = "") -> list[Pod]:
    """Return the Job's pods by completion index, those without one last, then by creation.

    Args:
        job: The Job.
        client: Where to read.
        fields: A field selector; empty for all pods of the Job.
    """
    found = await client.list(Pod, job.metadata.namespace, labels=_labels(job), fields=fields)
    return sorted((pod for pod in found if is_controlled_by(pod, job)), key=_place)


def _labels(job: Job) -> str:
    assert job.spec.selector is not None, "the server sets it"
    return selectors.text(job.spec.selector)


def _place(pod: Pod) -> tuple[float, str, str]:
    index = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return float(index) if index.isdecimal() else math.inf, str(pod.metadata.creation_timestamp), pod.metadata.name


def _may_have_several(job: Job) -> bool:
    return any(count not in (None, 1) for count in (job.spec.parallelism, job.spec.completions))


def _check_container(pods: Sequence[Pod], container: str) -> None:
    for pod in pods:
        names = [one.name for one in (*pod.spec.init_containers, *pod.spec.containers)]
        if container and container not in names:
            raise ConfigError(f"pod {pod.key} has no container {container!r}: choose one of {', '.join(names)}")


class _Output:
    """Prints logs on stdout, and the errors of unreadable ones on stderr."""

    def __init__(self, client: Client, options: LogOptions, prefix: bool) -> None:
        self.client = client
        self.options = options
        self.has_failed = False
        self._prefix = prefix

    async def print(self, pod: Pod) -> None:
        """Print the logs of a pod's containers so far, one after the other."""
        runs = runs_of(pod)
        if not runs:
            click.echo(f"pod {pod.key}: no container has started", err=True)
        for run in runs:
            if self.options.container in ("", run.container):
                try:
                    text = await self.client.log(pod.key, self.options._replace(container=run.container))
                except ApiError as error:
                    self.report(pod.key, error)
                else:
                    for line in text.splitlines():
                        self.write(pod.key, line)

    def write(self, pod: Key, line: str) -> None:
        """Print a line of a pod."""
        print(f"{pod.name} | {line}" if self._prefix else line, flush=True)

    def report(self, pod: Key, error: KcrError) -> None:
        """Print that a log cannot be read."""
        self.has_failed = True
        click.echo(f"kcr: log of pod {pod}: {error}", err=True)


_WHOLE_LOG = LogOptions()


class ContainerRun(NamedTuple):
    """One run of a container: `attempt` counts its restarts."""

    pod: Key
    uid: str
    container: str
    attempt: int


def runs_of(pod: Pod) -> tuple[ContainerRun, ...]:
    """Return the current run of each container that has started."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return tuple(
        ContainerRun(pod.key, pod.metadata.uid, status.name, status.restart_count)
        for status in statuses
        if status.state.running is not None or status.state.terminated is not None
    )


def log_of(run: ContainerRun, pod: Pod | None, options: LogOptions) -> LogOptions:
    """Return which log of a container is a run's: the previous one, once the pod shows that it was restarted."""
    runs = runs_of(pod) if pod is not None else ()
    was_restarted = any(now.container == run.container and now.attempt > run.attempt for now in runs)
    return options._replace(container=run.container, previous=was_restarted)


class LogFollower:
    """Follows the log of every run of a container that it is shown, one task per run.

    A component: its `run` reads, and ends by cancellation only.
    """

    def __init__(
        self,
        client: Client,
        pods: Store[Pod],
        write: Callable[[Key, str], None],
        *,
        on_end: Callable[[], None],
        on_error: Callable[[Key, KcrError], None] = lambda pod, error: None,
        options: LogOptions = _WHOLE_LOG,
    ) -> None:
        """Follow nothing yet.

        Args:
            client: Reads the logs.
            pods: Shows whether a container was restarted since.
            write: Called with the pod and each line, without its end.
            on_end: Called when a log has ended; `open` says which have not.
            on_error: Called when a log cannot be read, or breaks off: with its pod or node, or with the server.
            options: Which part of each log is read, and of which container; empty for all containers.
        """
        self._client = client
        self._pods = pods
        self._write = write
        self._on_end = on_end
        self._on_error = on_error
        self._options = options
        # Runs whose log is or was followed; forgotten with their pod.
        self._followed: set[ContainerRun] = set()
        self._waiting: asyncio.Queue[ContainerRun] = asyncio.Queue()
        # The runs whose log has not ended, and the controllers of their pods.
        self.open: dict[ContainerRun, OwnerReference | None] = {}

    def observe(self, pod: Pod) -> None:
        """Follow the logs of a pod's containers that have started since the last call."""
        for run in runs_of(pod):
            wanted = self._options.container in ("", run.container)
            if wanted and run not in self._followed:
                self._followed.add(run)
                self.open[run] = controller_of(pod.metadata)
                self._waiting.put_nowait(run)

    def skip(self, pod: Pod) -> None:
        """Never follow the present runs of a pod's containers: their logs are printed already."""
        self._followed.update(runs_of(pod))

    def forget(self, pod: Pod) -> None:
        """Forget the runs of a pod that was deleted."""
        self._followed = {run for run in self._followed if run.uid != pod.metadata.uid}

    async def run(self) -> None:
        """Follow logs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(await self._waiting.get()))

    async def _follow(self, run: ContainerRun) -> None:
        options = log_of(run, self._pods.get(run.pod), self._options)
        try:
            async with self._client.follow_log(run.pod, options) as lines:
                async for line in lines:
                    self._write(run.pod, line.decode(errors="replace").rstrip("\r\n"))
        except (ApiError, TransportError) as error:
            self._on_error(run.pod, error)
        finally:
            del self.open[run]
            self._on_end()
