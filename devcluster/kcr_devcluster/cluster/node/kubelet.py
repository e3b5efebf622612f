"""The kubelet: a controller that syncs the pods bound to its node, and reports their status."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Literal

from msgspec.structs import replace

from kcr.api.core import reference_to
from kcr.api.meta import Key, whole_seconds
from kcr.api.pods import is_terminal
from kcr.clock import TIMER_SLACK_SECONDS
from kcr.controller import Result, watch
from kcr.errors import ConflictError, InvalidError, NotFoundError
from kcr.informer import Selection
from kcr.log import get_logger
from kcr.manager import Manager
from kcr.workqueue import ItemExponential
from kcr_devcluster.cluster.node.containers import (
    RESTARTING_ALL,
    Running,
    Waiting,
    backed_off,
    restarted,
    restore,
    start_deferred,
    started,
    terminated,
)
from kcr_devcluster.cluster.node.logs import Logs
from kcr_devcluster.cluster.node.pod_state import (
    AbandonPreStop,
    Action,
    BackOff,
    DeletePod,
    PodState,
    RestartAll,
    RunPreStop,
    SignalContainers,
    StartContainer,
    TerminatePod,
    Termination,
    is_stopped,
    next_action,
    next_deadline,
    starts_next,
)
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod, KubeletPodStatus
from kcr_devcluster.cluster.node.probes.handlers import RunHandler
from kcr_devcluster.cluster.node.probes.lifecycle import ContainerLifecycle
from kcr_devcluster.cluster.node.runtime import ContainerRuntime, Exit, NodeInfo, RunningContainer, StartDeferred
from kcr_devcluster.cluster.node.status import is_marked_unready, overrule_unready_mark, pod_status, status_patch

# Pod workers: how many pods are synced at a time.
WORKERS = 32
MAX_RETRY_SECONDS = 10.0

_log = get_logger()


class Kubelet:
    """Pod workers of one node. A sync writes a status that has changed before it takes the next action.

    The state of a pod is kept by uid. A key has several states while a deleted pod still stops and another one of its
    name has begun.
    """

    def __init__(  # noqa: PLR0913 - each is one independent part, the last four by name
        self,
        manager: Manager,
        runtime: ContainerRuntime,
        logs: Logs,
        *,
        node: NodeInfo,
        group: asyncio.TaskGroup,
        run_handler: RunHandler | None = None,
        fast: bool = False,
    ) -> None:
        """Add the kubelet to a manager.

        Args:
            manager: Runs it; no other controller of this manager watches the same type of pods.
            runtime: Runs the containers.
            logs: The output of the containers; dropped with their pods.
            node: The node.
            group: Owns the tasks of probes and lifecycle hooks.
            run_handler: Runs the handlers of both; None where they have no effect.
            fast: Whether to skip writing the states before the first start that last no time.
        """
        self._client, self._clock, self._random = manager.client, manager.clock, manager.random
        self._runtime = runtime
        self._logs = logs
        self._node = node
        self._fast = fast
        self._loop = asyncio.get_running_loop()
        # Every pod of this node whose object exists, terminal ones included: a status that was written may still come
        # back as a watch event, which must not be taken for a new pod. And those that still stop.
        self._states: dict[Key, list[PodState]] = {}
        # Images that count as present on the node.
        self._images: set[str] = set()
        # Counts up, so that the address of a deleted pod is not assigned again soon.
        self._addresses = 0
        self._closed = False
        # As upstream, the server filters: a node neither receives nor stores the pods of the others.
        manager.select(Selection(KubeletPod, fields=f"spec.nodeName={node.name}"))
        self._pods = manager.store(KubeletPod)
        self._recorder = manager.recorder("kubelet", host=node.name)
        controller = manager.add_controller(
            "kubelet",
            self,
            watches=[watch(KubeletPod, predicate=self._needs_sync)],
            workers=WORKERS,
            limiter=ItemExponential(max_seconds=MAX_RETRY_SECONDS),
            own_writes=False,
        )
        self._schedule_sync = controller.queue.add
        self._lifecycle = ContainerLifecycle(group, run_handler, self._record, self._schedule_sync)

    async def reconcile(self, key: Key) -> Result:
        """Sync the pod of a key: start, stop and report its containers until there is nothing left to do for now."""
        # A worker has a key for itself, so no two syncs of a key meet; only ends of runs, probes and hooks change its
        # states meanwhile.
        self._accept(key)
        deadlines = [await self._sync_pod(state) for state in tuple(self._states[key])]
        # A pod that the store still shows must not be taken for a new one.
        shown = self._pods.get(key)
        self._states[key] = [
            state
            for state in self._states[key]
            if not (state.is_gone and is_stopped(state)) or (shown is not None and shown.metadata.uid == state.uid)
        ]
        if not self._states[key]:
            del self._states[key]
        # One delay per key: an earlier sync only finds that nothing is due.
        deadline = min((at for at in deadlines if at is not None), default=None)
        return Result() if deadline is None else Result(requeue_after=deadline - self._loop.time())

    def running_containers(self, key: Key, uid: str) -> Mapping[str, RunningContainer]:
        """Return the containers of a pod that run, by name."""
        states = [state for state in self._states.get(key, ()) if state.uid == uid]
        return {name: running.run for state in states for name, running in state.running().items()}

    def close(self) -> None:
        """End all runs, and start nothing any more; their results are not reported."""
        # First of all: a start that is under way checks it when it returns, and kills the started container.
        self._closed = True
        self._lifecycle.close()
        for states in self._states.values():
            for state in states:
                for running in state.running().values():
                    running.run.kill()

    def _needs_sync(self, old: KubeletPod | None, new: KubeletPod | None) -> bool:
        """Filter the changes of a pod that ask for a sync; most are the kubelet's own writes coming back."""
        if old is None or new is None:
            return True
        # Level-triggered: a sync reads the store, so a change that is filtered here is not lost, but seen by the next
        # sync.
        before, after = old.metadata, new.metadata
        return (
            (before.deletion_timestamp is None) != (after.deletion_timestamp is None)
            or before.deletion_grace_period_seconds != after.deletion_grace_period_seconds
            or old.spec.active_deadline_seconds != new.spec.active_deadline_seconds
            or (new.spec.volumes and (before.labels, before.annotations) != (after.labels, after.annotations))
            or (bool(new.spec.readiness_gates) and old.status.conditions != new.status.conditions)
            or is_marked_unready(new)
            or (is_terminal(new) and not all(map(is_stopped, self._states.get(new.key, ()))))
        )

    def _accept(self, key: Key) -> None:
        """Take on the pod of a key, if it is new."""
        states, pod = self._states.setdefault(key, []), self._pods.get(key)
        if pod is None or any(state.uid == pod.metadata.uid for state in states):
            return
        now, moment = self._loop.time(), self._clock.now()
        # A pod with a start time was accepted by an earlier process of this node: its active deadline still counts.
        begun = pod.status.start_time
        age = 0.0 if begun is None else max((moment - begun).total_seconds(), 0.0)
        states.append(
            PodState(
                pod=pod,
                containers=restore(pod, moment, now),
                accepted_at=now - age,
                start_time=begun or whole_seconds(moment),
                ip=pod.status.pod_ip or self._next_address(pod),
            )
        )

    def _next_address(self, pod: KubeletPod) -> str:
        if self._node.host_network or pod.spec.host_network:
            return self._node.ip
        self._addresses += 1
        return f"{self._node.pod_network}.{self._addresses >> 8 & 255}.{self._addresses & 255}"

    def _observe(self, state: PodState) -> None:
        """Update the pod's state from the store."""
        pod = self._pods.get(state.pod.key)
        if pod is not None and pod.metadata.uid == state.uid:
            # Volumes of the downward API show labels and annotations, which may have changed.
            if pod is not state.pod and pod.spec.volumes:
                self._runtime.update(pod)
            state.pod = pod
            overrule_unready_mark(state)
            self._shorten_grace_period(state, pod.metadata.deletion_grace_period_seconds)
        else:
            state.is_gone = True
            # Its object was deleted without the node, by force: nothing waits for a graceful end.
            self._shorten_grace_period(state, 0)

    def _shorten_grace_period(self, state: PodState, grace: float | None) -> None:
        """Kill a terminating pod sooner, when a deletion allows it less time."""
        if state.termination is not None and grace is not None:
            # Only ever sooner: a second deletion cannot extend the time that the first one gave.
            sooner = min(state.termination.kill_at, self._loop.time() + grace)
            state.termination = state.termination._replace(kill_at=sooner)

    async def _sync_pod(self, state: PodState) -> float | None:
        """Execute the actions that a pod needs, and return when to sync it again; None for only after a change.

        Between the comparison, the decision and the return nothing is awaited, so no change is missed.
        """
        # Each round takes one step and observes again: during an await the pod may be deleted, and containers may end.
        while not self._closed:
            self._observe(state)
            now = self._loop.time() + TIMER_SLACK_SECONDS
            # Invariant: the server knows of a state before the action that follows from it. So a pod is not deleted
            # before its end is on record, and a node that has crashed finds its past actions in the status.
            if (status := self._changed_status(state, now)) is not None:
                await self._write_status(state, status)
            elif (action := next_action(state, now)) is not None:
                await self._act(state, action)
            else:
                # Nothing is left to write or to end: its directories are deleted. Its logs stay until the object is
                # deleted.
                if is_stopped(state):
                    self._runtime.release(state.uid)
                if state.is_gone:
                    self._logs.drop(state.uid)
                return next_deadline(state, now)
        return None

    def _changed_status(self, state: PodState, now: float) -> KubeletPodStatus | None:
        """Return the status to write, or None when the server has it."""
        if state.is_gone or not state.containers or (self._fast and starts_next(state, now)):
            return None
        # Upstream's pod worker is busy then, and writes nothing.
        if state.is_between and state.termination is None:
            return None
        status = pod_status(state, self._node.ip, self._clock.now(), now)
        return None if status == state.written_status else status

    async def _write_status(self, state: PodState, status: KubeletPodStatus) -> None:
        # The uid is a precondition: the status must not reach another pod of the same name.
        patch = status_patch(state.written_status, status, state.uid)
        try:
            await self._client.strategic_patch(KubeletPod, state.pod.key, patch, subresource="status")
        except NotFoundError:
            state.is_gone = True
        except InvalidError as error:
            _log.warning("pod status refused", pod=str(state.pod.key), error=error.message)
        # Also after a refusal: the same status would be refused again, endlessly.
        state.written_status = status

    async def _act(self, state: PodState, action: Action) -> None:
        match action:
            case StartContainer(name):
                await self._start(state, name)
            case BackOff(name):
                state.containers[name] = backed_off(state.containers[name])
                metadata = state.pod.metadata
                where = f"{metadata.name}_{metadata.namespace}({metadata.uid})"
                message = f"Back-off restarting failed container {name} in pod {where}"
                self._record(state, "BackOff", message, warning=True, container=name)
            case TerminatePod(grace_period, reason, message):
                state.termination = Termination(self._loop.time() + grace_period, reason, message)
                if reason:
                    self._record(state, reason, message)
            case SignalContainers(names, signal):
                self._signal(state, names, signal)
            case RunPreStop() | AbandonPreStop():
                self._continue_pre_stop(state, action)
            case RestartAll():
                state.containers = {name: restarted(one, RESTARTING_ALL) for name, one in state.containers.items()}
            case DeletePod():
                with suppress(NotFoundError, ConflictError):  # it is deleted, or another one has its name
                    await self._client.delete(KubeletPod, state.pod.key, uid=state.uid, grace_period_seconds=0)
                state.is_released = True

    async def _start(self, state: PodState, name: str) -> None:
        before = state.containers[name]
        # Names the run: `_on_exit` ignores the end of any other.
        attempt = before.restart_count + (0 if isinstance(before.state, Waiting) else 1)
        on_exit = partial(self._on_exit, state, name, attempt)
        # The server may not show the address yet.
        pod = replace(state.pod, status=replace(state.pod.status, pod_ip=state.ip))
        # The one await of a start. The worker has the key, so no second start of the container comes in between.
        result = await self._runtime.start(pod, before.spec, attempt, on_exit)
        now, moment = self._loop.time(), self._clock.now()
        match result:
            case StartDeferred():
                state.containers[name] = start_deferred(before, result, now)
                if result.message:
                    self._record(state, "Failed", f"Error: {result.message}", warning=True, container=name)
            case Exit():
                state.containers[name] = terminated(before, result, state.pod.spec.restart_policy, moment, now)
                self._record_start(state, before.spec, result)
            case run:
                container_id = f"kcr://{self._random.getrandbits(256):064x}"
                running = Running(run, container_id, moment, now, now + run.ready_after_seconds)
                state.containers[name] = started(before, running)
                self._record_start(state, before.spec)
                self._lifecycle.begin(state, name)
        if self._closed:
            self.close()

    def _on_exit(self, state: PodState, name: str, attempt: int, exit_: Exit) -> None:
        before = state.containers[name]
        # Called by the runtime at any time, and perhaps late: only the run that is on record has ended.
        if before.restart_count == attempt and isinstance(before.state, Running):
            policy = state.pod.spec.restart_policy
            self._lifecycle.end(before.state.run)
            state.containers[name] = terminated(before, exit_, policy, self._clock.now(), self._loop.time())
            self._schedule_sync(state.pod.key)

    def _continue_pre_stop(self, state: PodState, action: RunPreStop | AbandonPreStop) -> None:
        for name in action.names:
            if isinstance(action, RunPreStop):
                self._record_killing(state, name)
                self._lifecycle.run_pre_stop(state, name)
            else:
                self._lifecycle.abandon_pre_stop(state, name)

    def _signal(self, state: PodState, names: Iterable[str], signal: Literal["TERM", "KILL"]) -> None:
        for name in names:
            running = state.running()[name]
            if not running.signal and running.pre_stop != "done":
                self._record_killing(state, name)
            # Noted first: a simulated run may end while the signal is sent.
            state.containers[name] = state.containers[name]._replace(state=running._replace(signal=signal))
            if signal == "TERM":
                running.run.terminate()
            else:
                running.run.kill()

    def _record_killing(self, state: PodState, name: str) -> None:
        if not state.is_gone:
            stop = state.running()[name].stop
            message = f"Stopping container {name}" if stop is None else stop.message
            self._record(state, "Killing", message, container=name)

    def _record(
        self, state: PodState, reason: str, message: str, *, warning: bool = False, container: str = ""
    ) -> None:
        """Record an event about a pod, or one of its containers."""
        is_init = any(container == init.name for init in state.pod.spec.init_containers)
        path = f"spec.{'initContainers' if is_init else 'containers'}{{{container}}}" if container else ""
        self._recorder.event(reference_to(state.pod, path), "Warning" if warning else "Normal", reason, message)

    def _record_start(self, state: PodState, container: KubeletContainer, failure: Exit | None = None) -> None:
        """Record how a container was started, from the image pull on.

        Args:
            state: The pod.
            container: The container.
            failure: Its end, when it has ended already or could not be started.
        """
        name, image, policy = container.name, container.image, container.image_pull_policy
        if policy == "Always" or (policy != "Never" and image not in self._images):
            self._record(state, "Pulling", f'Pulling image "{image}"', container=name)
            pulled = f'Successfully pulled image "{image}" in 0s (0s including waiting). Image size: 0 bytes.'
        else:
            pulled = f'Container image "{image}" already present on machine'
        self._images.add(image)
        self._record(state, "Pulled", pulled, container=name)
        self._record(state, "Created", f"Created container: {name}", container=name)
        if failure is not None and failure.reason == "StartError":
            self._record(state, "Failed", f"Error: {failure.message}", warning=True, container=name)
        else:
            self._record(state, "Started", f"Started container {name}", container=name)
