"""lightkube, synchronous."""

from typing import Any

from driving import Driver, drive, follow
from lightkube import Client, KubeConfig
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.batch_v1 import Job
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap, Pod, Secret, Service
from lightkube.resources.networking_v1 import NetworkPolicy
from lightkube.types import PatchType

KINDS = {one.__name__: one for one in (Deployment, NetworkPolicy, Service, Lease)}


class Lightkube(Driver):
    def _client(self) -> Any:
        return Client(KubeConfig.from_file(self.kubeconfig), namespace=self.namespace)

    def create(self) -> None:
        self._client().create(ConfigMap.from_dict(self.configmap()))

    def read(self, name: str, times: int) -> Any:
        client, found = self._client(), None
        for time in range(times):
            if time:
                self.between()
            found = client.get(ConfigMap, name).data
        return found

    def pages(self) -> int:
        return len(list(self._client().list(Secret, chunk_size=2)))

    def follow(self) -> Any:
        return follow((kind, one.metadata.name) for kind, one in self._client().watch(Secret))

    def json_patch(self, body: Any) -> None:
        self._client().patch(ConfigMap, "here", body, patch_type=PatchType.JSON)

    def merge_patch(self, body: Any) -> None:
        self._client().patch(ConfigMap, "here", body, patch_type=PatchType.MERGE)

    def strategic_patch(self, body: Any) -> None:
        self._client().patch(Deployment, "web", body, patch_type=PatchType.STRATEGIC)

    def patch(self, body: Any) -> None:
        self._client().patch(ConfigMap, "here", body)

    def apply(self, name: str) -> None:
        self._client().apply(ConfigMap.from_dict(self.configmap(name)), field_manager="driver")

    def status(self, body: Any) -> None:
        self._client().patch(Service.Status, "front", body, patch_type=PatchType.MERGE)

    def scale(self) -> None:
        scale = Deployment.Scale(metadata=ObjectMeta(name="web"), spec=ScaleSpec(replicas=1))
        self._client().replace(scale)

    def execute(self) -> str:
        return str(self._client().exec("runner", command=["echo", "hello"], stdout=True).stdout)

    def logs(self) -> str:
        return "".join(self._client().log("runner"))

    def follow_log(self) -> list[str]:
        return list(self._client().log("runner", follow=True))

    def evict(self) -> None:
        self._client().create(Pod.Eviction(metadata=ObjectMeta(name="idle")), "idle")

    def rewrite(self, kind: str, name: str) -> None:
        client = self._client()
        client.replace(client.get(KINDS[kind], name))

    def stale(self) -> None:
        client = self._client()
        read = client.get(ConfigMap, "here")
        for value in ("first", "second"):
            read.data = {"a": value}
            client.replace(read)

    def secret(self) -> str:
        return repr(self._client().get(Secret, "key").data["a"])

    def delete_job(self) -> None:
        self._client().delete(Job, "work")


drive(Lightkube)
