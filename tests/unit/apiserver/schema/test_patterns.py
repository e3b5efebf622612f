"""Regular expressions of Go, in Python."""

import pytest

from kcr_devcluster.apiserver.schema.patterns import PatternError, compile_matcher, compile_pattern
from tests.kit.re2 import needs_re2


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("b", "abc", True, id="search"),
        pytest.param("^a$", "a\n", False, id="end-is-the-end"),
        pytest.param("(?m)^a$", "a\nb", True, id="end-of-line"),
        pytest.param("(?m)x(?i:^A$)", "x\na\nb", False, id="group-goes-on"),
        pytest.param("(?m:b\n(?i:^A$))", "b\na\nc", True, id="lines-in-a-group-of-a-group"),
        pytest.param("(?m:b\n(?-m:a$))", "b\na\n", False, id="lines-no-more-in-a-group"),
        pytest.param(r"a\z", "a", True, id="end-of-text"),
        pytest.param(r"^\d+$", "٣", False, id="ascii-digits"),
        pytest.param(r"^\w$", "ä", False, id="ascii-words"),
        pytest.param("(?i)^A$", "a", True, id="flag"),
        pytest.param("a(?i)B|C", "ab", True, id="flag-from-here-on"),
        pytest.param("(?i:A)b", "aB", False, id="flag-of-a-group"),
        pytest.param("(?P<x>a)(?<y>b)", "ab", True, id="names"),
        pytest.param("^[[:alpha:]_]+$", "a_Z", True, id="posix-class"),
        pytest.param(r"^\pL\p{Lu}$", "äÄ", True, id="unicode-class"),
        pytest.param(r"^\P{L}[^\pL]$", "11", True, id="negated-class"),
        pytest.param(r"^\Qa.b\E$", "a.b", True, id="literal"),
        pytest.param(r"^\x41\x{1F600}$", "A😀", True, id="codes"),
        pytest.param("^a{,2}$", "a{,2}", True, id="no-repetition"),
        pytest.param("^[]a]$", "]", True, id="bracket-in-class"),
        pytest.param("^(a+?)(b*)$", "aab", True, id="lazy"),
        pytest.param("[a&&b]", "&", True, id="no-set-operations"),
    ],
)
def test_pattern_matches_as_in_go(pattern: str, text: str, found: bool) -> None:
    assert (compile_pattern(pattern).search(text) is not None) is found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        pytest.param("(?=a)", "invalid or unsupported Perl syntax: `(?=`", id="lookahead"),
        pytest.param("(?<!a)", "invalid named capture: `(?<!a)`", id="lookbehind"),
        pytest.param(r"(a)\1", r"invalid escape sequence: `\1`", id="reference"),
        pytest.param("a++", "invalid nested repetition operator: `++`", id="possessive"),
        pytest.param("*a", "missing argument to repetition operator: `*`", id="nothing-to-repeat"),
        pytest.param("a{1001}", "invalid repeat count: `{1001}`", id="too-often"),
        pytest.param("a{" + "9" * 5000 + "}", "invalid repeat count: `{" + "9" * 5000 + "}`", id="digits"),
        pytest.param("(a", "missing closing ): `(a`", id="open"),
        pytest.param("a)", "unexpected ): `a)`", id="closed"),
        pytest.param("[a", "missing closing ]: `[a`", id="open-class"),
        pytest.param("a\\", "trailing backslash at end of expression: ``", id="backslash"),
        pytest.param("[[:nothing:]]", "invalid character class range: `[:nothing:]`", id="class"),
        pytest.param(r"\p{Xx}", r"invalid character class range: `\p{Xx}`", id="category"),
    ],
)
def test_what_go_refuses_is_refused_in_its_words(pattern: str, message: str) -> None:
    with pytest.raises(PatternError, match=r"^error parsing regexp: ") as refused:
        compile_pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {message}"


@needs_re2
def test_search_of_repeated_groups_takes_linear_time() -> None:
    search = compile_matcher("^(a+)+$").search
    assert not search("a" * 50_000 + "b")
    assert search("aaa")


@needs_re2
def test_search_without_case_knows_letters_of_all_languages() -> None:
    assert compile_matcher("(?i)É").search("é")


def test_search_of_a_bad_pattern_says_what_go_says() -> None:
    with pytest.raises(PatternError, match=r"error parsing regexp: invalid character class range: `b-a`"):
        compile_matcher("[b-a]")


@needs_re2
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        pytest.param("(?U)a+", "a", id="lazy"),
        pytest.param("[[:^digit:]]+", "aab", id="negated-posix-class"),
        pytest.param(r"\p{Latin}+", "aab", id="script"),
        pytest.param("x(?s).|b", "b", id="flags-before-alternatives"),
    ],
)
def test_syntax_that_python_lacks_is_left_to_re2(pattern: str, found: str) -> None:
    match = compile_matcher(pattern).search("1aab")
    assert match is not None
    assert match[0] == found
