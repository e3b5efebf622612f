"""kr8s, asynchronous."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import kr8s
from driving import Driver, drive, follow_async
from kr8s.asyncio.objects import ConfigMap, Deployment, Job, Pod, Secret, Service


class Kr8s(Driver):
    async def _api(self) -> Any:
        return await kr8s.asyncio.api(kubeconfig=self.kubeconfig, namespace=self.namespace)

    async def _get(self, kind: Any, name: str) -> Any:
        return await kind.get(name, namespace=self.namespace, api=await self._api())

    async def create(self) -> None:
        await ConfigMap(self.configmap(), api=await self._api()).create()

    async def read(self, name: str, times: int) -> Any:
        api, found = await self._api(), None
        for time in range(times):
            if time:
                self.between()
            found = dict((await ConfigMap.get(name, namespace=self.namespace, api=api)).data)
        return found

    async def follow(self) -> Any:
        api = await self._api()

        async def named() -> AsyncIterator[tuple[str, str]]:
            async for kind, one in api.watch("secrets", namespace=self.namespace):
                yield kind, one.metadata.get("name", "")

        return await follow_async(named())

    async def json_patch(self, body: Any) -> None:
        await (await self._get(ConfigMap, "here")).patch(body, type="json")

    async def merge_patch(self, body: Any) -> None:
        await (await self._get(ConfigMap, "here")).patch(body)

    patch = merge_patch

    async def status(self, body: Any) -> None:
        await (await self._get(Service, "front")).patch(body, subresource="status")

    async def scale(self) -> None:
        await (await self._get(Deployment, "web")).scale(1)

    async def execute(self) -> str:
        return (await (await self._get(Pod, "runner")).exec(["echo", "hello"])).stdout.decode()

    async def logs(self) -> str:
        return "\n".join([line async for line in (await self._get(Pod, "runner")).logs()])

    async def follow_log(self) -> list[str]:
        return [line async for line in (await self._get(Pod, "runner")).logs(follow=True)]

    async def forward(self, port: int) -> str:
        async with (await self._get(Pod, "runner")).portforward(port, local_port="auto") as local:
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(b"there\n")
            text = (await reader.read(100)).decode()
            writer.close()
            return text

    async def secret(self) -> str:
        return repr((await self._get(Secret, "key")).data["a"])

    async def delete_job(self) -> None:
        await (await self._get(Job, "work")).delete()


drive(Kr8s)
