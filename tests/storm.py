"""A network that does its worst, drawn from a seed, and a record of what Jobs and pods went through in it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import msgspec

from controllers.job.conditions import COMPLETE, FAILED, INTERIM, is_finished
from controllers.job.pods import has_ended, is_active, is_tracked
from kcr.api.batch import Job, UncountedTerminatedPods
from kcr.api.conditions import is_true
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.client import Request, Response, Transport
from kcr.embedded import EmbeddedCluster
from kcr.errors import TransportError
from kcr.informer import Handler, Informer

_WRITES = ("POST", "PATCH", "DELETE")
# A write that is not executed, one whose reply is lost, one that is executed when nobody waits for it any more,
# one that takes long; and refusals.
_FAULTS = ("cut", "lost", "late", "slow", "409", "429", "500")
_REASONS = {"403": "Forbidden", "409": "Conflict", "429": "TooManyRequests", "500": "InternalError"}
_STAYS = (COMPLETE, FAILED, *INTERIM.values())


class Storm:
    """A transport on which anything may go wrong, until it is calm.

    Attributes:
        calm: Whether everything goes well from now on.
        invalid: What the server refused with 422.
    """

    def __init__(
        self, inner: Transport, random: Random, group: asyncio.TaskGroup, *, compact: Callable[[], None], late: bool
    ) -> None:
        self._inner = inner
        self._random = random
        self._group = group
        self._compact = compact
        self._faults = _FAULTS if late else tuple(fault for fault in _FAULTS if fault != "late")
        self._share = random.choice((0.0, 0.05, 0.2))
        self._delay = random.choice((0.0, 0.5, 3.0, 20.0))
        self._cut_after = random.choice((2, 10, 1000))
        self._twice = random.choice((0.0, 0.2))
        self.calm = False
        self.invalid: list[str] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        path = request.target.partition("?")[0]
        watches = "watch=" in request.target
        fault = ""
        if (
            not self.calm
            and request.method in _WRITES
            and "/events" not in path
            and self._random.random() < self._share
        ):
            fault = self._random.choice(self._faults)
        if fault.isdecimal():
            yield refusal(fault)
            return
        await self._before(fault, request)
        async with self._inner.send(request) as response:
            if fault == "lost":
                raise TransportError(f"{request.method} {path}: the reply was lost")
            if response.status == 422:
                self.invalid.append((await response.read()).decode())
            yield _Gusty(response, self, self._length(request)) if watches and not self.calm else response

    async def _before(self, fault: str, request: Request) -> None:
        if fault == "late":
            self._group.create_task(self._send_late(request, self._random.random() * 5))
        if fault in ("cut", "late"):
            raise TransportError(f"{request.method} {request.target}: no answer")
        if fault == "slow":
            await asyncio.sleep(self._random.random() * 3)

    async def _send_late(self, request: Request, seconds: float) -> None:
        await asyncio.sleep(seconds)
        async with self._inner.send(request):
            pass

    def _length(self, request: Request) -> int:
        """After how many lines a watch is cut. Most first lists get through, or no controller would ever begin."""
        if "sendInitialEvents" in request.target and self._random.random() < 0.7:
            return 1000
        return self._random.randint(1, 2 * self._cut_after)

    async def blown(self, lines: AsyncIterator[bytes], left: int) -> AsyncIterator[bytes]:
        """Yield lines late, some of them twice, until the stream is cut; what it missed may be forgotten then."""
        loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes | None]]()

        async def take() -> None:
            async for line in lines:
                waiting.put_nowait((loop.time() + self._random.random() * self._delay, line))
            waiting.put_nowait((loop.time(), None))

        # Not in a group of its own: whoever reads may stop at any line.
        taking = self._group.create_task(take())
        try:
            while not self.calm and left > 0:
                due, line = await waiting.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if line is None:
                    return
                for _ in range(1 + (self._random.random() < self._twice)):
                    yield line
                left -= 1
        finally:
            taking.cancel()
        if self._random.random() < 0.5:
            self._compact()
        raise TransportError("the watch was cut")


class _Gusty:
    def __init__(self, inner: Response, storm: Storm, length: int) -> None:
        self._inner = inner
        self._length = length
        self._storm = storm
        self.status = inner.status
        self.headers = inner.headers

    async def read(self) -> bytes:
        return await self._inner.read()

    def lines(self) -> AsyncIterator[bytes]:
        return self._storm.blown(self._inner.lines(), self._length)


class _Refusal:
    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def lines(self) -> AsyncIterator[bytes]:
        yield self._body


def refusal(code: str) -> Response:
    """An answer that says no, without the server having been asked."""
    status = {"kind": "Status", "apiVersion": "v1", "code": int(code), "reason": _REASONS[code], "message": "storm"}
    return _Refusal(int(code), msgspec.json.encode(status))


class Chronicle:
    """What became of all Jobs and pods, by uid, as watches without trouble tell; wrongs are noted as they happen.

    Attributes:
        jobs: The last state of each Job.
        pods: The last state of each pod.
        wrongs: What must never be.
        succeeded: UIDs ever listed as succeeded, by the Job's uid.
        failed: UIDs ever listed as failed, by the Job's uid.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.pods: dict[str, Pod] = {}
        self.wrongs: list[str] = []
        self.succeeded: dict[str, set[str]] = defaultdict(set)
        self.failed: dict[str, set[str]] = defaultdict(set)
        # Pods that were let go while they ran: there were too many. Nobody counts how they end.
        self._spared: set[str] = set()
        self._most: dict[str, int] = defaultdict(int)

    def pods_of(self, uid: str) -> list[Pod]:
        """The last states of a Job's pods, those that are gone included."""
        return [pod for pod in self.pods.values() if (owner := controller_of(pod.metadata)) and owner.uid == uid]

    def see_job(self, old: Job | None, new: Job) -> None:
        uid = new.metadata.uid
        self.jobs[uid] = new
        self._most[uid] = max(self._most[uid], 1 if new.spec.parallelism is None else new.spec.parallelism)
        if old is not None:
            self._compare(old, new)
        now = new.status.uncounted_terminated_pods or UncountedTerminatedPods()
        before = (old and old.status.uncounted_terminated_pods) or UncountedTerminatedPods()
        for kind, listed, was, ever in (
            ("succeeded", now.succeeded, before.succeeded, self.succeeded[uid]),
            ("failed", now.failed, before.failed, self.failed[uid]),
        ):
            fresh = set(listed) - set(was)
            if again := fresh & (self.succeeded[uid] | self.failed[uid]):
                self.wrongs.append(f"{kind}: listed again: {again}")
            ever.update(fresh)
            counted = getattr(new.status, kind)
            if counted + len(listed) != len(ever):
                self.wrongs.append(f"{kind}: {counted} and {len(listed)} listed, but {len(ever)} were ever listed")

    def _compare(self, old: Job, new: Job) -> None:
        for kind in _STAYS:
            if is_true(old.status.conditions, kind) and not is_true(new.status.conditions, kind):
                self.wrongs.append(f"{kind} was taken back")
        if is_finished(old) and old.status != new.status:
            self.wrongs.append("the status changed after the end")
        if is_finished(new) and (new.status.active or new.status.terminating):
            self.wrongs.append(f"ended with {new.status.active} active, {new.status.terminating} terminating")
        if is_finished(new) and new.status.uncounted_terminated_pods != UncountedTerminatedPods():
            self.wrongs.append("ended with pods not counted")

    def see_pod(self, pod: Pod) -> None:
        before = self.pods.get(pod.metadata.uid)
        if before is not None and is_tracked(before) and not is_tracked(pod) and not has_ended(pod):
            self._spared.add(pod.metadata.uid)
        self.pods[pod.metadata.uid] = pod
        owner = controller_of(pod.metadata)
        job = self.jobs.get(owner.uid) if owner else None
        if job is None or not is_active(pod):
            return
        uid = job.metadata.uid
        active = sum(map(is_active, self.pods_of(uid)))
        if active > self._most[uid]:
            self.wrongs.append(f"{active} pods are active, {self._most[uid]} are wanted")
        if job.spec.completions is not None and active > job.spec.completions - job.status.succeeded:
            self.wrongs.append(f"{active} pods are active, {job.spec.completions - job.status.succeeded} are missing")

    def lose_pod(self, pod: Pod) -> None:
        last = self.pods.get(pod.metadata.uid, pod)
        gone = msgspec.structs.replace(
            last.metadata, deletion_timestamp=last.metadata.creation_timestamp, finalizers=()
        )
        self.pods[pod.metadata.uid] = msgspec.structs.replace(last, metadata=gone)

    def check(self) -> None:
        """Note what is wrong at the end of all things."""
        for uid, job in self.jobs.items():
            if not is_finished(job):
                continue
            known = self.succeeded[uid] | self.failed[uid] | self._spared
            for pod in self.pods_of(uid):
                name, phase = pod.metadata.name, pod.status.phase
                if is_active(pod):
                    self.wrongs.append(f"pod {name} outlives its Job")
                if has_ended(pod) and pod.metadata.uid not in known:
                    self.wrongs.append(f"pod {name} {phase} was never counted")
                if pod.metadata.uid in self.succeeded[uid] and phase != "Succeeded":
                    self.wrongs.append(f"pod {name} {phase} was counted as succeeded")
        for pod in self.pods.values():
            if is_tracked(pod):
                self.wrongs.append(f"pod {pod.metadata.name} {pod.status.phase} keeps its finalizer")


class _Jobs(Handler[Job]):
    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle

    def on_add(self, obj: Job, initial: bool) -> None:
        self._chronicle.see_job(None, obj)

    def on_update(self, old: Job, new: Job) -> None:
        self._chronicle.see_job(old, new)


class _Pods(Handler[Pod]):
    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle

    def on_add(self, obj: Pod, initial: bool) -> None:
        self._chronicle.see_pod(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        self._chronicle.see_pod(new)

    def on_delete(self, obj: Pod) -> None:
        self._chronicle.lose_pod(obj)


@asynccontextmanager
async def chronicle(cluster: EmbeddedCluster) -> AsyncIterator[Chronicle]:
    """Write down what happens for as long as the context lives."""
    jobs, pods = Informer(cluster.client, Job, random=Random(7)), Informer(cluster.client, Pod, random=Random(8))
    told = Chronicle()
    jobs.add_handler(_Jobs(told))
    pods.add_handler(_Pods(told))
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(jobs.run()), group.create_task(pods.run())]
        await jobs.wait_synced()
        await pods.wait_synced()
        yield told
        for task in running:
            task.cancel()
