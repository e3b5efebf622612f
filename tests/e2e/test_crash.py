"""`kcr run` is killed with -9 in the middle of a Job, again and again, while the API server lives on."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job, UncountedTerminatedPods, is_finished
from kcr.api.core import Pod
from kcr.client import Client, HttpTransport, load_config
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.informer import Handler, Informer
from kcr.testing import eventually
from tests.e2e.processes import Running, Serve, Start
from tests.kit.harness import conditions, create, finished, manifest, nothing_left_behind, pods_of
from tests.kit.observers import PodObserver

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, pytest.mark.soak]

# Names of pods end in a random letter or digit: about one pod in five fails.
SCRIPT = "sleep 0.2; case $HOSTNAME in *[bcdf24]) exit 1;; esac"
SPEC: dict[str, Any] = {"parallelism": 10, "completions": 50, "backoffLimit": 1000}
# Failed pods are replaced without delay: the delays of many failures are another test's.
QUICK = {"KCR_JOB_POD_FAILURE_BACKOFF": "0"}
# Nine times together fewer than the hundred writes that fifty pods take at least. A late watch sees a write after
# others were sent, so that fewer kills may find the Job at work; a third always do.
MOST_WRITES = 11


class Killer(PodObserver):
    """Kills a process at the moment when a number of its writes has been seen; and sees all pods.

    Attributes:
        kills: How many processes it has killed.
        job_finished: Whether the Job has a terminal condition: then there are no more writes to wait for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kills = 0
        self.job_finished = False
        self._victim: Running | None = None
        self._writes_left = 0

    def aim_at(self, victim: Running, writes: int) -> None:
        self._victim, self._writes_left = victim, writes

    def on_add(self, obj: Pod, initial: bool) -> None:
        super().on_add(obj, initial)
        self.wrote()

    def on_update(self, old: Pod, new: Pod) -> None:
        super().on_update(old, new)
        if is_tracked(old) and not is_tracked(new):
            self.wrote()

    def wrote(self) -> None:
        self._writes_left -= 1
        if self._victim is not None and self._writes_left <= 0:
            self._victim.send(signal.SIGKILL)
            self._victim = None
            self.kills += 1

    def rest(self) -> None:
        """Kill no more."""
        self._victim = None


class JobWrites(Handler[Job]):
    """Counts the writes of a Job's status as well, and tells when it has finished."""

    def __init__(self, killer: Killer) -> None:
        self._killer = killer

    def on_update(self, old: Job, new: Job) -> None:
        self._killer.job_finished = is_finished(new)
        self._killer.wrote()


@asynccontextmanager
async def killer_in(client: Client) -> AsyncIterator[Killer]:
    """Watch pods and Jobs for as long as the context lives."""
    killer = Killer()
    pods, jobs = Informer(client, Pod, random=Random(1)), Informer(client, Job, random=Random(2))
    pods.add_handler(killer)
    jobs.add_handler(JobWrites(killer))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(informer.run()) for informer in (pods, jobs)]
        await pods.wait_synced()
        await jobs.wait_synced()
        yield killer
        for task in running:
            task.cancel()


@pytest.mark.parametrize("kills", [3, pytest.param(9, marks=pytest.mark.soak)])
async def test_process_killed_again_and_again_counts_each_pod_once(kcr: Start, serve: Serve, kills: int) -> None:
    random = Random(11)
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        async with HttpTransport(load_config(kubeconfig)) as transport, killer_in(Client(transport)) as killer:
            client = Client(transport)
            script = {"name": "main", "image": "busybox", "command": ["sh", "-c", SCRIPT]}
            await create(client, manifest(containers=[script], **SPEC))
            for _ in range(kills):
                async with kcr("run", "--take-over", "--kubeconfig", kubeconfig, **QUICK) as run:
                    killer.aim_at(run, random.randint(1, MOST_WRITES))
                    await eventually(lambda: run.has_ended or killer.job_finished, seconds=60)
                    if not run.has_ended:
                        break
                    assert await run.end() == -9, run.err
            killer.rest()
            async with kcr("run", "--take-over", "--kubeconfig", kubeconfig, **QUICK) as run:
                job = await finished(client, seconds=60)
                # The Job may have finished under a killed process; a process handles signals once its loop runs.
                await run.ready()
                assert await run.stop() == 0, run.err
            pods = await pods_of(client)
            # No pod was deleted: those that stand at the end are all that ever were.
            phases = {pod.metadata.uid: pod.status.phase for pod in pods}
            await eventually(lambda: killer.phases == phases)
    assert conditions(job)[-1][0] == "Complete"
    assert job.status.uncounted_terminated_pods == UncountedTerminatedPods()
    assert nothing_left_behind(pods)
    assert Counter(phases.values()) == {"Succeeded": 50, "Failed": job.status.failed}
    assert job.status.succeeded == 50
    assert job.status.failed > 0
    assert killer.most_active <= 10
    assert killer.kills >= kills // 3
