"""Whatever goes wrong and whenever, each pod is counted once, none is too many, and the Job ends when its pods do."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from controllers.job.conditions import is_finished
from kcr.api.batch import Job, UncountedTerminatedPods
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Request, Response, Transport
from kcr.embedded import EmbeddedCluster
from kcr.embedded.node import Outcome
from kcr.errors import ApiError, TransportError
from kcr.testing import CrashingTransport, VirtualClock, VirtualLoop, eventually
from tests.harness import LateWatches, conditions, create, finished, job_controller, manifest, pods_of, read
from tests.storm import Chronicle, Storm, chronicle, refusal

KEY = Key("default", "pi")
SEEDS = int(os.environ.get("KCR_SEEDS", "2000"))
PATIENCE_SECONDS = 1200


def drawn_spec(random: Random) -> dict[str, Any]:
    """A small Job of any shape."""
    spec: dict[str, Any] = {
        "parallelism": random.randint(1, 4),
        "backoffLimit": random.randint(0, 6),
        "restartPolicy": random.choice(("Never", "Never", "OnFailure")),
        "podReplacementPolicy": random.choice(("TerminatingOrFailed", "Failed")),
    }
    if random.random() < 0.8:
        spec["completions"] = random.randint(1, 8)
    if random.random() < 0.2:
        spec["activeDeadlineSeconds"] = random.randint(20, 200)
    return spec


def drawn_options(random: Random) -> dict[str, Any]:
    return {
        "job_pod_failure_backoff": random.choice((0.0, 1.0, 10.0)),
        "max_job_pod_failure_backoff": 20.0,
        "sync_job_batch_period": random.choice((0.0, 1.0)),
        "max_uncounted_pods": random.choice((1, 2, 500)),
        "max_pod_create_delete_per_sync": random.choice((1, 2, 500)),
    }


def drawn_outcomes(seed: int) -> Callable[[Any, str, int], Outcome]:
    """Each pod has a fate of its own, the same whenever it is asked for."""
    fails = Random(seed).choice((0.0, 0.1, 0.5, 1.0))

    def outcome(pod: Any, container: str, attempt: int) -> Outcome:
        dice = Random(f"{seed} {pod.metadata.name} {attempt}")
        return Outcome(
            exit_code=int(dice.random() < fails),
            run_for=dice.choice((0.0, dice.random() * 15)),
            term_exit_code=dice.choice((0, 143)),
        )

    return outcome


class User:
    """Somebody who cannot leave a Job alone."""

    def __init__(self, cluster: EmbeddedCluster, random: Random, spec: dict[str, Any]) -> None:
        self._client = cluster.client
        self._random = random
        self._spec = spec
        # Only some: what a single edit breaks is easier to see.
        edits = (self._scale, self._suspend, self._evict, self._recreate)
        self._edits = random.sample(edits, random.choice((0, 0, 1, 2, 4)))

    async def meddle(self) -> None:
        await create(self._client, manifest(**self._spec))
        for _ in range(self._random.randint(1, 5) if self._edits else 0):
            await asyncio.sleep(self._random.choice((0.0, self._random.random(), self._random.random() * 20)))
            try:
                await self._random.choice(self._edits)()
            except ApiError:
                continue
        await self._patch(parallelism=self._random.randint(1, 4), suspend=False)

    async def _scale(self) -> None:
        await self._patch(parallelism=self._random.randint(0, 4))

    async def _suspend(self) -> None:
        await self._patch(suspend=self._random.random() < 0.6)

    async def _evict(self) -> None:
        pods = await self._client.list(Pod, "default")
        if pods:
            await self._client.delete(
                Pod, self._random.choice(pods).key, grace_period_seconds=self._random.choice((0, 5))
            )

    async def _recreate(self) -> None:
        await self._client.delete(Job, KEY, propagation=self._random.choice(("Background", "Foreground", "Orphan")))
        await eventually(self._is_gone, seconds=PATIENCE_SECONDS)
        await create(self._client, manifest(**self._spec))

    async def _is_gone(self) -> bool:
        return not await self._client.list(Job, "default")

    async def _patch(self, **spec: Any) -> None:
        await self._client.merge_patch(Job, KEY, {"spec": spec})


class Script:
    """A transport on which chosen creations of pods go wrong, and the pods' watch can be held back and cut."""

    def __init__(self, inner: Transport, *creations: str, compact: Callable[[], None] = lambda: None) -> None:
        """Treat the first creations as said: `lost`, `cut`, a refusal's code, or empty for well."""
        self._inner = inner
        self._creations = list(creations)
        self._compact = compact
        self.watching = asyncio.Event()
        self.watching.set()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        path = request.target.partition("?")[0]
        creates = request.method == "POST" and path.endswith("/pods")
        fault = self._creations.pop(0) if creates and self._creations else ""
        if fault == "cut":
            raise TransportError("no answer")
        if fault.isdecimal():
            yield refusal(fault)
            return
        async with self._inner.send(request) as response:
            if fault == "lost":
                raise TransportError("the reply was lost")
            yield _Held(response, self) if path == "/api/v1/pods" and "watch=" in request.target else response

    async def held(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            if not self.watching.is_set():
                await self.watching.wait()
                self._compact()
                raise TransportError("the watch was cut")
            yield line


class _Held:
    def __init__(self, inner: Response, script: Script) -> None:
        self._inner = inner
        self._script = script
        self.status = inner.status
        self.headers = inner.headers

    async def read(self) -> bytes:
        return await self._inner.read()

    def lines(self) -> AsyncIterator[bytes]:
        return self._script.held(self._inner.lines())


@pytest.mark.virtual
async def test_deadline_holds_while_creations_fail(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Retries come after 1, 3, 7, 15, 31 and 63 s: none of them at the deadline.
    script = Script(cluster.transport, *["403"] * 100)
    async with job_controller(cluster, clock, transport=script):
        await create(cluster.client, manifest(activeDeadlineSeconds=40))
        await clock.advance(41)
        assert conditions(await read(cluster.client))[-1] == ("Failed", "DeadlineExceeded")


@pytest.mark.virtual
async def test_pod_found_after_a_lost_reply_is_no_echo(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # By then the pod has ended, and after the relist this is all that the store ever hears of it.
    script = Script(cluster.transport, "lost", compact=cluster.storage.compact)
    async with job_controller(cluster, clock, transport=script):
        script.watching.clear()
        await create(cluster.client, manifest())
        await clock.advance(5)
        script.watching.set()
        await finished(cluster.client, seconds=60)


@pytest.mark.virtual
async def test_pod_that_came_and_went_unseen_is_replaced(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Nothing will ever show it; only time can say that it is no longer expected (EX-6).
    script = Script(cluster.transport, compact=cluster.storage.compact)
    async with job_controller(cluster, clock, transport=script):
        script.watching.clear()
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await clock.advance(1)
        (pod,) = await pods_of(cluster.client)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await cluster.client.delete(Pod, pod.key, grace_period_seconds=0)
        script.watching.set()
        await finished(cluster.client, seconds=600)


@pytest.mark.virtual
@pytest.mark.parametrize("refused", ["403", "409", "429"])
async def test_refusal_after_a_lost_reply_makes_no_second_pod(
    cluster: EmbeddedCluster, clock: VirtualClock, refused: str
) -> None:
    # A quota may refuse what it has let in before: the pod that is there has used it up.
    script = Script(cluster.transport, "lost", refused, refused)
    async with job_controller(cluster, clock, transport=script):
        script.watching.clear()
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "30s"}))
        await clock.advance(20)
        assert len(await pods_of(cluster.client)) == 1
        script.watching.set()
        await finished(cluster.client, seconds=600)


@pytest.mark.virtual
async def test_pod_without_its_owner_is_adopted_again(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Row 123; job-controller §4.3, step 5.
    async with job_controller(cluster, clock):
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "forever"}))
        await clock.advance(5)
        (pod,) = await pods_of(cluster.client)
        await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})
        await clock.advance(5)
        (again,) = await pods_of(cluster.client)
        assert (again.key, again.metadata.owner_references) == (pod.key, pod.metadata.owner_references)
        assert again.metadata.finalizers == pod.metadata.finalizers
        assert (await read(cluster.client)).status.active == 1


