"""A scheduler and a kubelet that do what a scenario says, for a cluster without a node."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kcr.api.core import Node, Pod
from kcr.api.meta import whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import AlreadyExistsError


class FakeNode:
    """Binds pods, reports their status, and confirms that they are deleted."""

    _is_registered = False

    def __init__(self, client: Client, clock: Clock) -> None:
        self.clock = clock
        self.client = client

    async def bind(self, *pods: Pod) -> None:
        """Give pods a node: from now on they are deleted only when the kubelet says so."""
        await self._register()
        for pod in pods:
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.metadata.name}, "target": target}
            path = Pod.resource.path(pod.metadata.namespace, pod.metadata.name, "binding")
            await self.client.request("POST", path, msgspec.json.encode(binding))

    async def _register(self) -> None:
        if not self._is_registered:
            self._is_registered = True
            # A scenario may have a node of this name.
            with suppress(AlreadyExistsError):
                await self.client.create_manifest(Node, {"metadata": {"name": "node-1"}}, "")

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


def _written(clock: Clock) -> str:
    return whole_seconds(clock.now()).strftime("%Y-%m-%dT%H:%M:%SZ")
