"""Kubeconfigs in Secrets: what is refused, and how the message names it."""

import pytest
import yaml

from kcr.clusters.secrets import KubeconfigSecret, read_kubeconfig
from kcr.errors import ConfigError
from tests.kit.fleets import kubeconfig

ORIGIN = "Secret fleet/east, field kubeconfig"


def changed(**changes: object) -> bytes:
    """Return a kubeconfig with other fields, such as `users`."""
    return yaml.safe_dump(yaml.safe_load(kubeconfig("east")) | changes).encode()


def test_kubeconfig_names_server_and_credentials() -> None:
    assert read_kubeconfig(kubeconfig("east"), ORIGIN).server == "https://east"


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(None, "field kubeconfig is missing or empty: put a kubeconfig into it", id="missing"),
        pytest.param(b"", "field kubeconfig is missing or empty: put", id="empty"),
        pytest.param(b"{a: [}", "field kubeconfig is not YAML (line 1): put a kubeconfig into it", id="no-yaml"),
        pytest.param(b"\xff\xfe\x00", "field kubeconfig is not YAML", id="no-text"),
        pytest.param(
            b"colors", "is not a kubeconfig: `kubectl config view --raw --minify --flatten` prints one", id="text"
        ),
        pytest.param(changed(users={"name": "it"}), "users must be a list of entries with name and user", id="no-list"),
        pytest.param(changed(clusters=[{"cluster": {}}]), "clusters must be a list of entries", id="no-name"),
        pytest.param(changed(**{"current-context": ""}), "has no current-context; name one of", id="no-context"),
        pytest.param(changed(clusters=[{"name": "it", "cluster": {}}]), "server is missing", id="no-server"),
        pytest.param(
            changed(users=[{"name": "it", "user": {"exec": {"command": "/bin/sh"}}}]),
            "user it: exec is refused, it names a file or a program of this process: use a token or a client",
            id="program",
        ),
        pytest.param(
            kubeconfig("east", tokenFile="/etc/passwd"), "user it: tokenFile is refused, it names a file", id="file"
        ),
        pytest.param(
            changed(clusters=[{"name": "it", "cluster": {"server": "https://east", "certificate-authority": "/ca"}}]),
            "cluster it: certificate-authority is refused",
            id="authority",
        ),
        pytest.param(
            kubeconfig("east", **{"client-certificate-data": "eHg=", "client-key-data": "eHg="}),
            "client-certificate",
            id="no-certificate",
        ),
    ],
)
def test_unusable_kubeconfig_is_named_with_its_remedy(found: bytes | None, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_kubeconfig(found, ORIGIN)
    assert message in str(caught.value)
    assert ORIGIN in str(caught.value)


def test_message_quotes_no_content() -> None:
    with pytest.raises(ConfigError) as caught:
        read_kubeconfig(b"users: [{name: it, user: {token: s3cr3t}", ORIGIN)
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in repr(KubeconfigSecret(data={"kubeconfig": b"s3cr3t"}))
