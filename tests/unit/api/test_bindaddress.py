import pytest

from kcr.api.bindaddress import BindAddress, bind_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("0", None, id="off"),
        pytest.param("", None, id="empty"),
        pytest.param(":8080", BindAddress("", 8080), id="everywhere"),
        pytest.param("127.0.0.1:0", BindAddress("127.0.0.1", 0), id="free-port"),
        pytest.param("[::1]:80", BindAddress("::1", 80), id="version-6"),
        pytest.param("localhost:8081", BindAddress("localhost", 8081), id="name"),
    ],
)
def test_address_is_read_as_go_reads_it(text: str, address: BindAddress | None) -> None:  # CM-50, CM-52
    assert bind_address(text) == address
    assert address is None or str(address) == text


@pytest.mark.parametrize(
    "text", ["8080", "localhost", ":", ":http", ":65536", "::1:80", ":-1", ":" + "9" * 5000, ":+80"]
)
def test_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address to listen on"):
        bind_address(text)


def test_address_that_was_read_is_taken_as_it_is() -> None:
    assert bind_address(BindAddress("::1", 80)) == BindAddress("::1", 80)
    assert bind_address(None) is None
