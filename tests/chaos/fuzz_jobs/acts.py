"""What a kubelet, a user and policies do in a scenario, on any API server; and what happens to the controller.

An act chooses by dice, and names the pod it chooses by what is seen of it: in two namespaces with the same pods, the
same dice choose alike.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple, Protocol

import msgspec

from kcr.api.batch import COMPLETION_INDEX, Job
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_of
from kcr.api.pods import is_ready, is_terminal
from kcr.client import Client
from kcr.clock import Clock
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import ApiError, NotFoundError
from tests.chaos.fuzz_jobs.refusals import REFUSALS
from tests.chaos.random_jobs import CODES, DISRUPTED
from tests.chaos.random_user import SEEN, job_labels
from tests.kit.fake_node import FakeNode

_GONE_SECONDS = 120
# What an act answers that found nothing to do.
NOTHING = "nothing to do"


class Controller(Protocol):
    """The Job controller as a scenario sees it."""

    async def restart(self) -> None:
        """Kill it, and start it again."""

    async def come(self) -> None:
        """Start it, unless it lives."""

    async def leave(self) -> None:
        """Kill it; it comes back with `come`, or `restart`."""

    async def crash_soon(self, writes: int) -> None:
        """Kill it after some more of its writes, and start it again."""


class World:
    """One Job in a namespace, its pods, and who acts on them.

    Attributes:
        client: An admin's client.
        namespace: Where the Job is.
        node: The kubelet.
        job: The manifest that the Job was created from.
        controller: Its controller.
        refused: The refusals in force, by name.
        policy_seconds: How long the API server may take to enforce a policy.
        pause: How many seconds a pod that has ended stays before it vanishes, so that any controller sees its end.
        apart: How many seconds lie between two pods that become ready: the earlier one is kept longer.
        at_once: How many pods may succeed at a time. A controller may or may not act between two.
        gone_at_once: How many deleted pods may end at a time.
        ever_refused: All refusals that have been in force.
        on_refusal: Called with the name of a refusal, and whether it is now in force.
        said: What has happened, for a reader.
    """

    def __init__(self, client: Client, clock: Clock, job: dict[str, Any], controller: Controller) -> None:
        self.client = client
        self.namespace: str = job["metadata"]["namespace"]
        self.node = FakeNode(client, clock)
        self.job = job
        self.controller = controller
        self.refused: set[str] = set()
        self.policy_seconds = 0.0
        self.pause = 0.0
        self.apart = 0.0
        self.at_once = self.gone_at_once = 100
        self.ever_refused: set[str] = set()
        self.on_refusal: Callable[[str, bool], object] = lambda name, in_force: None
        self.said: list[str] = []
        self._gifts = 0

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.job["metadata"]["name"])

    async def create(self) -> None:
        await self.client.create_manifest(Job, self.job, self.namespace)

    async def read(self) -> Job | None:
        """Return the Job, or None when there is none."""
        try:
            return await self.client.get(Job, self.key)
        except NotFoundError:
            return None

    async def pods(self) -> list[Pod]:
        """Return all pods of the namespace, ordered by what is seen of them."""
        return sorted(await self.client.list(Pod, self.namespace), key=looks)

    async def choose(self, dice: Random, fits: Callable[[Pod], bool] = lambda pod: True) -> Pod | None:
        """Return one of the pods that fit, or None."""
        found = [pod for pod in await self.pods() if fits(pod)]
        return self.say_pod(dice.choice(found)) if found else None

    async def patch(self, **spec: Any) -> None:
        """Change the spec of the Job, fields by their names on the wire."""
        self.said.append(f"spec {spec}")
        await self.client.merge_patch(Job, self.key, {"spec": spec})

    def say_pod(self, pod: Pod) -> Pod:
        """Note which pod was chosen."""
        self.said.append(f"pod {pod.metadata.name} {pod.status.phase or '-'}")
        return pod

    def next_gift(self) -> str:
        self._gifts += 1
        return f"gift-{self._gifts}"

    async def do(self, act: str, dice: str) -> str:
        """Do something, and return what it was; a refusal of the API server is part of the scenario."""
        self.said.clear()
        try:
            await ACTS[act].do(self, Random(dice))
        except ApiError as error:
            self.said.append(f"refused: {error}")
        return ", ".join(self.said) or NOTHING


def index_of(pod: Pod) -> int:
    """Return the completion index of a pod, -1 for none."""
    text = pod.metadata.annotations.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else -1


def looks(pod: Pod) -> tuple[Any, ...]:
    """Return what tells pods apart: two that look alike are the same for a scenario."""
    ends = sorted(
        status.state.terminated.exit_code for status in pod.status.container_statuses if status.state.terminated
    )
    return (
        index_of(pod), pod.status.phase or "Pending", pod.metadata.deletion_timestamp is not None, is_ready(pod),
        is_tracked(pod), bool(pod.spec.node_name), controller_of(pod.metadata) is not None,
        bool(pod.metadata.labels), pod.metadata.name.startswith("gift"), ends,
    )  # fmt: skip


def is_live(pod: Pod) -> bool:
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is None


def is_going(pod: Pod) -> bool:
    """Whether a kubelet may end the pod: it was deleted, and has not ended."""
    return not is_terminal(pod) and pod.metadata.deletion_timestamp is not None


async def _run(world: World, dice: Random) -> None:
    """Bind pods that wait, all or one, and report them as running, most of them as ready."""
    waiting = [pod for pod in await world.pods() if is_live(pod) and not pod.spec.node_name]
    if waiting and dice.random() < 0.3:
        waiting = [dice.choice(waiting)]
    await run(world, waiting, ready=dice.random() < 0.8)


async def run(world: World, pods: Sequence[Pod], *, ready: bool = True) -> None:
    """Bind pods, and report them as ready or only as running."""
    for pod in pods:
        await world.node.bind(world.say_pod(pod))
        await (world.node.ready(pod) if ready else world.node.restarted(pod, 0))
        await asyncio.sleep(world.apart)


async def _succeed(world: World, dice: Random) -> None:
    pods = [pod for pod in await world.pods() if is_live(pod)]
    count = dice.choice((1, 1, 2, len(pods)))
    for pod in dice.sample(pods, min(count, len(pods), world.at_once)):
        await world.node.succeed(world.say_pod(pod))


async def _fail(world: World, dice: Random) -> None:
    code = dice.choice((*CODES, 143))
    if pod := await world.choose(dice, is_live):
        world.said.append(f"code {code}")
        await world.node.fail(pod, exit_code=code)


async def _disrupt(world: World, dice: Random) -> None:
    if pod := await world.choose(dice, is_live):
        await world.node.fail(pod, exit_code=143, condition=DISRUPTED)


async def _restart_containers(world: World, dice: Random) -> None:
    if pod := await world.choose(dice, is_live):
        await world.node.restarted(pod, dice.randint(1, 3))


async def _end_going(world: World, dice: Random) -> None:
    """End a pod that was deleted; sometimes its object stays a while."""
    phase, code = dice.choice((("Failed", 143), ("Failed", 1), ("Succeeded", 0)))
    stays = dice.random() < 0.4
    if pod := await world.choose(dice, is_going):
        world.said.append(f"{phase} {code}")
        await world.node.end(pod, phase, code)
        if not stays:
            await asyncio.sleep(world.pause)
            await world.node.kill([pod])


async def confirm_deletions(world: World) -> None:
    """End the pods that were deleted, and let the kubelet confirm it."""
    deleted = [pod for pod in await world.pods() if pod.metadata.deletion_timestamp is not None][: world.gone_at_once]
    going = [pod for pod in deleted if not is_terminal(pod)]
    for pod in going:
        with suppress(ApiError):
            await world.node.end(pod, "Failed", 143)
    if going:
        await asyncio.sleep(world.pause)
    for pod in deleted:
        with suppress(ApiError):
            await world.node.kill([world.say_pod(pod)])


async def _scale(world: World, dice: Random) -> None:
    await world.patch(**_size(world, dice.randint(0, 5)))


def _size(world: World, count: int) -> dict[str, int]:
    """Return the fields to scale by; where the server allows it, an Indexed Job changes both."""
    spec = world.job["spec"]
    fixed = {"maxFailedIndexes", "successPolicy"} & spec.keys()
    is_elastic = spec.get("completionMode") == "Indexed" and not fixed and spec["parallelism"] == spec["completions"]
    return {"parallelism": count, "completions": count} if is_elastic else {"parallelism": count}


async def _scale_up(world: World, dice: Random) -> None:
    await world.patch(**_size(world, 2))


async def _suspend(world: World, dice: Random) -> None:
    await world.patch(suspend=True)


async def _resume(world: World, dice: Random) -> None:
    await world.patch(suspend=False)


async def _limit(world: World, dice: Random) -> None:
    await world.patch(backoffLimit=dice.randint(0, 4))


async def _deadline(world: World, dice: Random) -> None:
    await world.patch(activeDeadlineSeconds=dice.choice((3, 20, 60)))


async def _edit_template(world: World, dice: Random) -> None:
    await world.patch(template={"metadata": {"annotations": {SEEN: str(dice.randint(1, 9))}}})


async def _delete_pod(world: World, dice: Random) -> None:
    grace = dice.choice((0, 5, 30))
    if pod := await world.choose(dice):
        await world.client.delete(Pod, pod.key, grace_period_seconds=grace)


async def _strip(world: World, dice: Random) -> None:
    """Remove the finalizers of a pod, as an impatient user does."""
    if pod := await world.choose(dice, is_tracked):
        await world.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})


async def _vanish(world: World, dice: Random) -> None:
    """Remove a pod whatever holds it."""
    if pod := await world.choose(dice):
        await world.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
        await world.client.delete(Pod, pod.key, grace_period_seconds=0)


async def _disown(world: World, dice: Random) -> None:
    if pod := await world.choose(dice, lambda pod: controller_of(pod.metadata) is not None):
        await world.client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})


async def _relabel(world: World, dice: Random) -> None:
    if pod := await world.choose(dice, lambda pod: bool(pod.metadata.labels)):
        await world.client.merge_patch(Pod, pod.key, {"metadata": {"labels": None}})


async def _reindex(world: World, dice: Random) -> None:
    """Give a pod another index by hand."""
    index = str(dice.randint(0, 3))
    if pod := await world.choose(dice, lambda pod: index_of(pod) >= 0):
        await world.client.merge_patch(Pod, pod.key, {"metadata": {"annotations": {COMPLETION_INDEX: index}}})


async def _give(world: World, dice: Random) -> None:
    """Make a pod by hand that the Job adopts."""
    index = {COMPLETION_INDEX: str(dice.randint(0, 3))} if dice.random() < 0.7 else {}
    if job := await world.read():
        metadata = {"name": world.next_gift(), "labels": job_labels(job), "annotations": index}
        pod = {"metadata": metadata, "spec": msgspec.json.decode(job.spec.template)["spec"]}
        world.said.append(str(metadata))
        await world.client.create_manifest(Pod, pod, world.namespace)


async def _tell(world: World, dice: Random) -> None:
    """Write a condition of one's own."""
    if job := await world.read():
        world.said.append(SEEN)
        own = {"type": SEEN, "status": "True", "reason": "Told", "message": "by hand"}
        conditions = [msgspec.to_builtins(one) for one in job.status.conditions if one.type != SEEN]
        metadata = {"resourceVersion": job.metadata.resource_version}
        change = {"metadata": metadata, "status": {"conditions": [*conditions, own]}}
        await world.client.merge_patch(Job, world.key, change, subresource="status")


