"""What a flow does to a cluster without a node: it is the user, the scheduler and the kubelet."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key, whole_seconds
from kcr.client import Client
from kcr.testing import VirtualClock
from tests.kit.harness import manifest

# What holds pods whose Job was created with `held`.
HOLD = "example.com/hold"

_COPIED = ("labels", "annotations", "finalizers", "ownerReferences")


class Hands:
    """Creates, changes and deletes Jobs and pods, and reports how pods fare.

    Attributes:
        clock: The time.
        client: An admin's client, which nothing ever happens to.
    """

    def __init__(self, client: Client, clock: VirtualClock) -> None:
        self.clock = clock
        self.client = client
        # Ends the names of copied pods.
        self._copies = 0

    # The user.

    async def create(
        self,
        name: str = "pi",
        *,
        held: bool = False,
        labels: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> Job:
        """Create a Job.

        Args:
            name: Its name.
            held: Whether its pods are held by a finalizer of somebody else's.
            labels: Of its pods.
            pod: Fields of its pods' spec.
            **spec: Fields of its own spec, by their names on the wire.
        """
        job = manifest(name, **spec)
        template = job["spec"]["template"]
        template["metadata"] |= {"finalizers": [HOLD] if held else [], "labels": labels or {}}
        template["spec"] |= pod or {}
        return await self.client.create_manifest(Job, job, "default")

    async def create_pod(self, name: str, **metadata: Any) -> Pod:
        """Create a pod by hand."""
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create_manifest(Pod, pod, "default")

    async def patch(self, name: str = "pi", **spec: Any) -> Job:
        """Change the spec of a Job, fields by their names on the wire."""
        return await self.client.merge_patch(Job, Key("default", name), {"spec": spec})

    async def delete(self, name: str = "pi", propagation: str = "Background") -> None:
        """Delete a Job."""
        await self.client.delete(Job, Key("default", name), propagation=propagation)

    async def delete_pods(self, pods: Iterable[Pod]) -> None:
        """Delete pods; without a node they are gone at once if nothing holds them."""
        for pod in pods:
            await self.client.delete(Pod, pod.key, uid=pod.metadata.uid)

    async def release(self, pods: Iterable[Pod]) -> None:
        """Take the finalizer of `held` off pods."""
        for pod in pods:
            patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [HOLD]}}
            await self.client.strategic_patch(Pod, pod.key, patch)

    async def copy(self, pod: Pod, **metadata: Any) -> Pod:
        """Create a pod beside another that is like it, but for these fields of its metadata."""
        written = await self.read(pod)
        kept = {name: written["metadata"][name] for name in _COPIED if name in written["metadata"]}
        self._copies += 1
        name = f"{pod.metadata.name}-{self._copies}"
        other = {
            "apiVersion": "v1", "kind": "Pod", "spec": written["spec"],
            "metadata": kept | {"name": name} | metadata,
        }  # fmt: skip
        made = await self.client.create_manifest(Pod, other, "default")
        await self.clock.settle()
        return made

    async def read(self, pod: Pod) -> Any:
        """Return a pod as the server has it, with all fields."""
        return msgspec.json.decode(await self.client.request("GET", Pod.resource.path("default", pod.metadata.name)))

    async def lose(self, *pods: Pod) -> None:
        """Let pods vanish without a trace: whatever holds them is taken off."""
        for pod in pods:
            await self.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})
            await self.client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)
        await self.clock.settle()

    # The scheduler and the kubelet.

    async def bind(self, *pods: Pod) -> None:
        """Give pods a node: from now on they go only when the kubelet says so."""
        for pod in pods:
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata.name}, "target": target}
            path = Pod.resource.path(pod.metadata.namespace, pod.metadata.name, "binding")
            await self.client.request("POST", path, msgspec.json.encode(binding))

    async def kill(self, pods: Iterable[Pod]) -> None:
        """Let the kubelet confirm that pods are gone."""
        for pod in pods:
            await self.client.delete(Pod, pod.key, uid=pod.metadata.uid, grace_period_seconds=0)

    async def ready(self, *pods: Pod) -> None:
        """Report that pods run and are ready."""
        for pod in pods:
            states = [{"name": container.name, "ready": True} for container in pod.spec.containers]
            await self._report(pod, "Running", ("Ready", "True"), [_running(state) for state in states])

    async def succeed(self, *pods: Pod) -> None:
        """Report that pods have ended well."""
        for pod in pods:
            await self.end(pod, "Succeeded", 0)

    async def fail(self, *pods: Pod, exit_code: int = 1, condition: str = "") -> None:
        """Report that pods have failed, all of their containers with this code."""
        for pod in pods:
            await self.end(pod, "Failed", exit_code, condition=condition)

    async def end(self, pod: Pod, phase: str, exit_code: int, *, condition: str = "") -> None:
        """Report that a pod has ended."""
        states = [self.ended(container.name, exit_code) for container in pod.spec.containers]
        conditions = [("Ready", "False"), *([(condition, "True")] if condition else [])]
        await self._report(pod, phase, conditions[-1], states)

    async def report_ends(
        self, pod: Pod, codes: Mapping[str, int], *, init: Mapping[str, int] | None = None, phase: str = "Failed"
    ) -> None:
        """Report that containers of a pod have ended, each with its code."""
        ended = {
            field: [_filled(self.ended(name, code)) for name, code in given.items()]
            for field, given in (("containerStatuses", codes), ("initContainerStatuses", init or {}))
        }
        await self.report(pod, {"phase": phase, **ended})

    async def restarted(self, pod: Pod, restarts: int) -> None:
        """Report that the containers of a running pod have been restarted so often, in all."""
        states = [{"name": container.name, "restartCount": restarts} for container in pod.spec.containers]
        await self._report(pod, "Running", ("Ready", "False"), [_running(state) for state in states])

    def ended(self, container: str, exit_code: int) -> dict[str, Any]:
        """Return the status of a container that ended just now."""
        end = {"exitCode": exit_code, "finishedAt": _written(self.clock)}
        return {"name": container, "state": {"terminated": end}}

    async def _report(self, pod: Pod, phase: str, condition: tuple[str, str], states: list[dict[str, Any]]) -> None:
        kind, status = condition
        said = {"type": kind, "status": status, "lastTransitionTime": _written(self.clock)}
        filled = [_filled(state) for state in states]
        await self.report(pod, {"phase": phase, "conditions": [said], "containerStatuses": filled})

    async def report(self, pod: Pod, status: Mapping[str, Any]) -> None:
        """Change the status of a pod, fields by their names on the wire."""
        await self.client.strategic_patch(Pod, pod.key, {"status": status}, subresource="status")


def _filled(state: dict[str, Any]) -> dict[str, Any]:
    return {"image": "busybox", "imageID": "", "ready": False, "restartCount": 0} | state


def _running(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "state": {"running": {}}}


def _written(clock: VirtualClock) -> str:
    return whole_seconds(clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
