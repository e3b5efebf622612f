"""The failure of the first contact with an API server, in one line."""

import ssl
from dataclasses import replace
from datetime import timedelta

import pytest
import trustme

from kcr.client import ClusterConfig, PemSource
from kcr.client.cluster_config import explain_failure
from kcr.clock import SystemClock
from kcr.errors import ConfigError, KcrError, TransportError, error_for

SERVER, SOURCE = "https://10.0.0.1:6443", "kubeconfig /home/me/.kube/config, context staging"
CONFIG = ClusterConfig(server=SERVER, origin=SOURCE)


@pytest.mark.parametrize(
    ("error", "cause", "cure"),
    [
        pytest.param(TransportError("cannot connect"), "cannot reach", "see that it runs", id="unreachable"),
        pytest.param(error_for(401, "Unauthorized", "no"), "answers 401", "renew", id="unknown-identity"),
        pytest.param(error_for(403, "Forbidden", "cannot list jobs"), "cannot list jobs", "role", id="no-permission"),
        pytest.param(error_for(404, "", "HTTP 404: <html>"), "is not an API server", SOURCE, id="not-kubernetes"),
        pytest.param(error_for(500, "InternalError", "boom"), "answers 500: boom", "its own log", id="broken-server"),
    ],
)
def test_failure_names_server_cause_and_cure(error: KcrError, cause: str, cure: str) -> None:
    line = explain_failure(error, CONFIG)
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
    line = explain_failure(error, CONFIG)
    assert line.startswith(f"cannot reach the API server {SERVER}: no connection: ")
    assert cure in line


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(error_for(401, "Unauthorized", "no"), id="the-server-refuses"),
        # As OpenSSL reports a server that verifies certificates itself.
        pytest.param(TransportError("GET /: sslv3 alert certificate expired (_ssl.c:2580)"), id="the-handshake-fails"),
    ],
)
def test_expired_client_certificate_is_named_with_its_end(error: KcrError) -> None:
    end = SystemClock().now() - timedelta(days=3, hours=1)
    me = trustme.CA().issue_cert("me.example", not_before=end - timedelta(days=1), not_after=end)
    certificate = PemSource(text=me.cert_chain_pems[0].bytes().decode(), field="user me: client-certificate")
    line = explain_failure(error, replace(CONFIG, certificate=certificate))
    name = "the client certificate (user me: client-certificate)"
    assert line.endswith(f": {name} expired at {end:%Y-%m-%dT%H:%M:%SZ}, 3 days ago: renew it")


def test_address_is_said_once_whatever_was_asked_for() -> None:
    error = TransportError(f"GET {SERVER}/api/v1/namespaces/default/events?limit=1: cannot connect")
    line = explain_failure(error, CONFIG)
    assert line.startswith(f"cannot reach the API server {SERVER}: cannot connect: ")


def test_error_that_explains_itself_is_left_alone() -> None:
    assert explain_failure(ConfigError("no cluster is configured"), CONFIG) == "no cluster is configured"
