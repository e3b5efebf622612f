"""Where a debug port is, and what is taken for a secret."""

import pytest

from kcr.cli.debug.port import DebugPort, parse_address, port_of, without_secrets
from kcr.client import ClusterConfig
from kcr.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "url", "token"),
    [
        ("localhost:8081", "http://localhost:8081", ""),
        (":8081", "http://127.0.0.1:8081", ""),
        ("[::1]:8081", "http://[::1]:8081", ""),
        ("http://127.0.0.1:41/debug/kcr?token=abc", "http://127.0.0.1:41", "abc"),
        ("https://kcr.example.dev", "https://kcr.example.dev:443", ""),
    ],
)
def test_address_is_a_port_or_the_url_that_dev_prints(text: str, url: str, token: str) -> None:
    assert parse_address(text) == DebugPort(url, token, is_named=True)


@pytest.mark.parametrize("text", ["8081x", "localhost", "localhost:x", "ftp://a:1", ":99999"])
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write HOST:PORT, such as localhost:8081"):
        parse_address(text)


@pytest.mark.parametrize(
    ("extension", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param("text", None, id="other-form"),
        pytest.param({"address": "nowhere"}, None, id="no-address"),
        pytest.param(
            {"address": "http://127.0.0.1:41", "accessToken": "abc"},
            DebugPort("http://127.0.0.1:41", "abc", is_named=False), id="of-dev",
        ),
    ],
)  # fmt: skip
def test_extension_of_a_kubeconfig_names_the_port(extension: object, expected: DebugPort | None) -> None:
    assert port_of(ClusterConfig(server="https://a", extensions={"kcr.dev/debug": extension})) == expected


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef.ghij-klm", "abcdef"),
        ("token eyJhbGciOi.eyJpc3MiOi.c2lnbmF0dXJl of a pod", "eyJ"),
        ("GET http://user:hunter22@proxy:3128", "hunter22"),
        ('{"password": "hunter22"}', "hunter22"),
        ("?token=abcdef123", "abcdef123"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
    ],
)
def test_what_looks_like_a_secret_is_left_out(text: str, secret: str) -> None:
    assert secret not in without_secrets(text)
    assert "[left out]" in without_secrets(text)


def test_error_of_a_job_keeps_its_words() -> None:
    text = 'secret "ci" not found: pods "pi-x" is forbidden: exceeded quota: none, requested: pods=1'
    assert without_secrets(text) == text
