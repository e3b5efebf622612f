"""kcr: the client, and an informer for what others watch."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from driving import LAST, WATCH_SECONDS, Driver, drive
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.full.apps_v1 import Deployment
from kcr.api.full.batch_v1 import Job
from kcr.api.full.coordination_v1 import Lease
from kcr.api.full.core_v1 import Service
from kcr.api.full.networking_v1 import NetworkPolicy
from kcr.client import HttpTransport, load_config
from kcr.informer import Handler

KINDS: dict[str, Any] = {one.__name__: one for one in (Deployment, NetworkPolicy, Service, Lease)}


class Events(Handler[Secret]):
    """Notes the events of an informer until the last object comes."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.last = asyncio.Event()

    def _note(self, kind: str, obj: Secret) -> None:
        self.seen.append(f"{kind} {obj.metadata.name}")
        if obj.metadata.name == LAST:
            self.last.set()

    def on_add(self, obj: Secret, initial: bool) -> None:
        self._note("ADDED", obj)

    def on_update(self, old: Secret, new: Secret) -> None:
        self._note("MODIFIED", new)

    def on_delete(self, obj: Secret, final_state_unknown: bool) -> None:
        self._note("DELETED", obj)


class Kcr(Driver):
    @asynccontextmanager
    async def _client(self) -> AsyncIterator[kcr.Client]:
        async with HttpTransport(load_config(kubeconfig=self.kubeconfig)) as transport:
            yield kcr.Client(transport)

    def _key(self, name: str) -> kcr.Key:
        return kcr.Key(self.namespace, name)

    async def create(self) -> None:
        async with self._client() as client:
            await client.create_manifest(ConfigMap, self.configmap())

    async def read(self, name: str, times: int) -> Any:
        async with self._client() as client:
            found = await client.get(ConfigMap, self._key(name))
            for _ in range(times - 1):
                self.between()
                found = await client.get(ConfigMap, self._key(name))
            return dict(found.data)

    async def pages(self) -> int:
        async with self._client() as client:
            token, count = "", 0
            while True:
                metadata, page = await client.list_page(Secret, self.namespace, limit=2, continue_=token)
                count, token = count + len(page), metadata.continue_
                if not token:
                    return count

    async def follow(self) -> Any:
        async with self._client() as client:
            manager, events = kcr.Manager(client, namespace=self.namespace), Events()
            manager.informer(Secret).add_handler(events)
            async with manager.running():
                try:
                    async with asyncio.timeout(WATCH_SECONDS):
                        await events.last.wait()
                except TimeoutError:
                    return {"events": events.seen, "end": "open"}
        return {"events": events.seen, "end": "ended"}

    async def patch(self, body: Any) -> None:
        async with self._client() as client:
            read = await client.get(ConfigMap, self._key("here"))
            await client.patch(read, replace(read, data={**read.data, **body["data"]}))

    async def json_patch(self, body: Any) -> None:
        async with self._client() as client:
            await client.json_patch(ConfigMap, self._key("here"), body)

    async def merge_patch(self, body: Any) -> None:
        async with self._client() as client:
            await client.merge_patch(ConfigMap, self._key("here"), body)

    async def strategic_patch(self, body: Any) -> None:
        async with self._client() as client:
            await client.strategic_patch(Deployment, self._key("web"), body)

    async def apply(self, name: str) -> None:
        async with self._client() as client:
            await client.apply_manifest(ConfigMap, self.configmap(name))

    async def status(self, body: Any) -> None:
        async with self._client() as client:
            await client.merge_patch(Service, self._key("front"), body, subresource="status")

    async def scale(self) -> None:
        async with self._client() as client:
            await client.set_scale(Deployment, self._key("web"), 1)

    async def execute(self) -> str:
        async with self._client() as client:
            return (await client.exec(self._key("runner"), ["echo", "hello"])).stdout.decode()

    async def forward(self, port: int) -> str:
        async with self._client() as client, client.port_forward(self._key("runner"), port) as local:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"there\n")
            text = (await reader.read(100)).decode()
            writer.close()
            return text

    async def logs(self) -> str:
        async with self._client() as client:
            return await client.log(self._key("runner"))

    async def follow_log(self) -> list[str]:
        async with self._client() as client, client.follow_log(self._key("runner")) as lines:
            return [line.decode() async for line in lines]

    async def evict(self) -> None:
        async with self._client() as client:
            await client.evict(self._key("idle"))

    async def rewrite(self, kind: str, name: str) -> None:
        # Without a class: all fields are kept, those of a later version too.
        kind_of = KINDS[kind].resource
        whole = kcr.unstructured(kind_of.api_version, kind, plural=kind_of.plural)
        async with self._client() as client:
            await client.update(await client.get(whole, self._key(name)))

    async def stale(self) -> None:
        async with self._client() as client:
            read = await client.get(ConfigMap, self._key("here"))
            for value in ("first", "second"):
                await client.update(replace(read, data={"a": value}))

    async def secret(self) -> str:
        async with self._client() as client:
            return repr((await client.get(Secret, self._key("key"))).data["a"])

    async def delete_job(self) -> None:
        async with self._client() as client:
            await client.delete(Job, self._key("work"))


drive(Kcr)
