from typing import Any

import pytest

from kcr_devcluster.apiserver.cel.values import NONE, Optional
from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("dns1123Label", "ok", NONE),
        ("dns1123Label", "a.b", Optional(True, ["must not contain dots"])),
        ("dns1123LabelPrefix", "ab_-", NONE),
        ("dns1123LabelPrefix", "a-", NONE),
        ("dns1123SubdomainPrefix", "a.-", NONE),
        ("dns1035LabelPrefix", "1-", NONE),
        ("qualifiedName", "/b", Optional(True, ["prefix part must be non-empty"])),
        ("qualifiedName", "a/b", NONE),
        ("labelValue", "", NONE),
        ("uri", "x", Optional(True, ['parse "x": invalid URI for request'])),
        ("uri", "http://a/b c", NONE),
        ("uuid", "x", Optional(True, ["does not match the UUID format"])),
        ("uuid", "11111111-2222-3333-4444-555555555555", NONE),
        ("byte", "", Optional(True, ["invalid base64"])),
        ("byte", "a", Optional(True, ["invalid base64"])),
        ("byte", "aGk=", NONE),
        ("date", "2020-1-1", Optional(True, ["invalid date"])),
        ("date", "0000-02-29", NONE),
        ("date", "2021-02-29", Optional(True, ["invalid date"])),
        ("datetime", "2020-01-01T01:02:03", Optional(True, ["invalid datetime"])),
        ("datetime", "2020-01-01t01:02:03z", NONE),
        ("datetime", "2020-01-01T01:02:60Z", Optional(True, ["invalid datetime"])),
        ("datetime", "2020-01-01T01:02:03x5+99:99", NONE),
        ("datetime", "2020-01-01 01:02:03Z", Optional(True, ["invalid datetime"])),
    ],
)
def test_formats_check_texts_as_upstream_does(name: str, text: str, answer: Any) -> None:
    assert same(call("validate", call(f"format.{name}"), text), answer)


def test_reasons_are_those_of_names_of_objects() -> None:
    reasons = call("validate", call("format.dns1123Label"), "A" * 64).content
    assert reasons[0] == "must be no more than 63 characters"
    assert reasons[1].startswith("a lowercase RFC 1123 label must consist of")


def test_formats_have_names_by_which_they_are_found_and_equal() -> None:
    assert call("format.named", "uri") == Optional(True, call("format.uri"))
    assert call("format.uri") != call("format.uuid")
    assert call("format.named", "hostname") == NONE
