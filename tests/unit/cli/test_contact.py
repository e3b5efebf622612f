"""The first words with an API server."""

import ssl

import pytest

from kcr.cli.contact import remedy
from kcr.errors import ConfigError, KcrError, TransportError, error_for

SERVER, SOURCE = "https://10.0.0.1:6443", "kubeconfig /home/me/.kube/config, context staging"


@pytest.mark.parametrize(
    ("error", "cause", "cure"),
    [
        pytest.param(TransportError("cannot connect"), "cannot reach", "see that it runs", id="unreachable"),
        pytest.param(error_for(401, "Unauthorized", "no"), "does not know us", "renew", id="unknown-identity"),
        pytest.param(error_for(403, "Forbidden", "cannot list jobs"), "cannot list jobs", "role", id="no-permission"),
        pytest.param(error_for(404, "NotFound", "not found"), "does not serve", SOURCE, id="kind-not-served"),
        pytest.param(error_for(404, "", "HTTP 404: <html>"), "is no API server", SOURCE, id="not-kubernetes"),
        pytest.param(error_for(500, "InternalError", "boom"), "answers 500: boom", "its own log", id="broken-server"),
    ],
)
def test_failure_names_server_cause_and_cure(error: KcrError, cause: str, cure: str) -> None:
    line = remedy(error, SERVER, SOURCE)
    assert SERVER in line
    assert cause in line
    assert cure in line.partition(cause)[2]


@pytest.mark.parametrize(
    ("cause", "cure"),
    [
        pytest.param(ssl.SSLCertVerificationError("unknown authority"), "certificate authority in", id="authority"),
        pytest.param(ssl.SSLError("wrong version number"), "speaks TLS", id="no-tls"),
        pytest.param(ConnectionRefusedError(), "see that it runs", id="refused"),
    ],
)
def test_cure_follows_the_cause_of_a_failed_connection(cause: Exception, cure: str) -> None:
    error = TransportError(f"GET {SERVER}/version: no connection")
    error.__cause__ = cause
    line = remedy(error, SERVER, SOURCE)
    assert line.startswith(f"cannot reach the API server {SERVER}: no connection: ")
    assert cure in line


def test_error_that_explains_itself_is_left_alone() -> None:
    assert remedy(ConfigError("no cluster is configured"), SERVER, SOURCE) == "no cluster is configured"
