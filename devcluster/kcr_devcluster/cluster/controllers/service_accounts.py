"""Provides each namespace with the account `default` and a ConfigMap with the server's certificate authority.

Both are created again when they are deleted.

Source: kubernetes/pkg/controller/serviceaccount/serviceaccounts_controller.go;
pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from collections.abc import Mapping
from typing import Any

from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import Key, PartialObjectMetadata, Resource, metadata_only
from kcr.client import Client
from kcr.controller import Result, watch
from kcr.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from kcr.informer import Selection
from kcr.manager import Manager
from kcr_devcluster.apiserver.kinds.catalogue import SERVICE_ACCOUNTS
from kcr_devcluster.apiserver.registry.service_accounts import DEFAULT_ACCOUNT, ROOT_CA

ServiceAccountMetadata = metadata_only(SERVICE_ACCOUNTS.type)

_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class ServiceAccountReconciler:
    """Reconciles the account `default` of one namespace; idempotent."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._namespaces = manager.store(Namespace)
        self._accounts = manager.store(ServiceAccountMetadata)

    async def reconcile(self, key: Key) -> Result:
        """Create the account where it is missing, unless the namespace is terminating."""
        account = Key(key.name, DEFAULT_ACCOUNT)
        if _is_active(self._namespaces.get(key)) and self._accounts.get(account) is None:
            await _create(self._client, ServiceAccountMetadata, account, {})
        return Result()


class RootCAReconciler:
    """Reconciles the ConfigMap with the certificate authority in one namespace; idempotent."""

    def __init__(self, manager: Manager, authority: str) -> None:
        """Make a publisher.

        Args:
            manager: The manager.
            authority: The certificate that clients trust, PEM.
        """
        self._client = manager.client
        self._data = {"ca.crt": authority}
        self._namespaces = manager.store(Namespace)
        self._published = manager.store(ConfigMap)

    async def reconcile(self, key: Key) -> Result:
        """Create the ConfigMap where it is missing, and correct its data."""
        if not _is_active(self._namespaces.get(key)):
            return Result()
        place = Key(key.name, ROOT_CA)
        annotations = {"kubernetes.io/description": _DESCRIPTION}
        found = self._published.get(place)
        if found is None:
            await _create(self._client, ConfigMap, place, {"data": self._data}, annotations)
        elif found.data != self._data:
            change = [{"op": "add", "path": "/data", "value": self._data}]
            await self._client.json_patch(ConfigMap, place, change)
        return Result()


def _is_active(namespace: Namespace | None) -> bool:
    return namespace is not None and namespace.metadata.deletion_timestamp is None


async def _create(
    client: Client,
    kind: type[Resource],
    key: Key,
    content: Mapping[str, Any],
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Create an object; one that exists is left alone, and a namespace that ends meanwhile needs none."""
    metadata = {"name": key.name, **({"annotations": annotations} if annotations else {})}
    body = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata, **content}
    try:
        await client.create_manifest(kind, body, key.namespace)
    except (AlreadyExistsError, NotFoundError):
        return
    except ForbiddenError as error:
        if not error.has_cause("NamespaceTerminating"):
            raise


def _namespace_of(obj: Resource) -> tuple[Key]:
    return (Key("", obj.metadata.namespace),)


def setup(manager: Manager) -> None:
    """Add the service account controller to a manager."""
    accounts = watch(ServiceAccountMetadata, map_to=_namespace_of, predicate=_is_gone)
    manager.add_controller("serviceaccount", ServiceAccountReconciler(manager), watches=[watch(Namespace), accounts])


def publish_authority(manager: Manager, authority: str) -> None:
    """Add the publisher of the certificate authority to a manager, which may be running.

    Args:
        manager: The manager.
        authority: The certificate that clients trust, PEM.
    """
    manager.select(Selection(ConfigMap, fields=f"metadata.name={ROOT_CA}"))
    reconciler = RootCAReconciler(manager, authority)
    published = watch(ConfigMap, map_to=_namespace_of)
    manager.add_controller("root-ca-certificate-publisher", reconciler, watches=[watch(Namespace), published])


def _is_gone(_: PartialObjectMetadata | None, new: PartialObjectMetadata | None) -> bool:
    return new is None
