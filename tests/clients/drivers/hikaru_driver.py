"""hikaru with its models of Kubernetes 1.28, on the official client."""

from typing import Any

from driving import Driver, drive, follow
from hikaru import from_dict
from hikaru.meta import HikaruDocumentBase
from hikaru.model.rel_1_28.v1 import (
    ConfigMap,
    Deployment,
    Job,
    Lease,
    NetworkPolicy,
    ObjectMeta,
    Pod,
    Secret,
    SecretList,
    Service,
)
from hikaru.watch import Watcher
from kubernetes import config

KINDS: dict[str, Any] = {one.__name__: one for one in (Deployment, NetworkPolicy, Service, Lease)}


class Hikaru(Driver):
    def _get(self, kind: Any, name: str) -> Any:
        config.load_kube_config(self.kubeconfig)
        made: HikaruDocumentBase = kind(metadata=ObjectMeta(name=name, namespace=self.namespace))
        return made.read()

    def create(self) -> None:
        config.load_kube_config(self.kubeconfig)
        from_dict(self.configmap(), cls=ConfigMap).create()

    def read(self, name: str, times: int) -> Any:
        found = self._get(ConfigMap, name)
        for _ in range(times - 1):
            self.between()
            found = found.read()
        return dict(found.data)

    def pages(self) -> int:
        config.load_kube_config(self.kubeconfig)
        token, count = None, 0
        while True:
            page = SecretList.listNamespacedSecret(self.namespace, limit=2, continue_=token).obj
            count, token = count + len(page.items), page.metadata.continue_
            if not token:
                return count

    def follow(self) -> Any:
        config.load_kube_config(self.kubeconfig)
        events = Watcher(Secret, namespace=self.namespace).stream()
        return follow((event.etype, event.obj.metadata.name) for event in events)

    def patch(self, _: Any) -> None:
        read = self._get(ConfigMap, "here")
        read.data["b"] = "2"
        read.update()

    def logs(self) -> str:
        config.load_kube_config(self.kubeconfig)
        return str(Pod.readNamespacedPodLog("runner", self.namespace).obj)

    def rewrite(self, kind: str, name: str) -> None:
        self._get(KINDS[kind], name).update()

    def stale(self) -> None:
        read = self._get(ConfigMap, "here")
        for value in ("first", "second"):
            read.data["a"] = value
            read.replaceNamespacedConfigMap("here", self.namespace)

    def secret(self) -> str:
        return repr(self._get(Secret, "key").data["a"])

    def delete_job(self) -> None:
        self._get(Job, "work").delete()


drive(Hikaru)
