"""Kinds beside the built-in ones: CustomResourceDefinitions of classes and files, and how a server gets them."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kcr.api import codec
from kcr.api.crd import crd_manifest
from kcr.api.full.apiextensions_v1 import CustomResourceDefinition, CustomResourceDefinitionCondition
from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.client.discovery import served_kinds
from kcr.errors import AlreadyExistsError, ConfigError
from kcr.serving.webhooks.conversion import Conversions, WebhookService
from kcr_devcluster.apiserver.apply.managed_fields import UPDATE, ManagerEntry
from kcr_devcluster.apiserver.apply.tracking import Tracking
from kcr_devcluster.apiserver.kinds.catalogue import CUSTOM_RESOURCE_DEFINITIONS
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.webhook_manifests import with_conversion
from kcr_devcluster.yaml_json import YamlError, load_yaml_documents

# A class of the kind, one for each of its versions, or a file of CustomResourceDefinitions, or a folder of such files.
KindSource = type[Resource] | str | Path

# The field manager of definitions that are changed at start.
_MANAGER = "kcr-kinds"
# How long a server may take to serve a kind.
_ESTABLISHED_SECONDS = 10.0
_POLL_SECONDS = 0.1


def definitions_of(kinds: Sequence[KindSource]) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of kinds.

    Args:
        kinds: Classes, and paths of YAML or JSON files and of folders. Several classes of one kind are its versions;
            where functions convert them, a webhook of the default Service does.

    Raises:
        TypeError: A class cannot be expressed as a CustomResourceDefinition.
        ConfigError: A file cannot be read, or holds something else.
    """
    classes: dict[tuple[str, str], list[type[Resource]]] = {}
    found: list[dict[str, Any]] = []
    for kind in kinds:
        if isinstance(kind, type):
            classes.setdefault((kind.resource.group, kind.resource.plural), []).append(kind)
        else:
            found += _read(Path(kind))
    return [*(_definition(*versions) for versions in classes.values()), *found]


def _definition(*versions: type[Resource]) -> dict[str, Any]:
    manifest, conversions = crd_manifest(*versions), Conversions.of(*versions) if len(versions) > 1 else None
    return manifest if conversions is None else with_conversion(manifest, WebhookService())


def _read(path: Path) -> Iterator[dict[str, Any]]:
    files = sorted(path.glob("*.y*ml")) + sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{path}: no file of CustomResourceDefinitions in this folder")
    for file in files:
        try:
            documents = [document for document in load_yaml_documents(file.read_text(encoding="utf-8")) if document]
        except OSError as error:
            remedy = "a kind is named by its class, or by a file or folder of CustomResourceDefinitions"
            raise ConfigError(f"{file}: {error.strerror}: {remedy}") from error
        except YamlError as error:
            raise ConfigError(f"{file}: not YAML: {error.in_file}") from error
        for document in documents:
            if not isinstance(document, dict) or document.get("kind") != CustomResourceDefinition.resource.kind:
                raise ConfigError(f"{file}: an object that is not a CustomResourceDefinition: take it out of the file")
            yield document


def define(server: APIServer, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Have a server in the same process serve the kinds of CustomResourceDefinitions, at once.

    Those that are stored get the spec that they are given.

    Args:
        server: The server.
        definitions: The result of `definitions_of`.

    Raises:
        ConfigError: The server refuses a definition, or does not serve its kind; the message has the reason.
    """
    for definition in definitions:
        name = definition["metadata"]["name"]
        stored = server.registry.storage.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
        try:
            if stored is None:
                server.registry.create(CUSTOM_RESOURCE_DEFINITIONS, "", dict(definition))
            else:
                server.registry.update(stored, {**stored.manifest(), "spec": definition["spec"]}, Tracking(_manager))
        except StatusError as error:
            raise ConfigError(f"{name}: {error.message}") from error
        record = server.registry.storage.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
        conditions = () if record is None else codec.decode(CustomResourceDefinition, record.data).status.conditions
        if reason := reason_unestablished(conditions):
            raise ConfigError(f"{name}: not served: {reason}")


def _manager(now: str) -> ManagerEntry:
    return ManagerEntry(_MANAGER, UPDATE, CUSTOM_RESOURCE_DEFINITIONS.type.api_version, time=now)


async def install(client: Client, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Create CustomResourceDefinitions, or replace those that exist, and return when the server serves their kinds.

    Args:
        client: Of the server.
        definitions: The result of `definitions_of`.

    Raises:
        ConfigError: The server does not serve a kind within ten seconds; the message has the reason.
        InvalidError: The server refuses a definition.

    Source: controller-runtime/pkg/envtest/crd.go, InstallCRDs.
    """
    keys = [await _put(client, definition) for definition in definitions]
    loop = asyncio.get_running_loop()
    limit = loop.time() + _ESTABLISHED_SECONDS
    for key in keys:
        while reason := await _reason_unserved(client, key):
            if loop.time() >= limit:
                raise ConfigError(f"{key}: not served after {_ESTABLISHED_SECONDS:.0f} s: {reason}")
            await asyncio.sleep(_POLL_SECONDS)


async def _put(client: Client, definition: Mapping[str, Any]) -> Key:
    key = Key("", str(definition["metadata"]["name"]))
    try:
        await client.create_manifest(CustomResourceDefinition, definition)
    except AlreadyExistsError:
        found = await client.get(CustomResourceDefinition, key)
        metadata = {**definition["metadata"], "resourceVersion": found.metadata.resource_version}
        await client.update_manifest(CustomResourceDefinition, {**definition, "metadata": metadata})
    return key


async def _reason_unserved(client: Client, key: Key) -> str:
    definition = await client.get(CustomResourceDefinition, key)
    if reason := reason_unestablished(definition.status.conditions):
        return reason
    # A server serves a kind a moment after it is established.
    for version in definition.spec.versions:
        served = await served_kinds(client, f"{definition.spec.group}/{version.name}") if version.served else {}
        if version.served and definition.spec.names.kind not in served:
            return f"discovery does not list {version.name}"
    return ""


def reason_unestablished(conditions: Sequence[CustomResourceDefinitionCondition]) -> str:
    """Return why a definition is not established, from the conditions of its status; empty when it is."""
    if any(one.type == "Established" and one.status == "True" for one in conditions):
        return ""
    against = [one.message for one in conditions if one.status == "False" and one.message]
    return "; ".join(against) or "the server does not say why"