async def _recreate(world: World, dice: Random) -> None:
    """Delete the Job, wait until it is gone, and create it again."""
    propagation = dice.choice(("Background", "Foreground", "Orphan"))
    if world.refused - {"quota", "security", "creates"}:
        # The Job would stay until they are lifted.
        return None
    world.said.append(propagation)
    # It has to let the pods go.
    await world.controller.come()
    await world.client.delete(Job, world.key, propagation=propagation)
    for _ in range(_GONE_SECONDS):
        # With `Foreground` it waits for pods whose kubelet has to end them.
        await confirm_deletions(world)
        if await world.read() is None:
            return await world.create()
        await asyncio.sleep(1.0)
    raise AssertionError(f"Job {world.key} is not gone after {_GONE_SECONDS} s")


async def _refuse(world: World, dice: Random) -> None:
    """Put a policy in force that refuses some of the controller's writes."""
    name = dice.choice(sorted(REFUSALS))
    if name not in world.refused:
        world.said.append(name)
        world.refused.add(name)
        world.ever_refused.add(name)
        world.on_refusal(name, True)
        await REFUSALS[name].begin(world.client, world.namespace, dice)
        await asyncio.sleep(world.policy_seconds)


async def _lift(world: World, dice: Random) -> None:
    await lift(world)