@pytest.mark.virtual
async def test_pod_that_ended_unseen_is_counted_though_it_is_too_many(
    cluster: EmbeddedCluster, clock: VirtualClock
) -> None:
    script = Script(cluster.transport)
    async with job_controller(cluster, clock, transport=script):
        await create(cluster.client, manifest(annotations={"sim.kcr.dev/run-for": "10s"}))
        await clock.advance(5)
        script.watching.clear()
        await clock.advance(10)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"suspend": True}})
        await clock.advance(5)
        script.watching.set()
        job = await finished(cluster.client, seconds=60)
    assert job.status.succeeded == 1


@pytest.mark.virtual
async def test_failed_removal_waits_for_its_retry(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # Without batching, work put off comes again at once; work that failed must not, or it would never stop.
    script = Script(cluster.transport)
    async with job_controller(cluster, clock, transport=script, sync_job_batch_period=0.0):
        await create(cluster.client, manifest(parallelism=2, annotations={"sim.kcr.dev/run-for": "forever"}))
        await clock.advance(5)
        script.watching.clear()
        for pod in await pods_of(cluster.client):
            await cluster.client.merge_patch(Pod, pod.key, {"metadata": {"annotations": {"seen": "no"}}})
        await cluster.client.merge_patch(Job, KEY, {"spec": {"parallelism": 1}})
        await clock.advance(5)
        script.watching.set()
        await clock.advance(120)
        assert (await read(cluster.client)).status.active == 1


@pytest.mark.virtual
async def test_crash_with_full_lists_leaves_nothing_listed(cluster: EmbeddedCluster, clock: VirtualClock) -> None:
    # The lists are full of pods that still have their finalizer.
    transport = CrashingTransport(cluster.transport)
    async with job_controller(cluster, clock, transport=transport, max_uncounted_pods=1):
        await create(cluster.client, manifest(parallelism=2, annotations={"sim.kcr.dev/run-for": "5s"}))
        await clock.advance(1)
        # The status that lists the first pod; its finalizer is not removed any more.
        transport.crash_after(transport.writes + 1)
        await clock.advance(10)
    assert (await read(cluster.client)).status.uncounted_terminated_pods != UncountedTerminatedPods()
    async with job_controller(cluster, clock, max_uncounted_pods=1):
        job = await finished(cluster.client, seconds=60)
    assert job.status.succeeded == 2


@pytest.mark.virtual
@pytest.mark.parametrize("late", [{}, {"jobs": 3.0}, {"pods": 3.0}, {"jobs": 2.0, "pods": 2.0}], ids=str)
async def test_namesake_inherits_nothing(
    cluster: EmbeddedCluster, clock: VirtualClock, late: Mapping[str, float]
) -> None:
    # Rows 151 to 154: three Jobs of one name, each deleted while its pods fail, go, or have not been seen.
    transport = LateWatches(cluster.transport, Random(5), late)
    fails = {"sim.kcr.dev/exit-code": "1", "sim.kcr.dev/run-for": "1s"}
    async with job_controller(cluster, clock, transport=transport):
        for pause in (0.0, 1.5, 4.0):
            await create(cluster.client, manifest(parallelism=5, backoffLimit=20, annotations=fails))
            await clock.advance(pause)
            await cluster.client.delete(Job, KEY, propagation="Background")
        last = await create(
            cluster.client,
            manifest(parallelism=5, podReplacementPolicy="Failed", annotations={"sim.kcr.dev/run-for": "forever"}),
        )
        await clock.advance(9)
        job = await read(cluster.client)
        assert (job.status.active, job.status.failed, job.status.succeeded) == (5, 0, 0)
        mine = [
            pod for pod in await pods_of(cluster.client) if pod.metadata.owner_references[0].uid == last.metadata.uid
        ]
        assert len(mine) == 5


@asynccontextmanager
async def stormy(cluster: EmbeddedCluster, random: Random, *, late: bool) -> AsyncIterator[Storm]:
    async with asyncio.TaskGroup() as group:
        storm = Storm(cluster.transport, random, group, compact=cluster.storage.compact, late=late)
        yield storm
        storm.calm = True


async def weather(seed: int) -> tuple[Chronicle, Storm]:
    """Run one Job, with all that the seed has in store for it, and return what happened."""
    random, clock = Random(seed), VirtualClock()
    crashes = random.choice((0, 0, 1, 3))
    spec, options = drawn_spec(random), drawn_options(random)
    async with (
        EmbeddedCluster(clock=clock, random=Random(seed), on_run=drawn_outcomes(seed)) as cluster,
        chronicle(cluster) as seen,
        stormy(cluster, random, late=not crashes) as storm,
        asyncio.TaskGroup() as group,
    ):
        meddling = group.create_task(User(cluster, random, spec).meddle())
        for number in range(crashes):
            transport = CrashingTransport(storm)
            transport.crash_after(random.randint(1, 30))
            async with job_controller(cluster, clock, transport=transport, seed=seed + number, **options):
                await clock.advance(random.random() * 20)
                transport.crash_after(0)
        async with job_controller(cluster, clock, transport=storm, seed=seed - 1, **options):
            await clock.advance(random.random() * 60)
            await meddling
            storm.calm = True
            await clock.run_until(lambda: any(map(is_finished, current(seen))), seconds=PATIENCE_SECONDS)
            await clock.advance(120)
    return seen, storm


def current(seen: Chronicle) -> list[Job]:
    """The Job that has the name now: the one created last."""
    return list(seen.jobs.values())[-1:]


def check(seed: int) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        seen, storm = runner.run(weather(seed))
    seen.check()
    assert not storm.invalid, f"seed {seed}: {storm.invalid}"
    assert not seen.wrongs, f"seed {seed}: {seen.wrongs}"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_job_survives_any_weather(first: int) -> None:
    for seed in range(first, first + 10):
        check(seed)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(8))
def test_job_survives_all_weathers(part: int) -> None:
    for seed in range(part, SEEDS, 8):
        check(seed)
