"""Runs the pods of one node: carries out what `decide` says, and writes what has become of it.

A pod has a task only while there is something to do for it. Between, it has at most a timer: its runs tell
when they end, and the feed tells when the object changes.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Literal

import structlog

from kcr.api.meta import whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.node.containers import Running, Waiting, backed_off, ended, held, started
from kcr.cluster.node.decide import Action, BackOff, Kill, Remove, Start, Stop, Terminate, begins, decide, wake_at
from kcr.cluster.node.events import Events
from kcr.cluster.node.life import PodLife, Stopping, is_over
from kcr.cluster.node.logs import Logs
from kcr.cluster.node.place import Place
from kcr.cluster.node.pods import RunnablePod, RunnableStatus, has_ended
from kcr.cluster.node.recall import recalled
from kcr.cluster.node.report import patch_of, report
from kcr.cluster.node.runtime import Exit, Held, Runtime
from kcr.errors import ApiError, ConflictError, InvalidError, NotFoundError, TransportError

RETRY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class Kubelet:
    """Looks after the pods that are bound to the node."""

    def __init__(  # noqa: PLR0913  # what a node is made of
        self,
        client: Client,
        runtime: Runtime,
        events: Events,
        logs: Logs,
        group: asyncio.TaskGroup,
        *,
        clock: Clock,
        random: Random,
        place: Place,
        fast: bool = False,
    ) -> None:
        """Make a kubelet.

        Args:
            client: How to reach the server.
            runtime: Runs the containers.
            events: Where to tell people.
            logs: What the containers print; dropped with their pods.
            group: Owns the work under way.
            clock: For the times in a status.
            random: Makes the names of runs.
            place: Where the node is.
            fast: Whether to skip writing what lasts no time before the first start.
        """
        self._client = client
        self._runtime = runtime
        self._events = events
        self._logs = logs
        self._group = group
        self._clock = clock
        self._random = random
        self._place = place
        self._fast = fast
        self._loop = asyncio.get_running_loop()
        # Every pod of this node whose object exists, by uid, ended ones included: what has been written to
        # them may still come back as an event, which must not be taken for a new pod.
        self._lives: dict[str, PodLife] = {}
        # The pods that a task works on. An event that comes meanwhile is seen by that task.
        self._busy: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._addresses = 0
        self._closed = False

    def observe(self, pod: RunnablePod) -> None:
        """Take note of a pod as it is now."""
        if pod.spec.node_name != self._place.name:
            return
        life = self._lives.get(pod.metadata.uid)
        if life is None:
            life = self._lives[pod.metadata.uid] = self._accept(pod)
            self._poke(life)
            return
        before, life.pod = life.pod, pod
        if _asks_anew(life, before):
            self._hurry(life)
            self._poke(life)

    def forget(self, uid: str) -> None:
        """Take note that a pod's object is gone: what runs of it is stopped, silently."""
        life = self._lives.pop(uid, None)
        if life is not None:
            life.gone = True
            if life.stopping is not None:
                life.stopping = life.stopping._replace(kill_at=self._loop.time())
            self._poke(life)
        self._logs.drop(uid)

    def close(self) -> None:
        """End all runs, and begin nothing any more; what they come to is not reported."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for life in self._lives.values():
            for running in life.running().values():
                running.run.kill()

    def _accept(self, pod: RunnablePod) -> PodLife:
        now, moment = self._loop.time(), self._clock.now()
        begun = pod.status.start_time
        age = 0.0 if begun is None else max((moment - begun).total_seconds(), 0.0)
        return PodLife(
            pod=pod,
            containers=recalled(pod, moment, now),
            accepted_at=now - age,
            start_time=begun or whole_seconds(moment),
            ip=pod.status.pod_ip or self._next_address(),
        )

    def _next_address(self) -> str:
        if self._place.shared:
            return self._place.ip
        self._addresses += 1
        return f"10.244.{self._addresses >> 8 & 255}.{self._addresses & 255}"

    def _hurry(self, life: PodLife) -> None:
        """Shorten the time that a pod on its way to its end has left, when a deletion allows it less."""
        grace = life.pod.metadata.deletion_grace_period_seconds
        if life.stopping is not None and grace is not None:
            sooner = min(life.stopping.kill_at, self._loop.time() + grace)
            life.stopping = life.stopping._replace(kill_at=sooner)

    def _poke(self, life: PodLife) -> None:
        """See to it that somebody looks at the pod."""
        if life.uid not in self._busy and not self._closed:
            self._busy.add(life.uid)
            self._group.create_task(self._look_after(life))

    async def _look_after(self, life: PodLife) -> None:
        """Do what there is to do for a pod, one thing after the other, and set its timer."""
        timer = self._timers.pop(life.uid, None)
        if timer is not None:
            timer.cancel()
        try:
            again = await self._work_off(life)
        finally:
            self._busy.discard(life.uid)
        if again is not None and not self._closed:
            self._timers[life.uid] = self._loop.call_at(again, self._poke, life)

    async def _work_off(self, life: PodLife) -> float | None:
        """Return when to look again, or None for not before something happens.

        What has changed is written before anything else is done: between the comparison, the decision and
        the return nothing is awaited, so no change goes unseen.
        """
        while True:
            now = self._loop.time()
            status = self._news(life, now)
            if status is not None:
                done = await self._write(life, status)
            elif (action := decide(life, now)) is not None:
                done = await self._act(life, action)
            else:
                break
            if not done:
                return self._loop.time() + RETRY_SECONDS
        if is_over(life):
            self._runtime.release(life.uid)
        if life.gone:
            self._logs.drop(life.uid)  # again: a start under way has begun one
        return wake_at(life, now)

    def _news(self, life: PodLife, now: float) -> RunnableStatus | None:
        """Return the status to write, or None when the server has it."""
        if life.gone or not life.containers or (self._fast and begins(life, now)):
            return None
        status = report(life, self._place.ip, self._clock.now(), now)
        return None if status == life.reported else status

    async def _write(self, life: PodLife, status: RunnableStatus) -> bool:
        """Write a status, and return whether the server has answered."""
        patch = patch_of(life.reported, status, life.uid)
        try:
            await self._client.strategic_patch(RunnablePod, life.pod.key, patch, subresource="status")
        except NotFoundError:
            life.gone = True
        except InvalidError as error:
            _log.warning("status refused", pod=str(life.pod.key), cause=error.message)
        except (ApiError, TransportError) as error:
            _log.warning("status not written", pod=str(life.pod.key), cause=str(error))
            return False
        life.reported = status
        return True

    async def _act(self, life: PodLife, action: Action) -> bool:
        """Carry out an action, and return whether it is done."""
        match action:
            case Start(name):
                await self._start(life, name)
            case BackOff(name):
                life.containers[name] = backed_off(life.containers[name])
                self._events.record_back_off(life.pod, name)
            case Stop(seconds, reason, message):
                life.stopping = Stopping(self._loop.time() + seconds, reason, message)
                if reason:
                    self._events.record(life.pod, reason, message)
            case Terminate(names):
                self._end(life, names, "TERM")
            case Kill(names):
                self._end(life, names, "KILL")
            case Remove():
                return await self._remove(life)
        return True

    async def _start(self, life: PodLife, name: str) -> None:
        before = life.containers[name]
        attempt = before.restarts + (0 if isinstance(before.state, Waiting) else 1)
        exited = partial(self._exited, life, name, attempt)
        result = await self._runtime.start(life.pod, before.container, attempt, exited)
        now, moment = self._loop.time(), self._clock.now()
        match result:
            case Held():
                life.containers[name] = held(before, result, now)
                if result.message:
                    self._events.record(life.pod, "Failed", f"Error: {result.message}", type_="Warning", container=name)
            case Exit():
                life.containers[name] = ended(before, result, life.pod.spec.restart_policy, moment, now)
                self._events.record_start(life.pod, before.container, result)
            case run:
                identity = f"kcr://{self._random.getrandbits(256):064x}"
                running = Running(run, identity, moment, now, now + run.ready_after_seconds)
                life.containers[name] = started(before, running)
                self._events.record_start(life.pod, before.container)

    def _exited(self, life: PodLife, name: str, attempt: int, exit_: Exit) -> None:
        """Take note that a run has ended."""
        before = life.containers[name]
        if before.restarts == attempt and isinstance(before.state, Running):
            policy = life.pod.spec.restart_policy
            life.containers[name] = ended(before, exit_, policy, self._clock.now(), self._loop.time())
            self._poke(life)

    def _end(self, life: PodLife, names: Iterable[str], how: Literal["TERM", "KILL"]) -> None:
        for name in names:
            running = life.running()[name]
            if not running.asked and not life.gone:
                self._events.record(life.pod, "Killing", f"Stopping container {name}", container=name)
            # Noted first: a simulated run may end while it is being asked to.
            life.containers[name] = life.containers[name]._replace(state=running._replace(asked=how))
            if how == "TERM":
                running.run.terminate()
            else:
                running.run.kill()

    async def _remove(self, life: PodLife) -> bool:
        try:
            await self._client.delete(RunnablePod, life.pod.key, uid=life.uid, grace_period_seconds=0)
        except (NotFoundError, ConflictError):
            pass  # it is gone, or another one has its name
        except (ApiError, TransportError):
            return False
        life.removed = True
        return True


def _asks_anew(life: PodLife, before: RunnablePod) -> bool:
    """Return whether an update changes what is to be done; most are our own writes coming back."""
    old, new = before.metadata, life.pod.metadata
    if has_ended(life.pod) and not is_over(life):
        return True
    return (
        (old.deletion_timestamp is None) != (new.deletion_timestamp is None)
        or old.deletion_grace_period_seconds != new.deletion_grace_period_seconds
        or before.spec.active_deadline_seconds != life.pod.spec.active_deadline_seconds
    )
