from typing import Any

import pytest

from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("text", "name", "others", "answer"),
    [
        ("1.2.3", "major", (), 1),
        ("1.2.3", "minor", (), 2),
        ("1.2.3", "patch", (), 3),
        ("18446744073709551615.0.0", "major", (), -1),
        ("1.0.0-alpha", "compareTo", ("1.0.0-alpha.1",), -1),
        ("1.0.0-alpha", "isLessThan", ("1.0.0-alpha.1",), True),
        ("1.0.0-alpha", "isGreaterThan", ("1.0.0-alpha.1",), False),
        ("1.0.0-2", "compareTo", ("1.0.0-10",), -1),
        ("1.0.0-2", "isLessThan", ("1.0.0-10",), True),
        ("1.0.0-2", "isGreaterThan", ("1.0.0-10",), False),
        ("1.0.0-a", "compareTo", ("1.0.0-10",), 1),
        ("1.0.0-a", "isLessThan", ("1.0.0-10",), False),
        ("1.0.0-a", "isGreaterThan", ("1.0.0-10",), True),
        ("1.0.0-rc", "compareTo", ("1.0.0",), -1),
        ("1.0.0-rc", "isLessThan", ("1.0.0",), True),
        ("1.0.0-rc", "isGreaterThan", ("1.0.0",), False),
        ("1.2.3+a", "compareTo", ("1.2.3+b",), 0),
        ("1.2.3+a", "isLessThan", ("1.2.3+b",), False),
        ("1.2.3+a", "isGreaterThan", ("1.2.3+b",), False),
        ("1.10.0", "compareTo", ("1.9.0",), 1),
        ("1.10.0", "isLessThan", ("1.9.0",), False),
        ("1.10.0", "isGreaterThan", ("1.9.0",), True),
    ],
)
def test_versions_compare_as_semver_says(text: str, name: str, others: tuple[Any, ...], answer: Any) -> None:
    others = tuple(call("semver", one) if isinstance(one, str) else one for one in others)
    assert same(call(name, call("semver", text), *others), answer)


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("isSemver", ("1.2.3-rc.1+b.01",), True),
        ("isSemver", ("v1.2.3",), False),
        ("isSemver", ("v1.2.3", True), True),
        ("isSemver", ("1", True), True),
        ("isSemver", ("01.02.03", True), True),
        ("isSemver", ("01.02.03", False), False),
        ("isSemver", ("1.2-rc", True), False),
        ("isSemver", ("1.2.3.4",), False),
        ("isSemver", ("1.2.3-é",), False),
        ("semver", ("",), "error: Version string empty"),
        ("semver", ("1.2",), "error: No Major.Minor.Patch elements found"),
        ("semver", ("01.2.3",), 'error: Major number must not contain leading zeroes "01"'),
        ("semver", ("1.b.3",), 'error: Invalid character(s) found in minor number "b"'),
        ("semver", ("1.2.3-",), "error: Prerelease is empty"),
        ("semver", ("1.2.3-01",), 'error: Numeric PreRelease version must not contain leading zeroes "01"'),
        ("semver", ("1.2.3-a_b",), 'error: Invalid character(s) found in prerelease "a_b"'),
        ("semver", ("1.2.3+",), "error: Build meta data is empty"),
        ("semver", ("1.2.3+a_b",), 'error: Invalid character(s) found in build meta data "a_b"'),
        ("semver", ("1..2",), 'error: strconv.ParseUint: parsing "": invalid syntax'),
        ("semver", ("1.2-rc", True), "error: short version cannot contain PreRelease/Build meta data"),
        ("semver", ("vv1.2", True), 'error: Invalid character(s) found in major number "0v1"'),
    ],
)
def test_texts_are_versions_as_upstream_reads_them(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


def test_build_metadata_do_not_make_versions_unequal() -> None:
    assert call("semver", "1.2.3+a") == call("semver", "v1.2.3", True)
