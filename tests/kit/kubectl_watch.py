"""What `kubectl get po --watch` would print."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kcr.client import Request
from kcr_devcluster.cluster import EmbeddedCluster

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@asynccontextmanager
async def statuses_of_pods(cluster: EmbeddedCluster) -> AsyncIterator[list[str]]:
    """Collect the columns STATUS and RESTARTS, without ages and without repetition, as the pods change."""
    seen: list[str] = []
    request = Request("GET", "/api/v1/namespaces/default/pods?watch=true", TABLE, timeout_seconds=None)

    async def watch() -> None:
        async with cluster.transport.send(request) as response:
            async for line in response.lines():
                for row in json.loads(line)["object"]["rows"]:
                    _, _, status, restarts, *_ = row["cells"]
                    entry = f"{status} {restarts.partition(' ')[0]}"
                    if seen[-1:] != [entry]:
                        seen.append(entry)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch())
        yield seen
        task.cancel()
