"""pykube-ng."""

from typing import Any

import pykube
from driving import Driver, drive, follow

KINDS = {"Deployment": pykube.Deployment, "Service": pykube.Service}


class Pykube(Driver):
    def _api(self) -> Any:
        return pykube.HTTPClient(pykube.KubeConfig.from_file(self.kubeconfig))

    def _get(self, kind: Any, name: str) -> Any:
        return kind.objects(self._api(), namespace=self.namespace).get_by_name(name)

    def create(self) -> None:
        pykube.ConfigMap(self._api(), self.configmap()).create()

    def read(self, name: str, times: int) -> Any:
        found, objects = None, pykube.ConfigMap.objects(self._api(), namespace=self.namespace)
        for time in range(times):
            if time:
                self.between()
            found = objects.get_by_name(name)
        return found.obj["data"]

    def follow(self) -> Any:
        events = pykube.Secret.objects(self._api(), namespace=self.namespace).watch()
        return follow((event.type, event.object.obj["metadata"].get("name", "")) for event in events)

    def merge_patch(self, body: Any) -> None:
        self._get(pykube.ConfigMap, "here").patch(body)

    patch = merge_patch

    def status(self, body: Any) -> None:
        self._get(pykube.Service, "front").patch(body, subresource="status")

    def scale(self) -> None:
        self._get(pykube.Deployment, "web").scale(1)

    def logs(self) -> str:
        return str(self._get(pykube.Pod, "runner").logs())

    def table(self) -> str:
        return type(pykube.ConfigMap.objects(self._api(), namespace=self.namespace).as_table()).__name__

    def rewrite(self, kind: str, name: str) -> None:
        api = self._api()
        classes = {
            "Lease": pykube.object_factory(api, "coordination.k8s.io/v1", "Lease"),
            "NetworkPolicy": pykube.object_factory(api, "networking.k8s.io/v1", "NetworkPolicy"),
        }
        self._get(KINDS.get(kind) or classes[kind], name).update()

    def stale(self) -> None:
        first, second = (self._get(pykube.ConfigMap, "here") for _ in range(2))
        for one, value in ((first, "first"), (second, "second")):
            one.obj["data"]["a"] = value
            one.update()

    def secret(self) -> str:
        return repr(self._get(pykube.Secret, "key").obj["data"]["a"])

    def delete_job(self) -> None:
        self._get(pykube.Job, "work").delete()


drive(Pykube)