async def lift(world: World) -> None:
    """Take all policies out of force."""
    for name in sorted(world.refused):
        world.said.append(name)
        await REFUSALS[name].end(world.client, world.namespace)
        world.refused.remove(name)
        await asyncio.sleep(world.policy_seconds)
        world.on_refusal(name, False)


async def succeed_all(world: World) -> None:
    """Let the Job have pods, run them all, and let them succeed; without end."""
    for act in PREPARE:
        await world.do(act, "")
    while True:
        for act in ROUND:
            await world.do(act, "")
        await asyncio.sleep(5.0)


async def _create(world: World, dice: Random) -> None:
    if await world.read() is None:
        world.said.append("created")
        await world.create()


async def _confirm(world: World, dice: Random) -> None:
    await confirm_deletions(world)


async def _succeed_bound(world: World, dice: Random) -> None:
    bound = [pod for pod in await world.pods() if is_live(pod) and pod.spec.node_name]
    for pod in bound[: world.at_once]:
        # The controller may delete it meanwhile.
        with suppress(ApiError):
            await world.node.succeed(world.say_pod(pod))


async def _run_all(world: World, dice: Random) -> None:
    for pod in await world.pods():
        if is_live(pod) and not pod.spec.node_name:
            with suppress(ApiError):
                await run(world, [pod])


