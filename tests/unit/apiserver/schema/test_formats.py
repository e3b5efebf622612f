"""Formats of strings."""

import pytest

from kcr_devcluster.apiserver.schema.formats import FORMATS, is_known, string_format

GOOD_AND_BAD = {
    "bsonobjectid": ("507f1f77bcf86cd799439011", "507f1f77"),
    "byte": ("aGk=", "a"),
    "cidr": ("10.0.0.0/8", "10.0.0.0/33"),
    "creditcard": ("4012-8888-8888-1881", "4012888888881882"),
    "date": ("2026-01-31", "2026-02-31"),
    "date-time": ("2026-01-01T00:00:00.5+02:00", "2026-01-01"),
    "duration": ("1h30m", "soon"),
    "email": ("a@b.io", "a.b.io"),
    "hexcolor": ("#fff", "#ff"),
    "hostname": ("a-b.example.com", "-a.com"),
    "ipv4": ("10.0.0.1", "10.0.0"),
    "ipv6": ("::1", "10.0.0.1"),
    "isbn": ("978-0321751041", "978-0321751042"),
    "isbn10": ("0321751043", "0321751044"),
    "isbn13": ("978 0321751041", "0321751043"),
    "k8s-long-name": ("a.b-c", "A.b"),
    "k8s-short-name": ("a-b", "a.b"),
    "mac": ("01:23:45:67:89:ab", "01:23"),
    "rgbcolor": ("rgb(1, 2, 255)", "rgb(1,2,256)"),
    "ssn": ("123-45-6789", "123-456-789"),
    "uri": ("https://a.io/b?c", "a b"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123e4567"),
    "uuid3": ("6fa459ea-ee8a-3ca4-894e-db77e160355e", "6fa459ea-ee8a-4ca4-894e-db77e160355e"),
    "uuid4": ("16fd2706-8baf-433b-82eb-8c7fada847da", "16fd2706-8baf-533b-82eb-8c7fada847da"),
    "uuid5": ("886313e1-3b8a-5372-9b90-0c9aee199e5d", "886313e1-3b8a-3372-9b90-0c9aee199e5d"),
}


@pytest.mark.parametrize("size", ["9" * 5000, "\N{ARABIC-INDIC DIGIT EIGHT}", "+8", ""])
def test_size_of_a_network_is_a_number(size: str) -> None:
    holds = string_format("cidr")
    assert holds is not None
    assert not holds(f"10.0.0.0/{size}")


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_format_tells_good_from_bad(name: str) -> None:
    holds, (good, bad) = string_format(name), GOOD_AND_BAD[name]
    assert holds is not None
    assert (holds(good), holds(bad)) == (True, False)


@pytest.mark.parametrize("bad", ["https://a b/", "a/b", "", "https://a.io/\n"])
def test_uri_is_absolute_and_printable(bad: str) -> None:
    holds = string_format("uri")
    assert holds is not None
    assert not holds(bad)
    assert holds("/a/b")


def test_every_format_has_an_example() -> None:
    assert {name.replace("-", "") for name in GOOD_AND_BAD} == FORMATS.keys() - {"password"}


def test_format_belongs_to_a_type() -> None:
    known = [("string", "uri"), ("", "uri"), ("integer", "int32"), ("number", "double")]
    assert [is_known(*one) for one in [*known, ("integer", "uri"), ("string", "int32"), ("object", "uri")]] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip
