"""kopf: handlers instead of requests. It watches and patches, with the connection of its own login."""

import asyncio
import os
from typing import Any

import kopf
from driving import LAST, WATCH_SECONDS, Driver, drive


class Kopf(Driver):
    async def _run(self, kind: str, handle: Any) -> Any:
        os.environ["KUBECONFIG"] = self.kubeconfig
        registry, stop = kopf.OperatorRegistry(), asyncio.Event()

        @kopf.on.login(registry=registry)
        def login(**them: Any) -> Any:
            return kopf.login_with_kubeconfig(**them)

        @kopf.on.event(kind, registry=registry)
        async def event(**them: Any) -> None:
            if await handle(**them):
                stop.set()

        operator = kopf.operator(registry=registry, standalone=True, namespaces=[self.namespace], stop_flag=stop)
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                await operator
            return "ended"
        except TimeoutError:
            return "open"

    async def follow(self) -> Any:
        seen: list[str] = []

        async def handle(name: str, **them: Any) -> bool:
            seen.append(f"{them['type'] or 'ADDED'} {name}")
            return name == LAST

        end = await self._run("secrets", handle)
        return {"events": seen, "end": end}

    async def patch(self, body: Any) -> None:
        async def handle(name: str, patch: Any, **_: Any) -> bool:
            if name == "here" and not patch:
                patch.update(body)
            return False

        await self._run("configmaps", handle)


drive(Kopf)
