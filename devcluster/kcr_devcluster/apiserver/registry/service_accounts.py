"""Service accounts of new pods: the admission plugin ServiceAccount.

Source: kubernetes/plugin/pkg/admission/serviceaccount/admission.go. Annotations that limit which Secrets a pod mounts
(`kubernetes.io/enforce-mountable-secrets`, deprecated) have no effect here.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from kcr_devcluster.apiserver.kinds.catalogue import NAMESPACES, PODS, SERVICE_ACCOUNTS
from kcr_devcluster.apiserver.kinds.pods.defaults import containers_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import drawn
from kcr_devcluster.apiserver.protocol.responses import StatusError, forbidden
from kcr_devcluster.apiserver.registry import metadata as meta
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext, AdmissionStep
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.apiserver.storage.storage import Storage

DEFAULT_ACCOUNT = "default"
# The ConfigMap with the certificate authority of the server, in each namespace.
ROOT_CA = "kube-root-ca.crt"
# Where a pod finds the token of its service account.
TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"  # a folder
_VOLUME = "kube-api-access-"
# One hour, and seven seconds by which the server knows the token that a pod gets by itself.
TOKEN_SECONDS = 3607
# How long a new namespace may take to get its account: ten attempts up to 0.2 s apart.
_WAIT_SECONDS = 1.8


class DefaultAccountMissingError(StatusError):
    """403: the namespace has no account `default` yet; the service account controller is about to create it."""


class ServiceAccountAdmission(AdmissionStep):
    """The admission plugin ServiceAccount; without it a pod may name any account."""

    kinds = (PODS,)

    def __init__(self, context: AdmissionContext) -> None:
        super().__init__(context)
        self._random, self._accounts = context.random, context.accounts

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set a new pod's service account, token and pull secrets; objects of other kinds are left alone.

        Args:
            attributes: The write.
            obj: The object, with its defaults.

        Raises:
            DefaultAccountMissingError: The account is `default`, and there is none yet.
            StatusError: 403, there is no such account.
        """
        if attributes.kind is not PODS or self._accounts == "none":
            return
        spec, metadata = obj["spec"], obj["metadata"]
        name: str = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        found = self._storage.get(SERVICE_ACCOUNTS, metadata["namespace"], name)
        if found is None:
            raise _unknown_account(attributes, metadata["namespace"], name)
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = found.manifest()
        if self._accounts == "tokens" and _wants_token(spec, account):
            self._mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in account["imagePullSecrets"]]

    def _mount_token(self, spec: Manifest) -> None:
        """Mount the volume in each container that has nothing at its place; add it where there is none."""
        lacking = list(_without_token(spec))
        if not lacking:
            return
        volumes: list[Manifest] = spec.get("volumes") or []
        name = next((name for one in volumes if (name := one.get("name", "")).startswith(_VOLUME)), "")
        if not name:
            name = drawn("volume", lambda: meta.generate_name(_VOLUME, self._random))
            spec["volumes"] = [*volumes, {"name": name, "projected": _token_source()}]
        for container in lacking:
            mount = {"name": name, "readOnly": True, "mountPath": TOKEN_DIRECTORY}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


async def wait_for_default(storage: Storage, namespace: str) -> None:
    """Return when a namespace has its account `default`, or could have had it.

    Args:
        storage: Where the accounts are.
        namespace: The namespace; one that does not exist is not waited for.
    """
    if storage.get(NAMESPACES, "", namespace) is None:
        return
    created, key = asyncio.Event(), (namespace, DEFAULT_ACCOUNT)

    def look(change: Change) -> None:
        if change.new is not None and (change.new.metadata.namespace, change.new.metadata.name) == key:
            created.set()

    subscribers = storage.cache(SERVICE_ACCOUNTS).subscribers
    subscribers[look] = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                await created.wait()
    finally:
        subscribers.pop(look, None)


def _unknown_account(attributes: AdmissionAttributes, namespace: str, name: str) -> StatusError:
    why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    error = forbidden(attributes.kind.type, attributes.called, why)
    if name != DEFAULT_ACCOUNT:
        return error
    return DefaultAccountMissingError(error.code, error.reason, error.message, details=error.details)


def _wants_token(spec: Manifest, account: Manifest) -> bool:
    """Return whether a token is mounted: the pod decides, else the account, else it is."""
    said = (one.get("automountServiceAccountToken") for one in (spec, account))
    return bool(next((value for value in said if value is not None), True))


def _without_token(spec: Manifest) -> Iterator[Manifest]:
    for container in containers_of(spec):
        if all(mount.get("mountPath") != TOKEN_DIRECTORY for mount in container.get("volumeMounts") or ()):
            yield container


def _token_source() -> Manifest:
    """Return the projected volume: token, certificate authority and namespace, as clients in pods expect them."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }
