"""The environment of a container: what the pod's spec says, and a few variables that make programs run."""

import base64
import binascii
from collections.abc import Mapping

from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.cluster.node.images import expand
from kcr.cluster.node.pods import Container, EnvFrom, EnvVar, EnvVarSource, RunnablePod
from kcr.errors import NotFoundError


class ConfigMap(Resource, api_version="v1", plural="configmaps"):
    """Texts by key."""

    data: Mapping[str, str] | None = None


class Secret(Resource, api_version="v1", plural="secrets"):
    """Bytes by key, in base64."""

    data: Mapping[str, str] | None = None


class MissingConfigError(Exception):
    """A variable cannot be given its value yet; the message says why."""


async def variables_of(client: Client, pod: RunnablePod, container: Container, node: str, ip: str) -> dict[str, str]:
    """Return the variables that the pod's spec gives a container, in its order.

    Args:
        client: Reads ConfigMaps and Secrets.
        pod: The pod.
        container: One of its containers.
        node: The node's name.
        ip: The address of node and pod.

    Raises:
        MissingConfigError: A ConfigMap, a Secret or a key that must be there is not.
    """
    found: dict[str, str] = {}
    for source in container.env_from or ():
        found |= await _in_bulk(client, pod.metadata.namespace, source)
    for variable in container.env or ():
        value = await _value(client, pod, variable, node, ip)
        if value is not None:
            found[variable.name] = expand(value, found)
    return found


async def _value(client: Client, pod: RunnablePod, variable: EnvVar, node: str, ip: str) -> str | None:
    source = variable.value_from
    if source is None:
        return variable.value or ""
    if source.field_ref is not None:
        return field_of(pod, source.field_ref.field_path, node, ip)
    return await _by_key(client, pod.metadata.namespace, source)


async def _by_key(client: Client, namespace: str, source: EnvVarSource) -> str | None:
    kind: type[ConfigMap | Secret] = ConfigMap if source.config_map_key_ref is not None else Secret
    wanted = source.config_map_key_ref or source.secret_key_ref
    if wanted is None:
        return ""
    data = await _data(client, kind, namespace, wanted.name, optional=bool(wanted.optional))
    if wanted.key in data:
        return data[wanted.key]
    if wanted.optional:
        return None
    raise MissingConfigError(f"couldn't find key {wanted.key} in {kind.resource.kind} {namespace}/{wanted.name}")


async def _in_bulk(client: Client, namespace: str, source: EnvFrom) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, wanted in ((ConfigMap, source.config_map_ref), (Secret, source.secret_ref)):
        if wanted is not None:
            data = await _data(client, kind, namespace, wanted.name, optional=bool(wanted.optional))
            found |= {(source.prefix or "") + key: value for key, value in data.items()}
    return found


async def _data(
    client: Client, kind: type[ConfigMap | Secret], namespace: str, name: str, *, optional: bool
) -> Mapping[str, str]:
    try:
        found = await client.get(kind, Key(namespace, name))
    except NotFoundError:
        if optional:
            return {}
        raise MissingConfigError(f'{kind.resource.kind.lower()} "{name}" not found') from None
    data = found.data or {}
    return data if isinstance(found, ConfigMap) else {key: _plain(value) for key, value in data.items()}


def _plain(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except binascii.Error:
        return value


def field_of(pod: RunnablePod, path: str, node: str, ip: str) -> str:
    """Return a field of the pod, as the downward API names it; empty for one that is not known.

    Source: kubernetes/pkg/fieldpath/fieldpath.go.
    """
    metadata = pod.metadata
    for prefix, values in (("metadata.labels[", metadata.labels), ("metadata.annotations[", metadata.annotations)):
        if path.startswith(prefix):
            return values.get(path.removeprefix(prefix).rstrip("]").strip("'\""), "")
    fields = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": node,
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.hostIP": ip,
        "status.hostIPs": ip,
        "status.podIP": ip,
        "status.podIPs": ip,
    }
    return fields.get(path, "")


def hostname_of(pod: RunnablePod) -> str:
    """Return the name that a pod's processes are told they have."""
    return (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")
