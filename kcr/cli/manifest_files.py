"""What `-f` names: a file, `-` for stdin, a folder of manifests, or a URL."""

import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kcr.errors import ConfigError

# Source: kubernetes/staging/src/k8s.io/cli-runtime/pkg/resource/builder.go, FileExtensions.
EXTENSIONS = (".json", ".yaml", ".yml")
_URL_SECONDS = 30.0
# More than a server takes in one request; no manifest is larger.
_URL_BYTES = 16 * 2**20


class ManifestText(NamedTuple):
    """The text of one file, and what errors call it."""

    shown: str
    text: str


def read_texts(name: str) -> Iterator[ManifestText]:
    """Yield the texts that `-f` names; of a folder those of its manifests, by name, without the folders in it.

    Raises:
        ConfigError: There is no such file, folder or URL, or it cannot be read as text.
    """
    if name == "-":
        yield ManifestText("stdin", _decoded("stdin", sys.stdin.buffer.read()))
    elif name.startswith(("http://", "https://")):
        yield ManifestText(name, _decoded(name, _fetch(name)))
    elif Path(name).is_dir():
        files = sorted(path for path in Path(name).iterdir() if path.suffix in EXTENSIONS and path.is_file())
        if not files:
            raise ConfigError(f"{name}: no manifest in this folder: its *.json, *.yaml and *.yml are read")
        for file in files:
            yield _read(file)
    else:
        yield _read(Path(name))


def _read(path: Path) -> ManifestText:
    try:
        return ManifestText(str(path), _decoded(str(path), path.read_bytes()))
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
