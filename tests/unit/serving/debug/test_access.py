import pytest

from kcr.serving.debug.access import DebugOptions, refuse
from kcr.serving.ports import BrowserHeaders, ProbeRequest

CHROMIUM = "Mozilla/5.0 (X11; Linux x86_64)"


def request(client: str = "127.0.0.1", host: str = "localhost:8081", token: str = "", header: str = "") -> ProbeRequest:
    return ProbeRequest("/debug/kcr", {"token": [token]}, authorization=header, client=client, host=host)


@pytest.mark.parametrize("client", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8081", "[::1]:8081"])
def test_reader_on_this_machine_passes(client: str, host: str) -> None:
    assert refuse(request(client, host), "") is None


@pytest.mark.parametrize("client", ["10.1.2.3", "127.0.0.6", "fe80::1", ""])
def test_reader_elsewhere_is_told_to_forward_a_port(client: str) -> None:
    refusal = refuse(request(client), "")
    assert refusal is not None
    assert refusal.status == 403
    assert b"/debug/kcr is served to this machine alone: run `kubectl port-forward POD PORT`" in refusal.body


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8081", "10.1.2.3:8081"]
)
def test_foreign_host_name_is_refused(host: str) -> None:
    refusal = refuse(request(host=host), "")
    assert refusal is not None
    assert refusal.status == 403
    assert b"local names alone" in refusal.body


@pytest.mark.parametrize(
    ("token", "header", "passes"),
    [
        pytest.param("", "", False, id="none"),
        pytest.param("other", "", False, id="another"),
        pytest.param("sécret", "", True, id="in-the-address"),
        pytest.param("", "Bearer sécret", True, id="as-a-header"),
    ],
)
def test_token_is_asked_for_where_there_is_one(token: str, header: str, passes: bool) -> None:
    refusal = refuse(request(token=token, header=header), "sécret")
    assert (refusal is None) is passes
    assert passes or (refusal is not None and refusal.status == 401)


@pytest.mark.parametrize(
    ("browser", "reads", "profiles"),
    [
        pytest.param(BrowserHeaders(user_agent="curl/8.0"), True, True, id="curl"),
        pytest.param(BrowserHeaders("none", "navigate", CHROMIUM), True, True, id="typed-address"),
        pytest.param(BrowserHeaders("same-origin", "cors", CHROMIUM), True, True, id="the-page-itself"),
        pytest.param(BrowserHeaders("cross-site", "navigate", CHROMIUM), True, False, id="link-elsewhere"),
        pytest.param(BrowserHeaders("cross-site", "no-cors", CHROMIUM), False, False, id="image-elsewhere"),
        pytest.param(BrowserHeaders("same-site", "cors", CHROMIUM), False, False, id="another-port-of-localhost"),
        pytest.param(BrowserHeaders(user_agent="Mozilla/5.0"), True, False, id="old-browser"),
    ],
)
def test_other_websites_read_nothing_and_start_nothing(browser: BrowserHeaders, reads: bool, profiles: bool) -> None:
    asked = request()._replace(browser=browser)
    for is_costly, passes in ((False, reads), (True, profiles)):
        refusal = refuse(asked, "", is_costly=is_costly)
        assert (refusal is None) is passes
        assert refusal is None or (refusal.status == 403 and b"not served to other websites" in refusal.body)


def test_token_is_not_printed() -> None:
    assert "secret" not in repr(DebugOptions(token="secret"))
