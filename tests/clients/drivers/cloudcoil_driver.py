"""cloudcoil with its models, synchronous."""

from typing import Any

from cloudcoil.client import Config
from cloudcoil.models.kubernetes.apps.v1 import Deployment
from cloudcoil.models.kubernetes.batch.v1 import Job
from cloudcoil.models.kubernetes.coordination.v1 import Lease
from cloudcoil.models.kubernetes.core.v1 import ConfigMap, Secret, Service
from cloudcoil.models.kubernetes.networking.v1 import NetworkPolicy
from driving import Driver, drive, follow

KINDS = {one.__name__: one for one in (Deployment, NetworkPolicy, Service, Lease)}


class Cloudcoil(Driver):
    def _config(self) -> Any:
        return Config(kubeconfig=self.kubeconfig)

    def create(self) -> None:
        with self._config():
            ConfigMap.model_validate(self.configmap()).create()

    def read(self, name: str, times: int) -> Any:
        with self._config():
            found = ConfigMap.get(name, self.namespace).data
            for _ in range(times - 1):
                self.between()
                found = ConfigMap.get(name, self.namespace).data
            return dict(found)

    def pages(self) -> int:
        with self._config():
            return len(list(Secret.list(self.namespace, limit=2)))

    def follow(self) -> Any:
        with self._config():
            return follow((str(kind), one.metadata.name or "") for kind, one in Secret.watch(self.namespace))

    def status(self, body: Any) -> None:
        with self._config():
            read = Service.get("front", self.namespace)
            changed = read.model_dump(mode="json", by_alias=True, exclude_none=True) | body
            Service.model_validate(changed).update_status()

    def scale(self) -> None:
        with self._config():
            Deployment.get("web", self.namespace).scale(1)

    def rewrite(self, kind: str, name: str) -> None:
        with self._config():
            KINDS[kind].get(name, self.namespace).update()

    def stale(self) -> None:
        with self._config():
            read = ConfigMap.get("here", self.namespace)
            for value in ("first", "second"):
                read.data = {"a": value}
                read.update()

    def secret(self) -> str:
        with self._config():
            return repr(Secret.get("key", self.namespace).data["a"])

    def delete_job(self) -> None:
        with self._config():
            Job.delete("work", self.namespace)


drive(Cloudcoil)
