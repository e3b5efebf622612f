"""The TLS context of a cluster."""

import os
import ssl
import tempfile
from pathlib import Path

from kcr.client.auth.cluster import ClusterConfig
from kcr.client.auth.credentials import ANONYMOUS, Credential
from kcr.errors import ConfigError


def context(config: ClusterConfig, credential: Credential = ANONYMOUS) -> ssl.SSLContext:
    """Return the TLS context for a cluster.

    Args:
        config: The cluster; its files are read now.
        credential: Its certificate, if any, takes precedence over the configuration's.

    Raises:
        ConfigError: A certificate or key cannot be read, or is none.
    """
    made = _base(config)
    # Python 3.13 refuses authorities without key identifiers, which many clusters have. Go does not mind them.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not config.verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        _identify(made, credential.certificate, credential.key, "certificate of the credential plugin")
    elif config.certificate:
        names = f"{config.certificate.field} {config.certificate.path}".strip()
        _identify(made, config.certificate.read(), config.key.read() if config.key else "", names)
    return made


def _base(config: ClusterConfig) -> ssl.SSLContext:
    if not config.ca:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=config.ca.read())
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{config.ca.field} {config.ca.path}: no usable certificate: {error}") from error


def _identify(made: ssl.SSLContext, certificate: str, key: str, names: str) -> None:
    # The ssl module loads certificates from files only. This one is private and gone at once.
    with tempfile.TemporaryDirectory(prefix="kcr-") as folder:
        path = Path(folder, "client.pem")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{certificate}\n{key}\n")
        try:
            # An encrypted key would make OpenSSL ask the terminal; the empty password makes it fail instead.
            made.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{names}: certificate and key do not fit or are unusable: {error}") from error


def modified(config: ClusterConfig) -> tuple[float, ...]:
    """Return when the files of the TLS context were changed; 0 for those that are not there."""
    paths = (pem.path for pem in (config.ca, config.certificate, config.key) if pem.path)
    return tuple(os.stat(path).st_mtime if os.path.exists(path) else 0.0 for path in paths)
