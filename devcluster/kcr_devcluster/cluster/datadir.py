"""Data folder: the state that outlives the process of a cluster: its objects, and how clients reach and trust it.

`kcr.db` holds the objects (`kcr_devcluster.apiserver.storage.journal`), `credentials.json` the certificates, the token
and the port of the listener, so that existing kubeconfigs of kubectl and controllers stay valid, `service-account.key`
the key that signs the tokens of service accounts, and `kubernetes-version` the newest version that the folder was
served as, where that is not the oldest: an older one does not know all fields of the objects. One process uses a folder
at a time: it holds a lock that ends with it, however it ends.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kcr.atomicfile import is_full, replace_files
from kcr.errors import ConfigError
from kcr_devcluster.apiserver.storage.journal import Journal
from kcr_devcluster.versions import DEFAULT, VERSIONS, KubernetesVersion

JOURNAL = "kcr.db"
CREDENTIALS = "credentials.json"
_SIGNING_KEY = "service-account.key"
_VERSION = "kubernetes-version"
_LOCK = "lock"
# Only its owner may read a file.
_PRIVATE = 0o600


class ListenerCredentials(msgspec.Struct, frozen=True):
    """How clients reach and trust a listener.

    Attributes:
        token: The admin's bearer token.
        authority: The certificate authority to trust, PEM.
        server: The server's certificate, PEM.
        key: Its private key, PEM.
        port: Where it listened last; 0 for nowhere yet.
        client_authority: The authority that signs client certificates, PEM; empty where a former version saved them.
        client_key: Its private key, PEM.
    """

    token: str
    authority: str
    server: str
    key: str
    port: int = 0
    client_authority: str = ""
    client_key: str = ""

    def __repr__(self) -> str:
        # The other fields are secrets.
        return f"ListenerCredentials(port={self.port})"


def lock_folder(folder: Path) -> int:
    """Make a folder where it is missing, and lock it for this process until the returned descriptor is closed.

    Raises:
        ConfigError: Another process uses it, or it cannot be used; the message has the remedy.
    """
    with _refused(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigError(f"{folder} is in use by another kcr dev: end it, or name another folder") from error
    return lock


class DataDir:
    """A data folder in use by this process.

    Attributes:
        journal: Where the storage writes.
        signing_key: The key that signs the tokens of service accounts.
    """

    def __init__(self, folder: Path, version: KubernetesVersion = DEFAULT) -> None:
        """Lock and open a folder; make it where it is missing.

        Args:
            folder: The folder.
            version: The version of Kubernetes that is served.

        Raises:
            ConfigError: Another process uses it, or it cannot be used; the message has the remedy.
        """
        self._folder = folder
        self._lock = lock_folder(folder)
        try:
            self._check_version(version)
            self.signing_key = self._read_or_make_key()
            self.journal = Journal(folder / JOURNAL)
        except ConfigError:
            os.close(self._lock)
            raise

    def _check_version(self, version: KubernetesVersion) -> None:
        file = self._folder / _VERSION
        with _refused(self._folder):
            before = file.read_text().strip() if file.exists() else VERSIONS[0]
            if before not in VERSIONS[: VERSIONS.index(version) + 1]:
                raise ConfigError(
                    f"{self._folder} has objects of Kubernetes {before}, and {version} is to be served: "
                    f"give --kubernetes-version {before}, or name another folder"
                )
            if before != version:
                replace_files({file: f"{version}\n".encode()}, mode=_PRIVATE)

    def _read_or_make_key(self) -> bytes:
        file = self._folder / _SIGNING_KEY
        with _refused(self._folder):
            if not file.exists():
                replace_files({file: secrets.token_bytes(32)}, mode=_PRIVATE)
            return file.read_bytes()

    def close(self) -> None:
        """Close the files, and let other processes use the folder."""
        self.journal.close()
        os.close(self._lock)

    def credentials(self) -> ListenerCredentials | None:
        """Return the credentials that were saved last, None if there are none.

        Raises:
            ConfigError: It cannot be read.
        """
        file = self._folder / CREDENTIALS
        try:
            return msgspec.json.decode(file.read_bytes(), type=ListenerCredentials)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise ConfigError(f"{file} is damaged: remove it, and clients need the new kubeconfig") from error
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from error

    def save_credentials(self, credentials: ListenerCredentials) -> None:
        """Save them for the next process, for the owner's eyes only.

        Raises:
            ConfigError: The file cannot be written.
        """
        with _refused(self._folder):
            replace_files({self._folder / CREDENTIALS: msgspec.json.encode(credentials)}, mode=_PRIVATE)


@contextmanager
def _refused(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "free some space" if is_full(error) else "name a folder that you can write"
        raise ConfigError(f"cannot use {folder}: {error.strerror}: {remedy}") from error
