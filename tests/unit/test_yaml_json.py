"""YAML is read as kube-apiserver reads it. The rows are its answers: the value of a field of a custom resource."""

from typing import Any

import pytest

from kcr.api.equality import same_json
from kcr_devcluster.yaml_json import YamlError, load_manifests, load_yaml, load_yaml_documents

# Plain scalars that are other values than text.
VALUES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (True, ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE")),
    (False, ("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE")),
    (None, ("", "~", "null", "Null", "NULL", "!!null ~")),
    (1000, ("1e3", "1E3", "1e+3", "+1e3", "1_000", "1__0_0_0", "1000.0", "1_e3", "1e_3", "!!int 1000", "!!float 1000")),
    (12000, ("12e03", "1_2e3", "12000.")), (5, (".5e1", "5.", "5.e0", "0o5", "05")), (8, ("08", "+08", "8.0")),
    (9, ("09",)), (15, ("0o17", "0O17", "017", "0x_f", "1_5")), (-15, ("-0o17", "-017")), (16, ("!!float 0x10",)),
    (31, ("0X1F", "0x1f", "+0x1F", "0x1_f")), (3, ("0b11", "0B11", "0b1_1", "0b+11")), (-3, ("-0b11", "0b-11")),
    (0, ("0", "-0", "+0", "00", "0.0", "-0.0", "-.0", "0e0", "1e-400", "0_0")), (0.5, ("+.5", ".5", "0.5", "5e-1")),
    (-0.5, ("-.5",)), (1e-7, ("1e-7", "0.0000001")), (10**10, ("1e10", "1e1_0")), (1e308, ("1e308",)),
    (2**63 - 1, ("9223372036854775807", "0x7fffffffffffffff")), (-(2**63), ("-9223372036854775808",)),
    (9223372036854776000, ("9223372036854775808",)), (12345678901234567000, ("12345678901234567890",)),
    (18446744073709552000, ("18446744073709551615", "18446744073709551616")),
    (7.777777777777778e23, ("0777777777777777777777777",)),
)  # fmt: skip
# Those that stay text.
TEXTS = (
    "12:30", "22:22", "190:20:30", "20:30:40.5", "1:2", "01:02", "-1:30", "+1:30", "60:60",
    "2001-01-01", "2001-12-14t21:59:43.10-05:00", "1e400", "-1e400", "0x1ffffffffffffffff", "0x", "0b", "0o",
    "0b2", "0o8", "0xg", "1e3.5", "1.2.3", "1.e", ".e1", "e3", "1e", ".", "..", "+", "--1", "1f", "0x1p3", "0x1.8p1",
    "inf", "nan", "Infinity", "yEs", "nUl", "tRue", "oN", "<<", "=", "_1", "-_",
)  # fmt: skip

NULL_KEY = "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"


@pytest.mark.parametrize(("value", "text"), [(value, text) for value, texts in VALUES for text in texts])
def test_plain_scalar_is_the_value_that_the_server_reads(value: Any, text: str) -> None:
    assert same_json(load_yaml(f"a: {text}\nl: [{text}]\n"), {"a": value, "l": [value] if text else []})


