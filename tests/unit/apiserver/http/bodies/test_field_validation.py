import pytest

from kcr_devcluster.apiserver.http.bodies.field_validation import repeated


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(b'{"a": 1, "b": {"a": 2}}', [], id="none"),
        pytest.param(b'{"a": 1, "b": 2, "a": 3, "a": 4}', ["a"], id="once-each"),
        pytest.param(b'{"d": {"x.y": 1, "x.y": 1}}', ["d.x.y"], id="inside"),
        pytest.param(b'{"a": [{"b": 1}, {"b": 1, "b": 2}]}', ["a[1].b"], id="in-a-list"),
        pytest.param(b'[{"a": 1, "a": 2}]', ["[0].a"], id="list-at-the-top"),
        pytest.param(b'{"a": ":::", "b": {"c": ":"}, "a": 1}', ["a"], id="colons-in-texts"),
        pytest.param(rb'{"a": "\u003a", "a": "\u003A"}', ["a"], id="escaped-colons"),
        pytest.param(b'{"a": "\xff", "a": 1}', ["a"], id="no-utf-8"),
        pytest.param(b'{"a": {"b": 1, "b": 1}, "a": {}}', ["a"], id="what-does-not-count-is-not-searched"),
    ],
)
def test_members_named_twice_are_found(text: bytes, paths: list[str]) -> None:
    assert repeated(text) == paths
