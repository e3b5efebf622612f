"""kubesdk."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import kubesdk
from driving import Driver, drive, follow_async
from kube_models.api_v1.io.k8s.api.core.v1 import ConfigMap, Secret, Service
from kube_models.apis_apps_v1.io.k8s.api.apps.v1 import Deployment
from kube_models.apis_batch_v1.io.k8s.api.batch.v1 import Job
from kube_models.apis_coordination_k8s_io_v1.io.k8s.api.coordination.v1 import Lease
from kube_models.apis_networking_k8s_io_v1.io.k8s.api.networking.v1 import NetworkPolicy

KINDS = {one.__name__: one for one in (Deployment, NetworkPolicy, Service, Lease)}


class KubeSdk(Driver):
    async def _login(self) -> None:
        # Logins are kept by server: each thing gets one of its own.
        kubesdk._auth._auth_vault_var.set({})
        await kubesdk.login(kubesdk.KubeConfig(path=self.kubeconfig))

    async def _get(self, kind: Any, name: str) -> Any:
        await self._login()
        return await kubesdk.get_k8s_resource(kind, name, self.namespace)

    async def create(self) -> None:
        await self._login()
        await kubesdk.create_k8s_resource(ConfigMap.from_dict(self.configmap()))

    async def read(self, name: str, times: int) -> Any:
        found = await self._get(ConfigMap, name)
        for _ in range(times - 1):
            self.between()
            found = await kubesdk.get_k8s_resource(ConfigMap, name, self.namespace)
        return found.data

    async def pages(self) -> int:
        await self._login()
        token, count = None, 0
        while True:
            params = kubesdk.K8sQueryParams(limit=2, _continue=token)
            page = await kubesdk.get_k8s_resource(Secret, namespace=self.namespace, params=params)
            count, token = count + len(page.items), page.metadata.continue_
            if not token:
                return count

    async def follow(self) -> Any:
        await self._login()

        async def named() -> AsyncIterator[tuple[str, str]]:
            async for event in kubesdk.watch_k8s_resources(Secret, namespace=self.namespace):
                yield str(getattr(event.type, "value", event.type)), getattr(event.object.metadata, "name", None) or ""

        return await follow_async(named())

    async def patch(self, _: Any) -> None:
        latest = await self._get(ConfigMap, "here")
        await kubesdk.update_k8s_resource(replace(latest, data=latest.data | {"b": "2"}), built_from_latest=latest)

    async def rewrite(self, kind: str, name: str) -> None:
        await kubesdk.update_k8s_resource(await self._get(KINDS[kind], name), force=True)

    async def stale(self) -> None:
        read = await self._get(ConfigMap, "here")
        for value in ("first", "second"):
            await kubesdk.update_k8s_resource(replace(read, data={"a": value}), force=True)

    async def secret(self) -> str:
        return repr((await self._get(Secret, "key")).data["a"])

    async def delete_job(self) -> None:
        await self._login()
        await kubesdk.delete_k8s_resource(Job, "work", self.namespace)


drive(KubeSdk)
