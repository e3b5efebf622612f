"""What users and other clients do in a scenario."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.testing import VirtualClock
from tests.kit.harness import manifest

# What holds pods whose Job was created with `held`.
HOLD = "example.com/hold"

_COPIED = ("labels", "annotations", "finalizers", "ownerReferences")


class UserActions:
    """Creates, changes and deletes Jobs and pods.

    Attributes:
        clock: The time.
        client: An admin's client, which nothing ever happens to.
    """

    def __init__(self, client: Client, clock: VirtualClock) -> None:
        self.clock = clock
        self.client = client
        # Ends the names of copied pods.
        self._copies = 0

    async def create(
        self,
        name: str = "pi",
        *,
        held: bool = False,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pod: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> Job:
        """Create a Job.

        Args:
            name: Its name.
            held: Whether its pods have another controller's finalizer.
            labels: Of its pods.
            annotations: Its own.
            pod: Fields of its pods' spec.
            **spec: Fields of its own spec, by their names on the wire.
        """
        job = manifest(name, **spec)
        job["metadata"]["annotations"] = dict(annotations or {})
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

    async def annotate(self, annotations: Mapping[str, str], name: str = "pi") -> Job:
        """Add annotations to a Job."""
        return await self.client.merge_patch(Job, Key("default", name), {"metadata": {"annotations": annotations}})

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
