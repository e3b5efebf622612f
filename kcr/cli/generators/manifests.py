"""Manifests from files, folders and URLs, several kinds in one, applied and reported as by `kubectl apply`."""

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kcr.api.meta import Key
from kcr.api.resources import ResourceType
from kcr.api.yaml_json import YamlError, load_yaml_documents, repeated_keys
from kcr.client import Client
from kcr.client.discovery import served_kinds
from kcr.client.writes import STRATEGIC_PATCH
from kcr.errors import AlreadyExistsError, ApiError, ConfigError

# As `kubectl apply`: fields that no type has are refused.
_QUERY = "fieldManager=kcr-dev&fieldValidation=Strict"
_STRICT = "strict decoding error: "
# Versions that the embedded server serves only with an option of `kcr dev`.
_ON_DEMAND = {
    "extensions/v1beta1": "--legacy-apis",
    "batch/v1beta1": "--legacy-apis",
    "scheduling.k8s.io/v1alpha2": "--feature-gates GenericWorkload=true",
}


class Document(NamedTuple):
    """One object of a file.

    Attributes:
        source: The file, and which document of it.
        manifest: The object, whole.
    """

    source: str
    manifest: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.manifest["kind"])

    @property
    def title(self) -> str:
        """File, kind and name, as errors say it."""
        return f"{self.source}: {self.kind} {_name(self.manifest)}"


class Applied(NamedTuple):
    """An object that was applied. `verb` is `created` or `configured`."""

    resource: ResourceType
    key: Key
    verb: str

    def __str__(self) -> str:
        """Return kubectl's line: `job.batch/pi created`."""
        group = f".{self.resource.group}" if self.resource.group else ""
        return f"{self.resource.kind.lower()}{group}/{self.key.name} {self.verb}"


def read_documents(path: str) -> tuple[Document, ...]:
    """Read the objects of a file, a folder or a URL; `-` is stdin.

    Raises:
        ConfigError: It cannot be read, is no YAML, or holds something that is no object.
    """
    return tuple(document for shown, text in read_texts(path) for document in _documents(shown, text))


def _documents(shown: str, text: str) -> Iterator[Document]:
    try:
        found = [document for document in load_yaml_documents(text) if document is not None]
        twice = repeated_keys(text)
    except YamlError as error:
        raise ConfigError(f"{shown}: no YAML: {str(error).removeprefix('yaml: ')}") from error
    if twice:
        # The last one would win, as with `metadata` of two objects that are one for want of `---`.
        line, name = twice[0]
        raise ConfigError(f"{shown}: line {line}: {name} is there twice in one mapping: keep one, or write --- between")
    if not found:
        raise ConfigError(f"{shown}: no object in it")
    several = len(found) > 1
    for number, value in enumerate(found, 1):
        yield from _objects(f"{shown}, document {number}" if several else shown, value)


def _objects(source: str, value: Any) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: an object is a mapping with apiVersion, kind and metadata, and this is none")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise ConfigError(f"{source}: {field} is missing")
    if value["kind"] == "List" and isinstance(value.get("items"), list):
        for number, item in enumerate(value["items"], 1):
            yield from _objects(f"{source}, item {number}", item)
    elif not _name(value):
        raise ConfigError(f"{source}: {value['kind']}: metadata.name is missing")
    else:
        yield Document(source, value)


def _name(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    return str(name)


async def apply(client: Client, documents: Sequence[Document]) -> tuple[Applied, ...]:
    """Create the objects, in order; those that exist are patched.

    Raises:
        ConfigError: The server refuses one; the message names file, object and fields. Those before it stay.
    """
    served = _Served(client)
    return tuple([await _apply(client, served, document) for document in documents])


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
            raise ConfigError(
                f"{document.title}: the server serves no {document.kind} in {api_version}: {self._hint(api_version)}"
            )
        return resource

    def _hint(self, api_version: str) -> str:
        kinds = sorted(self._lists[api_version])
        if kinds:
            return f"it serves {', '.join(kinds)} there"
        option = _ON_DEMAND.get(api_version)
        return f"start it with {option}" if option else "take it out of the file"


# Source: kubernetes/staging/src/k8s.io/cli-runtime/pkg/resource/builder.go, FileExtensions.
EXTENSIONS = (".json", ".yaml", ".yml")
_URL_SECONDS = 30.0
# More than a server takes in one request; no manifest is larger.
_URL_BYTES = 16 * 2**20


def read_texts(name: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of `-f`, each with its name for errors.

    Of a folder those of its manifests, by name, without the folders in it.

    Raises:
        ConfigError: There is no such file, folder or URL, or it cannot be read as text.
    """
    if name == "-":
        yield "stdin", _decoded("stdin", sys.stdin.buffer.read())
    elif name.startswith(("http://", "https://")):
        yield name, _decoded(name, _fetch(name))
    elif Path(name).is_dir():
        files = sorted(path for path in Path(name).iterdir() if path.suffix in EXTENSIONS and path.is_file())
        if not files:
            raise ConfigError(f"{name}: no manifest in this folder: its *.json, *.yaml and *.yml are read")
        for file in files:
            yield _read(file)
    else:
        yield _read(Path(name))


def _read(path: Path) -> tuple[str, str]:
    try:
        return str(path), _decoded(str(path), path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}: name a file or folder of manifests, or - for stdin") from error


def _fetch(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_URL_SECONDS) as answer:
            content: bytes = answer.read(_URL_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise ConfigError(f"{url}: the server answers {error.code} {error.reason}: correct the URL") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        cause = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ConfigError(f"{url}: cannot be fetched: {cause}: see that it is reachable, or name a file") from error
    if len(content) > _URL_BYTES:
        raise ConfigError(f"{url}: larger than {_URL_BYTES // 2**20} MiB: this is no manifest")
    return content


def _decoded(shown: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: no text in UTF-8") from error
