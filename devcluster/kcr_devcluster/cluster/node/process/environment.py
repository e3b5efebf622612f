"""Command and environment of a container: from image, command and the pod's spec to argv and variables.

No image is pulled: it gives at most a default command.
"""

import re
from collections.abc import Mapping

from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key
from kcr.client import Client
from kcr.errors import NotFoundError
from kcr_devcluster.cluster.node.pods import EnvFromSource, EnvVar, EnvVarSource, KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.process.resource_fields import ResourceFieldError, node_allocatable, resource_text

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")


# The command of an image when the pod gives none.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "alpine": ("/bin/sh",),
    "bash": ("bash",),
    "busybox": ("sh",),
    "debian": ("bash",),
    "perl": ("perl", "-de0"),
    "python": ("python3",),
    "ubuntu": ("/bin/bash",),
}
_SHELLS = frozenset({"alpine", "bash", "busybox", "debian", "ubuntu"})


def argv_of(container: KubeletContainer, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the argument vector: `command` and `args`, or the image's command where the pod gives neither.

    `$(NAME)` is replaced by the variable's value. Empty when neither pod nor image says anything.
    """
    words = (*container.command, *container.args) or COMMANDS.get(image_name(container.image), ())
    return tuple(expand(word, variables) for word in words)


def no_command(container: KubeletContainer) -> str:
    """Return why a container for which `argv_of` is empty cannot be started, and the remedy."""
    return (
        f'image "{container.image}" has no default command here, for images are not pulled: '
        f"give container {container.name} a command; images with one are {', '.join(COMMANDS)}"
    )


def unstarted(container: KubeletContainer, why: str) -> str:
    """Return why a container's program cannot be started, with a remedy where it is the first of the args."""
    if container.command or not container.args or not why.startswith("exec: "):
        return why
    return (
        f"{why}; args are arguments of an image's entrypoint, and images are not pulled here: "
        f"give container {container.name} a command"
    )


def image_name(image: str) -> str:
    """Return an image's name without registry, tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def is_idle_shell(container: KubeletContainer) -> bool:
    """Return whether the container is a bare shell, which ends at once because its standard input is empty."""
    has_command = container.command or container.args or container.stdin
    return not has_command and image_name(container.image) in _SHELLS


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value; `$$` is a dollar, an unknown name stays as it is.

    Source: kubernetes/third_party/forked/golang/expansion/expand.go.
    """

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return _REFERENCE.sub(value, text) if "$" in text else text


class MissingConfigError(Exception):
    """A variable cannot be given its value yet; the message says why."""


async def variables_of(
    client: Client, pod: KubeletPod, container: KubeletContainer, node: str, ip: str
) -> dict[str, str]:
    """Return the variables that the pod's spec gives a container, in its order.

    Args:
        client: Reads ConfigMaps and Secrets.
        pod: The pod.
        container: One of its containers.
        node: The node's name.
        ip: The node's address.

    Raises:
        MissingConfigError: A required ConfigMap, Secret or key is missing.
    """
    found: dict[str, str] = {}
    for source in container.env_from:
        found |= await _in_bulk(client, pod.metadata.namespace, source)
    for variable in container.env:
        value = await _value(client, pod, container, variable, node, ip)
        if value is not None:
            found[variable.name] = expand(value, found)
    return found


async def _value(  # the sources of values
    client: Client, pod: KubeletPod, container: KubeletContainer, variable: EnvVar, node: str, ip: str
) -> str | None:
    source = variable.value_from
    if source is None:
        return variable.value
    if source.field_ref is not None:
        return field_of(pod, source.field_ref.field_path, node, ip)
    if (wanted := source.resource_field_ref) is not None:
        allocatable = await node_allocatable(client, node) if wanted.resource.startswith("limits.") else {}
        try:
            return resource_text(
                pod, wanted.container_name or container.name, wanted.resource, str(wanted.divisor), allocatable
            )
        except ResourceFieldError as error:
            raise MissingConfigError(str(error)) from error
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


async def _in_bulk(client: Client, namespace: str, source: EnvFromSource) -> dict[str, str]:
    found: dict[str, str] = {}
    for kind, wanted in ((ConfigMap, source.config_map_ref), (Secret, source.secret_ref)):
        if wanted is not None:
            data = await _data(client, kind, namespace, wanted.name, optional=bool(wanted.optional))
            found |= {source.prefix + key: value for key, value in data.items()}
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
    if isinstance(found, ConfigMap):
        return found.data
    return {key: value.decode(errors="replace") for key, value in found.data.items()}


def field_of(pod: KubeletPod, path: str, node: str, ip: str) -> str:
    """Return a field of the pod, as the downward API names it; empty for one that is not known.

    Source: kubernetes/pkg/fieldpath/fieldpath.go.
    """
    metadata, own = pod.metadata, pod.status.pod_ip or ip
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
        "status.podIP": own,
        "status.podIPs": own,
    }
    return fields.get(path, "")


def hostname_of(pod: KubeletPod) -> str:
    """Return the pod's host name: the override as it stands, or at most 63 characters."""
    return pod.spec.hostname_override or (pod.spec.hostname or pod.metadata.name)[:63].rstrip("-.")
