"""A user who changes a Job and its pods at random."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.pods import is_terminal
from kcr.client import Client
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import ApiError, NotFoundError
from kcr.testing import eventually
from tests.chaos.authors import AUTHOR, USER
from tests.kit.harness import create

KEY = Key("default", "pi")
SEEN = "example.dev/Seen"
_PATIENCE_SECONDS = 1200


class RandomUser:
    """Creates the Job, edits it and its pods, and leaves it in a state in which it can end."""

    def __init__(self, client: Client, random: Random, job: dict[str, Any]) -> None:
        self._client = client
        self._random = random
        self._job = job
        kind = job["spec"]
        # The server lets completions change with parallelism only, and the other two speak of indexes below it.
        fixed = {"maxFailedIndexes", "successPolicy"} & kind.keys()
        is_indexed = kind.get("completionMode") == "Indexed"
        self._elastic = is_indexed and not fixed and kind["parallelism"] == kind["completions"]
        edits = (
            self._scale, self._scale, self._suspend, self._suspend, self._recreate, self._edit_spec,
            self._edit_template, self._delete_pod, self._delete_pod, self._delete_pod, self._evict, self._evict,
            self._strip, self._force, self._force, self._force, self._disown, self._relabel, self._give, self._tell,
        )  # fmt: skip
        # Only some: what a single edit breaks is easier to see.
        self._edits = random.sample(edits, random.choice((0, 0, 1, 1, 2, 4, 8)))

    async def act(self) -> None:
        AUTHOR.set(USER)
        await create(self._client, self._job)
        # Who knows one thing only does it all the time.
        most = 12 if len(self._edits) == 1 else 6
        for _ in range(self._random.randint(1, most) if self._edits else 0):
            await asyncio.sleep(self._random.choice((0.0, self._random.random(), self._random.random() * 20)))
            try:
                await self._random.choice(self._edits)()
            except ApiError:
                continue
        await self._patch(suspend=False, **self._size(self._random.randint(1, 4)))

    def _size(self, count: int) -> dict[str, int]:
        return {"parallelism": count, "completions": count} if self._elastic else {"parallelism": count}

    async def _scale(self) -> None:
        await self._patch(**self._size(self._random.randint(0, 5)))

    async def _suspend(self) -> None:
        await self._patch(suspend=self._random.random() < 0.6)

    async def _edit_spec(self) -> None:
        change = self._random.choice(("backoffLimit", "activeDeadlineSeconds", "podReplacementPolicy"))
        values = {
            "backoffLimit": self._random.randint(0, 6),
            "activeDeadlineSeconds": self._random.randint(10, 200),
            "podReplacementPolicy": self._random.choice(("TerminatingOrFailed", "Failed")),
        }
        await self._patch(**{change: values[change]})

    async def _edit_template(self) -> None:
        """Change what new pods are made of; the server lets it happen only while the Job is suspended."""
        told = {SEEN: str(self._random.randint(1, 9))}
        await self._patch(suspend=True)
        await asyncio.sleep(self._random.choice((0.0, 1.0, 10.0)))
        await self._patch(template={"metadata": {"annotations": told}}, suspend=self._random.random() < 0.5)

    async def _recreate(self) -> None:
        await self._client.delete(Job, KEY, propagation=self._random.choice(("Background", "Foreground", "Orphan")))
        await eventually(self._is_gone, seconds=_PATIENCE_SECONDS)
        await create(self._client, self._job)

    async def _is_gone(self) -> bool:
        return not await self._client.list(Job, "default")

    async def _pod(self) -> Pod | None:
        pods = await self._client.list(Pod, "default")
        return self._random.choice(pods) if pods else None

    async def _delete_pod(self) -> None:
        if pod := await self._pod():
            await self._client.delete(Pod, pod.key, grace_period_seconds=self._random.choice((0, 5, 30)))

    async def _evict(self) -> None:
        if pod := await self._pod():
            name = {"name": pod.metadata.name, "namespace": "default"}
            body = msgspec.json.encode({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name})
            path = f"/api/v1/namespaces/default/pods/{pod.metadata.name}/eviction"
            await self._client.request("POST", path, body)

    async def _strip(self) -> None:
        """Remove a pod's finalizers, as an impatient user does."""
        if pod := await self._pod():
            await self._client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})

    async def _force(self) -> None:
        """Take a pod away whatever it says, one that has ended and is not counted yet if there is any."""
        pods = await self._client.list(Pod, "default")
        pending = [pod for pod in pods if is_terminal(pod) and is_tracked(pod)]
        if pods:
            pod = self._random.choice(pending or pods)
            await self._client.delete(Pod, pod.key, grace_period_seconds=0)
            await self._client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})

    async def _disown(self) -> None:
        if pod := await self._pod():
            await self._client.merge_patch(Pod, pod.key, {"metadata": {"ownerReferences": None}})

    async def _relabel(self) -> None:
        """Take a pod's labels, and perhaps give them back."""
        if pod := await self._pod():
            await self._client.merge_patch(Pod, pod.key, {"metadata": {"labels": None}})
            await asyncio.sleep(self._random.choice((0.0, 1.0, 10.0)))
            if self._random.random() < 0.5:
                await self._client.merge_patch(Pod, pod.key, {"metadata": {"labels": dict(pod.metadata.labels)}})

    async def _give(self) -> None:
        """Make a pod that the Job will think its own."""
        job = await self._client.get(Job, KEY)
        template = msgspec.json.decode(job.spec.template)
        metadata: dict[str, Any] = {"name": f"gift-{self._random.randint(1, 99)}", "labels": job_labels(job)}
        if self._random.random() < 0.7:
            index = {"batch.kubernetes.io/job-completion-index": str(self._random.randint(0, 3))}
            metadata["annotations"] = index
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        await self._client.create_manifest(Pod, pod, "default")

    async def _tell(self) -> None:
        """Write a condition and an annotation of one's own through /status."""
        job = await self._client.get(Job, KEY)
        told = {"type": SEEN, "status": "True", "reason": "Told", "message": "by hand"}
        conditions = [msgspec.to_builtins(one) for one in job.status.conditions if one.type != SEEN]
        change = {
            "metadata": {"resourceVersion": job.metadata.resource_version, "annotations": {SEEN: "yes"}},
            "status": {"conditions": [*conditions, told]},
        }
        await self._client.merge_patch(Job, KEY, change, subresource="status")

    async def _patch(self, **spec: Any) -> None:
        await self._client.merge_patch(Job, KEY, {"spec": spec})


def job_labels(job: Job) -> dict[str, str]:
    """The labels that the Job's selector asks for."""
    selector = msgspec.to_builtins(job.spec.selector)
    labels: dict[str, str] = selector["matchLabels"]
    return labels


async def fail_unscheduled(client: Client) -> None:
    """Say of pods that were told to go before they had a node that they have failed: no kubelet will.

    Source: kubernetes/pkg/controller/podgc/gc_controller.go, gcUnscheduledTerminating.
    """
    for pod in await client.list(Pod, "default"):
        if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name and not is_terminal(pod):
            with suppress(NotFoundError):
                await client.merge_patch(Pod, pod.key, {"status": {"phase": "Failed"}}, subresource="status")
