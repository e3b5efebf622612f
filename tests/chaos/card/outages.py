"""Outages of what a controller relies on: fresh reads, its clock, the data of the API server, its rights.

Each has a law of its own where the usual ones cannot hold:

- Reads of older replicas: all laws hold within the life of a process, which knows what it wrote. A process that starts
  with an old list cannot know of pods made since, so here none starts with one.
- Clocks: a deadline is as right as the clock of the machine; all other laws hold, and the Lease of another replica is
  judged by durations, never by times of day.
- A restored API server has forgotten a minute: what was counted then is counted again, of the pods that it has. In the
  restored world each pod is counted once, none is too many, and the Job ends. Its
  versions continue far behind those that clients have seen, as etcd's documentation demands: no watch could notice
  versions that fall.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.pods import is_active
from kcr.api.unstructured import unstructured
from kcr.client import Client
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import ApiError, ForbiddenError, NotFoundError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.apiserver.admission.caller import WebhookCallError
from kcr_devcluster.apiserver.http.watches.watching import Watch
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.calls import Verb
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.pods import PodScript
from tests.chaos import shard_runs
from tests.chaos.card.scenarios import KEY, SCENARIOS, act, observed
from tests.chaos.card.wires import OlderReplicas
from tests.chaos.job_runs import PATIENCE
from tests.chaos.random_jobs import random_job, random_options, random_outcomes
from tests.chaos.random_user import RandomUser, fail_unscheduled
from tests.chaos.tally import FAULTS, broken, checked, met
from tests.kit.harness import create, finished, job_controller, manifest

_STARTED_BY_CLOCK = ("for DeadlineExceeded, which is not so", "start_time_follows_suspension: resumed, and started")
# By how much a restored server continues behind its newest version, as etcdutl's --bump-revision.
_BUMP = 1_000_000_000


async def stale(seed: int) -> list[str]:
    """A Job, and a controller whose reads come from replicas of the API server that are behind."""
    random, clock = Random(seed), VirtualClock()
    job, options = random_job(random), random_options(random)
    async with observed(clock, options, random_outcomes(seed)) as (cluster, history, network):
        wire = OlderReplicas(network, cluster, random)
        async with job_controller(cluster, clock, transport=wire, seed=seed, **options):
            await RandomUser(cluster.client, random, job).act()
            await clock.advance(random.random() * 60)
            wire.healed = True
            await fail_unscheduled(cluster.client)
            await history.see_the_end(clock, PATIENCE)
    return history.wrongs


class JumpingClock:
    """The clock of a machine: it drifts, and is set forward and back by up to ten minutes."""

    def __init__(self, clock: VirtualClock, random: Random) -> None:
        self._clock = clock
        self._rate = 1.0 + random.uniform(-0.01, 0.01)
        now, self._jumps = clock.boottime(), list[tuple[float, float]]()
        for _ in range(random.randint(0, 6)):
            now += random.choice((0.5, 5.0, 30.0)) * random.random()
            self._jumps.append((now, random.choice((1.0, 60.0, 600.0)) * random.uniform(-1, 1)))
            met("clock: jumped")

    def now(self) -> datetime:
        """The time of day, after the last jump."""
        passed = self._clock.boottime()
        by = next((by for moment, by in reversed(self._jumps) if moment <= passed), 0.0)
        return self._clock.now() + timedelta(seconds=passed * (self._rate - 1.0) + by)

    def boottime(self) -> float:
        """The seconds since the machine has booted, which drift and never jump."""
        return self._clock.boottime() * self._rate


async def clocks(seed: int) -> list[str]:
    """Replicas with sharding, or without, on machines whose clocks jump and drift."""
    random = Random(f"clocks {seed}")
    shards = random.choice(((0,), (4,), (4, 0)))
    wrongs, _ = await shard_runs.live(seed, shards, lambda clock: JumpingClock(clock, random))
    return [wrong for wrong in wrongs if not any(known in wrong for known in _STARTED_BY_CLOCK)]


class RestoredPods:
    """The law of the restored world: never more active pods than the Job wants."""

    def __init__(self, most: int, wrongs: list[str]) -> None:
        self._most, self._wrongs = most, wrongs
        self.pods: dict[str, Pod] = {}
        self.begun = False

    def follow(self, change: Change) -> None:
        """Note a change of a pod."""
        pod = codec.decode(Pod, change.record.data)
        self.pods[pod.metadata.uid] = pod
        if change.new is None:
            del self.pods[pod.metadata.uid]
        active = sum(map(is_active, self.pods.values()))
        checked("no_pod_is_one_too_many")
        if self.begun and change.old is None and active > self._most:
            self._wrongs.append(f"no_pod_is_one_too_many: {active} pods are active after the restore of {self._most}")
            broken(self._wrongs[-1], amid_write=True)


async def snapshot(seed: int) -> list[str]:
    """The API server dies, and is restored from a snapshot of up to a minute ago; the controller lives on."""
    random, clock, wrongs = Random(seed), VirtualClock(), list[str]()
    parallelism, completions = random.randint(1, 4), random.randint(4, 9)
    spec: dict[str, Any] = {"parallelism": parallelism, "completions": completions, "backoffLimit": 100}
    if random.random() < 0.5:
        spec |= {"completionMode": "Indexed"}

    async with EmbeddedCluster(clock=clock, random=Random(seed), runtime=None) as cluster, asyncio.TaskGroup() as group:
        seen, storage = RestoredPods(parallelism, wrongs), cluster.storage
        (pods,) = [kind for kind in KINDS if kind.type == Pod.resource]
        storage.cache(pods).subscribers[seen.follow] = None
        kubelet = group.create_task(_report(cluster.client, clock, seed))
        async with job_controller(cluster, clock, seed=seed, job_pod_failure_backoff=1.0):
            await create(cluster.client, manifest(**spec))
            await clock.advance(random.random() * 60)
            then = storage.revision
            await clock.advance(random.random() * 60)
            met("API server: restored from a snapshot")
            restore(cluster, then)
            seen.pods = {pod.metadata.uid: pod for pod in await cluster.client.list(Pod, "default")}
            seen.begun = True
            try:
                job = await finished(cluster.client, seconds=PATIENCE)
            except (AssertionError, TimeoutError):
                wrongs.append("it does not end")
                job = await cluster.client.get(Job, KEY)
            await clock.advance(60)
        kubelet.cancel()
        return [*wrongs, *_restored(job, list(seen.pods.values()))]


async def _report(client: Client, clock: VirtualClock, seed: int) -> None:
    """Be a kubelet that reports, again and again, what its pods do, whatever the server has forgotten."""
    pods, ends = PodScript(client, clock), dict[str, float]()
    while True:
        await asyncio.sleep(0.5)
        for pod in await client.list(Pod, "default"):
            dice, now = Random(f"{seed} {pod.metadata.name}"), clock.boottime()
            end = ends.setdefault(pod.metadata.uid, now + dice.random() * 40)
            with suppress(ApiError, AssertionError):
                if pod.metadata.deletion_timestamp is not None:
                    await client.delete(Pod, pod.key, grace_period_seconds=0)
                elif pod.status.phase == "Pending":
                    await pods.run(pod.metadata.name)
                elif pod.status.phase == "Running" and end <= now:
                    await (pods.fail if dice.random() < 0.2 else pods.succeed)(pod.metadata.name)


def _restored(job: Job, pods: list[Pod]) -> list[str]:
    checked("counts_add_up")
    checked("no_pod_is_held", len(pods))
    found = [f"no_pod_is_held: pod {pod.metadata.name} keeps its finalizer" for pod in pods if is_tracked(pod)]
    ended = [sum(pod.status.phase == phase for pod in pods) for phase in ("Succeeded", "Failed")]
    counted = [job.status.succeeded, job.status.failed]
    if counted != ended:
        found.append(f"counts_add_up: {counted} counted of {ended} after the restore")
    return found


def restore(cluster: EmbeddedCluster, revision: int) -> None:
    """Let the API server be what it was at a revision, and end all watches.

    Args:
        cluster: Where it is.
        revision: Which.
    """
    storage = cluster.storage
    newest = storage.revision + _BUMP
    for kind in KINDS:
        cache = storage.cache(kind)
        records, keys = cache.snapshot_at(max(revision, cache.compacted_revision))
        cache.records, cache.keys = dict(records), list(keys)
        cache.history.clear()
        cache.compacted_revision = newest
        for subscriber in tuple(cache.subscribers):
            watch = getattr(subscriber, "__self__", None)
            if isinstance(watch, Watch):
                watch.stop()
    storage.revision = newest


_QUOTA = unstructured("v1", "ResourceQuota", plural="resourcequotas")
_WEBHOOK = unstructured(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", plural="validatingwebhookconfigurations",
    namespaced=False,
)  # fmt: skip
# What a controller may do of a kind: each is a right of its own.
_RIGHTS: tuple[tuple[type[Pod] | type[Job], tuple[Verb, ...]], ...] = (
    (Pod, ("create",)), (Pod, ("patch",)), (Pod, ("delete",)), (Job, ("patch",)), (Pod, ("get", "list", "watch")),
    (Job, ("get", "list", "watch")),
)  # fmt: skip


_AWAY = "https://away.example.dev"


async def rights(seed: int) -> list[str]:
    """What a controller needs is taken away and given back: a quota, rights, a webhook in the way of its pods."""
    random, clock = Random(seed), VirtualClock()
    name = random.choice(sorted(SCENARIOS))
    scenario = SCENARIOS[name]
    options = {"job_pod_failure_backoff": 1.0, "max_job_pod_failure_backoff": 20.0, **scenario.options}
    async with observed(clock, options, scenario.outcome) as (cluster, history, network):
        cluster.server.admission.caller.handlers[_AWAY] = _no_answer
        wire = FaultyTransport(network)
        takes: Mapping[str, Callable[[Client], Awaitable[None]]] = {"quota": _with_quota, "webhook": _with_webhook}
        async with job_controller(cluster, clock, transport=wire, seed=seed, **options), asyncio.TaskGroup() as group:
            user = group.create_task(act(cluster.client, manifest(**scenario.spec), scenario.acts))
            for _ in range(random.randint(1, 5)):
                await asyncio.sleep(random.choice((0.0, 0.5, 5.0)) * random.random())
                number = random.randrange(len(takes) + len(_RIGHTS))
                if number < len(takes):
                    name = list(takes)[number]
                    met(f"{name}: in the way")
                    await takes[name](cluster.client)
                else:
                    met("rights: taken away")
                    kind, verbs = _RIGHTS[number - len(takes)]
                    for verb in verbs:
                        wire.on(verb, kind).fail(ForbiddenError)
                await asyncio.sleep(random.choice((0.5, 5.0, 60.0)) * random.random())
                if random.random() < 0.7:
                    await _give_back(cluster.client, wire)
            await _give_back(cluster.client, wire)
            await user
            await history.see_the_end(clock, PATIENCE)
        FAULTS["rights: refused"] += wire.seen["403"]
    return history.wrongs


async def _no_answer(path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
    raise WebhookCallError("this server has no connections to webhooks")


async def _with_quota(client: Client) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    with suppress(ApiError):
        await client.create_manifest(_QUOTA, quota, "default")


async def _with_webhook(client: Client) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": "pods.example.dev", "clientConfig": {"url": _AWAY}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "rules": [rule], "failurePolicy": "Fail",
    }  # fmt: skip
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    with suppress(ApiError):
        await client.create_manifest(_WEBHOOK, {**kind, "metadata": {"name": "none"}, "webhooks": [webhook]})


async def _give_back(client: Client, wire: FaultyTransport) -> None:
    wire.heal()
    for kind, namespace in ((_QUOTA, "default"), (_WEBHOOK, "")):
        with suppress(NotFoundError):
            await client.delete(kind, KEY._replace(namespace=namespace, name="none"))
