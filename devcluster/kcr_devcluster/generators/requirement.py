"""The requirements for kcr and its development cluster in a new project: pip can install them where `kcr init` ran.

Installers write where a package came from beside it (PEP 610, `direct_url.json`): a folder, an archive, a repository.
A package without such a file came from an index, which still has its version.
"""

from collections.abc import Mapping
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """Where an installer took a package from, as `direct_url.json` has it.

    Attributes:
        url: Of the folder, the archive or the repository.
        vcs_info: The commit, for a repository.
        subdirectory: Where the project is in it.
    """

    url: str
    vcs_info: Mapping[str, str] = {}
    subdirectory: str = ""


class KcrRequirement(NamedTuple):
    """How projects require this kcr, or its development cluster.

    Attributes:
        version: As from an index: `>=0.1.0`.
        url: Where it is instead; empty for an index.
        missing: The file or folder that it was installed from, if that no longer exists; None otherwise.
    """

    version: str
    url: str = ""
    missing: Path | None = None

    def named(self, name: str) -> str:
        """Return the requirement (PEP 508) under a name such as `kcr[test]`."""
        return f"{name} @ {self.url}" if self.url else f"{name}{self.version}"


def installed_requirement() -> KcrRequirement:
    """Return how projects require the kcr that runs."""
    return requirement_of(distribution("kcr"))


def devcluster_requirement() -> KcrRequirement:
    """Return how projects require the kcr-devcluster that runs."""
    return requirement_of(distribution("kcr-devcluster"))


def requirement_of(installed: Distribution) -> KcrRequirement:
    """Return how projects require an installed package, from the metadata of its installer."""
    version, recorded = f">={installed.version}", installed.read_text("direct_url.json")
    if recorded is None:
        return KcrRequirement(version)
    origin = msgspec.json.decode(recorded, type=Origin)
    path = _path_of(origin.url)
    if path is not None and not path.exists():
        return KcrRequirement(version, missing=path)
    return KcrRequirement(version, _url_of(origin))


def _path_of(url: str) -> Path | None:
    """Return the file or folder of a `file:` URL, None for a URL of another machine."""
    parts = urlsplit(url)
    return Path(url2pathname(parts.path)) if parts.scheme == "file" else None


def _url_of(origin: Origin) -> str:
    url = origin.url
    if origin.vcs_info:
        url = f"{origin.vcs_info['vcs']}+{url}@{origin.vcs_info['commit_id']}"
    return f"{url}#subdirectory={origin.subdirectory}" if origin.subdirectory else url
