import pytest

from kcr.api.meta import Key
from kcr.serving.debug.snapshot import MAX_EXAMPLES, error_groups


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("pods {name!r} is forbidden", "pods … is forbidden", id="quoted"),
        pytest.param("pod default/{name}-x2k4f: no", "pod … no", id="key"),
        pytest.param("{name}: no such zone", "…: no such zone", id="own-name"),
        pytest.param("timeout after 1.{number} s", "timeout after … s", id="number"),
        pytest.param("version 4{number} is not 17", "version … is not …", id="version"),
        pytest.param("uid 7b0f6c1e-0000-4000-8000-00000000000{number} differs", "uid … differs", id="uid"),
    ],
)
def test_errors_that_differ_in_names_and_numbers_are_one_group(template: str, expected: str) -> None:
    errors = {
        Key("default", name): template.format(name=name, number=number)
        for number, name in enumerate(("web", "api", "queue"))
    }
    (group,) = error_groups(errors)
    assert (group.keys, group.examples) == (3, ("default/web", "default/api", "default/queue"))
    assert group.text.replace("…:", "…") == expected.replace("…:", "…")


def test_group_with_most_keys_comes_first() -> None:
    errors = {Key("a", f"w{number}"): f"w{number} is late" for number in range(7)}
    first, second = error_groups({Key("a", "x"): 'ForbiddenError: pods "x" is forbidden', **errors})
    assert (first.text, first.keys, len(first.examples)) == ("… is late", 7, MAX_EXAMPLES)
    # The error of one key keeps its words.
    assert (second.text, second.keys) == ('ForbiddenError: pods "x" is forbidden', 1)


def test_name_within_a_word_stays_there() -> None:
    (group,) = error_groups({Key("", "a"): "a bad value", Key("", "b"): "b bad value"})
    assert group.text == "… bad value"