async def _wait(world: World, dice: Random) -> None:
    seconds = dice.choice((5.0, 12.0, 25.0))
    world.said.append(f"{seconds:g} s")
    await asyncio.sleep(seconds)


async def _restart(world: World, dice: Random) -> None:
    await world.controller.restart()


async def _leave(world: World, dice: Random) -> None:
    await world.controller.leave()


async def _crash_soon(world: World, dice: Random) -> None:
    await world.controller.crash_soon(dice.randint(1, 8))


class Act(NamedTuple):
    """An act, and how often it is drawn."""

    weight: int
    do: Callable[[World, Random], Awaitable[None]]


ACTS: dict[str, Act] = {
    # A kubelet.
    "run": Act(6, _run),
    "succeed": Act(6, _succeed),
    "fail": Act(6, _fail),
    "disrupt": Act(2, _disrupt),
    "restart-containers": Act(2, _restart_containers),
    "end-going": Act(6, _end_going),
    # A user.
    "scale": Act(4, _scale),
    "suspend": Act(3, _suspend),
    "resume": Act(3, _resume),
    "limit": Act(1, _limit),
    "deadline": Act(1, _deadline),
    "edit-template": Act(1, _edit_template),
    "delete-pod": Act(4, _delete_pod),
    "strip": Act(1, _strip),
    "vanish": Act(2, _vanish),
    "disown": Act(1, _disown),
    "relabel": Act(1, _relabel),
    "reindex": Act(1, _reindex),
    "give": Act(1, _give),
    "tell": Act(1, _tell),
    "recreate": Act(1, _recreate),
    # Policies.
    "refuse": Act(4, _refuse),
    "lift": Act(3, _lift),
    # The clock, and the controller.
    "wait": Act(3, _wait),
    "restart": Act(1, _restart),
    "leave": Act(1, _leave),
    "crash-soon": Act(2, _crash_soon),
    # Not drawn: so that the Job can end.
    "create": Act(0, _create),
    "scale-up": Act(0, _scale_up),
    "confirm": Act(0, _confirm),
    "succeed-bound": Act(0, _succeed_bound),
    "run-all": Act(0, _run_all),
}
# What lets a Job end: once, and then again and again.
PREPARE = ("create", "resume", "scale-up")
ROUND = ("confirm", "succeed-bound", "run-all")
