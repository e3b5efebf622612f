"""Applies the objects of `-f`, and reports them, as `kubectl apply` does."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from kcr.api.meta import Key
from kcr.api.resources import ResourceType
from kcr.client import Client
from kcr.client.discovery import served_kinds, versions_serving
from kcr.client.wire.transport import STRATEGIC_PATCH
from kcr.errors import AlreadyExistsError, ApiError, ConfigError
from kcr_devcluster.manifests import Document

# As `kubectl apply`: fields that no type has are refused.
_QUERY = "fieldManager=kcr-dev&fieldValidation=Strict"
_STRICT = "strict decoding error: "
# Kinds without whose objects the server refuses others, or their pods.
_FIRST = ("Namespace", "PriorityClass", "ServiceAccount")
# Versions that the embedded server serves only with an option of `kcr dev`.
_ON_DEMAND = {
    "extensions/v1beta1": "--legacy-apis",
    "batch/v1beta1": "--legacy-apis",
    "scheduling.k8s.io/v1alpha2": "--feature-gates GenericWorkload=true",
    "scheduling.k8s.io/v1beta1": "--feature-gates GenericWorkload=true --kubernetes-version 1.37",
}


class Applied(NamedTuple):
    """An object that was applied. `verb` is `created` or `configured`."""

    resource: ResourceType
    key: Key
    verb: str

    def __str__(self) -> str:
        """Return kubectl's line: `job.batch/pi created`."""
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.resource.kind.lower()}{group}/{self.key.name} {self.verb}"


async def apply(client: Client, documents: Sequence[Document]) -> tuple[Applied, ...]:
    """Create the objects, in order, but Namespaces and what pods name first; those that exist are patched.

    Raises:
        ConfigError: The server refuses one; the message names file, object and fields. Those before it stay.
    """
    served = _Served(client)
    ordered = sorted(documents, key=lambda one: _FIRST.index(one.kind) if one.kind in _FIRST else len(_FIRST))
    return tuple([await _apply(client, served, document) for document in ordered])


async def _apply(client: Client, served: "_Served", document: Document) -> Applied:
    try:
        resource = await served.resource(document)
        metadata = dict(document.manifest["metadata"])
        namespace = (metadata.get("namespace") or "default") if resource.namespaced else ""
        try:
            body = msgspec.json.encode(document.manifest)
            answer = await client.request("POST", f"{resource.path(namespace)}?{_QUERY}", body)
            verb = "created"
        except AlreadyExistsError:
            path = f"{resource.path(namespace, metadata['name'])}?{_QUERY}"
            answer = await client.request("PATCH", path, body, STRATEGIC_PATCH)
            verb = "configured"
    except ApiError as error:
        raise ConfigError(f"{document.title}: {refusal(error)}") from error
    return Applied(resource, Key(namespace, msgspec.json.decode(answer)["metadata"]["name"]), verb)


def refusal(error: ApiError) -> str:
    """Return why the server refuses an object: the causes with their fields, else the message."""
    if _STRICT in error.message:
        return error.message.partition(_STRICT)[2]
    causes = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in error.causes]
    return "; ".join(causes) or error.message


class _Served:
    """Discovery: which kinds the server serves, requested once per group and version."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lists: dict[str, dict[str, ResourceType]] = {}

    async def resource(self, document: Document) -> ResourceType:
        api_version = str(document.manifest["apiVersion"])
        if api_version not in self._lists:
            self._lists[api_version] = await served_kinds(self._client, api_version)
        resource = self._lists[api_version].get(document.kind)
        if resource is None:
            hint = await self._hint(api_version, document.kind)
            raise ConfigError(f"{document.title}: the server serves no {document.kind} in {api_version}: {hint}")
        return resource

    async def _hint(self, api_version: str, kind: str) -> str:
        option, kinds = _ON_DEMAND.get(api_version), sorted(self._lists[api_version])
        # The file has a right version then, which the server serves on demand.
        if option and not kinds:
            return f"start it with {option}"
        if versions := await versions_serving(self._client, kind):
            return f"it serves {kind} in {versions}"
        return f"it serves {', '.join(kinds)} there" if kinds else "take it out of the file"