@pytest.mark.parametrize("text", TEXTS)
def test_plain_scalar_is_text_to_the_server(text: str) -> None:
    assert load_yaml(f"a: {text}\n") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("! 12", "12", id="no-specific-tag"),
        pytest.param("! ~", "~", id="no-specific-tag-of-null"),
        pytest.param("!!binary aGk=", "hi", id="binary"),
        pytest.param("!!binary gICA", "\ufffd\ufffd\ufffd", id="binary-no-text"),
        pytest.param("!!str 12", "12", id="str"),
        pytest.param("!!str", "", id="str-empty"),
        pytest.param("!!timestamp 2001-01-01", "2001-01-01", id="time"),
        pytest.param("!foo 12", "12", id="unknown-tag"),
        pytest.param("!!value =", "=", id="value"),
        pytest.param("!foo {a: 1}", {"a": 1}, id="unknown-tag-of-a-map"),
        pytest.param("!!set {a, b}", {"a": None, "b": None}, id="set"),
        pytest.param("!!omap [a: 1]", [{"a": 1}], id="omap"),
        pytest.param("!!seq {a: 1}", {"a": 1}, id="list-that-is-a-map"),
        pytest.param('"12"', "12", id="quoted"),
        pytest.param("{12:30: 1, 1e3: 2, y: 3, 08: 5, 0o17: 6, 1.5: 7, 0x10: 8, off: 4}", {
            "12:30": 1, "1000": 2, "true": 3, "8": 5, "15": 6, "1.5": 7, "16": 8, "false": 4}, id="keys"),
        pytest.param("{.inf: 1, .nan: 2, 1e-7: 3, 1e21: 4, 1234567.5: 5, 3.4e39: 6, 16777217.0: 7}", {
            ".inf": 6, ".nan": 2, "1e-07": 3, "1e+21": 4, "1.2345675e+06": 5, "1.6777216e+07": 7}, id="number-keys"),
        pytest.param("{! 12: 1, !!binary aGk=: 2}", {"12": 1, "hi": 2}, id="tagged-keys"),
        pytest.param("{a: &x {b: 1}, c: {<<: *x, d: 2}}", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}, id="merge"),
        pytest.param("{a: &x {b: 1}, c: {b: 2, <<: *x}}", {"a": {"b": 1}, "c": {"b": 1}}, id="merge-in-order"),
        pytest.param("{<<: [{b: 1}, {b: 2, c: 3}]}", {"b": 1, "c": 3}, id="merge-of-several"),
        pytest.param('{a: &x {b: 1}, c: {"<<": *x}}', {"a": {"b": 1}, "c": {"<<": {"b": 1}}}, id="quoted-merge-key"),
        pytest.param("[&x 1, *x, &x 2, *x]", [1, 1, 2, 2], id="anchor-given-twice"),
        pytest.param("{y: 1, yes: 2}", {"true": 2}, id="last-of-equal-names"),
    ],
)  # fmt: skip
def test_value_is_the_one_that_the_server_reads(text: str, value: Any) -> None:
    assert same_json(load_yaml(f"a: {text}\n"), {"a": value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: {null: 1}", NULL_KEY),
        ("a: {18446744073709551615: 1}", "unsupported map key of type: uint64, key: 0xffffffffffffffff, value: 1"),
        ("a: {[1]: 1}", "yaml: invalid map key: []interface {}{1}"),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: -.Inf", "json: unsupported value: -Inf"),
        ("a: .NaN", "json: unsupported value: NaN"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("a: !!int 08", "yaml: cannot decode !!float `08` as a !!int"),
        ("a: !!int ''", "yaml: cannot decode !!null `` as a !!int"),
        ("a: !!bool x", "yaml: cannot decode !!str `x` as a !!bool"),
        ("a: !!null x", "yaml: cannot decode !!str `x` as a !!null"),
        ("a: !!timestamp x", "yaml: cannot decode !!str `x` as a !!timestamp"),
        ("a: !!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ("a: {<<: 1}", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: &x {b: *x}", "yaml: anchor 'x' value contains itself"),
        ("a:\n  b: 1\n c: 2", "yaml: line 2: did not find expected key"),
        ("- a\nb: c", "yaml: line 1: did not find expected '-' indicator"),
        ("a: b\n c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("x: -\n- y", "yaml: block sequence entries are not allowed in this context"),
        ("a: 1\nb: @x", "yaml: line 2: found character that cannot start any token"),
        ("a:\n\t- b", "yaml: line 2: found character that cannot start any token"),
        ('a: 1\nb: "\\/"', "yaml: line 2: found unknown escape character"),
        ('a: 1\nb: "\\ud800"', "yaml: line 2: found invalid Unicode character escape code"),
        ("a: 1\nb: *nope", "yaml: unknown anchor 'nope' referenced"),
        ("a: {b: c]}", "yaml: did not find expected ',' or '}'"),
        ("a: 1\nb: [a}", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: \x01", "yaml: control characters are not allowed"),
    ],
)
def test_text_that_cannot_be_read_is_refused_in_words_of_the_server(text: str, message: str) -> None:
    with pytest.raises(YamlError) as raised:
        load_yaml(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "answered", "in_file"),
    [
        ("a:\n  b: 1\n c: 2", "yaml: line 2: did not find expected key", "line 3: did not find expected key"),
        ("{a: [}", "yaml: did not find expected node content", "line 1: did not find expected node content"),
        ("a: [\n1,", "yaml: line 2: did not find expected node content", "line 2: did not find expected node content"),
        (
            "a: [\n1,\n",
            "yaml: line 2: did not find expected node content",
            "line 3: did not find expected node content",
        ),
        ("a: 1\nb: *x", "yaml: unknown anchor 'x' referenced", "line 2: unknown anchor 'x' referenced"),
        ("a: {null: 1}", NULL_KEY, NULL_KEY),
    ],
)
def test_server_counts_lines_otherwise_than_a_reader_of_files(text: str, answered: str, in_file: str) -> None:
    """Source: recorded; go.yaml.in/yaml/v2, decode.go, fail."""
    with pytest.raises(YamlError) as raised:
        load_yaml(text)
    assert (str(raised.value), raised.value.in_file) == (answered, in_file)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("s:\ta", "a"),
        ("s:\t{a:\tb}\t# c", {"a": "b"}),
        ("s: a\n  \tb", "a b"),
        ("s\t: [a\t,\n\tb]", ["a", "b"]),
        ("s:\t\n  - a\t\n  - b", ["a", "b"]),
        ("s: a\t#b", "a"),
    ],
)
def test_tabs_are_blanks_but_where_they_would_indent(text: str, value: Any) -> None:
    """Source: recorded; libyaml's scanner."""
    assert load_yaml(text) == {"s": value}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("s:\n\ta: b", "line 2: found character that cannot start any token"),
        ("\t\ns: b", "found character that cannot start any token"),
        ("s: b\n\t\na: b", "line 2: found a tab character that violates indentation"),
        ("s: [b\n\t]", "line 2: found a tab character that violates indentation"),
        ("s:\n  -\ta", "line 2: found character that cannot start any token"),
        ("s:\n  a: b\n\tc", "line 3: found a tab character that violates indentation"),
        ("%YAML 1.2\n---\ns: a", "found incompatible YAML document"),
    ],
)
def test_tabs_that_indent_and_other_versions_are_refused(text: str, words: str) -> None:
    """Source: recorded; libyaml's scanner and parser."""
    with pytest.raises(YamlError) as caught:
        load_yaml(text)
    assert str(caught.value) == f"yaml: {words}"


