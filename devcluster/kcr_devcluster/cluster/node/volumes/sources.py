"""Where the contents of volumes come from: ConfigMaps, Secrets, the pod itself, and tokens of its service account."""

import asyncio
import base64
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from kcr.api.full.core_v1 import (
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    SecretProjection,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from kcr.api.full.core_v1 import Secret as SecretObject
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client
from kcr.errors import ApiError, NotFoundError, TransportError
from kcr_devcluster.apiserver.registry.service_accounts import ROOT_CA
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.process.resource_fields import node_allocatable
from kcr_devcluster.cluster.node.runtime import NodeInfo
from kcr_devcluster.cluster.node.volumes.atomic_writer import Payload, ProjectedFile
from kcr_devcluster.cluster.node.volumes.contents import (
    DEFAULT_MODE,
    VolumeError,
    config_map_files,
    downward_files,
    secret_files,
)

R = TypeVar("R", ConfigMap, SecretObject)

DEFAULT_TOKEN_SECONDS = 3600
# Source: kubernetes/pkg/kubelet/token/token_manager.go, requiresRefresh.
TOKEN_REFRESH_SHARE = 0.8
MAX_TOKEN_REFRESH_SECONDS = 24 * 3600.0


class Reference(NamedTuple):
    """A ConfigMap or Secret that a volume shows."""

    kind: str
    key: Key


class VolumeContents(NamedTuple):
    """The contents of a volume.

    Attributes:
        payload: Its files.
        versions: The resourceVersion of each object that it shows; empty for one that is optional and missing.
        renew_at: When its first token is to be renewed, on the loop's time; None without tokens.
    """

    payload: Payload
    versions: dict[Reference, str]
    renew_at: float | None = None


class _Token(NamedTuple):
    text: str
    renew_at: float


def volumes_of(pod: KubeletPod) -> Iterator[Volume]:
    """Yield the volumes that containers of the pod mount; the kubelet ignores the others.

    Source: kubernetes/pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go, processPodVolumes.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    mounted = {mount.get("name") for container in containers for mount in container.volume_mounts}
    for volume in pod.spec.volumes:
        if volume.get("name") in mounted:
            yield msgspec.convert(volume, Volume)


def projections_of(volume: Volume) -> tuple[tuple[VolumeProjection, ...], int | None] | None:
    """Return the sources of a volume that consists of files, and their mode; None for any other volume."""
    if volume.projected is not None:
        return volume.projected.sources, volume.projected.default_mode
    if volume.config_map is not None:
        return (VolumeProjection(config_map=_config_map(volume.config_map)),), volume.config_map.default_mode
    if volume.secret is not None:
        secret = volume.secret
        projection = SecretProjection(items=secret.items, name=secret.secret_name, optional=secret.optional)
        return (VolumeProjection(secret=projection),), secret.default_mode
    if volume.downward_api is not None:
        fields = DownwardAPIProjection(items=volume.downward_api.items)
        return (VolumeProjection(downward_api=fields),), volume.downward_api.default_mode
    return None


def _config_map(source: ConfigMapVolumeSource) -> ConfigMapProjection:
    return ConfigMapProjection(items=source.items, name=source.name, optional=source.optional)


class VolumeSources:
    """Reads the contents of volumes."""

    def __init__(self, client: Client, node: NodeInfo) -> None:
        """Make a reader.

        Args:
            client: Reads ConfigMaps and Secrets, and requests tokens.
            node: The node; its allocatable resources stand for limits that are not set.
        """
        self._client = client
        self._node = node
        # Tokens by pod and by projection, until they are to be renewed.
        self._tokens: dict[str, dict[ServiceAccountTokenProjection, _Token]] = {}

    async def check(self, pod: KubeletPod, volume: Volume) -> None:
        """Check that the ConfigMaps, Secrets and keys of a volume exist, without reading anything else of it.

        Raises:
            VolumeError: Something of it is missing.
        """
        sources, mode = projections_of(volume) or ((), None)
        named = (source for source in sources if source.config_map is not None or source.secret is not None)
        await self._read(pod, named, mode)

    async def read(self, pod: KubeletPod, volume: Volume) -> VolumeContents:
        """Return the contents of a volume that consists of files.

        Raises:
            VolumeError: Something of it is missing, or cannot be read.
        """
        sources, mode = projections_of(volume) or ((), None)
        files, versions = await self._read(pod, sources, mode)
        tokens = self._tokens.get(pod.metadata.uid, {})
        wanted = [source.service_account_token for source in sources if source.service_account_token is not None]
        return VolumeContents(files, versions, min((tokens[token].renew_at for token in wanted), default=None))

    def forget(self, uid: str) -> None:
        """Drop the tokens of a pod."""
        self._tokens.pop(uid, None)

    async def _read(
        self, pod: KubeletPod, sources: Iterable[VolumeProjection], mode: int | None
    ) -> tuple[Payload, dict[Reference, str]]:
        files: dict[str, ProjectedFile] = {}
        versions: dict[Reference, str] = {}
        failures: list[str] = []
        for source in sources:
            try:
                files |= await self._files(pod, source, mode, versions)
            except VolumeError as error:
                failures.append(str(error))
        if failures:
            # Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go, aggregate.Error.
            raise VolumeError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return files, versions

    async def _files(
        self, pod: KubeletPod, source: VolumeProjection, mode: int | None, versions: dict[Reference, str]
    ) -> Payload:
        if source.config_map is not None:
            wanted = source.config_map
            config_map = await self._object(ConfigMap, pod, wanted, versions)
            return config_map_files(config_map, wanted.items, mode, optional=wanted.optional)
        if source.secret is not None:
            secret = await self._object(SecretObject, pod, source.secret, versions)
            return secret_files(secret, source.secret.items, mode, optional=source.secret.optional)
        if source.downward_api is not None:
            items = source.downward_api.items
            return downward_files(pod, items, mode, await self._allocatable(items))
        if source.service_account_token is not None:
            token = await self._token(pod, source.service_account_token)
            file = ProjectedFile(token.encode(), DEFAULT_MODE if mode is None else mode)
            return {source.service_account_token.path: file}
        named = next(iter(msgspec.to_builtins(source)), "")
        raise VolumeError(f"projected {named} is not supported here")

    async def _object(
        self,
        kind: type[R],
        pod: KubeletPod,
        wanted: ConfigMapProjection | SecretProjection,
        versions: dict[Reference, str],
    ) -> R:
        """Return a ConfigMap or Secret; an empty one if it is missing and optional."""
        name, key = kind.resource.kind.lower(), Key(pod.metadata.namespace, wanted.name or "")
        empty = kind(metadata=ObjectMeta(name=key.name, namespace=key.namespace))
        try:
            found = await self._client.get(kind, key)
        except NotFoundError:
            if kind is ConfigMap and key.name == ROOT_CA:
                # The node knows the authority, so no pod waits for the controller that publishes it.
                found = msgspec.structs.replace(empty, data={"ca.crt": self._authority()})
            elif wanted.optional:
                found = empty
            else:
                # Source: kubernetes/pkg/kubelet/util/manager/watch_based_manager.go, GetObject: the resource in its
                # message is singular.
                raise VolumeError(f'{name} "{key.name}" not found') from None
        except (ApiError, TransportError) as error:
            raise VolumeError(str(error)) from error
        versions[Reference(name, key)] = found.metadata.resource_version
        return found

    def _authority(self) -> str:
        """Return the certificate authority of the server; empty where it has no listener."""
        if not self._node.kubeconfig:
            return ""
        from kcr_devcluster.yaml_json import load_yaml  # noqa: PLC0415  # only clusters that publish no authority need it

        cluster = load_yaml(self._node.kubeconfig)["clusters"][0]["cluster"]
        return base64.b64decode(cluster["certificate-authority-data"]).decode()

    async def _allocatable(self, items: Iterable[DownwardAPIVolumeFile]) -> dict[str, str]:
        """Return the allocatable resources of the node if an item shows a limit, else nothing."""
        selectors = [item.resource_field_ref for item in items if item.resource_field_ref is not None]
        if not any(selector.resource.startswith("limits.") for selector in selectors):
            return {}
        try:
            return await node_allocatable(self._client, self._node.name)
        except (ApiError, TransportError) as error:
            raise VolumeError(str(error)) from error

    async def _token(self, pod: KubeletPod, wanted: ServiceAccountTokenProjection) -> str:
        """Return a token of the pod's service account, bound to the pod."""
        now = asyncio.get_running_loop().time()
        known = self._tokens.get(pod.metadata.uid, {}).get(wanted)
        if known is not None and now < known.renew_at:
            return known.text
        seconds = wanted.expiration_seconds or DEFAULT_TOKEN_SECONDS
        metadata = pod.metadata
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": seconds, "boundObjectRef": bound}
        if wanted.audience:
            spec["audiences"] = [wanted.audience]
        account = pod.spec.service_account_name or "default"
        path = f"/api/v1/namespaces/{metadata.namespace}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer = msgspec.json.decode(await self._client.request("POST", path, msgspec.json.encode(request)))
        except (ApiError, TransportError) as error:
            # Source: kubernetes/pkg/kubelet/token/token_manager.go, GetServiceAccountToken.
            raise VolumeError(f"failed to fetch token: {error}") from error
        renew_at = now + min(seconds * TOKEN_REFRESH_SHARE, MAX_TOKEN_REFRESH_SECONDS)
        token = _Token(answer["status"]["token"], renew_at)
        self._tokens.setdefault(metadata.uid, {})[wanted] = token
        return token.text
