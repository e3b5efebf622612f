"""Scripted pods: the test acts as scheduler and kubelet (TK-9).

```python
async with EmbeddedCluster(clock=clock, runtime=None) as cluster:
    pods = PodScript(cluster.client, clock)
    ...
    await pods.succeed(index=2)
    await pods.fail(exit_code=42)
    await pods.evict("pi-x7k2p")
```

For a cluster without a node of its own (`runtime=None`), or one that runs no kubelets at all, as a bare
kube-apiserver. Where only the outcome matters, `EmbeddedCluster(on_run=…)` is shorter.
"""

from collections.abc import Mapping
from typing import Any

from kcr.api.batch import COMPLETION_INDEX
from kcr.api.core import Pod
from kcr.api.meta import Key, whole_seconds
from kcr.api.pods import is_terminal
from kcr.arguments import checked
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import NotFoundError

NODE = "node-1"
# The exit code of a container that SIGTERM ends.
TERMINATED = 143


class PodScript:
    """Moves pods of one namespace through their phases.

    Each method changes one pod: the named one, or the one with a completion index, or else the oldest that
    is not finished. Each raises AssertionError when there is none, and returns the changed pod.
    """

    @checked
    def __init__(self, client: Client, clock: Clock, *, namespace: str = "default") -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace

    @checked
    async def run(self, name: str = "", *, index: int | None = None, ready: bool = True) -> Pod:
        """Schedule and start a pod."""
        pod = await self._scheduled(await self._pick(name, index))
        running = {"running": {"startedAt": self._now()}}
        condition = self._condition("Ready", "True" if ready else "False")
        return await self._report(pod, "Running", running, condition, ready=ready)

    @checked
    async def succeed(self, name: str = "", *, index: int | None = None) -> Pod:
        """Finish a pod: all its containers exit with code 0."""
        return await self._end(await self._pick(name, index), 0)

    @checked
    async def fail(self, name: str = "", *, index: int | None = None, exit_code: int = 1) -> Pod:
        """Fail a pod: all its containers exit with this code."""
        return await self._end(await self._pick(name, index), exit_code)

    @checked
    async def evict(self, name: str = "", *, index: int | None = None) -> Pod:
        """Evict a pod: it is deleted, its containers exit, and it is removed unless a finalizer keeps it."""
        pod = await self._pick(name, index)
        disrupted = self._condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
        await self._patch(pod, {"status": {"conditions": [disrupted]}}, "status")
        return await self._die(pod)

    @checked
    async def lose(self, name: str = "", *, index: int | None = None) -> Pod:
        """Lose a pod's node: the pod is deleted, and stays terminating because no kubelet stops it."""
        pod = await self._scheduled(await self._pick(name, index))
        words = "Taint manager: deleting due to NoExecute taint"
        disrupted = self._condition("DisruptionTarget", "True", "DeletionByTaintManager", words)
        await self._patch(pod, {"status": {"conditions": [disrupted]}}, "status")
        await self._client.delete(Pod, pod.key, uid=pod.metadata.uid)
        return await self._client.get(Pod, Key(self._namespace, pod.metadata.name))

    async def _die(self, pod: Pod) -> Pod:
        if not pod.spec.node_name:
            await self._client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)
            return pod
        await self._client.delete(Pod, pod.key, uid=pod.metadata.uid)
        dead = await self._end(pod, TERMINATED)
        try:
            await self._client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)
        except NotFoundError:
            return dead
        return dead

    async def _end(self, pod: Pod, exit_code: int) -> Pod:
        pod = await self._scheduled(pod)
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", "finishedAt": self._now()}
        phase = "Failed" if exit_code else "Succeeded"
        return await self._report(pod, phase, {"terminated": ended}, self._condition("Ready", "False"), ready=False)

    async def _pick(self, name: str, index: int | None) -> Pod:
        pods = [pod for pod in await self._client.list(Pod, self._namespace) if _fits(pod, name, index)]
        which = f" {name}" if name else "" if index is None else f" with index {index}"
        assert pods, f"no pod{which} in {self._namespace} that has not ended"
        return min(pods, key=lambda pod: (pod.metadata.creation_timestamp or self._clock.now(), pod.metadata.name))

    async def _scheduled(self, pod: Pod) -> Pod:
        if pod.spec.node_name:
            return pod
        await self._client.bind(pod.key, NODE)
        return await self._client.get(Pod, pod.key)

    async def _report(
        self, pod: Pod, phase: str, state: Mapping[str, Any], condition: Mapping[str, str], *, ready: bool
    ) -> Pod:
        containers = [
            {"name": container.name, "image": container.image, "imageID": "", "ready": ready, "restartCount": 0}
            | {"state": state}
            for container in pod.spec.containers
        ]
        status = {"phase": phase, "conditions": [condition], "containerStatuses": containers}
        return await self._patch(pod, {"status": status}, "status")

    async def _patch(self, pod: Pod, patch: Mapping[str, Any], subresource: str) -> Pod:
        # Strategic, so that conditions of others stay beside ours.
        return await self._client.strategic_patch(Pod, pod.key, patch, subresource=subresource)

    def _condition(self, kind: str, status: str, reason: str = "", message: str = "") -> Mapping[str, str]:
        said = {"type": kind, "status": status, "lastTransitionTime": self._now()}
        return said | ({"reason": reason, "message": message} if reason else {})

    def _now(self) -> str:
        return whole_seconds(self._clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")


def _fits(pod: Pod, name: str, index: int | None) -> bool:
    if is_terminal(pod):
        return False
    if index is not None and pod.metadata.annotations.get(COMPLETION_INDEX) != str(index):
        return False
    return name in ("", pod.metadata.name)
