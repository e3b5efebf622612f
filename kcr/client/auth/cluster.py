"""Which server to talk to, and with which identity: the value that configuration ends in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kcr.client.auth.credentials import Credentials, FixedCredentials, redacted
from kcr.errors import ConfigError


class PemSource(NamedTuple):
    """A certificate or a key: the file it stands in, or its text.

    Attributes:
        path: The file, read again when it changes; empty when there is none.
        text: The text itself, used when there is no path.
        field: The name of the setting it comes from, for messages.
    """

    path: str = ""
    text: str = ""
    field: str = ""

    def __repr__(self) -> str:
        """Show where the text comes from, not the text."""
        return redacted(self, "path", "field")

    def __bool__(self) -> bool:
        """Return whether there is one."""
        return bool(self.path or self.text)

    def read(self) -> str:
        """Return the text.

        Raises:
            ConfigError: The file cannot be read, or holds nothing of the kind.
        """
        text = self.text
        if self.path:
            try:
                with open(self.path, encoding="ascii") as file:
                    text = file.read()
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "is no PEM file"
                raise ConfigError(f"{self.field} {self.path}: {why}; correct the path or the file") from error
        if "-----BEGIN " not in text:
            raise ConfigError(f"{self.field}{' ' + self.path if self.path else ''}: holds no PEM block")
        return text


NO_PEM = PemSource()


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """How to reach one cluster.

    Attributes:
        server: The URL, perhaps with a path, without a slash at its end.
        origin: Where this was configured, for messages.
        credentials: The identity of the client.
        ca: The authorities that may sign for the server; without one, the system's.
        certificate: The client's certificate.
        key: The key of the client's certificate.
        verify: Whether the server's certificate is checked at all.
        server_name: The name that the certificate must have; empty for the server's host.
        proxy: The URL of an HTTP proxy, or empty.
        headers: Sent with each request, for example to impersonate.
        compression: Whether answers may be compressed.
        namespace: The namespace that the configuration names, `default` when it names none.
        extensions: The extensions of other programs in the cluster's entry of the kubeconfig, by name.
    """

    server: str
    origin: str = ""
    credentials: Credentials = field(default_factory=FixedCredentials)
    ca: PemSource = NO_PEM
    certificate: PemSource = NO_PEM
    key: PemSource = NO_PEM
    verify: bool = True
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    compression: bool = True
    namespace: str = "default"
    extensions: Mapping[str, object] = field(default_factory=dict, repr=False)
