from typing import Any

import pytest

from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("text", "name", "others", "answer"),
    [
        ("https://u:p@example.com:80/a%2fb?k=v#f", "getScheme", (), "https"),
        ("https://u:p@example.com:80/a%2fb?k=v#f", "getHost", (), "example.com:80"),
        ("https://u:p@example.com:80/a%2fb?k=v#f", "getHostname", (), "example.com"),
        ("https://u:p@example.com:80/a%2fb?k=v#f", "getPort", (), "80"),
        ("https://u:p@example.com:80/a%2fb?k=v#f", "getEscapedPath", (), "/a%2fb"),
        ("https://u:p@example.com:80/a%2fb?k=v#f", "getQuery", (), {"k": ["v"]}),
        ("http://[fe80::1%25en0]:8080/", "getHost", (), "[fe80::1%en0]:8080"),
        ("http://[fe80::1%25en0]:8080/", "getHostname", (), "fe80::1%en0"),
        ("http://[fe80::1%25en0]:8080/", "getPort", (), "8080"),
        ("http://a:/", "getHost", (), "a:"),
        ("http://a:/", "getPort", (), ""),
        ("http://a:/", "getHostname", (), "a"),
        ("http://h%C3%A9/", "getHost", (), "hé"),
        ("http://h/a b", "getEscapedPath", (), "/a%20b"),
        ("http://h/a!'()*[]", "getEscapedPath", (), "/a!'()*[]"),
        ('http://h/é"<>', "getEscapedPath", (), "/%C3%A9%22%3C%3E"),
        ("/a#f", "getEscapedPath", (), "/a"),
        ("http:", "getScheme", (), "http"),
        ("http:", "getHost", (), ""),
        ("HTTP://H/", "getScheme", (), "http"),
        ("HTTP://H/", "getHost", (), "H"),
        ("//a/b", "getHost", (), "a"),
        ("ftp://a:1:2", "getHostname", (), "a:1"),
        ("ftp://a:1:2", "getPort", (), "2"),
    ],
)
def test_parts_of_urls_are_those_of_go(text: str, name: str, others: tuple[Any, ...], answer: Any) -> None:
    others = tuple(call("url", one) if isinstance(one, str) else one for one in others)
    assert same(call(name, call("url", text), *others), answer)


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("isURL", ("http://a#f",), False),
        ("isURL", ("http://a/#f",), True),
        ("isURL", ("http://a b/",), False),
        ("isURL", ("http://a/b c",), True),
        ("isURL", ("http://a:99999/",), True),
        ("isURL", ("http:",), True),
        ("isURL", ("",), False),
        ("isURL", ("a/b",), False),
        ("isURL", ("/a",), True),
        ("isURL", ("*",), True),
        ("isURL", ("http://a:b",), False),
        ("isURL", ("http://[1.2.3.4]/",), False),
        ("isURL", ("http://h%41/",), False),
        ("isURL", ("1http://a",), False),
        ("isURL", ("x-1+2.3:y",), True),
        ("isURL", ("http://a\\b",), False),
        ("isURL", ("http://h/%zz",), False),
        ("isURL", ("http://a:1:2",), False),
        ("isURL", ("ftp://a:1:2",), True),
        ("isURL", ("http://u^p@h/",), False),
    ],
)
def test_texts_are_urls_if_go_reads_them(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://a#f", 'parse "http://a#f": invalid character "#" in host name'),
        ("a/b", 'parse "a/b": invalid URI for request'),
        ("", 'parse "": empty url'),
        (":a", 'parse ":a": missing protocol scheme'),
        ("http://a:b", 'parse "http://a:b": invalid port ":b" after host'),
        ("http://[::1", """parse "http://[::1": missing ']' in host"""),
        ("http://h%41/", 'parse "http://h%41/": invalid URL escape "%41"'),
        ("http://h/%zz", 'parse "http://h/%zz": invalid URL escape "%zz"'),
        ("http://u^p@h/", 'parse "http://u^p@h/": net/url: invalid userinfo'),
        ("http://h/\x01", 'parse "http://h/\\x01": net/url: invalid control character in URL'),
        ("http://h/?a#%zz", 'parse "http://h/?a#%zz": invalid URL escape "%zz"'),
    ],
)
def test_text_that_is_no_url_is_refused_in_words_of_go(text: str, why: str) -> None:
    assert call("url", text) == f"error: URL parse error during conversion from string: {why}"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("HTTP://h/", "http://h/", True),
        ("http://H/", "http://h/", False),
        ("http://h", "http://h/", False),
        ("http://h/%41", "http://h/A", False),
        ("http://h/?", "http://h/", False),
        ("http://u@h/", "http://u:@h/", False),
        ("http://", "http:", True),
    ],
)
def test_urls_are_equal_if_go_writes_them_alike(one: str, other: str, equal: bool) -> None:
    assert (call("url", one) == call("url", other)) is equal
