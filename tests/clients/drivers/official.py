"""The clients that are generated from the OpenAPI document: kubernetes, kubernetes.aio and kubernetes_asyncio."""

import importlib
import inspect
import sys
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

from driving import Driver, drive, follow, follow_async

PACKAGE = sys.argv[1]
client = importlib.import_module(f"{PACKAGE}.client")
config = importlib.import_module(f"{PACKAGE}.config")
watch = importlib.import_module(f"{PACKAGE}.watch")
stream = importlib.import_module(f"{PACKAGE}.stream")
# Three times the log that is followed.
MOST_LINES = 6
SYNC = PACKAGE == "kubernetes"
KINDS = {
    "Deployment": ("AppsV1Api", "deployment"),
    "NetworkPolicy": ("NetworkingV1Api", "network_policy"),
    "Service": ("CoreV1Api", "service"),
    "Lease": ("CoordinationV1Api", "lease"),
}


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Official(Driver):
    async def _api(self, name: str = "CoreV1Api") -> Any:
        await done(config.load_kube_config(self.kubeconfig))
        return getattr(client, name)()

    async def create(self) -> None:
        await done((await self._api()).create_namespaced_config_map(self.namespace, self.configmap()))

    async def read(self, name: str, times: int) -> Any:
        api, found = await self._api(), None
        for time in range(times):
            if time:
                self.between()
            found = (await done(api.read_namespaced_config_map(name, self.namespace))).data
        return found

    async def pages(self) -> int:
        api, token, count = await self._api(), None, 0
        while True:
            page = await done(api.list_namespaced_secret(self.namespace, limit=2, _continue=token))
            count, token = count + len(page.items), page.metadata._continue
            if not token:
                return count

    async def follow(self) -> Any:
        api, watching = await self._api(), watch.Watch()
        events = watching.stream(api.list_namespaced_secret, self.namespace)
        if SYNC:
            return follow((event["type"], event["raw_object"]["metadata"].get("name", "")) for event in events)

        async def named() -> AsyncIterator[tuple[str, str]]:
            async for event in events:
                yield event["type"], event["raw_object"]["metadata"].get("name", "")

        return await follow_async(named())

    async def _patch(self, body: Any, kind: str, api: str, what: str, name: str, **more: Any) -> None:
        method = getattr(await self._api(api), f"patch_namespaced_{what}")
        await done(method(name, self.namespace, body, _content_type=kind, **more))

    async def json_patch(self, body: Any) -> None:
        await self._patch(body, "application/json-patch+json", "CoreV1Api", "config_map", "here")

    async def merge_patch(self, body: Any) -> None:
        await self._patch(body, "application/merge-patch+json", "CoreV1Api", "config_map", "here")

    async def strategic_patch(self, body: Any) -> None:
        await self._patch(body, "application/strategic-merge-patch+json", "AppsV1Api", "deployment", "web")

    async def patch(self, body: Any) -> None:
        await done((await self._api()).patch_namespaced_config_map("here", self.namespace, body))

    async def apply(self, name: str) -> None:
        kind = "application/apply-patch+yaml"
        await self._patch(self.configmap(name), kind, "CoreV1Api", "config_map", name, field_manager="driver")

    async def status(self, body: Any) -> None:
        kind = "application/merge-patch+json"
        await self._patch(body, kind, "CoreV1Api", "service_status", "front")

    async def scale(self) -> None:
        body = {"spec": {"replicas": 1}}
        await done((await self._api("AppsV1Api")).patch_namespaced_deployment_scale("web", self.namespace, body))

    async def execute(self) -> str:
        await done(config.load_kube_config(self.kubeconfig))
        arguments = {"command": ["echo", "hello"], "stdout": True, "stderr": False, "stdin": False, "tty": False}
        if SYNC:
            method = client.CoreV1Api().connect_get_namespaced_pod_exec
            return str(stream.stream(method, "runner", self.namespace, **arguments))
        async with stream.WsApiClient() as sockets:
            method = client.CoreV1Api(sockets).connect_get_namespaced_pod_exec
            return str(await method("runner", self.namespace, **arguments))

    async def logs(self) -> str:
        return str(await done((await self._api()).read_namespaced_pod_log("runner", self.namespace)))

    async def follow_log(self) -> list[str]:
        lines: list[str] = []
        log = watch.Watch().stream((await self._api()).read_namespaced_pod_log, "runner", self.namespace)
        if SYNC:
            return list(islice(log, MOST_LINES))
        async for line in log:
            lines.append(line)
            if len(lines) == MOST_LINES:
                break
        return lines

    async def evict(self) -> None:
        body = {"metadata": {"name": "idle", "namespace": self.namespace}}
        await done((await self._api()).create_namespaced_pod_eviction("idle", self.namespace, body))

    async def forward(self, port: int) -> str:
        await done(config.load_kube_config(self.kubeconfig))
        method = client.CoreV1Api().connect_get_namespaced_pod_portforward
        forwarded = stream.portforward(method, "runner", self.namespace, ports=str(port)).socket(port)
        forwarded.sendall(b"there\n")
        return str(forwarded.recv(100).decode())

    if not SYNC:
        # They have no call for it.
        forward = None  # type: ignore[assignment]

    async def table(self) -> str:
        await done(config.load_kube_config(self.kubeconfig))
        made = client.ApiClient()
        made.set_default_header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        return type(await done(client.CoreV1Api(made).list_namespaced_config_map(self.namespace))).__name__

    async def rewrite(self, kind: str, name: str) -> None:
        api, what = KINDS[kind]
        made = await self._api(api)
        read = await done(getattr(made, f"read_namespaced_{what}")(name, self.namespace))
        await done(getattr(made, f"replace_namespaced_{what}")(name, self.namespace, read))

    async def stale(self) -> None:
        api = await self._api()
        read = await done(api.read_namespaced_config_map("here", self.namespace))
        for value in ("first", "second"):
            read.data = {"a": value}
            await done(api.replace_namespaced_config_map("here", self.namespace, read))

    async def secret(self) -> str:
        return repr((await done((await self._api()).read_namespaced_secret("key", self.namespace))).data["a"])

    async def delete_job(self) -> None:
        await done((await self._api("BatchV1Api")).delete_namespaced_job("work", self.namespace))


drive(Official)
