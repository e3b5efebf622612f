"""Pods for the tests of the node, and what becomes of them."""

from pathlib import Path

import msgspec

from kcr.api.meta import Key
from kcr.client import Client
from kcr_devcluster.cluster.node.pods import KubeletPod

Manifest = dict[str, object]


def manifest(name: str, *, policy: str = "Never", grace: int = 30, **spec: object) -> Manifest:
    """A pod of one container `main`, unless the spec names others."""
    containers = [{"name": "main", "image": "app:1", "command": ["run"]}]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": policy, "terminationGracePeriodSeconds": grace, "containers": containers, **spec,
        },
    }  # fmt: skip


async def create(client: Client, name: str, *, policy: str = "Never", grace: int = 30, **spec: object) -> KubeletPod:
    return await client.create_manifest(KubeletPod, manifest(name, policy=policy, grace=grace, **spec), "default")


async def get(client: Client, name: str) -> KubeletPod:
    return await client.get(KubeletPod, Key("default", name))


async def names(client: Client) -> set[str]:
    return {pod.metadata.name for pod in await client.list(KubeletPod, "default")}


async def delete(client: Client, name: str, grace: int | None = None) -> None:
    await client.delete(KubeletPod, Key("default", name), grace_period_seconds=grace)


async def log(client: Client, name: str, query: str = "") -> str:
    return (await client.request("GET", f"/api/v1/namespaces/default/pods/{name}/log{query}")).decode()


async def events(client: Client, name: str) -> list[tuple[str, int, str]]:
    """The events of a pod, the scheduler's first, in the order in which they were posted: reason, count, message."""
    body = await client.request("GET", "/api/v1/namespaces/default/events")
    items = [item for item in msgspec.json.decode(body)["items"] if item["involvedObject"]["name"] == name]
    # Names are in the order of time for the events of one component only.
    items.sort(key=lambda item: (item["source"]["component"] != "default-scheduler", item["metadata"]["name"]))
    return [(item["reason"], item["count"], item["message"]) for item in items]


def state(pod: KubeletPod, number: int = 0) -> str:
    """What a container does, in a word or two: `running`, a reason to wait, or a reason and exit code."""
    status = pod.status.container_statuses[number]
    if status.state.running is not None:
        return "running"
    if status.state.waiting is not None:
        return status.state.waiting.reason
    assert status.state.terminated is not None
    return f"{status.state.terminated.reason} {status.state.terminated.exit_code}"


def process_lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class History:
    """What a watch has shown of the pods, one line per change."""

    def __init__(self, client: Client) -> None:
        self.lines: list[str] = []
        self._client = client

    async def run(self) -> None:
        async with self._client.watch(KubeletPod, "default", resource_version="0", timeout_seconds=36000) as watched:
            async for event in watched:
                if event.type != "BOOKMARK":
                    self.lines.append(_line(event.type, event.object))


def _line(kind: str, pod: KubeletPod) -> str:
    statuses = pod.status.container_statuses
    words = [pod.status.phase, state(pod) if statuses else "-", str(statuses[0].restart_count) if statuses else "-"]
    if kind == "DELETED":
        return "gone"
    if pod.metadata.deletion_timestamp is not None:
        words.append("leaving")
    return " ".join(words)
