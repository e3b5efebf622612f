"""Lists or watches all ConfigMaps of the cluster with one client, and prints what that took: `CLIENT list|watch COUNT`.

A list is read as the client's documentation lists, and held. A watch begins without a version, so that the server
sends an event for each object, and is followed for so many events; none is kept.
"""

import asyncio
import importlib
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# ruff: noqa: PLC0415  # only the client that is asked is imported, and installed
KUBECONFIG = os.environ["KUBECONFIG"]


async def _done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def official(package: str) -> tuple[Callable[[], Any], Callable[[int], Any]]:
    client, config, watch = (importlib.import_module(f"{package}.{part}") for part in ("client", "config", "watch"))

    async def api() -> Any:
        await _done(config.load_kube_config(KUBECONFIG))
        return client.CoreV1Api()

    async def all_listed() -> Any:
        return (await _done((await api()).list_config_map_for_all_namespaces())).items

    async def watched(count: int) -> int:
        stream, seen = watch.Watch().stream((await api()).list_config_map_for_all_namespaces), 0
        if hasattr(stream, "__aiter__"):
            async for _ in stream:
                seen += 1
                if seen == count:
                    break
            return seen
        return _counted(stream, count)

    return all_listed, watched


def _counted(stream: Any, count: int) -> int:
    seen = 0
    for _ in stream:
        seen += 1
        if seen == count:
            break
    return seen


async def _counted_async(stream: Any, count: int) -> int:
    seen = 0
    async for _ in stream:
        seen += 1
        if seen == count:
            break
    return seen


def kr8s() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    import kr8s as library

    async def all_listed() -> Any:
        api = await library.asyncio.api(kubeconfig=KUBECONFIG)
        return [one async for one in api.get("configmaps", namespace=library.ALL)]

    async def watched(count: int) -> int:
        api = await library.asyncio.api(kubeconfig=KUBECONFIG)
        return await _counted_async(api.watch("configmaps", namespace=library.ALL), count)

    return all_listed, watched


def lightkube() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    from lightkube import Client, KubeConfig
    from lightkube.resources.core_v1 import ConfigMap

    client = Client(KubeConfig.from_file(KUBECONFIG))
    return (
        lambda: list(client.list(ConfigMap, namespace="*")),
        lambda count: _counted(client.watch(ConfigMap, namespace="*"), count),
    )


def kubesdk() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    import kubesdk as library
    from kube_models.api_v1.io.k8s.api.core.v1 import ConfigMap

    async def all_listed() -> Any:
        await library.login(library.KubeConfig(path=KUBECONFIG))
        return (await library.get_k8s_resource(ConfigMap)).items

    async def watched(count: int) -> int:
        await library.login(library.KubeConfig(path=KUBECONFIG))
        return await _counted_async(library.watch_k8s_resources(ConfigMap), count)

    return all_listed, watched


def pykube() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    import pykube as library

    api = library.HTTPClient(library.KubeConfig.from_file(KUBECONFIG))
    query = library.ConfigMap.objects(api, namespace=library.all)
    return lambda: list(query), lambda count: _counted(query.watch(), count)


def cloudcoil() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    from cloudcoil.client import Config
    from cloudcoil.models.kubernetes.core.v1 import ConfigMap

    config = Config(kubeconfig=KUBECONFIG)

    def all_listed() -> Any:
        with config:
            return list(ConfigMap.list(all_namespaces=True))

    def watched(count: int) -> int:
        with config:
            return _counted(ConfigMap.watch(all_namespaces=True), count)

    return all_listed, watched


def hikaru() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    from hikaru.model.rel_1_28.v1 import ConfigMap, ConfigMapList
    from hikaru.watch import Watcher
    from kubernetes import config

    config.load_kube_config(KUBECONFIG)
    return (
        lambda: ConfigMapList.listConfigMapForAllNamespaces().obj.items,
        lambda count: _counted(Watcher(ConfigMap).stream(), count),
    )


def kcr() -> tuple[Callable[[], Any], Callable[[int], Any]]:
    import kcr as library
    from kcr.api.core import ConfigMap
    from kcr.client import HttpTransport, load_config
    from kcr.informer import Handler

    async def all_listed() -> Any:
        async with HttpTransport(load_config(kubeconfig=KUBECONFIG)) as transport:
            return await library.Client(transport).list(ConfigMap)

    async def watched(count: int) -> int:
        over, seen = asyncio.Event(), 0

        class Events(Handler[ConfigMap]):
            def on_add(self, obj: ConfigMap, initial: bool) -> None:
                nonlocal seen
                seen += 1
                if seen == count:
                    over.set()

            def on_update(self, old: ConfigMap, new: ConfigMap) -> None: ...
            def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None: ...

        async with HttpTransport(load_config(kubeconfig=KUBECONFIG)) as transport:
            manager = library.Manager(library.Client(transport))
            manager.informer(ConfigMap).add_handler(Events())
            async with manager.running():
                await over.wait()
        return seen

    return all_listed, watched


MADE: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[int], Any]]]] = {
    "kcr": kcr,
    **{name: lambda name=name: official(name) for name in ("kubernetes", "kubernetes.aio", "kubernetes_asyncio")},
    "kr8s": kr8s, "lightkube": lightkube, "kubesdk": kubesdk, "pykube-ng": pykube, "cloudcoil": cloudcoil,
    "hikaru": hikaru,
}  # fmt: skip


def megabytes() -> float:
    """Return the peak of this process; that of getrusage begins with what the parent had."""
    status = Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) / 1024


def main(name: str, what: str, count: int) -> None:
    all_listed, watched = MADE[name]()
    before, start, cpu = megabytes(), time.perf_counter(), time.process_time()

    async def run() -> int:
        if what == "watch":
            return int(await _done(watched(count)))
        held = await _done(all_listed())
        return len(held)

    seen = asyncio.run(run())
    took = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    print(json.dumps({"seen": seen, "before": before, "peak": megabytes(), **took}), flush=True)
    # Some clients have threads that never end.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
