import pytest

from kcr.client.wire.connections import proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        pytest.param("https://api:6443", {}, "", id="nothing-said"),
        pytest.param("https://api:6443", {"HTTPS_PROXY": PROXY}, PROXY, id="https"),
        pytest.param("https://api:6443", {"https_proxy": PROXY}, PROXY, id="lower-case"),
        pytest.param("https://api:6443", {"HTTP_PROXY": PROXY}, "", id="other-scheme"),
        pytest.param("http://api", {"HTTP_PROXY": "proxy:3128"}, PROXY, id="without-scheme"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, "", id="own-machine-by-name"),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, "", id="own-machine-by-address"),
    ],
)
def test_proxy_comes_from_the_environment(server: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_for(server, environ) == expected


@pytest.mark.parametrize(
    ("no_proxy", "server", "excepted"),
    [
        pytest.param("*", "https://api.example:6443", True, id="all"),
        pytest.param("other, api.example", "https://api.example:6443", True, id="name"),
        pytest.param("example", "https://api.example:6443", True, id="domain"),
        pytest.param(".example", "https://api.example:6443", True, id="leading-dot"),
        pytest.param(".api.example", "https://api.example:6443", False, id="leading-dot-is-not-the-name"),
        pytest.param("ample", "https://api.example:6443", False, id="part-of-a-word"),
        pytest.param("api.example:6443", "https://api.example:6443", True, id="port"),
        pytest.param("api.example:443", "https://api.example:6443", False, id="other-port"),
        pytest.param("api.example:443", "https://api.example", True, id="port-of-the-scheme"),
        pytest.param("10.0.0.1", "https://10.0.0.1", True, id="address"),
        pytest.param("10.0.0.0/8", "https://10.1.2.3:6443", True, id="network"),
        pytest.param("10.0.0.0/8", "https://11.1.2.3:6443", False, id="other-network"),
        pytest.param("fd00::/8", "https://[fd00::1]:6443", True, id="network-of-six"),
        pytest.param("10.0.0.0/8", "https://api.example", False, id="network-and-name"),
        pytest.param("[fd00::1]:6443", "https://[fd00::1]:6443", True, id="address-of-six-and-port"),
        pytest.param("[fd00::1]:443", "https://[fd00::1]:6443", False, id="address-of-six-and-other-port"),
    ],
)
def test_exceptions_are_names_domains_addresses_and_networks(no_proxy: str, server: str, excepted: bool) -> None:
    # ST-19: networks too.
    assert proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}) == ("" if excepted else PROXY)
