"""Manifests from files, folders and URLs, several kinds in one."""

import http.client
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kcr.errors import ConfigError
from kcr_devcluster.yaml_json import YamlError, load_manifests

# Source: kubernetes/staging/src/k8s.io/cli-runtime/pkg/resource/builder.go, FileExtensions.
EXTENSIONS = (".json", ".yaml", ".yml")
_URL_SECONDS = 30.0
# More than a server takes in one request; no manifest is larger.
_URL_BYTES = 16 * 2**20


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
        return f"{self.source}: {self.kind} {_name(self.source, self.manifest)}"


def read_documents(path: str) -> tuple[Document, ...]:
    """Read the objects of a file, a folder or a URL; `-` is stdin.

    Raises:
        ConfigError: It cannot be read, is not YAML, or holds something that is not an object.
    """
    return tuple(document for shown, text in read_texts(path) for document in documents_in(shown, text))


def documents_in(shown: str, text: str) -> Iterator[Document]:
    """Yield the objects of a text.

    Args:
        shown: Where it comes from, for errors.
        text: YAML or JSON.

    Raises:
        ConfigError: It is not YAML, or holds something that is not an object.
    """
    try:
        values, twice = load_manifests(text)
    except YamlError as error:
        hint = "; render a Helm template first: helm template" if "{{" in text else ""
        raise ConfigError(f"{shown}: not YAML: {error.in_file}{hint}") from error
    found = [document for document in values if document is not None]
    if twice:
        # The last one would win, as with `metadata` of two objects that are one for want of `---`.
        line, key = twice[0]
        name = key.strip('"')
        raise ConfigError(f"{shown}: line {line}: {name} is there twice in one mapping: keep one, or write --- between")
    if not found:
        raise ConfigError(f"{shown}: no object in it")
    several = len(found) > 1
    for number, value in enumerate(found, 1):
        yield from _objects(f"{shown}, document {number}" if several else shown, value)


def _objects(source: str, value: Any) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: an object is a mapping with apiVersion, kind and metadata, and this is not one")
    # A Kustomization needs neither apiVersion nor kind.
    if str(value.get("apiVersion", "")).startswith("kustomize.config.k8s.io/") or Path(source).stem == "kustomization":
        raise ConfigError(f"{source}: a Kustomization is not an object: take the output of kubectl kustomize instead")
    for field in ("apiVersion", "kind"):
        if not _text(source, field, value.get(field)):
            raise ConfigError(f"{source}: {field} is missing")
    if value["kind"].endswith("List") and isinstance(value.get("items"), list):
        # Items of `List` say what they are; those of other lists are of its kind. Source: unstructured_list.go.
        kind = value["kind"].removesuffix("List")
        given = {"apiVersion": value["apiVersion"], "kind": kind} if kind else {}
        for number, item in enumerate(value["items"], 1):
            yield from _objects(f"{source}, item {number}", {**given, **item} if isinstance(item, dict) else item)
    elif not _name(f"{source}: {value['kind']}", value):
        raise ConfigError(f"{source}: {value['kind']}: metadata.name is missing")
    else:
        yield Document(source, value)


def _name(about: str, manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named = [_text(about, f"metadata.{field}", metadata.get(field)) for field in ("name", "generateName")]
    return named[0] or named[1]


def _text(about: str, field: str, value: object) -> str:
    """Return a text, empty where there is none; YAML takes `off` and `1` for other things."""
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"{about}: {field} is {json.dumps(value)}, which is no text: put it in quotes")
    return value or ""


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
        with error:
            raise ConfigError(f"{url}: the server answers {error.code} {error.reason}: correct the URL") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        cause = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ConfigError(f"{url}: cannot be fetched: {cause}: see that it is reachable, or name a file") from error
    if len(content) > _URL_BYTES:
        raise ConfigError(f"{url}: larger than {_URL_BYTES // 2**20} MiB: this is not a manifest")
    return content


def _decoded(shown: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown}: no text in UTF-8") from error