@pytest.mark.parametrize("text", ["a: 1\n---\nb: 2\n", "a: 1\n---\n{{{\n", "a: 1\n...\nfoo\n", "a: 1\n--- ]\n"])
def test_first_document_counts_and_the_rest_is_not_read(text: str) -> None:
    assert load_yaml(text) == {"a": 1}


@pytest.mark.parametrize("text", ["", "# c\n", "---\n", "---\n---\na: 1\n", "~"])
def test_text_without_a_value_is_null(text: str) -> None:
    assert load_yaml(text) is None


def test_documents_come_one_by_one() -> None:
    documents = load_yaml_documents("a: 1\n---\n---\nb: y\n---\n]")
    assert [next(documents) for _ in range(3)] == [{"a": 1}, None, {"b": True}]
    with pytest.raises(YamlError, match="line 5: did not find expected node content"):
        next(documents)


def test_names_that_mean_the_same_are_repeated() -> None:
    assert load_manifests("a: 1\nb:\n  y: 1\n  yes: 2\n---\na: 1\na: 2\n<<: {a: 1}\n").repeated_keys == [
        (4, "true"),
        (7, '"a"'),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a:\t\n  b: x\t\n", {"a": {"b": "x"}}, id="line-end"),
        pytest.param("a: x\ty\nb:\t'x'\t# c\n", {"a": "x\ty", "b": "x"}, id="between"),
        pytest.param("a: x \t\n  y\n", {"a": "x y"}, id="folded"),
        pytest.param("{a\t: x,\tb: [\tx\t]\t}", {"a": "x", "b": ["x"]}, id="flow"),
    ],
)
def test_tabs_may_separate_tokens(text: str, value: object) -> None:
    """Not all editors take them away. Source: go.yaml.in/yaml/v2, scannerc.go, yaml_parser_scan_to_next_token."""
    assert load_yaml(text) == value
